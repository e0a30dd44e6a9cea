"""Sweeps: results do not depend on order or workers, and an interrupted sweep continues where it stopped."""

import io
import json

import pytest

from support import SMALL, alike, inside, numbers
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.executors import LostRun, make_local_executor
from weakform.experiments.store import Store, StoreError
from weakform.experiments.study import compute_run_seed, read_study
from weakform.experiments.sweep import Tally, sweep
from weakform.support.wording import ProgressLine


def run_backwards(runs):
    """Execute runs in this process, the last one first."""
    for run in reversed(list(runs)):
        yield run, perform_run(run)


def test_order_and_workers_do_not_change_results(tmp_path):
    study = read_study(SMALL)
    for name, execute in (("a", inside), ("b", run_backwards), ("c", make_local_executor(2, perform_run))):
        outcome = sweep(study, tmp_path / name, execute)
        assert (outcome.total, outcome.done, outcome.lost) == (36, 36, ())
    for name in "bc":
        alike(numbers(tmp_path / "a"), numbers(tmp_path / name))


def test_run_repeated_alone_gives_the_stored_estimate(tmp_path):
    study = read_study(SMALL)
    sweep(study, tmp_path / "a", inside)
    run = study.runs[17]
    stored = next(
        r
        for r in Store(tmp_path / "a").rows()
        if (r["problem"], r["noise"], r["method"], r["run"]) == (run.key[0], run.key[2], run.key[5], run.key[6])
    )
    repeated = perform_run(run)
    assert repeated["estimate"] == stored["estimate"]
    assert repeated["seed"] == stored["seed"] == compute_run_seed(0, run.cell, run.number)


def test_resumed_sweep_does_only_missing_runs_and_accepts_more_runs(tmp_path):
    path = tmp_path / "s.sqlite"
    sweep(read_study(SMALL), path, inside)
    before = numbers(path)
    outcome = sweep(read_study(SMALL), path, inside)
    assert (outcome.already_done, outcome.done) == (36, 0)
    outcome = sweep(read_study({**SMALL, "runs": 4}), path, inside)
    assert (outcome.already_done, outcome.done) == (36, 12)
    after = {json.dumps(row) for row in numbers(path)}
    assert all(json.dumps(row) in after for row in before)
    with pytest.raises(StoreError, match="another study"):
        sweep(read_study({**SMALL, "seed": 9}), path, inside)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    runs = read_study(SMALL).runs
    monkeypatch.setattr("weakform.support.wording.LINE_REFRESH_INTERVAL", -1.0)
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        tally = Tally(runs, list(runs[6:]))
        bar = ProgressLine(tally.format_line, out)
        for k, run in enumerate(runs[6:16]):
            tally.add_run(run, k == 0)
            bar.update()
        bar.close()
        assert bool(out.getvalue()) == shown
    assert "16 done, 1 failed" in tally.format_line()
    assert "logistic" in tally.format_line()
    assert "left" in tally.format_line()


def test_full_disk_keeps_the_finished_runs(tmp_path):
    path = tmp_path / "s.sqlite"

    def fill_after_twelve_runs(runs):
        for k, run in enumerate(runs):
            if k == 12:
                # SQLite reports a database of its largest size like a full disk.
                opened[0]._db.execute("PRAGMA max_page_count = 1")
            yield run, perform_run(run)

    opened = []
    original = Store.__init__

    def remember(self, where):
        original(self, where)
        opened.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "__init__", remember)
        with pytest.raises(StoreError, match=r"(?s)full.*All runs before this one are safe.*same command again"):
            sweep(read_study({**SMALL, "runs": 12}), path, fill_after_twelve_runs)
    stored = len(Store(path).rows())
    assert stored >= 12
    assert sweep(read_study({**SMALL, "runs": 12}), path, inside).already_done == stored


def test_lost_run_is_reported_and_repeated_by_the_next_sweep(tmp_path):
    def lose_the_fourth(runs):
        for k, run in enumerate(runs):
            yield run, LostRun("gone") if k == 3 else perform_run(run)

    outcome = sweep(read_study(SMALL), tmp_path / "s", lose_the_fourth)
    assert outcome.lost[0].endswith("gone")
    assert len(Store(tmp_path / "s").rows()) == 35
    assert sweep(read_study(SMALL), tmp_path / "s", inside).done == 1
