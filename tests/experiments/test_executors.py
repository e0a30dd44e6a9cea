"""Executors: when a worker or the whole sweep is killed, no finished run is lost and no result changes."""

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
from weakform.experiments import executors
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.executors import _run_with_retries, make_dask_executor, make_local_executor
from weakform.experiments.store import Store
from weakform.experiments.study import read_study
from weakform.experiments.sweep import sweep
from weakform.support.errors import WeakformError

LONGER = {**SMALL, "runs": 14}
LONGEST = {**SMALL, "runs": 60}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Store of the longer study, run without interruption."""
    path = tmp_path_factory.mktemp("undisturbed") / "s.sqlite"
    sweep(read_study(LONGER), path, inside)
    return path


MAX_SECONDS = 600
"""Seconds after which a process counts as hanging: far more than it needs, even on a busy machine. By judgement."""


@pytest.fixture
def start_sweep(tmp_path):
    """A function that starts `weakform sweep` with two workers in the background; all its processes end with the test.

    It returns the process, which leads its own group, and the path of the store.
    """
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
    """Wait until the store has `count` runs; return early if the process ended and `finished` allows it."""
    for _ in range(20 * MAX_SECONDS):
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
    raise AssertionError(f"The store did not reach {count} runs within {MAX_SECONDS} seconds.")


def find_workers(pid):
    """Return the ids of the workers of a sweep: its children that run the main function of `spawn`."""
    workers = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as line:
                    parent, words = int(stat.read().rsplit(")", 1)[1].split()[1]), line.read()
            except (OSError, ValueError):
                continue
            if parent == pid and "spawn_main" in words:
                workers.append(int(entry))
    return workers


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


@linux
@pytest.mark.slow
def test_killed_worker_loses_no_run(start_sweep, undisturbed):
    process, store = start_sweep(LONGER)
    wait_for(store, 20, process)
    os.kill(find_workers(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 0, err
    assert "168 of 168 runs are in" in out
    alike(numbers(store), numbers(undisturbed))


@linux
def test_sweep_killed_with_its_workers_loses_at_most_the_runs_in_flight(start_sweep):
    process, store = start_sweep(LONGER)
    wait_for(store, 30, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stored = numbers(store)
    assert len(stored) >= 30
    process, _ = start_sweep(LONGER)
    out, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 0, err
    assert f"{len(stored)} already in the file" in out
    after = {json.dumps(row) for row in numbers(store)}
    assert len(after) == 168
    assert all(json.dumps(row) in after for row in stored)


def sweep_with_kills(start_sweep, kills, study):
    """Kill a sweep with its workers at random moments, resume it each time, and return the finished store."""
    rng = np.random.default_rng(1)
    survived = 0
    for _ in range(kills):
        process, store = start_sweep(study)
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
    process, store = start_sweep(study)
    _, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 0, err
    return store


@linux
@pytest.mark.slow
def test_sweep_killed_twice_gives_the_undisturbed_results(start_sweep, undisturbed):
    alike(numbers(sweep_with_kills(start_sweep, 2, LONGER)), numbers(undisturbed))


@linux
@pytest.mark.slow
def test_sweep_killed_thirty_times_gives_the_undisturbed_results(start_sweep, tmp_path):
    study = {**SMALL, "runs": 100}
    store = sweep_with_kills(start_sweep, 30, study)
    sweep(read_study(study), tmp_path / "undisturbed", inside)
    alike(numbers(store), numbers(tmp_path / "undisturbed"))


@linux
def test_ctrl_c_stops_cleanly_and_second_writer_is_refused(start_sweep):
    process, store = start_sweep(LONGEST)
    wait_for(store, 10, process)
    second, _ = start_sweep(LONGEST)
    _, err = second.communicate(timeout=MAX_SECONDS)
    assert second.returncode == 2
    assert "in use by another weakform sweep" in err
    assert "Traceback" not in err
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 130
    assert "run the same command again to continue" in err
    assert "Traceback" not in err
    assert 10 <= len(numbers(store)) < 720


def perform_or_die(run):
    """Perform a run, but kill the worker for one run of the study."""
    if run.method.label == "mle" and run.number == 1 and run.cell.noise == 0.1 and run.cell.problem == "logistic":
        os._exit(1)
    return perform_run(run)


@pytest.mark.slow
def test_run_that_kills_its_worker_is_reported_lost_and_the_others_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "QUEUED_RUNS_PER_WORKER", 1)  # each run in flight gets its own process
    outcome = sweep(read_study(SMALL), tmp_path / "s", make_local_executor(2, perform_or_die))
    assert len(outcome.lost) == 1
    assert "logistic" in outcome.lost[0]
    assert "died 3 times" in outcome.lost[0]
    assert len(Store(tmp_path / "s").rows()) == 35


@linux
@pytest.mark.slow
def test_dask_cluster_with_a_killed_worker_loses_no_run(tmp_path):
    from distributed import LocalCluster

    study = read_study({**SMALL, "runs": 8})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def kill_a_worker(runs):
            for k, pair in enumerate(make_dask_executor(cluster.scheduler_address, perform_run)(runs)):
                if k == 15:
                    os.kill(cluster.workers[0].pid, signal.SIGKILL)
                yield pair

        outcome = sweep(study, tmp_path / "s", kill_a_worker)
    assert (outcome.done, outcome.lost) == (96, ())
    sweep(study, tmp_path / "undisturbed", inside)
    alike(numbers(tmp_path / "s"), numbers(tmp_path / "undisturbed"))


def test_missing_dask_scheduler_is_reported(monkeypatch):
    import distributed

    # The same refusal after one second in place of ten.
    monkeypatch.setattr(
        distributed, "Client", lambda address, timeout, Client=distributed.Client: Client(address, timeout="1s")
    )
    with pytest.raises(WeakformError, match="No Dask scheduler"):
        list(make_dask_executor("tcp://127.0.0.1:9", perform_run)(read_study(SMALL).runs))


def die_once(run):
    """Kill the worker at the run "kill", the first time only: a file remembers it."""
    if run == "first":
        return os.getpid()
    time.sleep(0.05)
    if run == "kill":
        with suppress(FileExistsError), open("killed", "x"):
            os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_run_submitted_while_the_pool_breaks_is_done_in_the_next_pool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = ["first", "a", "b", "kill", *"cdefgh"]

    class Named(str):
        @property
        def key(self):
            return str(self)

    done = []
    for run, _ in _run_with_retries(iter(map(Named, runs)), 2, die_once):
        done.append(str(run))
        time.sleep(0.1)
    assert sorted(done) == sorted(runs)
