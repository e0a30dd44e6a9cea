"""With hidden states the relaxed model, output error and the hybrid method reach the same optimum."""

from dataclasses import dataclass

import numpy as np
import pytest

import weakform as wf
from weakform import FitError, Status
from weakform.collocation.hidden_state_problem import HiddenStateProblem
from weakform.data.matching import match
from weakform.estimators.forward_residuals import PartlyObservedResiduals
from weakform.parameters.resolution import resolve_parameters


@dataclass(frozen=True)
class System:
    text: str
    truth: dict[str, float]
    begin: tuple[float, ...]
    times: np.ndarray
    column: str
    sigma: float

    @property
    def model(self):
        return wf.Model.from_text(self.text)

    def data(self, seed, **more):
        model = self.model
        grid = self.times if self.times[0] == 0 else np.append(0.0, self.times)
        p = np.array([self.truth[name] for name in model.parameters])
        states = wf.simulate(model, p, self.begin, grid, rtol=1e-10).states[-len(self.times) :]
        clean = model.build_map("h", [self.column])(self.times, states, p)
        noise = self.sigma * np.random.default_rng(seed).standard_normal(clean.shape)
        return wf.Dataset(self.times, clean + noise, names=[self.column], **more)


SYSTEMS = {
    "seir": System(
        "S' = -beta*S*I\nE' = beta*S*I - a*E\nI' = a*E - g*I\nS(0) = 0.99\nE(0) = 0.01\nI(0) = 0",
        {"beta": 0.8, "a": 0.5, "g": 0.25},
        (0.99, 0.01, 0.0),
        np.linspace(0, 60, 61),
        "I",
        0.005,
    ),
    "tank": System(
        "x' = q - c*sqrt(x)\ny' = c*sqrt(x) - e*sqrt(y)\nx(0) = 4",
        {"q": 1.0, "c": 0.8, "e": 0.6},
        (4.0, 1.0),
        np.linspace(0, 30, 60),
        "y",
        0.02,
    ),
    "oral": System(
        "A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 300\nB(0) = 0",
        {"ka": 1.2, "ke": 0.25, "V": 30.0},
        (300.0, 0.0),
        np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24]),
        "conc",
        0.1,
    ),
    "enzyme": System(
        "S' = -Vm*S/(Km + S)\nP' = Vm*S/(Km + S)\nsignal = s*P + off\nS(0) = 10\nP(0) = 0",
        {"Vm": 1.0, "Km": 2.0, "s": 3.0, "off": 0.5},
        (10.0, 0.0),
        np.linspace(0, 20, 40),
        "signal",
        0.3,
    ),
    "prey": System(
        "x' = a*x - b*x*y\ny' = -c*y + d*x*y\ny(0) = 1",
        {"a": 3.0, "b": 1.0, "c": 6.0, "d": 1.0},
        (1.0, 1.0),
        np.linspace(0, 5, 60),
        "x",
        0.3,
    ),
    "a million people": System(
        "S' = -beta*S*I/1e6\nI' = beta*S*I/1e6 - g*I\nS(0) = 1e6 - I0\nI(0) = I0",
        {"beta": 0.6, "g": 0.2, "I0": 100.0},
        (1e6 - 100, 100.0),
        np.linspace(0, 80, 81),
        "I",
        300.0,
    ),
    "kelvin": System(
        "T' = -k*(T - Ta) + q*H\nH' = -r*H\nT(0) = 293\nH(0) = 1",
        {"k": 0.1, "Ta": 300.0, "q": 2.0, "r": 0.3},
        (293.0, 1.0),
        np.linspace(0, 40, 60),
        "T",
        2e-3,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "enzyme" else ()) for n in SYSTEMS])
def test_fit_without_bounds_or_start_reaches_the_optimum_near_the_truth(name):
    system = SYSTEMS[name]
    data = system.data(2)
    free = wf.fit(system.model, data)
    near = wf.fit(system.model, data, start=system.truth, starts=1)
    assert free.success
    assert near.success
    assert free.log_likelihood == pytest.approx(near.log_likelihood, abs=0.01)
    for parameter, truth in system.truth.items():
        assert abs(near[parameter].value - truth) < 4 * near[parameter].error


