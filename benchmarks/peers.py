"""Comparison with other tools: the same data, one random start in the box, one process.

    pip install '.[sbml]' lmfit pysindy copasi-basico swig amici petab pypesto fides   # in a separate environment
    python benchmarks/peers.py [runs, default 20] [problems, separated by commas]

Each tool gets the model, the data, the box and one start in it, and estimates the initial state. The initial state
starts at the first sample, and is limited to three times the largest sample; it is positive if the data are log-normal.
A tool that is not installed is left out.

- *lost*: runs that take more than 20 CPU seconds, or whose sum of squares, solved again from the tool's result, is more
  than 5% above the least of all tools;
- *error*: the relative error of the parameters, as the median over the runs;
- *lines*: what the user has to write, counted as the statements of the function below.

PySINDy supports models that are linear in their parameters. Its weak form gets the terms of the model and estimates no
initial state. Its runs count as lost if the error is more than ten times the median of weakform.
"""

from __future__ import annotations

import ast
import inspect
import logging
import os
import signal
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.integrate import odeint, solve_ivp
from scipy.optimize import least_squares

import weakform as wf
from weakform.files.formats.sbml import to_antimony, to_sbml
from weakform.model.compilation import compile_expressions

warnings.simplefilter("ignore")
PROBLEMS = ("lotka-volterra", "fitzhugh-nagumo", "lorenz", "goodwin")
M, NOISE = 256, 0.05
MAX_SQUARES_RATIO = 1.05
"""Sum of squares over the least of all tools, above which a run is lost."""
MAX_ERROR_RATIO = 10.0
"""Error over the median error of weakform, above which a run of PySINDy is lost."""
MAX_CPU_SECONDS = 20.0
"""CPU seconds of a run, after which it is lost: a solver may take hours if parameters are far off."""


class Task:
    """One data set of a problem, with bounds and a start."""

    def __init__(self, name: str, seed: int) -> None:
        self.problem = wf.problems.get(name)
        self.model = self.problem.model
        self.data = self.problem.simulate(M=M, noise=NOISE, seed=seed)
        self.box = np.array([self.problem.bounds[name] for name in self.model.parameters])
        self.start = np.random.default_rng(seed).uniform(*self.box.T)
        q = self.data.trajectories[0]
        self.t, self.u = q.times, q.values
        self.log = self.data.noise[0] == "lognormal"
        self.scale = 1.0 if self.log else self.u.std(axis=0)
        far = 3 * np.abs(self.u).max(axis=0)
        self.low = np.append(self.box[:, 0], self.u.min(axis=0) / 3 if self.log else -far)
        self.high = np.append(self.box[:, 1], far)
        self.begin = np.append(self.start, self.u[0])
        compiled_f = compile_expressions(["t", *self.model.states, *self.model.parameters], self.model.expressions)
        self.f = lambda t, u, p: compiled_f(np.concatenate([[t], u, p]))

    def residual(self, states: np.ndarray) -> np.ndarray:
        """Return the residuals of states at the samples, the same for all tools."""
        with np.errstate(all="ignore"):
            off = np.log(np.abs(states / self.u)) if self.log else (states - self.u) / self.scale
        return np.nan_to_num(off.ravel(), nan=1e3, posinf=1e3, neginf=-1e3)

    def squares(self, p: np.ndarray, u0: np.ndarray) -> float:
        """Return the sum of squares of a solution; infinite if the model cannot be solved."""
        try:
            states = wf.simulate(self.model, p, u0, self.t).states
        except wf.WeakformError:
            return np.inf
        return float(np.sum(self.residual(states) ** 2)) if states.shape == self.u.shape else np.inf

    def sbml(self) -> str:
        """Return the model as SBML, with parameters and initial values at the start."""
        values = dict(zip(self.model.parameters, self.start, strict=True))
        return to_sbml(to_antimony(self.model, values, dict(zip(self.model.states, self.u[0], strict=True))))

    def sbml_free(self) -> str:
        """Return the model as SBML, in which the initial value of each state `x` is a parameter `x_0`."""
        values = dict(zip(self.model.parameters, self.start, strict=True))
        text = to_antimony(self.model, values, dict(zip(self.model.states, self.u[0], strict=True)))
        for state in self.model.states:
            text = text.replace(f"  {state} = ", f"  {state} = {state}_0;\n  {state}_0 = ", 1)
        return to_sbml(text)

    def monomials(self) -> tuple[list, list] | None:
        """Return the terms of a model that is linear in its parameters; None for any other model.

        The first list has the exponents of the states in each term. The second one has, for each parameter, the
        equation, the exponents and the factor of a term that contains it.
        """
        import sympy

        states = [sympy.Symbol(name) for name in self.model.states]
        right = [sympy.expand(f) for f in self.model.to_sympy().values()]
        powers, terms = set(), {}
        for d, f in enumerate(right):
            if not f.is_polynomial(*states):
                return None
            for exponents, factor in sympy.Poly(f, *states).terms():
                powers.add(exponents)
                for symbol in factor.free_symbols:
                    if factor.diff(symbol).free_symbols:
                        return None
                    terms.setdefault(str(symbol), (d, exponents, float(factor.diff(symbol))))
        return sorted(powers), [terms[name] for name in self.model.parameters]

    def error(self, p: np.ndarray) -> float:
        """Return the relative error of the parameters."""
        truth = self.problem.parameters
        return float(np.linalg.norm(p - truth) / np.linalg.norm(truth))


