"""The progress of a fit is reported, and a fit can be stopped."""

import io
import json
import logging
import math
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest

import weakform as wf
from weakform.support.progress import Progress, Watch
from weakform.support.progress_bar import ProgressBar, provide_watch

GOODWIN = wf.problems.get("goodwin")
DATA = GOODWIN.simulate(M=100, noise=0.05, seed=1)
PATIENCE = 300.0
"""Seconds after which a child process counts as hanging: far more than it needs, even on a busy machine."""


def test_callback_receives_stages_and_a_falling_objective():
    steps = []
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, callback=steps.append)
    stages = list(dict.fromkeys(p.stage for p in steps))
    assert stages[:3] == ["search (wendy)", "refine (wendy)", "judge"]
    assert [p.start for p in steps if p.starts == 4][:1] == [1]
    best = [p.objective for p in steps if p.stage.startswith("search") and math.isfinite(p.objective)]
    assert best[-1] <= best[0]
    assert all(a.seconds <= b.seconds for a, b in pairwise(steps))
    assert "objective" in str(steps[-1])
    assert list(fit.estimate) == list(wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds).estimate)


def test_callback_stops_the_fit_with_the_best_estimate_so_far():
    # CPU time: the wall time depends on what else the machine does.
    begin = time.process_time()
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, starts=100, method="mle", callback=lambda p: p.start >= 3)
    assert time.process_time() - begin < 5
    assert len(fit.starts) <= 4
    assert f"Stopped by the user after {len(fit.starts)} of 100 starts" in " ".join(fit.notes)
    assert fit.estimate.shape == (8,)


def test_exception_in_the_callback_reaches_the_caller():
    def fail(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, callback=fail)
    with pytest.raises(wf.FitError, match="callback must be a function"):
        wf.fit(GOODWIN.model, DATA, callback=3)


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="weakform"):
        wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds)
    assert any("search (wendy)" in record.message for record in caplog.records)


def test_the_time_limit_covers_the_whole_fit():
    begin, cpu = time.monotonic(), time.process_time()
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, method="relaxed", starts=1000, options={"time_limit": 3})
    # The search takes nine tenths of the limit by the clock. The rest is measured as CPU time: on a busy machine it
    # takes longer by the clock, but does no more work.
    assert time.monotonic() - begin > 2.4
    assert time.process_time() - cpu < 3.6
    assert 1 < len(fit.starts) < 1000


def test_the_search_ends_after_nine_tenths_of_the_time_limit(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watch = Watch(10.0)
    clock[0] = 108.9
    assert not watch()
    assert watch.compute_seconds_left() == pytest.approx(0.1)
    clock[0] = 109.1
    assert watch()
    assert watch.compute_seconds_left() == 0.0


def test_a_time_limit_does_not_turn_off_the_fallbacks():
    sparse = wf.problems.get("fitzhugh-nagumo").simulate(M=24, noise=0.05, seed=2)
    model = wf.problems.get("fitzhugh-nagumo").model
    with_limit = wf.fit(model, sparse, options={"time_limit": 100})
    assert list(with_limit.estimate) == list(wf.fit(model, sparse).estimate)


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self):
        return True


def test_bar_is_shown_on_a_terminal_after_two_seconds_and_erased(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar()
    bar(Progress("search (wendy)", 1, 4, 3.5, 1.0))
    assert screen.getvalue() == ""
    bar(Progress("search (wendy)", 2, 4, 3.5, 2.5))
    assert "search (wendy), start 2 of 4, objective 3.5, 2 s" in screen.getvalue()
    bar.close()
    assert screen.getvalue().endswith("\r\x1b[2K")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = ProgressBar()
    bar(Progress("search", 2, 4, 3.5, 9.0))
    assert sys.stderr.getvalue() == ""


def test_the_watch_of_an_enclosing_fit_is_passed_on():
    watch = Watch(5.0)
    with provide_watch(1.0, watch) as inner:
        assert inner is watch


@pytest.fixture
def files(tmp_path):
    lines = ["equations = '''", GOODWIN.equations.strip(), "'''"]
    lines += [f"[parameters.{name}]\nbounds = [{low}, {high}]" for name, (low, high) in GOODWIN.bounds.items()]
    (tmp_path / "m.toml").write_text("\n".join(lines))
    q = DATA.trajectories[0]
    rows = [",".join(f"{v:.6g}" for v in (t, *u)) for t, u in zip(q.times, q.values, strict=True)]
    (tmp_path / "d.csv").write_text("time,u1,u2,u3\n" + "\n".join(rows) + "\n")
    return tmp_path


def run_command(folder, *words):
    """Run `weakform` with some words in a folder; returns the finished process."""
    command = [sys.executable, "-m", "weakform", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


def test_quiet_prints_nothing_and_verbose_prints_the_stages(files):
    done = run_command(files, "fit", "m.toml", "d.csv", "--quiet", "--save", "fit.json")
    assert (done.stdout, done.stderr) == ("", "")
    assert (files / "fit.json").exists()
    done = run_command(files, "fit", "m.toml", "d.csv", "--verbose", "--json")
    assert "weakform: search (wendy), start 1 of 4" in done.stderr
    assert json.loads(done.stdout)["parameters"]["p2"]["estimate"] == pytest.approx(0.1, abs=0.02)
    assert run_command(files, "fit", "m.toml", "d.csv", "--verbose", "--quiet").returncode == 2


def read_until(terminal, words, seconds):
    """Return what a terminal shows up to some words; fail if they do not appear within `seconds`."""
    shown, end = b"", time.monotonic() + seconds
    while words not in shown:
        readable, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0.0))
        assert readable, f"{words!r} is not shown within {seconds:g} s; shown: {shown!r}"
        shown += os.read(terminal, 1000)
    return shown


def drain(terminal):
    """Read what a process writes until it ends: a full buffer would block it."""
    with suppress(OSError):  # how Linux reports that the process has ended
        while os.read(terminal, 1000):
            pass


@pytest.mark.skipif(sys.platform == "win32", reason="terminals and signals of Unix")
def test_a_terminal_shows_a_bar_and_ctrl_c_returns_the_best_estimate_so_far(files):
    """With its 1000 starts the fit would take minutes if it were not stopped."""
    terminal, child_terminal = pty.openpty()
    command = [sys.executable, "-m", "weakform", "fit", "m.toml", "d.csv", "--method", "relaxed"]
    command += ["--starts", "1000", "--report", "x.html"]
    process = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=child_terminal, text=True)
    try:
        os.close(child_terminal)
        assert b"weakform: search" in read_until(terminal, b"start", PATIENCE)
        reader = threading.Thread(target=drain, args=(terminal,), daemon=True)
        reader.start()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        reader.join(PATIENCE)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(terminal)
    assert "weakform fit" in out
    assert "Stopped by the user after" in out
    assert "of 1000 starts" in out
