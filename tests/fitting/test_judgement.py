"""The verdict on whole fits, with and without residuals of the data."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.fitting.judgement import warn_of_single_best_start
from weakform.results.status import Status


@pytest.mark.parametrize("method", ["wls", "output-error"])
def test_constant_data_determine_nothing_even_if_the_error_is_small(method):
    """Noise about a constant level shows no change that the equation explains, though its only parameter is precise.

    Output error has residuals of the data, and wls has none.
    """
    noise = 0.1 * np.random.default_rng(0).standard_normal(40)
    t, model = np.linspace(0, 10, 40), wf.Model.from_text("u' = c - u")
    constant = wf.fit(model, wf.Dataset(t, 2 + noise), method=method)
    assert constant.status is Status.UNDETERMINED
    assert constant["c"].error < 0.1
    rising = wf.fit(model, wf.Dataset(t, 2 - 2 * np.exp(-t) + noise), method=method)
    assert rising.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("solves_equations", "residual", "behind", "warns"),
    [
        pytest.param(True, 0.01, (0.0, 3.0, 3.0, 9.0), True, id="solved equations"),
        pytest.param(False, 0.9, (0.0, 3.0, 3.0, 9.0), True, id="unexplained variation"),
        pytest.param(False, 0.01, (0.0, 3.0, 3.0, 9.0), False, id="nothing doubtful"),
        pytest.param(True, 0.9, (0.0, 0.0, 3.0, 9.0), False, id="two best starts"),
        pytest.param(True, 0.9, (0.0, 9.0), False, id="few starts"),
    ],
)
def test_a_single_best_start_is_reported_if_a_better_optimum_is_likely(solves_equations, residual, behind, warns):
    """The residuals have the standard deviation `residual`, as a share of the spread of 20 samples."""
    data = SimpleNamespace(sigma=None, trajectories=[SimpleNamespace(times=np.arange(20.0))])
    searched = SimpleNamespace(
        estimator=SimpleNamespace(solves_equations=solves_equations),
        best=SimpleNamespace(refined=SimpleNamespace(sigma=np.array([residual]))),
        task=SimpleNamespace(problem=SimpleNamespace(data=data, spread=np.ones(1))),
        records=tuple(SimpleNamespace(behind=loss) for loss in behind),
    )
    warnings = warn_of_single_best_start(searched)
    assert [text.startswith(f"Only one of {len(behind)} starts") for text in warnings] == [True] * warns
