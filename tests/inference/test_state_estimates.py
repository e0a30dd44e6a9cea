"""Initial values by name: which are listed, and their standard errors by the likelihood."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.inference.intervals import BY_PROFILE, DEFAULT_LEVEL
from weakform.inference.state_estimates import InitialValues, list_initial_values
from weakform.results.records import Quantity
from weakform.results.status import Status


@pytest.mark.parametrize("name", ["x0", "x(0)"])
def test_initial_value_that_is_a_parameter_is_not_listed_again(name):
    """The model has one with a name of its own, or the fit has made a parameter of the initial value itself."""
    model = SimpleNamespace(states=("x", "y"), parameters=("k", name), initial={"x": name, "y": "2"})
    initial = {state: Quantity(f"{state}(0)", 2.0, 0.0, (2.0, 2.0), "given") for state in model.states}
    data = SimpleNamespace(names=("y",), trajectories=(None,))
    fit = SimpleNamespace(model=model, data=data, nodes=(None,), initial=initial)
    assert list_initial_values(fit, 1) == [("y(0)", initial["y"])]


@pytest.mark.parametrize("quantile", [0.5, 2.0])
def test_error_by_the_likelihood_is_the_mean_half_width_over_the_quantile(quantile):
    """The interval from 4 to 8 about 5 reaches 1 down and 3 up, 2 in the mean."""
    band = {"x": np.array([[5.0, 4.0, 8.0]])}
    late = SimpleNamespace(bands={(0, DEFAULT_LEVEL, "beginning"): band})
    fit = SimpleNamespace(
        nodes=(None,),
        method="relaxed",
        goodness=object(),
        status=Status.CONVERGED,
        late=late,
        quantile=lambda _: quantile,
    )
    assert InitialValues(fit)._pin_value(0, "x", 5.0) == ([4.0, 8.0], 2.0 / quantile)


@pytest.mark.parametrize("level", [-100.0, 0.0, 100.0])
@pytest.mark.parametrize(("shift", "is_replaced"), [(0.5, True), (0.01, False)])
def test_interval_by_the_likelihood_replaces_that_of_the_delta_method_if_an_end_differs_by_much_of_its_width(
    monkeypatch, level, shift, is_replaced
):
    """How much is a share of the width of the interval, wherever the interval is."""
    t = np.arange(9.0)
    y = level + 0.5 * t + 0.1 * np.random.default_rng(0).standard_normal(9)
    fit = wf.fit(wf.Model.from_text("x' = a"), wf.Dataset(t, y))
    monkeypatch.setattr(InitialValues, "_pin_value", lambda *arguments: None)
    low, high = InitialValues(fit)["x"].interval
    assert high - low < 1
    pinned = [low, high + shift * (high - low)]
    monkeypatch.setattr(InitialValues, "_pin_value", lambda *arguments: (pinned, 0.2))
    initial = InitialValues(fit)["x"]
    assert initial.note == (BY_PROFILE if is_replaced else "")
    assert list(initial.interval) == pytest.approx(pinned if is_replaced else [low, high])
