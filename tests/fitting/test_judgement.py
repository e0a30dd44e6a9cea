"""The verdict on whole fits, with and without residuals of the data."""

import numpy as np
import pytest

import weakform as wf
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