def weakform(task: Task) -> tuple[np.ndarray, np.ndarray]:
    fit = wf.fit(task.model, task.data, bounds=task.problem.bounds, start=task.start, starts=1)
    return fit.estimate, fit.denoised[0][0]


def weakform_alone(task: Task) -> tuple[np.ndarray, np.ndarray]:
    fit = wf.fit(task.model, task.data, bounds=task.problem.bounds)
    return fit.estimate, fit.denoised[0][0]


def scipy_solve_ivp(task: Task) -> tuple[np.ndarray, np.ndarray]:
    J = len(task.start)

    def residual(theta):
        span = task.t[[0, -1]]
        solution = solve_ivp(task.f, span, theta[J:], method="LSODA", t_eval=task.t, args=(theta[:J],), rtol=1e-6)
        states = np.full(task.u.shape, np.nan)
        states[: solution.y.shape[1]] = solution.y.T
        return task.residual(states)

    result = least_squares(residual, task.begin, bounds=(task.low, task.high), x_scale="jac")
    return result.x[:J], result.x[J:]


def lmfit_odeint(task: Task) -> tuple[np.ndarray, np.ndarray]:
    import lmfit

    parameters = lmfit.Parameters()
    for k, (value, low, high) in enumerate(zip(task.begin, task.low, task.high, strict=True)):
        parameters.add(f"p{k}", value=value, min=low, max=high)
    J = len(task.start)

    def residual(values):
        theta = np.array([values[name].value for name in values])
        states = odeint(task.f, theta[J:], task.t, args=(theta[:J],), tfirst=True, rtol=1e-6, atol=1e-9)
        return task.residual(states)

    result = lmfit.minimize(residual, parameters)
    theta = np.array([result.params[name].value for name in result.params])
    return theta[:J], theta[J:]


def copasi(task: Task) -> tuple[np.ndarray, np.ndarray]:
    import basico
    import pandas as pd

    model = basico.load_model_from_string(task.sbml())
    table = pd.DataFrame(task.u, columns=[f"Values[{name}]" for name in task.model.states])
    table.insert(0, "Time", task.t)
    basico.add_experiment("data", table, model=model)
    names = [*task.model.parameters, *task.model.states]
    items = [
        {"name": f"Values[{name}].InitialValue", "lower": a, "upper": b, "start": x}
        for name, a, b, x in zip(names, task.low, task.high, task.begin, strict=True)
    ]
    basico.set_fit_parameters(items, model=model)
    result = basico.run_parameter_estimation(method="Levenberg - Marquardt", model=model)
    theta = result["sol"].to_numpy()
    basico.remove_datamodel(model)
    return theta[: len(task.start)], theta[len(task.start) :]


def pypesto_amici(task: Task, optimizer: str = "Scipy") -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd
    import petab.v1 as petab
    import pypesto.optimize
    import pypesto.petab
    from petab.v1.models.sbml_model import SbmlModel

    states, name = task.model.states, task.problem.name.replace("-", "_")
    parameters = pd.DataFrame({"parameterId": [*task.model.parameters, *(f"{s}_0" for s in states)]})
    parameters = parameters.assign(parameterScale="lin", nominalValue=task.begin, estimate=1).set_index("parameterId")
    parameters = parameters.assign(lowerBound=task.low, upperBound=task.high)
    observables = pd.DataFrame({"observableId": [f"of_{s}" for s in states], "observableFormula": states})
    observables["observableTransformation"] = "log" if task.log else "lin"
    observables["noiseFormula"] = task.scale
    table = pd.DataFrame({"time": np.repeat(task.t, len(states)), "measurement": task.u.ravel()})
    table = table.assign(observableId=np.tile(observables["observableId"], len(task.t)), simulationConditionId="data")
    problem = petab.Problem(
        model=SbmlModel.from_string(task.sbml_free(), name),
        condition_df=pd.DataFrame(index=pd.Index(["data"], name="conditionId")),
        measurement_df=table,
        parameter_df=parameters,
        observable_df=observables.set_index("observableId"),
    )
    importer = pypesto.petab.PetabImporter(problem, name, name, validate_petab=False)
    problem = importer.create_problem(verbose=False)
    problem.set_x_guesses(task.begin[None])
    chosen = getattr(pypesto.optimize, f"{optimizer}Optimizer")()
    result = pypesto.optimize.minimize(problem, chosen, n_starts=1, progress_bar=False)
    theta = result.optimize_result.list[0].x
    return theta[: len(task.start)], theta[len(task.start) :]


