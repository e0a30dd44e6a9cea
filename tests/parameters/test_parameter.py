"""Parameters can be specified by `Parameter` or by the keywords of `fit`, with the same result."""

import numpy as np
import pytest

import weakform as wf
from weakform import FitError
from weakform.parameters import resolve_parameters
from weakform.parameters.working_scale import WorkingScale

MODEL = wf.Model.from_text("x' = r*x*(1 - x/K)")
T = np.linspace(0, 8, 41)


def grown(K, seed=0):
    x = K / (1 + (K / 0.2 - 1) * np.exp(-T))
    return wf.Dataset(T, x + 0.02 * np.random.default_rng(seed).standard_normal(len(T)), names=["x"])


PLATES = wf.Dataset.join([grown(1.0, 1), grown(2.0, 2), grown(2.0, 3)], ["zeta", "alpha", "beta"])


def test_long_form_and_keywords_give_the_same_fit():
    long = wf.fit(
        MODEL,
        grown(2.0),
        parameters={
            "r": wf.Parameter(bounds=(0.1, 5), log=True, prior=("lognormal", 1.0, 0.5), unit="1/h"),
            "K": wf.Parameter(start=1.5, bounds=(0, 10)),
        },
    )
    short = wf.fit(
        MODEL,
        grown(2.0),
        bounds={"r": (0.1, 5), "K": (0, 10)},
        log=["r"],
        priors={"r": ("lognormal", 1.0, 0.5)},
        units={"r": "1/h"},
        start={"K": 1.5},
    )
    assert np.array_equal(long.estimate, short.estimate)
    assert np.array_equal(long.covariance, short.covariance)
    assert long.units == short.units


def test_a_number_fixes_a_parameter():
    fit = wf.fit(MODEL, grown(2.0), parameters={"K": 2.0})
    assert fit["K"].note == "fixed"
    assert fit["K"].value == 2.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"parameters": {"K": 2.0}, "bounds": {"K": (0, 5)}}, "in parameters= and in bounds=", id="both"),
        pytest.param({"parameters": {"k": 2.0}}, "Unknown parameter 'k' in parameters", id="unknown"),
        pytest.param({"parameters": {"K": "2"}}, "must be weakform.Parameter", id="text"),
        pytest.param({"parameters": {"K": True}}, "must be weakform.Parameter", id="flag"),
        pytest.param({"parameters": [1, 2]}, "must be a mapping", id="list"),
        pytest.param({"parameters": {"K": wf.Parameter(fixed=1, tied="r")}}, "both fixed and tied", id="fixed-tied"),
        pytest.param({"parameters": {"K": wf.Parameter(log=1)}}, "log of 'K' must be bool", id="log"),
        pytest.param({"parameters": {"K": wf.Parameter(unit=1)}}, "unit of 'K' must be str", id="unit"),
    ],
)
def test_invalid_specifications_are_refused(arguments, words):
    with pytest.raises(FitError, match=words):
        wf.fit(MODEL, grown(2.0), **arguments)


def test_labels_can_be_given_by_trajectory_name():
    by_name = {"K": {"zeta": "A", "beta": "B", "alpha": "B"}}
    fit = wf.fit(MODEL, PLATES, local=by_name, bounds={"r": (0, 5), "K": (0, 10)})
    assert fit.model.parameters == ("K_A", "K_B", "r")
    assert fit["K_A"].value == pytest.approx(1.0, abs=0.05)
    assert fit["K_B"].value == pytest.approx(2.0, abs=0.05)
    in_order = wf.fit(MODEL, PLATES, local={"K": ["A", "B", "B"]}, bounds={"r": (0, 5), "K": (0, 10)})
    assert np.array_equal(fit.estimate, in_order.estimate)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        pytest.param({"zeta": "A", "alpha": "B"}, "lacks the trajectory 'beta'", id="missing"),
        pytest.param({"zeta": "A", "alpha": "B", "betta": "B"}, "Did you mean 'beta'", id="mistyped"),
        pytest.param(["A", "B"], "one label for each of 3", id="short"),
    ],
)
def test_invalid_labels_are_refused(labels, words):
    with pytest.raises(FitError, match=words):
        wf.fit(MODEL, PLATES, local={"K": labels})


def test_specification_of_a_local_parameter_holds_for_each_value_without_its_own():
    resolved = resolve_parameters(
        MODEL, PLATES, local=["K"], bounds={"K": (0, 10), "K_beta": (1, 3)}, fixed={"K_zeta": 1.0}
    )
    records = dict(zip(resolved.model.parameters, resolved.records, strict=True))
    assert records["K_alpha"].bounds == (0, 10)
    assert records["K_beta"].bounds == (1, 3)
    assert records["K_zeta"].fixed == 1.0


def test_log_scale_converts_values_and_covariances_both_ways():
    scale = WorkingScale(np.array([True, False]))
    p = np.array([0.2, -3.0])
    assert np.allclose(scale.to_natural(scale.to_working(p)), p)
    C = np.array([[0.04, 0.01], [0.01, 1.0]])
    h = 1e-6
    slope = (scale.to_natural(scale.to_working(p) + h) - scale.to_natural(scale.to_working(p) - h)) / (2 * h)
    assert np.allclose(scale.to_natural_covariance(p, C), C * np.outer(slope, slope))
    assert (scale.compute_intervals(p, np.array([5.0, 1.0]))[0] > 0).all()
