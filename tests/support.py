"""Shared by several tests: benchmark problems and their weak forms, small models, data sets and studies."""

import json
from functools import cache
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.basis import TestFunctions
from weakform.collocation import simpson_rule
from weakform.collocation.mesh import Mesh, MeshPart
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.store import Store
from weakform.forward.solver import simulate
from weakform.linalg import interval_chain, saddle_point
from weakform.noise.noise_filter import estimate_sigma
from weakform.weak.weak_likelihood import WeakForm

EXAMPLES = Path(__file__).parent.parent / "examples"
ALL = wf.problems.names()
LV = wf.problems.get("lotka-volterra")
MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">'

MODELS = {
    "numbers": "x' = 0.1234567890123456*a*x + 1e-30*x**2.5 - 3*x/7",
    "functions": "x' = -a*exp(-b*x**2)/(1 + x**n) + sqrt(x)*log(1 + c*x) - 2**x",
    "second order": "theta'' = -k*sin(theta) - c*theta' + tanh(theta)**2",
    "inverse functions": "x' = atan(a*x) + erf(b*x) - abs(x)*pi + asinh(x)/(a - b)**2",
}

# A sine and a cosine at 30 times.

T = np.linspace(0, 5, 30)
U = np.column_stack([np.sin(T) + 2, np.cos(T) + 2])

# Logistic growth and decay at 60 times.

LOGISTIC = wf.Model.from_text("N' = r*N*(1 - N/K)")
TIMES = np.linspace(0, 10, 60)
DRAWS = np.random.default_rng(0).standard_normal(60)
GROWN = 10 / (1 + 9 * np.exp(-TIMES))
GROWTH = wf.Dataset(TIMES, GROWN + 0.1 * DRAWS)
DECAYED = wf.Dataset(TIMES, 5 * np.exp(-0.3 * TIMES) + 0.05 * DRAWS)


def growth(r, K=10.0, seed=1, sigma=0.3) -> wf.Dataset:
    noise = sigma * np.random.default_rng(seed).standard_normal(60)
    return wf.Dataset(TIMES, K / (1 + (K - 1) * np.exp(-r * TIMES)) + noise, names=["N"])


LINEAR = wf.Model.from_text("u' = -k*u")


def decay(seed, n=60, sigma=0.03) -> wf.Dataset:
    t = np.linspace(0, 3, n)
    return wf.Dataset(t, 2 * np.exp(-0.7 * t) + sigma * np.random.default_rng(seed).standard_normal(n))


# Fits of the benchmark problems.


def values_at(problem, times, noise, seed) -> np.ndarray:
    """Simulate noisy states of a problem at any times, `(time, D)`."""
    grid = np.concatenate([[0.0], times]) if times[0] > 0 else times
    states = simulate(problem.model, problem.parameters, problem.initial, grid, rtol=1e-10).states[-len(times) :]
    sigma = noise * np.sqrt(np.mean(states**2))
    return states + sigma * np.random.default_rng(seed).standard_normal(states.shape)


def fitted(name="lotka-volterra", M=256, noise=0.05, seed=3, **options):
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=noise, seed=seed)
    return problem, data, wf.fit(problem.model, data, bounds=problem.bounds, **options)


def relative_error(problem, fit) -> float:
    return np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters)


# Weak forms and meshes of the benchmark problems.


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
    """Return the same test functions as one block with one window."""
    phi, dphi = functions.to_dense()
    start = np.zeros(1, dtype=np.intp)
    return TestFunctions(phi[None], dphi[None], start, functions.samples, len(phi), functions.radius, "dense")


def with_functions(form: WeakForm, functions: TestFunctions) -> WeakForm:
    return WeakForm(form.system, form.times, form.u, form.variance, functions)


def points(name: str, count: int = 3) -> list[np.ndarray]:
    """Return parameters near the truth, and others inside the box."""
    problem = wf.problems.get(name)
    rng = np.random.default_rng(5)
    near = [problem.parameters * (1 + 0.1 * rng.standard_normal(len(problem.model.parameters)))]
    low, high = np.array(problem.box).T
    inside = [low + (high - low) * rng.uniform(0.2, 0.8, len(low)) for _ in range(count - 1)]
    return near + inside


def mesh_of(name, M=60, noise=0.02):
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=noise, seed=1)
    q = data.trajectories[0]
    system = problem.model.system(data.noise)
    return problem, data, Mesh.from_parts([MeshPart(system, q.times, system.to_working(q.values), q.measured)])


# The compiled kernels.


def use_numpy(monkeypatch) -> None:
    """Replace the compiled kernels by their equivalents in NumPy and LAPACK."""
    for module in (interval_chain, simpson_rule, saddle_point):
        monkeypatch.setattr(module, "load_library", lambda: None)


# Studies.

SMALL = {
    "name": "small",
    "runs": 3,
    "methods": ["wls", "mle"],
    "cells": [{"problems": ["logistic", "lotka-volterra"], "noise": [0.05, 0.1], "samples": [40]}],
}


def toml(study) -> str:
    """Return a study as the text of a TOML file."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in study.items() if key != "cells"]
    for block in study["cells"]:
        lines += ["[[cells]]", *(f"{key} = {json.dumps(value)}" for key, value in block.items())]
    return "\n".join(lines) + "\n"


def inside(runs):
    """Execute runs in this process."""
    for run in runs:
        yield run, perform_run(run)


def numbers(path) -> list[dict]:
    """Return the rows of a store without the durations, which differ from run to run."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "cpu")} for row in Store(path).rows()]


def alike(left, right) -> None:
    assert json.dumps(left) == json.dumps(right)
