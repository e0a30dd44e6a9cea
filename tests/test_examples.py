"""The examples run, and show what they say."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, str(folder)])
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_ends_in_a_picture(name, tmp_path, monkeypatch, capsys):
    run(name, tmp_path, monkeypatch)
    assert list(tmp_path.glob("*.png"))
    assert "Picture:" in capsys.readouterr().out


def test_lynx_and_hare(tmp_path, monkeypatch, capsys):
    fit = run("lynx_hare.py", tmp_path, monkeypatch)["fit"]
    assert min(fit.r_squared.values()) >= 0.85
    assert (fit.errors / fit.estimate < 0.2).all()
    assert "Only 21 samples" in capsys.readouterr().out


def test_yeast(tmp_path, monkeypatch, capsys):
    space = run("yeast.py", tmp_path, monkeypatch)
    assert space["logistic"]["r"].value == pytest.approx(0.55, abs=0.02)
    assert space["logistic"]["K"].value == pytest.approx(663, abs=5)
    low, high = space["theta"]["theta"].interval
    assert low < 1 < high
    assert min(space["theta"].r_squared.values()) > 0.99
    assert "Only 19 samples" in capsys.readouterr().out
