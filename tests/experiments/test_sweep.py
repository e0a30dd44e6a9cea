"""Sweeps: the same numbers anywhere, resumed where they stopped."""

import io
import json

import pytest

from support import SMALL, alike, inside, numbers
from weakform.experiments.cell_runner import perform
from weakform.experiments.executors import Lost, local
from weakform.experiments.store import Store, StoreError
from weakform.experiments.study import read_study, run_seed
from weakform.experiments.sweep import Tally, sweep
from weakform.support.wording import Progress


def backwards(runs):
    for run in reversed(list(runs)):
        yield run, perform(run)


def test_order_and_workers_do_not_change_a_number(tmp_path):
    study = read_study(SMALL)
    for name, execute in (("a", inside), ("b", backwards), ("c", local(2, perform))):
        outcome = sweep(study, tmp_path / name, execute)
        assert (outcome.total, outcome.done, outcome.lost) == (36, 36, ())
    for name in "bc":
        alike(numbers(tmp_path / "a"), numbers(tmp_path / name))


def test_a_run_can_be_repeated_alone(tmp_path):
    study = read_study(SMALL)
    sweep(study, tmp_path / "a", inside)
    run = study.runs[17]
    kept = next(
        r
        for r in Store(tmp_path / "a").rows()
        if (r["problem"], r["noise"], r["method"], r["run"]) == (run.key[0], run.key[2], run.key[5], run.key[6])
    )
    again = perform(run)
    assert again["estimate"] == kept["estimate"]
    assert again["seed"] == kept["seed"] == run_seed(0, run.cell, run.number)


def test_resuming_does_only_what_is_missing_and_more_runs_may_be_asked_for(tmp_path):
    path = tmp_path / "s.sqlite"
    sweep(read_study(SMALL), path, inside)
    before = numbers(path)
    outcome = sweep(read_study(SMALL), path, inside)
    assert (outcome.before, outcome.done) == (36, 0)
    outcome = sweep(read_study({**SMALL, "runs": 4}), path, inside)
    assert (outcome.before, outcome.done) == (36, 12)
    after = {json.dumps(row) for row in numbers(path)}
    assert all(json.dumps(row) in after for row in before)
    with pytest.raises(StoreError, match="another study"):
        sweep(read_study({**SMALL, "seed": 9}), path, inside)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_and_silence_elsewhere(monkeypatch):
    runs = read_study(SMALL).runs
    monkeypatch.setattr("weakform.support.wording.LINE_REFRESH_INTERVAL", -1.0)
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        tally = Tally(runs, list(runs[6:]))
        bar = Progress(tally.line, out)
        for k, run in enumerate(runs[6:16]):
            tally.add(run, k == 0)
            bar.update()
        bar.close()
        assert bool(out.getvalue()) == shown
    assert "16 done, 1 failed" in tally.line()
    assert "logistic" in tally.line()
    assert "left" in tally.line()


def test_a_full_disk_keeps_what_was_done(tmp_path):
    path = tmp_path / "s.sqlite"

    def filling(runs):
        for k, run in enumerate(runs):
            if k == 12:
                opened[0]._db.execute("PRAGMA max_page_count = 1")
            yield run, perform(run)

    opened = []
    original = Store.__init__

    def remember(self, where):
        original(self, where)
        opened.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "__init__", remember)
        with pytest.raises(StoreError, match=r"(?s)full.*All runs before this one are safe.*same command again"):
            sweep(read_study({**SMALL, "runs": 12}), path, filling)
    kept = len(Store(path).rows())
    assert kept >= 12
    assert sweep(read_study({**SMALL, "runs": 12}), path, inside).before == kept


def test_lost_runs_are_reported_not_kept(tmp_path):
    def losing(runs):
        for k, run in enumerate(runs):
            yield run, Lost("gone") if k == 3 else perform(run)

    outcome = sweep(read_study(SMALL), tmp_path / "s", losing)
    assert outcome.lost[0].endswith("gone")
    assert len(Store(tmp_path / "s").rows()) == 35
    assert sweep(read_study(SMALL), tmp_path / "s", inside).done == 1
