"""Studies: the same numbers anywhere, nothing lost whatever is killed, one clear error for each thing that is wrong."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import weakform as wf
from weakform.experiments.executors import Lost, dask, local
from weakform.experiments.figures import draw
from weakform.experiments.store import Store, StoreError
from weakform.experiments.study import Cell, built_in, read_study, run_seed
from weakform.experiments.summary import bound, summarise, table
from weakform.experiments.sweep import Tally, sweep
from weakform.experiments.worker import perform
from weakform.support.errors import ModelError, WeakformError
from weakform.support.messages import Progress

SMALL = {
    "name": "small",
    "runs": 3,
    "methods": ["wls", "mle"],
    "cells": [{"problems": ["logistic", "lotka-volterra"], "noise": [0.05, 0.1], "samples": [40]}],
}
LONGER = {**SMALL, "runs": 14}
TIMES = ("seconds", "cpu")


def toml(study):
    """A study as a TOML file."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in study.items() if key != "cells"]
    for block in study["cells"]:
        lines += ["[[cells]]", *(f"{key} = {json.dumps(value)}" for key, value in block.items())]
    return "\n".join(lines) + "\n"


def numbers(path):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in Store(path).rows()]


def alike(one, two):
    assert json.dumps(one) == json.dumps(two)


def inside(runs):
    """Run here, in this process."""
    for run in runs:
        yield run, perform(run)


def backwards(runs):
    for run in reversed(list(runs)):
        yield run, perform(run)


def test_order_and_workers_do_not_change_a_number(tmp_path):
    study = read_study(SMALL)
    for name, execute in (("a", inside), ("b", backwards), ("c", local(2)), ("d", local(1))):
        outcome = sweep(study, tmp_path / name, execute)
        assert (outcome.total, outcome.done, outcome.lost) == (36, 36, ())
    for name in "bcd":
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


def test_methods_of_a_run_share_data_and_start():
    study = read_study(SMALL)
    by_run = {}
    for run in study.runs:
        by_run.setdefault((run.cell, run.number), set()).add(run.seed)
    assert all(len(seeds) == 1 for seeds in by_run.values())
    assert len({next(iter(s)) for s in by_run.values()}) == len(by_run)
    assert study.methods == ("start", "wls", "mle")


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


def started(tmp_path, study, *extra):
    file, store = tmp_path / "study.toml", tmp_path / "s.sqlite"
    file.write_text(toml(study))
    command = [sys.executable, "-m", "weakform", "sweep", str(file), "--out", str(store), "--workers", "2", *extra]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    return process, store


def wait_for(store, count, process, finished=False):
    """Until that many runs are there, or the process has ended where it may."""
    for _ in range(1200):
        if store.exists():
            try:
                with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
                    if db.execute("SELECT count(*) FROM runs").fetchone()[0] >= count:
                        return
            except sqlite3.OperationalError:
                pass
        if finished and process.poll() is not None:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no runs")