def wald_error(fit, name):
    """Return the standard error from the covariance; `fit.errors` may belong to another kind of interval."""
    return fit.wald_errors[fit.model.parameters.index(name)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_three_methods_agree(name):
    system = SYSTEMS[name]
    data = system.data(1)
    near = {parameter: 1.03 * value for parameter, value in system.truth.items()}
    relaxed, output_error, hybrid = (
        wf.fit(system.model, data, method=method, start=near, starts=1)
        for method in ("wendy", "output-error", "hybrid")
    )
    assert relaxed.method == "relaxed"
    for fit in (output_error, hybrid):
        assert fit.success
        assert fit.log_likelihood == pytest.approx(relaxed.log_likelihood, abs=0.02)
        for parameter in system.truth:
            error = relaxed[parameter].error
            assert abs(fit[parameter].value - relaxed[parameter].value) < 0.05 * error
            assert wald_error(fit, parameter) == pytest.approx(wald_error(relaxed, parameter), rel=0.02)
    assert "started by 'relaxed', was kept" in " ".join(hybrid.notes)


@pytest.mark.slow
def test_all_features_in_one_fit_by_every_method():
    """Local parameters, a log scale, given initial values, missing values, and a first sample after t = 0."""
    model = wf.Model.from_text("A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = dose\nB(0) = 0")
    rng = np.random.default_rng(5)
    parts, rates = [], (0.2, 0.3, 0.45)
    for k, ke in enumerate(rates):
        t = np.array([0.5, 1, 2, 3, 5, 8, 12, 18.0]) + 0.1 * k
        truth = {"ka": 1.5, "ke": ke, "V": 20.0, "dose": 100.0}
        p = [truth[name] for name in model.parameters]
        B = wf.simulate(model, p, [100.0, 0.0], np.append(0, t)).states[1:, 1]
        y = B / 20 * np.exp(0.08 * rng.standard_normal(len(t)))
        y[k] = np.nan
        parts.append(wf.Dataset(t, y, "lognormal", names=["conc"]))
    data = wf.Dataset.join(parts, ["a", "b", "c"])
    settings = {
        "local": ["ke"],
        "fixed": {"dose": 100.0},
        "log": ["ka"],
        "bounds": {"ka": (0.6, 20), "ke": (0.01, 0.6), "V": (1, 200)},
    }
    fits = [wf.fit(model, data, method=method, **settings) for method in ("wendy", "output-error", "hybrid")]
    for fit in fits:
        assert fit.success
        for name, truth in (("ka", 1.5), ("V", 20.0), *((f"ke_{k}", r) for k, r in zip("abc", rates, strict=True))):
            assert abs(fit[name].value - truth) < 4 * fit[name].error
            assert fit[name].value == pytest.approx(fits[0][name].value, rel=1e-3)
            assert wald_error(fit, name) == pytest.approx(wald_error(fits[0], name), rel=0.02)
        assert fit.initial["A"]["b"].value == 100.0
        band = fit.predict(np.array([0.0, 4.0]), trajectory="b")
        assert band["A"][0, 0] == 100.0
        assert band["conc"][1, 1] < band["conc"][1, 0] < band["conc"][1, 2]


@pytest.mark.parametrize("name", ["oral", "enzyme", "tank"])
@pytest.mark.parametrize("additive", [False, True])
def test_jacobian_matches_differences(name, additive):
    system = SYSTEMS[name]
    matched = match(system.data(0, noise="lognormal") if name == "oral" else system.data(0), system.model)
    problem = HiddenStateProblem.build(resolve_parameters(matched.model, matched.data, None, {}), matched.data)
    forward = PartlyObservedResiduals(problem, 1e-11, additive)
    p = np.array([system.truth[parameter] for parameter in problem.model.parameters]) * 1.02
    begin = np.full(forward.initial_value_count, 1.1)
    exact = forward.compute_sensitivity(0, p, begin)
    theta = np.concatenate([p, begin])
    for j in range(len(theta)):
        h = 1e-4 * abs(theta[j])
        ends = []
        for s in (1, -1, 2, -2):
            moved = theta.copy()
            moved[j] += s * h
            ends.append(forward.predict_columns(0, moved[: len(p)], moved[len(p) :]))
        numeric = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        assert np.abs(exact[:, :, j] - numeric).max() <= 2e-5 * np.abs(numeric).max() + 1e-9


def test_state_that_starts_near_zero_grows_only_by_the_model():
    """Once nearly every start ended at E = 0, where the random walk of the last level made E grow."""
    system = System(
        "S' = -beta*S*E\nE' = beta*S*E - gamma*E\nI' = gamma*E - lam*I\nR' = lam*I\n"
        "S(0) = 1 - E0 - I0\nE(0) = E0\nI(0) = I0\nR(0) = 0",
        {"beta": 0.5, "gamma": 0.2, "lam": 1 / 21, "E0": 4e-5, "I0": 1e-5},
        (1 - 5e-5, 4e-5, 1e-5, 0.0),
        np.arange(30.0, 101.0),
        "I",
        5e-4**0.5,
    )
    model = system.model
    p = [system.truth[name] for name in model.parameters]
    states = wf.simulate(model, p, system.begin, np.append(0, system.times), rtol=1e-10).states[1:, 2:]
    values = states + system.sigma * np.random.default_rng([77, 11]).standard_normal(states.shape)
    data = wf.Dataset(system.times, values, sigma=[system.sigma] * 2, names=["I", "R"])
    fit = wf.fit(model, data, bounds=dict.fromkeys(system.truth, (0.0, 1.0)), seed=77, starts=3)
    solved = wf.simulate(model, fit.estimate, fit.nodes[0][1][0], np.append(0, system.times)).states[1:, 2:]
    misfit = np.sum(((solved - values) / system.sigma) ** 2)
    assert misfit == pytest.approx(2 * fit.starts[0].objective, rel=1e-3)
    assert misfit < 180
    for name in ("beta", "gamma", "lam"):
        assert abs(fit[name].value - system.truth[name]) < 4 * fit[name].error


@pytest.mark.parametrize("option", [{"covariance": "paper"}, {"covariance": "sandwich"}, {"solver": "cubic"}])
def test_options_of_the_weak_form_are_refused_by_the_relaxed_model(option):
    system = SYSTEMS["tank"]
    with pytest.raises(FitError, match=rf"'relaxed' does not use the option '{next(iter(option))}'"):
        wf.fit(system.model, system.data(0), options=option)


def test_hybrid_refuses_weak_methods_that_need_every_state():
    system = SYSTEMS["tank"]
    with pytest.raises(FitError, match="weak='irls' needs every state measured"):
        wf.fit(system.model, system.data(0), method="hybrid", options={"weak": "irls"})


def test_search_stays_at_a_near_optimum_and_leaves_a_far_start():
    system = SYSTEMS["oral"]
    data = system.data(3)
    twin = {"ka": 0.25, "ke": 1.2, "V": 6.0}
    for near, low in ((system.truth, 0.6), (twin, 0.0)):
        fit = wf.fit(system.model, data, start=near, starts=1)
        assert fit.status is Status.CONVERGED
        assert (fit["ka"].value > 0.6) == (low > 0)
    far = wf.fit(system.model, data, start={"ka": 6.0, "ke": 1.0, "V": 8.0}, starts=1)
    assert far.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.01)
