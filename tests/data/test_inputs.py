"""Known inputs, held or interpolated linearly, with jumps."""

import numpy as np
import pytest

import weakform as wf
from weakform.forward.solver import simulate
from weakform.model.inputs import Inputs


@pytest.mark.parametrize("hold", [True, False])
def test_parameters_of_a_driven_model_are_recovered(hold):
    model = wf.Model.from_text("T' = a*Q - b*(T - 20)", inputs=["Q"])
    t = np.linspace(0, 60, 121)
    Q = np.where((t >= 10) & (t < 30), 50.0, 5.0)
    u = simulate(model, [0.05, 0.1], [20.0], t, inputs=Inputs(t, Q[:, None], (hold,))).states
    data = wf.Dataset(t, u + 0.2 * np.random.default_rng(1).standard_normal(u.shape), inputs={"Q": Q}, hold=hold)
    for method in ("wendy", "hybrid", "mle"):
        fit = wf.fit(model, data, method=method)
        assert (np.abs(fit.estimate - [0.05, 0.1]) < (4 if method != "mle" else 12) * fit.errors).all()
    assert wf.fit(model, data).goodness.p_value > 1e-3
    assert wf.fit(model, data).predict([0.0, 100.0]).states[-1, 0] == pytest.approx(22.5, abs=0.3)


def test_weak_methods_allow_jumps_of_inputs():
    t = np.linspace(0, 50, 101)
    Q = np.where((t // 10) % 2 == 0, 1.0, 0.0)
    model = wf.Model.from_text("T' = k*(T0 - T) + a*Q", inputs=["Q"])
    truth = {"T0": 20.0, "a": 3.0, "k": 0.2}
    p = [truth[name] for name in model.parameters]
    u = simulate(model, p, [18.0], t, inputs=Inputs(t, Q[:, None], (True,))).states
    exact = wf.fit(model, wf.Dataset(t, u, sigma=0, inputs={"Q": Q}, hold=True))
    assert np.allclose(exact.estimate, p, rtol=0.01)
    noisy = wf.Dataset(t, u + 0.2 * np.random.default_rng(1).standard_normal(u.shape), inputs={"Q": Q}, hold=True)
    for method in ("mle", "irls", "wls"):
        fit = wf.fit(model, noisy, method=method)
        assert (np.abs(fit.estimate - p) < 4 * fit.errors).all()


def test_input_without_data_is_refused():
    model = wf.Model.from_text("u' = a*u + q", inputs=["q"])
    with pytest.raises(wf.WeakformError, match="input 'q'"):
        wf.fit(model, wf.Dataset(np.arange(9.0), np.arange(9.0)))
