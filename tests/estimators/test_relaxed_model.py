"""The relaxed model: its refinement on finer and finer meshes, and when further starts are not needed."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from weakform.collocation.continuation import Point, compute_information
from weakform.collocation.hidden_state_problem import HiddenStateProblem, MeshStates
from weakform.data.matching import match
from weakform.estimators import Outcome, Status, relaxed_model
from weakform.estimators.estimation_problem import Task
from weakform.parameters import resolve_parameters
from weakform.parameters.working_scale import WorkingScale
from weakform.results.options import Options
from weakform.support.progress import Watch


def hidden_problem(text, t, values, names):
    matched = match(wf.Dataset(t, values, names=names, sigma=0.1), wf.Model.from_text(text))
    return HiddenStateProblem.build(resolve_parameters(matched.model, matched.data), matched.data)


def test_residuals_belong_to_the_last_mesh_even_if_no_mesh_is_fine_enough(monkeypatch):
    model = wf.Model.from_text("A' = -k1*A\nB' = k1*A - k2*B\nC' = k2*B - k3*C\nA(0) = 1\nB(0) = 0\nC(0) = 0")
    t = np.linspace(0, 20, 25)
    exact = wf.simulate(model, [0.5, 0.3, 0.2], [1.0, 0.0, 0.0], t).states[:, 2:]
    data = wf.Dataset(
        t, exact + 0.005 * np.random.default_rng(0).standard_normal(exact.shape), names=["C"], sigma=0.005
    )
    plain = wf.fit(model, data, method="relaxed", start={"k1": 0.5, "k2": 0.3, "k3": 0.2}, starts=1)
    never_fine = replace(relaxed_model.DISCRETISATION, max_bias=-1.0)
    monkeypatch.setattr(relaxed_model, "DISCRETISATION", never_fine)
    forced = wf.fit(model, data, method="relaxed", start={"k1": 0.5, "k2": 0.3, "k3": 0.2}, starts=1)
    assert len(forced.nodes[0][0]) > len(plain.nodes[0][0])
    assert abs(forced.log_likelihood - plain.log_likelihood) < 0.01
    assert forced.status is plain.status


@pytest.mark.parametrize("given", ["", "\nx(0) = 1"])
def test_agreeing_starts_suffice_if_every_state_is_measured_but_not_in_small_problem_with_hidden_states(given):
    t, text, free = np.linspace(0, 2, 9), "x' = a*x - b*x*y\ny' = -c*y + d*x*y" + given, np.ones(4, dtype=bool)
    unbounded = np.full(4, np.inf)
    values = np.column_stack([1 + t, 2 + t])
    outcomes = [Outcome(np.ones(4), 1.0, Status.CONVERGED, 1, 1)] * 3
    for names, enough in ((["x", "y"], True), (["y", "x"], True), (["x"], False), (["y"], False)):
        problem = hidden_problem(text, t, values[:, : len(names)], names)
        task = Task(
            problem,
            free,
            np.full(4, np.nan),
            -unbounded,
            unbounded,
            ~free,
            Options(),
            Watch(np.inf),
            WorkingScale(~free),
        )
        assert relaxed_model.has_agreeing_starts(task, outcomes) is enough
        assert not relaxed_model.has_agreeing_starts(task, outcomes[:1])


def find_intervals_to_halve(slope):
    """Return which of the intervals between 0, 6, …, 48 are to be halved where `u = t/2`."""
    t = 6 * np.arange(9.0)  # the weights h/6 and h/12 have no rounding error
    problem = hidden_problem(f"u' = {slope}\nu(0) = 0", t, t[:, None] / 2, ["u"])
    relaxed = problem.build_relaxed_model((t,), np.array([0.1]), np.ones(1, dtype=bool))
    at = MeshStates((t,), Point(np.array([0.5]), relaxed.layout.times[:, None] / 2))
    bordered, H, _ = compute_information(relaxed, at.point.p, at.point.X)
    _, _, halve = relaxed_model._measure_discretisation(problem, relaxed, at, bordered, H)
    return halve[relaxed.layout.inner]


def test_only_intervals_with_large_truncation_error_are_halved():
    """Simpson's rule is exact for a constant; its error for t⁸ grows with the fourth derivative, 1680 t⁴."""
    assert not find_intervals_to_halve("k").any()
    errors = np.arange(0.5, 8) ** 4
    halve = find_intervals_to_halve("k*t**8")
    assert halve[errors > 0.2 * errors[-1]].all()
    assert not halve[errors < 0.002 * errors[-1]].any()
