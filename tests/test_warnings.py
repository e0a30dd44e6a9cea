"""NumPy's warnings do not reach the user: overflow during a search is expected and handled."""

import warnings

import numpy as np

import weakform as wf

CASCADE = wf.Model.from_text("x' = -k1*x\ny' = k1*x - k2*y\nz' = k2*y - k3*z")


def test_overflow_in_log_coordinates_raises_no_warning():
    t = np.linspace(0, 30, 60)
    u = wf.simulate(CASCADE, [0.5, 0.3, 0.2], [10.0, 0.0, 0.0], t).states
    rng = np.random.default_rng(1)
    values = np.abs(u) * np.exp(0.1 * rng.standard_normal(u.shape)) + 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = wf.fit(CASCADE, wf.Dataset(t, values, noise="lognormal"), options={"time_limit": 20})
        assert str(fit)
        assert fit.intervals().shape == (3, 2)