def monomial(u: tuple, e: tuple) -> np.ndarray:
    """Return the product of powers of the states."""
    return np.prod([x**k for x, k in zip(u, e, strict=True)], axis=0)


# PySINDy counts the arguments of a library function, so there is one form for each number of states.
TERM: dict[int, Callable] = {
    2: lambda e, kind=None: lambda a, b: kind(e) if kind else monomial((a, b), e),
    3: lambda e, kind=None: lambda a, b, c: kind(e) if kind else monomial((a, b, c), e),
}


def pysindy_weak(task: Task) -> tuple[np.ndarray, None]:
    import pysindy as ps

    powers, parameters = task.monomials()
    columns = [TERM[len(e)](e) for e in powers]
    functions = ps.CustomLibrary(library_functions=columns, function_names=[TERM[len(e)](e, str) for e in powers])
    library = ps.WeakPDELibrary(function_library=functions, spatiotemporal_grid=task.t, is_uniform=True, K=200)
    model = ps.SINDy(feature_library=library, optimizer=ps.STLSQ(threshold=0.0, alpha=0.0))
    model.fit(task.u, t=task.t)
    coefficients = model.coefficients()
    return np.array([coefficients[d, powers.index(e)] / factor for d, e, factor in parameters]), None


TOOLS: dict[str, tuple[Callable, str | None]] = {
    "weakform, no start": (weakform_alone, None),
    "weakform": (weakform, None),
    "SciPy least_squares, solve_ivp": (scipy_solve_ivp, None),
    "lmfit, odeint": (lmfit_odeint, "lmfit"),
    "COPASI (basico), Levenberg–Marquardt": (copasi, "basico"),
    "pyPESTO, AMICI, L-BFGS-B": (pypesto_amici, "amici"),
    "pyPESTO, AMICI, Fides": (partial(pypesto_amici, optimizer="Fides"), "amici"),
    "PySINDy, weak form": (pysindy_weak, "pysindy"),
}


def lines(function: Callable) -> int:
    """Count the statements of a function, without itself and its imports."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(function, "func", function)))).body[0]
    kinds = (ast.stmt,)
    return sum(isinstance(n, kinds) and not isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(tree)) - 1


def stop_run(*_: object) -> None:
    """End a run that takes too long."""
    raise TimeoutError(f"more than {MAX_CPU_SECONDS:g} CPU seconds")


def main() -> None:
    signal.signal(signal.SIGPROF, stop_run)
    logging.disable(logging.CRITICAL)
    os.chdir(tempfile.mkdtemp())  # COPASI and AMICI write files into the working folder
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    names = sys.argv[2].split(",") if len(sys.argv) > 2 else PROBLEMS
    tools = {name: estimate for name, (estimate, needs) in TOOLS.items() if needs is None or find_spec(needs)}
    print(f"M = {M}, {NOISE:.0%} noise, {runs} runs; left out: {', '.join(set(TOOLS) - set(tools)) or 'none'}")
    for problem in names:
        tasks = [Task(problem, seed) for seed in range(runs)]
        results: dict[str, list[tuple[float, float, float]]] = {}
        for name, estimate in tools.items():
            if estimate is pysindy_weak and tasks[0].monomials() is None:
                continue
            with suppress(Exception):
                estimate(Task(problem, 99))  # compilation and imports are not counted
            for task in tasks:
                begin = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
                try:
                    p, u0 = estimate(task)
                except Exception as error:  # any error of a tool is a lost run
                    print(f"    {name}, {problem}: {type(error).__name__} {str(error)[:100]}")
                    p, u0 = np.full(len(task.start), np.inf), None
                signal.setitimer(signal.ITIMER_PROF, 0)
                spent = time.process_time() - begin
                squares = np.nan if u0 is None else task.squares(p, u0)
                results.setdefault(name, []).append((task.error(p), squares, spent))
        least = np.nanmin([[squares for _, squares, _ in rows] for rows in results.values()], axis=0)
        median_error = np.median([error for error, _, _ in results["weakform, no start"]])
        print(f"\n{problem}\n| tool | lost | error | CPU s | lines |\n|---|---|---|---|---|")
        for name, rows in results.items():
            error, squares, spent = np.array(rows).T
            lost = np.where(
                np.isnan(squares), ~(error <= MAX_ERROR_RATIO * median_error), squares > MAX_SQUARES_RATIO * least
            )
            print(
                f"| {name} | {lost.sum()} of {runs} | {np.median(error):.2%} | {np.median(spent):.3f} "
                f"| {lines(tools[name])} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
