"""Weak forms of the benchmark problems, built once."""

from functools import cache
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.basis import TestFunctions
from weakform.noise.level import estimate_sigma
from weakform.weak.likelihood import WeakForm

EXAMPLES = Path(__file__).parent.parent / "examples"
ALL = wf.problems.names()


def form_of(problem, data, basis) -> WeakForm:
    system = problem.model.system(data.noise)
    trajectory = data.trajectories[0]
    sigma = estimate_sigma(system.to_working(trajectory.values))
    return WeakForm(system, trajectory.times, trajectory.values, sigma**2, basis.build(trajectory))


@cache
def local_form(name: str, M: int = 150, noise: float = 0.05, seed: int = 1) -> WeakForm:
    problem = wf.problems.get(name)
    return form_of(problem, problem.simulate(M=M, noise=noise, seed=seed), wf.Local())


def as_dense(functions: TestFunctions) -> TestFunctions:
    """The same functions as one block with one window."""
    phi, dphi = functions.dense()
    start = np.zeros(1, dtype=np.intp)
    return TestFunctions(phi[None], dphi[None], start, functions.samples, len(phi), functions.radius, "dense")


def with_functions(form: WeakForm, functions: TestFunctions) -> WeakForm:
    return WeakForm(form.system, form.times, form.u, form.variance, functions)


def points(name: str, count: int = 3) -> list[np.ndarray]:
    """Parameters near the truth and somewhere in the box."""
    problem = wf.problems.get(name)
    rng = np.random.default_rng(5)
    near = [problem.parameters * (1 + 0.1 * rng.standard_normal(problem.model.parameters.__len__()))]
    low, high = np.array(problem.box).T
    inside = [low + (high - low) * rng.uniform(0.2, 0.8, len(low)) for _ in range(count - 1)]
    return near + inside
