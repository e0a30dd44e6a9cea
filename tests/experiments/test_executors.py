"""Workers: whoever is killed, no run is lost and no number changes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from support import SMALL, alike, inside, numbers, toml
from weakform.experiments.cell_runner import perform
from weakform.experiments.executors import _pool, dask, local
from weakform.experiments.store import Store
from weakform.experiments.study import read_study
from weakform.experiments.sweep import sweep
from weakform.support.errors import WeakformError

LONGER = {**SMALL, "runs": 14}
LONGEST = {**SMALL, "runs": 60}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The longer study, which nobody disturbed."""
    path = tmp_path_factory.mktemp("whole") / "s.sqlite"
    sweep(read_study(LONGER), path, inside)
    return path


PATIENCE = 600
"""Seconds after which a process counts as hanging: far more than it needs, even on a busy machine."""


@pytest.fixture
def started(tmp_path):
    """Start `weakform sweep` in the background; every process of it is ended after the test, whatever its outcome."""
    processes = []

    def start(study, *extra):
        file, store = tmp_path / "study.toml", tmp_path / "s.sqlite"
        file.write_text(toml(study))
        command = [sys.executable, "-m", "weakform", "sweep", str(file), "--out", str(store), "--workers", "2", *extra]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        processes.append(process)
        return process, store

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()


def wait_for(store, count, process, finished=False):
    """Until that many runs are there, or the process has ended where it may."""
    for _ in range(20 * PATIENCE):
        if store.exists():
            try:
                with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
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
@pytest.mark.slow
def test_a_killed_worker_loses_nothing(started, whole):
    process, store = started(LONGER)
    wait_for(store, 20, process)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "168 of 168 are in" in out
    alike(numbers(store), numbers(whole))


@linux
def test_kill_9_of_everything_loses_at_most_the_runs_in_flight(started):
    process, store = started(LONGER)
    wait_for(store, 30, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = numbers(store)
    assert len(kept) >= 30
    process, _ = started(LONGER)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert f"{len(kept)} were there" in out
    after = {json.dumps(row) for row in numbers(store)}
    assert len(after) == 168
    assert all(json.dumps(row) in after for row in kept)


def killed_again_and_again(started, kills, study):
    """Kill everything at random moments, and resume each time."""
    rng = np.random.default_rng(1)
    survived = 0
    for _ in range(kills):
        process, store = started(study)
        wait_for(store, min(survived + 1, len(read_study(study).runs)), process, finished=True)
        time.sleep(rng.uniform(0, 0.4))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        with closing(sqlite3.connect(store)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        now = len(numbers(store))
        assert now >= survived
        survived = now
    process, store = started(study)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return store


@linux
@pytest.mark.slow
def test_killed_again_and_again(started, whole):
    alike(numbers(killed_again_and_again(started, 2, LONGER)), numbers(whole))


@linux
@pytest.mark.slow
def test_killed_thirty_times(started, tmp_path):
    study = {**SMALL, "runs": 100}
    store = killed_again_and_again(started, 30, study)
    sweep(read_study(study), tmp_path / "whole", inside)
    alike(numbers(store), numbers(tmp_path / "whole"))


@linux
def test_ctrl_c_stops_cleanly_and_a_second_process_is_refused(started):
    process, store = started(LONGEST)
    wait_for(store, 10, process)
    second, _ = started(LONGEST)
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert "in use by another weakform sweep" in err
    assert "Traceback" not in err
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "give the same command again to go on" in err
    assert "Traceback" not in err
    assert 10 <= len(numbers(store)) < 720


def dies(run):
    """Kills its worker for one run of the study."""
    if run.method.label == "mle" and run.number == 1 and run.cell.noise == 0.1 and run.cell.problem == "logistic":
        os._exit(1)
    return perform(run)


@pytest.mark.slow
def test_a_run_that_kills_its_worker_is_given_up_and_the_others_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr("weakform.experiments.executors.AHEAD", 1)  # each run in flight starts a process of its own
    outcome = sweep(read_study(SMALL), tmp_path / "s", local(2, dies))
    assert len(outcome.lost) == 1
    assert "logistic" in outcome.lost[0]
    assert "died 3 times" in outcome.lost[0]
    assert len(Store(tmp_path / "s").rows()) == 35


@linux
@pytest.mark.slow
def test_a_dask_cluster_with_a_killed_worker(tmp_path):
    from distributed import LocalCluster

    study = read_study({**SMALL, "runs": 8})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def wounded(runs):
            for k, pair in enumerate(dask(cluster.scheduler_address, perform)(runs)):
                if k == 15:
                    os.kill(cluster.workers[0].pid, signal.SIGKILL)
                yield pair

        outcome = sweep(study, tmp_path / "s", wounded)
    assert (outcome.done, outcome.lost) == (96, ())
    sweep(study, tmp_path / "here", inside)
    alike(numbers(tmp_path / "s"), numbers(tmp_path / "here"))


def test_no_scheduler_is_said(monkeypatch):
    import distributed

    # The same refusal, after one second rather than ten.
    monkeypatch.setattr(
        distributed, "Client", lambda address, timeout, Client=distributed.Client: Client(address, timeout="1s")
    )
    with pytest.raises(WeakformError, match="No Dask scheduler"):
        list(dask("tcp://127.0.0.1:9", perform)(read_study(SMALL).runs))


def killed_once(run):
    import os
    import signal
    import time

    if run == "first":
        return os.getpid()
    time.sleep(0.05)
    if run == "kill":
        os.kill(os.getpid(), signal.SIGKILL) if not os.path.exists("killed") and not open(
            "killed", "w"
        ).close() else None
    return os.getpid()


def test_no_run_is_lost_between_pools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = ["first", "a", "b", "kill", *"cdefgh"]
    import time

    class Named(str):
        @property
        def key(self):
            return str(self)

    done = []
    for run, _ in _pool(iter(map(Named, runs)), 2, killed_once):
        done.append(str(run))
        time.sleep(0.1)
    assert sorted(done) == sorted(runs)
