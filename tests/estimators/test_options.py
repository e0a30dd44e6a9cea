"""A method refuses what it does not use, in words."""

import pytest

import weakform as wf
from weakform import FitError

PROBLEM = wf.problems.get("logistic")
DATA = PROBLEM.simulate(M=60, noise=0.05, seed=1)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        pytest.param("wls", {"solver": "cubic"}, "does not use the option 'solver'.*mle", id="wls-solver"),
        pytest.param("mle", {"covariance": "paper"}, "belongs to wendy, hybrid", id="mle-covariance"),
        pytest.param("wendy", wf.Options(residuals="additive"), "output-error, hybrid", id="wendy-residuals"),
        pytest.param("irls", {"weak": "mle"}, "belongs to hybrid", id="irls-weak"),
    ],
)
def test_options_of_other_methods_are_refused(method, options, words):
    with pytest.raises(FitError, match=words):
        wf.fit(PROBLEM.model, DATA, method=method, options=options)


@pytest.mark.parametrize("method", ["mle", "wendy", "hybrid"])
def test_cubic_regularisation_refuses_bounds(method):
    with pytest.raises(FitError, match="knows no bounds"):
        wf.fit(PROBLEM.model, DATA, method=method, bounds=PROBLEM.bounds, options={"solver": "cubic"})
    free = wf.fit(PROBLEM.model, DATA, method=method, options={"solver": "cubic"})
    assert free.converged


def test_what_every_method_takes_is_taken_by_every_method():
    from weakform.estimators import ESTIMATORS

    for method in ESTIMATORS:
        assert wf.fit(PROBLEM.model, DATA, method=method, options={"time_limit": 60, "tolerance": 1e-6}).converged
