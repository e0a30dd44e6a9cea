"""A fit can be repeated with the arguments of the first one, or with changed ones."""

import numpy as np
import pytest

import weakform as wf
from support import LOGISTIC, growth
from weakform.analysis.refit_with import collect_fit_arguments, refit_with
from weakform.support.errors import FitError

BOUNDS = {"r": (0.1, 5.0), "K": (1.0, 100.0)}


def test_repeated_fit_gives_the_same_estimate():
    fit = wf.fit(LOGISTIC, growth(1), bounds=BOUNDS, log=["K"], seed=3)
    repeated = refit_with(fit)
    assert repeated.seed == fit.seed
    assert np.allclose(repeated.estimate, fit.estimate, rtol=1e-6)


def test_arguments_of_a_fit_are_recovered():
    priors = {"r": ("normal", 1.0, 0.5)}
    arguments = collect_fit_arguments(
        wf.fit(LOGISTIC, growth(1), bounds=BOUNDS, log=["K"], priors=priors, method="wendy")
    )
    assert arguments["bounds"]["K"] == pytest.approx(BOUNDS["K"])
    assert arguments["log"] == ["K"]
    assert arguments["priors"] == {"r": ("normal", pytest.approx(1.0), pytest.approx(0.5))}
    assert arguments["method"] == "wendy"
    assert collect_fit_arguments(wf.fit(LOGISTIC, growth(1), fixed={"K": 10.0}))["fixed"] == {"K": 10.0}


def test_local_parameters_are_recovered_by_their_shared_name():
    fit = wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1.5)], ["a", "b"]), bounds=BOUNDS, local=["r"])
    assert list(collect_fit_arguments(fit)["local"]) == ["r"]
    repeated = refit_with(fit)
    assert repeated.shared.parameters == fit.shared.parameters
    assert np.allclose(repeated.estimate, fit.estimate, rtol=1e-6)


def test_changed_arguments_are_merged_with_the_first_ones():
    fit = wf.fit(LOGISTIC, growth(1), bounds=BOUNDS)
    narrow = refit_with(fit, bounds={"K": (1.0, 5.0)})
    bounds = dict(zip(narrow.model.parameters, narrow.bounds, strict=True))
    assert bounds["K"] == pytest.approx((1.0, 5.0))
    assert bounds["r"] == pytest.approx(BOUNDS["r"])


def test_fit_of_data_with_doses_cannot_be_repeated():
    model = wf.Model.from_text("C' = -ke*C")
    t = np.linspace(1, 10, 30)
    data = wf.Dataset(t, 5 * np.exp(-0.3 * t) + 0.01 * np.sin(30 * t), names=["C"], doses=wf.Doses("C", [0.0], [5.0]))
    fit = wf.fit(model, data, bounds={"ke": (0.01, 2.0)})
    with pytest.raises(FitError, match="doses cannot be repeated"):
        refit_with(fit)
