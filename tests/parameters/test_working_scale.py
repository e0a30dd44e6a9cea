"""A log scale changes intervals, but not estimates."""

import numpy as np
import pytest

import weakform as wf
from support import LV


def test_log_scale_changes_the_interval_not_the_estimate():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.1, seed=1)
    plain = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0})
    log = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0}, log=["p1", "p4"])
    assert np.allclose(plain.estimate, log.estimate, atol=0.1 * plain.errors.max())
    assert np.allclose(plain.estimate, log.estimate, rtol=0.01)
    low, high = log.intervals(kind="wald")[log.model.parameters.index("p1")]
    assert low > 0
    assert high / log["p1"].value == pytest.approx(log["p1"].value / low)
    assert np.allclose(log.errors, plain.errors, rtol=0.02)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: wf.fit(LV.model, LV.simulate(M=50), log="p1"), "list of names", id="text"),
        pytest.param(lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p9"]), "Unknown parameter 'p9'", id="unknown"),
        pytest.param(
            lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p1"], start=[-1, 1, 1, 1]),
            "must be positive",
            id="negative start",
        ),
        pytest.param(
            lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p1"], bounds={"p1": (-1, 1)}),
            "cannot be negative",
            id="negative bound",
        ),
    ],
)
def test_invalid_log_scales_are_refused(make, words):
    with pytest.raises(wf.WeakformError, match=words):
        make()
