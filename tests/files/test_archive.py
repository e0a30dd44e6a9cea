"""Saved fits are restored exactly, and damaged files are refused."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from support import growth
from weakform.forward.solver import simulate
from weakform.support.errors import DataError


def fits():
    lynx = wf.problems.get("lotka-volterra")
    data = lynx.simulate(M=60, noise=0.05)
    yield wf.fit(lynx.model, data, bounds=lynx.bounds)
    yield wf.fit(lynx.model, data, method="wls")
    yield wf.fit(lynx.model, data, tied={"p4": "p2"}, log=["p1"], priors={"p3": ("normal", 6, 1)}, units={"p1": "1/d"})
    model = wf.Model.from_text("x'' = -k*x + a*q", inputs=["q"])
    t = np.linspace(0, 10, 80)
    data_with_input = wf.Dataset(t, np.cos(t) + 0.01 * np.sin(31 * t), inputs={"q": t}, names=["x"])
    yield wf.fit(model, wf.Dataset.join([data_with_input, data_with_input], ["one", "two"]), local=["a"])


@pytest.mark.parametrize("fit", list(fits()), ids=["wendy", "wls", "constrained", "local"])
def test_saved_fit_is_restored_exactly(fit, tmp_path):
    restored = wf.FitResult.load(fit.save(tmp_path / "fit.json"))
    assert str(restored) == str(fit)
    assert np.array_equal(restored.covariance, fit.covariance, equal_nan=True)
    assert np.array_equal(restored.intervals(), fit.intervals(), equal_nan=True)
    assert restored.r_squared == fit.r_squared
    assert restored.model.parameters == fit.model.parameters
    times = fit.data.trajectories[0].times[:3]
    assert np.array_equal(restored.predict(times).states, fit.predict(times).states)
    if fit.method == "wendy" and not fit.model.hidden:
        assert np.allclose(restored.intervals(kind="profile"), fit.intervals(kind="profile"), rtol=1e-6)
        assert set(wf.FitResult.load(fit.save(tmp_path / "b.json")).profiles) == set(fit.profiles)
    assert wf.FitResult.load(restored.save(tmp_path / "c.json")).to_frame().equals(restored.to_frame())


def test_load_refuses_later_format(tmp_path):
    path = tmp_path / "fit.json"
    path.write_text('{"format": 4, "weakform": "9.0"}')
    with pytest.raises(DataError, match=r"format 4.*9\.0"):
        wf.FitResult.load(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="list"),
        pytest.param("{}", id="nothing"),
        pytest.param("nonsense", id="nonsense"),
        pytest.param('{"format": 3}', id="format alone"),
        pytest.param('{"format": 3, "fit": {}, "model": 3}', id="model as a number"),
    ],
)
def test_load_refuses_files_that_are_no_fit(text, tmp_path):
    path = tmp_path / "fit.json"
    path.write_text(text)
    with pytest.raises(DataError, match="is not a"):
        wf.FitResult.load(path)
    with pytest.raises(DataError, match="Cannot read"):
        wf.FitResult.load(tmp_path / "none.json")


def paths_in(value, path=()):
    """Yield the path of every value in a JSON document; of lists only the first three items."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for k, item in enumerate(value[:3]):
            yield from paths_in(item, (*path, k))
    yield path


@settings(max_examples=60)
@given(data=st.data(), junk=st.sampled_from([None, 3, "x", [], {}, [[]], "__import__('os')", -1e308, True]))
def test_damaged_file_is_refused_or_harmless(data, junk, tmp_path_factory):
    problem = wf.problems.get("logistic")
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    if not path.exists():
        wf.fit(problem.model, problem.simulate(M=30)).save(path)
    document = json.loads(path.read_text())
    place = data.draw(st.sampled_from([p for p in paths_in(document) if p]))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = junk
    damaged = path.with_name("other.json")
    damaged.write_text(json.dumps(document))
    with suppress(DataError):
        wf.FitResult.load(damaged)


def test_equations_in_saved_fit_are_parsed_not_run(tmp_path):
    problem = wf.problems.get("logistic")
    path = wf.fit(problem.model, problem.simulate(M=30)).save(tmp_path / "fit.json")
    document = json.loads(path.read_text())
    document["model"]["expressions"] = ["__import__('os').system('touch hacked')"]
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"unexpected character|unknown"):
        wf.FitResult.load(path)


def test_restored_model_has_same_solution(tmp_path):
    problem = wf.problems.get("goodwin")
    fit = wf.fit(problem.model, problem.simulate(M=60, noise=0.02), bounds=problem.bounds)
    restored = wf.FitResult.load(fit.save(tmp_path / "f.json"))
    t = np.linspace(0, 10, 5)
    before, after = (simulate(f.model, f.estimate, problem.initial, t).states for f in (fit, restored))
    assert np.array_equal(before, after)


def test_infinite_option_and_constant_in_equation_are_restored(tmp_path):
    fit = wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)*exp(1)"), growth(0.4), options={"time_limit": np.inf})
    assert wf.FitResult.load(fit.save(tmp_path / "f.json")).options.time_limit == np.inf


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param("estimate", [], id="no estimates"),
        pytest.param("estimate", None, id="estimate null"),
        pytest.param("covariance", [[1.0]], id="small covariance"),
        pytest.param("sigma", [1.0, 2.0, 3.0], id="three sigmas"),
        pytest.param("warnings", [3], id="warning as a number"),
    ],
)
def test_load_refuses_fit_with_inconsistent_parts(tmp_path, part, value):
    problem = wf.problems.get("lotka-volterra")
    path = wf.fit(problem.model, problem.simulate(M=60, noise=0.02), method="wls").save(tmp_path / "f.json")
    document = json.loads(path.read_text())
    document["fit"][part] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="not a valid saved fit"):
        wf.FitResult.load(path)
