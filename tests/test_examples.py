"""The example scripts run and give the expected estimates; models are fitted to the measured data beside them."""

import runpy
import sys

import pytest

import weakform as wf
from support import EXAMPLES


def run(name, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, str(folder)])
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


SLOW_SCRIPTS = ("goodwin.py", "theophylline.py", "indomethacin.py", "large.py", "yeast.py")
SCRIPTS = sorted({path.name for path in EXAMPLES.glob("*.py")} - {"osipi.py"})  # its own test below draws the picture


@pytest.mark.parametrize(
    "name", [pytest.param(s, marks=pytest.mark.slow if s in SLOW_SCRIPTS else ()) for s in SCRIPTS]
)
def test_every_example_writes_a_picture(name, tmp_path, monkeypatch, capsys):
    run(name, tmp_path, monkeypatch)
    assert list(tmp_path.glob("*.png"))
    assert "Picture:" in capsys.readouterr().out


def test_lynx_and_hare_data_are_fitted_closely(tmp_path, monkeypatch, capsys):
    fit = run("lynx_hare.py", tmp_path, monkeypatch)["fit"]
    assert min(fit.r_squared.values()) >= 0.85
    assert (fit.errors / fit.estimate < 0.2).all()
    assert "Only 21 samples" in capsys.readouterr().out


def test_yeast_data_give_the_logistic_estimates(tmp_path, monkeypatch, capsys):
    variables = run("yeast.py", tmp_path, monkeypatch)
    assert variables["logistic"]["r"].value == pytest.approx(0.55, abs=0.02)
    assert variables["logistic"]["K"].value == pytest.approx(663, abs=5)
    low, high = variables["theta"]["theta"].interval
    assert low < 1 < high
    assert min(variables["theta"].r_squared.values()) > 0.99
    assert "Only 19 samples" in capsys.readouterr().out


def test_eyam_data_give_wide_intervals():
    model = wf.Model.from_text("S' = -beta*S*I\nI' = beta*S*I - gamma*I")
    data = wf.Dataset.from_csv(EXAMPLES / "eyam.csv", time="time", names=["S", "I"], noise="poisson")
    fit = wf.fit(model, data, bounds={"beta": (0, 1), "gamma": (0, 20)})
    assert min(fit.r_squared.values()) >= 0.85
    assert fit.quantile(0.95) > 2.1  # Student's t, because eight points leave few degrees of freedom
    assert "Only 8 samples" in str(fit)
    assert fit["gamma"].error / fit["gamma"].value > 0.04


def test_osipi_voxels_are_within_the_tolerances_of_the_collection(tmp_path, monkeypatch, capsys):
    variables = run("osipi.py", tmp_path, monkeypatch)
    assert (tmp_path / "osipi.png").exists()
    first, second = variables["first"], variables["second"]
    assert first.shape == (15,)
    assert second.shape == (24,)
    for part in (variables["shares"], variables["shares_of_second"]):
        for name, (_, deviation) in part.items():
            assert (abs(deviation) <= 1).all(), name
    assert first.success.mean() > 0.9
    assert second.success.mean() > 0.9
    printed = capsys.readouterr().out
    assert printed.count("15/15") == 3
    assert printed.count("24/24") == 4


@pytest.mark.slow
@pytest.mark.parametrize("measured", [True, False])
def test_pendulum_data_give_the_same_frequency_with_or_without_velocity(measured):
    text = "theta' = omega\nomega' = k*sin(theta) - c*omega" if measured else "theta'' = k*sin(theta) - c*theta'"
    states = ["theta", "omega"] if measured else ["theta"]
    data = wf.Dataset.from_csv(EXAMPLES / "pendulum.csv", time="t", names=states, trajectory="segment")
    assert [q.label for q in data.trajectories] == ["id1", "id2", "id3", "id4", "val1", "val2"]
    fit = wf.fit(wf.Model.from_text(text), data)
    assert fit["k"].value == pytest.approx(64.29, rel=0.02)
    assert min(fit.r_squared.values()) > 0.99


def test_temperature_lab_data_are_fitted_closely():
    model = wf.Model.from_text(
        "T1' = a1*Q1 - b1*(T1 - Ta) + c*(T2 - T1)\nT2' = a2*Q2 - b2*(T2 - Ta) + c*(T1 - T2)", inputs=["Q1", "Q2"]
    )
    data = wf.Dataset.from_csv(
        EXAMPLES / "tclab.csv",
        time="time_s",
        names={"T1": "T1_C", "T2": "T2_C"},
        inputs={"Q1": "Q1_pct", "Q2": "Q2_pct"},
        hold=True,
    )
    fit = wf.fit(model, data, fixed={"Ta": 20.8})
    assert min(fit.r_squared.values()) >= 0.95


@pytest.mark.slow
def test_chemostat_is_read_with_its_gaps_and_the_model_is_rejected():
    model = wf.Model.from_text("algae' = a*algae - b*algae*rotifers\nrotifers' = -c*rotifers + d*algae*rotifers")
    data = wf.Dataset.from_csv(
        EXAMPLES / "chemostat.csv", time="day", names=["algae", "rotifers"], trajectory="experiment", noise="lognormal"
    )
    assert len(data.trajectories) == 10
    fit = wf.fit(model, data)
    assert fit.goodness.p_value < 1e-6
    assert "The model does not fit the data" in str(fit)
    assert "values missing" in str(fit)
