"""How far a fit is, and how it is stopped."""

import io
import json
import logging
import math
import os
import pty
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

import weakform as wf
from weakform.support.progress import Progress, Watch
from weakform.support.progress_bar import Bar, watching

GOODWIN = wf.problems.get("goodwin")
DATA = GOODWIN.simulate(M=100, noise=0.05, seed=1)


def test_callback_sees_stages_and_a_falling_objective():
    seen = []
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, callback=seen.append)
    stages = list(dict.fromkeys(p.stage for p in seen))
    assert stages[:3] == ["search (wendy)", "refine (wendy)", "judge"]
    assert [p.start for p in seen if p.starts == 4][:1] == [1]
    best = [p.objective for p in seen if p.stage.startswith("search") and math.isfinite(p.objective)]
    assert best[-1] <= best[0]
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))
    assert "objective" in str(seen[-1])
    assert list(fit.estimate) == list(wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds).estimate)


def test_callback_stops_with_the_best_so_far():
    begin = time.monotonic()
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, starts=100, method="mle", callback=lambda p: p.start >= 3)
    assert time.monotonic() - begin < 5
    assert len(fit.starts) <= 4
    assert f"Stopped by the user after {len(fit.starts)} of 100 starts" in " ".join(fit.notes)
    assert fit.estimate.shape == (8,)


def test_a_callback_that_raises_is_the_users():
    def wrong(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, callback=wrong)
    with pytest.raises(wf.FitError, match="callback must be a function"):
        wf.fit(GOODWIN.model, DATA, callback=3)


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="weakform"):
        wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds)
    assert any("search (wendy)" in record.message for record in caplog.records)


def test_the_time_limit_is_that_of_the_whole_fit():
    begin = time.monotonic()
    fit = wf.fit(GOODWIN.model, DATA, bounds=GOODWIN.bounds, method="relaxed", starts=1000, options={"time_limit": 3})
    assert 2.4 < time.monotonic() - begin < 3.6
    assert len(fit.starts) > 1


def test_a_time_limit_does_not_keep_others_from_helping():
    sparse = wf.problems.get("fitzhugh-nagumo").simulate(M=24, noise=0.05, seed=2)
    model = wf.problems.get("fitzhugh-nagumo").model
    with_limit = wf.fit(model, sparse, options={"time_limit": 100})
    assert list(with_limit.estimate) == list(wf.fit(model, sparse).estimate)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_bar(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = Bar()
    bar(Progress("search (wendy)", 1, 4, 3.5, 1.0))
    assert screen.getvalue() == ""
    bar(Progress("search (wendy)", 2, 4, 3.5, 2.5))
    assert "search (wendy), start 2 of 4, objective 3.5, 2 s" in screen.getvalue()
    bar.close()
    assert screen.getvalue().endswith("\r\x1b[2K")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = Bar()
    bar(Progress("search", 2, 4, 3.5, 9.0))
    assert sys.stderr.getvalue() == ""


def test_one_watch_is_passed_on():
    watch = Watch(5.0)
    with watching(1.0, watch) as same:
        assert same is watch


@pytest.fixture
def files(tmp_path):
    lines = ["equations = '''", GOODWIN.equations.strip(), "'''"]
    lines += [f"[parameters.{name}]\nbounds = [{low}, {high}]" for name, (low, high) in GOODWIN.bounds.items()]
    (tmp_path / "m.toml").write_text("\n".join(lines))
    q = DATA.trajectories[0]
    rows = [",".join(f"{v:.6g}" for v in (t, *u)) for t, u in zip(q.times, q.values, strict=True)]
    (tmp_path / "d.csv").write_text("time,u1,u2,u3\n" + "\n".join(rows) + "\n")
    return tmp_path


def run(folder, *words):
    command = [sys.executable, "-m", "weakform", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_quiet_and_verbose(files):
    done = run(files, "fit", "m.toml", "d.csv", "--quiet", "--save", "fit.json")
    assert (done.stdout, done.stderr) == ("", "")
    assert (files / "fit.json").exists()
    done = run(files, "fit", "m.toml", "d.csv", "--verbose", "--json")
    assert "weakform: search (wendy), start 1 of 4" in done.stderr
    assert json.loads(done.stdout)["parameters"]["p2"]["estimate"] == pytest.approx(0.1, abs=0.02)
    assert run(files, "fit", "m.toml", "d.csv", "--verbose", "--quiet").returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="terminals and signals of Unix")
def test_a_terminal_sees_a_bar_and_ctrl_c_is_answered(files):
    """A fit of minutes: a line after two seconds, and within two seconds of Ctrl-C what was found."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "weakform", "fit", "m.toml", "d.csv", "--method", "relaxed"]
    command += ["--starts", "1000", "--report", "x.html"]
    process = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    seen = b""
    while b"start" not in seen:
        seen += os.read(ours, 1000)
    assert b"weakform: search" in seen
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    assert time.monotonic() - begin < 2
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert "weakform fit" in said + out