def children(pid):
    """Processes below one, the deepest first, that are workers: they hold spawn's main."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as line:
                    parent, words = int(stat.read().rsplit(")", 1)[1].split()[1]), line.read()
            except (OSError, ValueError):
                continue
            if parent == pid and "spawn_main" in words:
                found.append(int(entry))
    return found


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


@linux
def test_a_killed_worker_loses_nothing(tmp_path):
    process, store = started(tmp_path, LONGER)
    wait_for(store, 20, process)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "168 of 168 are in" in out
    sweep(read_study(LONGER), tmp_path / "whole", inside)
    alike(numbers(store), numbers(tmp_path / "whole"))


@linux
def test_kill_9_of_everything_loses_at_most_the_runs_in_flight(tmp_path):
    process, store = started(tmp_path, LONGER)
    wait_for(store, 30, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with sqlite3.connect(store) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = numbers(store)
    assert len(kept) >= 30
    process, _ = started(tmp_path, LONGER)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"{len(kept)} were there" in out
    after = {json.dumps(row) for row in numbers(store)}
    assert len(after) == 168
    assert all(json.dumps(row) in after for row in kept)


def killed_again_and_again(tmp_path, kills, study):
    """Kill everything at random moments, resume each time, and compare with a study that nobody disturbed."""
    rng = np.random.default_rng(1)
    survived = 0
    for _ in range(kills):
        process, store = started(tmp_path, study)
        wait_for(store, min(survived + 1, len(read_study(study).runs)), process, finished=True)
        time.sleep(rng.uniform(0, 0.4))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        with sqlite3.connect(store) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        now = len(numbers(store))
        assert now >= survived
        survived = now
    process, store = started(tmp_path, study)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    sweep(read_study(study), tmp_path / "whole", inside)
    alike(numbers(store), numbers(tmp_path / "whole"))


@linux
def test_killed_again_and_again(tmp_path):
    killed_again_and_again(tmp_path, 4, LONGER)


@linux
@pytest.mark.slow
def test_killed_thirty_times(tmp_path):
    killed_again_and_again(tmp_path, 30, {**SMALL, "runs": 100})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_and_silence_elsewhere(monkeypatch):
    runs = read_study(SMALL).runs
    monkeypatch.setattr("weakform.support.messages.REFRESH", -1.0)
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


@linux
def test_ctrl_c_stops_cleanly_and_a_second_process_is_refused(tmp_path):
    process, store = started(tmp_path, LONGER)
    wait_for(store, 10, process)
    second, _ = started(tmp_path, LONGER)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "in use by another weakform sweep" in err
    assert "Traceback" not in err
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "give the same command again to go on" in err
    assert "Traceback" not in err
    assert 10 <= len(numbers(store)) < 168


def dies(run):
    """Kills its worker for one run of the study."""
    if run.method.label == "mle" and run.number == 1 and run.cell.noise == 0.1 and run.cell.problem == "logistic":
        os._exit(1)
    return perform(run)


def test_a_run_that_kills_its_worker_is_given_up_and_the_others_are_done(tmp_path):
    outcome = sweep(read_study(SMALL), tmp_path / "s", local(2, dies))
    assert len(outcome.lost) == 1
    assert "logistic" in outcome.lost[0]
    assert "died 3 times" in outcome.lost[0]
    assert len(Store(tmp_path / "s").rows()) == 35


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


@linux
def test_a_dask_cluster_with_a_killed_worker(tmp_path):
    from distributed import LocalCluster

    study = read_study({**SMALL, "runs": 8})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def wounded(runs):
            for k, pair in enumerate(dask(cluster.scheduler_address)(runs)):
                if k == 15:
                    os.kill(cluster.workers[0].pid, signal.SIGKILL)
                yield pair

        outcome = sweep(study, tmp_path / "s", wounded)
    assert (outcome.done, outcome.lost) == (96, ())
    sweep(study, tmp_path / "here", inside)
    alike(numbers(tmp_path / "s"), numbers(tmp_path / "here"))


def test_no_scheduler_is_said():
    with pytest.raises(WeakformError, match="No Dask scheduler"):
        list(dask("tcp://127.0.0.1:9")(read_study(SMALL).runs))


# Numbers.


def test_metrics_are_those_of_the_table(tmp_path):
    study = read_study({**SMALL, "runs": 6, "cells": [{"problems": ["lotka-volterra"], "noise": 0.05, "samples": 60}]})
    sweep(study, tmp_path / "s", inside)
    store = Store(tmp_path / "s")
    found = {s.method: s for s in summarise(store)}["mle"]
    rows = [r for r in store.rows() if r["method"] == "mle"]
    truth = wf.problems.get("lotka-volterra").parameters
    p = np.array([r["estimate"] for r in rows])
    assert np.allclose(found.bias_paper, np.median((p - truth) ** 2 / truth**2, axis=0))
    assert np.allclose(found.bias, (p.mean(axis=0) - truth) ** 2 / truth**2)
    assert np.allclose(found.variance, np.median((p - p.mean(axis=0)) ** 2 / truth**2, axis=0))
    assert np.allclose(found.mse, np.median(((p - truth) ** 2 + (p - p.mean(axis=0)) ** 2) / truth**2, axis=0))
    errors = np.sqrt([np.diag(r["covariance"]) for r in rows])
    assert np.allclose(found.coverage, (np.abs(p - truth) < 2 * errors).mean(axis=0))
    assert found.coefficient_error == pytest.approx(np.mean(np.linalg.norm(p - truth, axis=1) / np.linalg.norm(truth)))
    assert found.failure_rate == 0
    assert "| lotka-volterra | 0.05 | 60 | 5 | mle | 6 | 0% |" in table(summarise(store))
    assert (bound(wf.problems.get("lotka-volterra"), found.cell) > 0).all()
    assert len(store.frame()) == 18


def test_failures_are_counted_and_left_out(tmp_path):
    study = read_study({**SMALL, "runs": 2, "cells": [{"problems": ["logistic"], "noise": 0.05, "samples": 40}]})

    def failing(runs):
        for run in runs:
            record = perform(run)
            if run.number == 0:
                record |= {"failed": True, "forward_error": float("nan"), "coefficient_error": 99.0}
            yield run, record

    sweep(study, tmp_path / "s", failing)
    for s in summarise(Store(tmp_path / "s")):
        assert s.failure_rate == 0.5
        assert s.coefficient_error < 25
        assert np.isinf(s.median_error) or s.median_error > s.coefficient_error


def test_every_figure_is_drawn(tmp_path):
    study = read_study(
        {
            "runs": 2,
            "methods": ["wls", "mle", "wendy"],
            "cells": [
                {"problems": ["lotka-volterra"], "noise": [0.0, 0.05, 0.1], "samples": [40, 60]},
                {"problems": ["logistic"], "noise": [0.05], "durations": [5, 10], "step": 0.2},
            ],
        }
    )
    sweep(study, tmp_path / "s", inside)
    names = {path.name for path in draw(tmp_path / "s", tmp_path / "f", "svg", computed=False)}
    assert {"logistic-duration.svg", "lotka-volterra-accuracy-40.svg", "lotka-volterra-by-samples.svg"} <= names
    assert {"lotka-volterra-efficiency.svg", "lotka-volterra-quality-wendy.svg"} <= names
    assert "lotka-volterra-intervals-mle.svg" in names
    assert all((tmp_path / "f" / name).stat().st_size > 5000 for name in names)


# Files.

MODEL = """
equations = "N' = r*N*(1 - N/K)"
noise = "gaussian"
duration = 10
initial = { N = 0.1 }
[parameters]
r = { truth = 1.0, bounds = [0, 5] }
K = { truth = 2.0, bounds = [0.5, 9] }
"""


def test_a_model_file_in_a_study(tmp_path):
    (tmp_path / "mine.toml").write_text(MODEL)
    study = {**SMALL, "runs": 2, "cells": [{"problems": ["mine.toml"], "noise": [0.02], "samples": [50]}]}
    (tmp_path / "study.toml").write_text(toml(study))
    outcome = sweep(read_study(tmp_path / "study.toml"), tmp_path / "s", inside)
    assert outcome.failed == 0
    (tmp_path / "mine.toml").unlink()  # the store keeps its text
    assert {s.method for s in summarise(Store(tmp_path / "s"))} == {"start", "wls", "mle"}
    assert max(s.coefficient_error for s in summarise(Store(tmp_path / "s")) if s.method == "mle") < 0.2


@pytest.mark.parametrize("name", built_in())
def test_built_in_studies(name):
    assert len(read_study(name).runs) > 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runs": 0}, "whole number, at least 1"),
        ({"runs": 10**9}, "more than 10,000,000"),
        ({"rnus": 3}, "Did you mean 'runs'"),
        ({"methods": ["mel"]}, "Did you mean 'mle'"),
        ({"methods": {"x": {"method": "mle", "options": {"tolerance": 3}}}}, "between 0 and 1"),
        ({"start": "best"}, "'random' or 'default'"),
        ({"cells": []}, "at least one"),
        ({"cells": [{"problems": ["lorentz"], "noise": 0.1, "samples": 50}]}, "Did you mean 'lorenz'"),
        ({"cells": [{"problems": ["lorenz"], "noise": -0.1, "samples": 50}]}, "at least 0"),
        ({"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 3}]}, "at least 7"),
        ({"cells": [{"problems": ["lorenz"], "noise": 0.1, "durations": [3]}]}, "step must be"),
        ({"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 50}] * 2}, "there twice"),
        ({"cells": [{"problems": ["none.toml"], "noise": 0.1, "samples": 50}]}, "no model file"),
        ({"cells": [{"problems": ["lorenz"], "noise": 0.1, "samples": 50, "kind": "cauchy"}]}, "kind must be"),
    ],
)
def test_studies_that_are_refused(change, words):
    with pytest.raises(ModelError, match=words):
        read_study({**SMALL, **change})


def test_files_that_are_refused(tmp_path):
    with pytest.raises(ModelError, match="There are: accuracy, lorenz, paper"):
        read_study("lorens")
    (tmp_path / "bad.toml").write_text("runs = = 3")
    with pytest.raises(ModelError, match=r"not valid TOML.*line 1"):
        read_study(tmp_path / "bad.toml")
    with pytest.raises(StoreError, match="no study file"):
        Store(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("not a database, " * 100)
    with pytest.raises(StoreError, match="cannot be read as a study"):
        Store(tmp_path / "text.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE something (x)")
    with pytest.raises(StoreError, match="something else"):
        Store(tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match="no folder"):
        sweep(read_study(SMALL), tmp_path / "none" / "s.sqlite", inside)


def test_lost_runs_are_reported_not_kept(tmp_path):
    def losing(runs):
        for k, run in enumerate(runs):
            yield run, Lost("gone") if k == 3 else perform(run)

    outcome = sweep(read_study(SMALL), tmp_path / "s", losing)
    assert outcome.lost[0].endswith("gone")
    assert len(Store(tmp_path / "s").rows()) == 35
    assert sweep(read_study(SMALL), tmp_path / "s", inside).done == 1


def test_seeds_do_not_collide():
    cells = [Cell("a", "gaussian", r, M, 1.0) for r in (0.01, 0.1) for M in (10, 100)]
    assert len({run_seed(0, c, k) for c in cells for k in range(100)}) == 400
