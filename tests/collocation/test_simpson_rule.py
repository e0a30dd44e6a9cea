"""Simpson's rule and its refinement: the same for measured states (`Mesh`) and hidden ones (`HiddenStateProblem`)."""

import numpy as np

import weakform as wf
from weakform.collocation.continuation import Point
from weakform.collocation.hidden_state_problem import HiddenStateProblem, refine_meshes
from weakform.collocation.mesh import Mesh, MeshPart
from weakform.collocation.simpson_rule import improve_midpoints, insert_midpoints
from weakform.data.matching import build_system, match
from weakform.parameters import resolve_parameters

PREY = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")


def both_problems():
    """Two trajectories of different length as a `Mesh` and as a relaxed problem on the same nodes."""
    rng = np.random.default_rng(0)
    sets = [wf.Dataset(np.linspace(0, 2, n), rng.uniform(0.5, 2, (n, 2)), names=["x", "y"]) for n in (9, 6)]
    matched = match(wf.Dataset.join(sets), PREY)
    parameters = resolve_parameters(matched.model, matched.data)
    problem = HiddenStateProblem.build(parameters, matched.data)
    parts = [
        MeshPart(build_system(matched.model, matched.data, k), q.times, q.values, q.measured)
        for k, q in enumerate(matched.data.trajectories)
    ]
    meshes = tuple(q.times for q in matched.data.trajectories)
    sigma, p = np.ones(2), np.array([3.0, 1.0, 6.0, 1.0])
    X = np.concatenate([np.concatenate([part.data[:1], part.data]) for part in parts])
    return problem, meshes, problem.build_relaxed_model(meshes, sigma, parameters.free), X, Mesh.from_parts(parts), p


def test_defects_are_equal():
    _, _, relaxed, X, mesh, p = both_problems()
    assert np.allclose(
        relaxed.compute_constraint(p, X)[relaxed.layout.inner],
        mesh.compute_defects(p, mesh.data),
        rtol=1e-13,
        atol=1e-15,
    )


def test_refined_meshes_are_equal():
    problem, meshes, relaxed, X, mesh, p = both_problems()
    halves, states = refine_meshes(relaxed, meshes, Point(p, X), relaxed.layout.inner)
    fine = problem.build_relaxed_model(halves, relaxed.sigma, relaxed.free)
    begins = np.flatnonzero(fine.layout.inner)
    first, second = begins[::2], begins[1::2]
    states = improve_midpoints(lambda X: fine.compute_constraint(p, X), states, second, (first, second))
    halved, expected = mesh.halve_intervals(p, mesh.data)
    assert (np.concatenate(halves) == halved.times).all()
    assert np.allclose(states[~fine.layout.ahead], expected, rtol=1e-13)


def test_midpoints_are_inserted_into_marked_intervals_only():
    values, old, new = insert_midpoints(np.array([0.0, 1.0, 2.0, 5.0]), np.array([0, 2]), np.array([0.5, 3.5]))
    assert values.tolist() == [0.0, 0.5, 1.0, 2.0, 3.5, 5.0]
    assert old.tolist() == [0, 2, 3, 5]
    assert new.tolist() == [1, 4]
