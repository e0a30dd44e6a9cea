"""Screening of many draws of the parameters by their weak residual on a few windows of the data.

The weak residual of a dozen test functions tells good starts from hopeless ones. All draws go through the compiled
right-hand side in one call. The parameters in which the model is linear are solved for, draw by draw, by their normal
equations on the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support.array_types import FloatArray, IntArray
from ..weak.weak_form import WeakForm
from ..weak.weak_problem import WeakProblem
from .estimation_problem import Task

TOTAL_WINDOWS = 16
"""Test functions on which draws are compared, over all trajectories together. By judgement."""
MIN_WINDOWS_PER_TRAJECTORY = 2
"""Test functions of a trajectory where there are many trajectories. By judgement."""
RELATIVE_RIDGE = 1e-12
"""Ridge of the normal equations, whose columns have unit length: it keeps them solvable where a parameter has no effect
in the windows, and is far below anything that the data tell. By judgement."""


@dataclass(frozen=True)
class _Windows:
    """Some test functions of one trajectory, each with the samples in its support.

    Attributes
    ----------
    form : WeakForm
    samples : ndarray of int, (windows, width)
        Samples in the support of each test function, padded with zeros.
    phi : ndarray, (windows, width)
        Values of the test functions there, zero where padded.
    left_side : ndarray, (windows, D)
        `Φ'u` of the weak equations.
    """

    form: WeakForm
    samples: IntArray
    phi: FloatArray
    left_side: FloatArray

    @classmethod
    def select(cls, form: WeakForm, count: int) -> _Windows:
        """Select about `count` test functions, spread evenly over the trajectory."""
        functions = form.functions
        chosen = np.unique(np.linspace(0, functions.count - 1, count).round().astype(int))
        rows = []
        for block, within in zip(*np.divmod(chosen, functions.length), strict=True):
            support = np.flatnonzero(functions.phi[block, within])
            support = support[functions.window[block, support] < functions.samples]
            rows.append((functions.window[block, support], functions.phi[block, within, support], (block, within)))
        width = max(len(samples) for samples, _, _ in rows)
        samples = np.zeros((len(rows), width), dtype=np.intp)
        phi = np.zeros((len(rows), width))
        for k, (indices, values, _) in enumerate(rows):
            samples[k, : len(indices)], phi[k, : len(indices)] = indices, values
        return cls(form, samples, phi, np.array([form.left_side[block, :, within] for _, _, (block, within) in rows]))

    def evaluate(self, P: FloatArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Compute the weak residuals of draws, and their derivatives by some parameters.

        Parameters
        ----------
        P : ndarray, (draws, J)
        columns : ndarray of int
            Parameters of the derivatives.

        Returns
        -------
        residuals : ndarray, (draws, windows, D)
        derivatives : ndarray, (draws, windows, D, columns)
        """
        form, system = self.form, self.form.system
        at, draws = self.samples.ravel(), len(P)
        times = form.times[at]
        driven = None if system.inputs is None else np.tile(system.inputs(times), (draws, 1))
        names = ("f", "fp") if len(columns) else ("f",)
        u, own = np.tile(form.u[at], (draws, 1)), np.repeat(P, len(at), axis=0)
        rows = system.evaluate_rows(np.tile(times, draws), u, own, names, driven).reshape(
            draws, *self.samples.shape, -1
        )
        summed = np.einsum("wn,qwni->qwi", self.phi, rows)
        # The rows hold the structural nonzeros of f, then those of fp; `place` gives the tensor entry of each.
        place = system.index_columns(names)
        first = len(system.differentiate_tensor("f"))
        r = np.broadcast_to(self.left_side, (draws, *self.left_side.shape)).copy()
        r[:, :, place[:first, 0]] += summed[:, :, :first]
        G = np.zeros((*r.shape, len(columns)))
        for i, (a, j) in enumerate(place[first:], first):
            (column,) = np.nonzero(columns == j)
            if len(column):
                G[:, :, a, column[0]] = summed[:, :, i]
        return r, G


def screen_draws(task: Task, P: FloatArray) -> list[FloatArray]:
    """Rank draws by their weak residual and drop those whose residual is not finite.

    Parameters
    ----------
    task : Task
    P : ndarray, (draws, J)

    Returns
    -------
    list of ndarray, (J,)
        The most promising first; the parameters in which the model is linear are replaced by their least-squares
        values, clipped into the box.
    """
    windows = _select_windows(task.weak)
    linear = np.flatnonzero(task.linear) if not task.is_linear else np.zeros(0, dtype=np.intp)
    weights = task.weak.state_weights
    best = np.full(len(P), np.inf)
    P = P.copy()
    for value in (0.0, 1.0):  # a quotient of parameters may not exist at zero
        todo = ~np.isfinite(best)
        if not todo.any() or (value and not len(linear)):
            break
        Q = P[todo]
        Q[:, linear] = np.clip(value, task.lower[linear], task.upper[linear])
        with np.errstate(all="ignore"):
            parts = [window.evaluate(Q, linear) for window in windows]
            r = np.concatenate([a * weights for a, _ in parts], axis=1).reshape(len(Q), -1)
            G = np.concatenate([b * weights[:, None] for _, b in parts], axis=1).reshape(*r.shape, len(linear))
            good = np.isfinite(r).all(axis=1) & np.isfinite(G).all(axis=(1, 2))
            theta = np.zeros((len(Q), len(linear)))
            if len(linear) and good.any():
                theta[good] = _solve_draws(G[good], r[good])
                moved = np.clip(Q[:, linear] + theta, task.lower[linear], task.upper[linear])
                theta = moved - Q[:, linear]
                Q[:, linear] = moved
            # The model is affine in theta: r + G theta is the residual after the step, without another evaluation.
            size = np.sum((r + np.einsum("qri,qi->qr", G, theta)) ** 2, axis=1)
        P[todo], best[todo] = Q, np.where(good & np.isfinite(size), size, np.inf)
    order = np.argsort(best, kind="stable")
    return [P[k] for k in order if np.isfinite(best[k])]


def _select_windows(problem: WeakProblem) -> list[_Windows]:
    """Select windows of all trajectories, or of at most `TOTAL_WINDOWS` of them if they share all parameters."""
    forms = problem.forms
    if not problem.model.variants:
        forms = forms[:: -(-len(forms) // TOTAL_WINDOWS)]
    return [_Windows.select(form, max(TOTAL_WINDOWS // len(forms), MIN_WINDOWS_PER_TRAJECTORY)) for form in forms]


def _solve_draws(G: FloatArray, r: FloatArray) -> FloatArray:
    """Solve the least-squares problem of each draw, `argmin ‖r + G θ‖`, with columns scaled to unit length.

    Parameters
    ----------
    G : ndarray, (draws, rows, columns)
    r : ndarray, (draws, rows)

    Returns
    -------
    ndarray, (draws, columns)
    """
    size = np.maximum(np.sqrt(np.einsum("qri,qri->qi", G, G)), np.finfo(float).tiny)
    G = G / size[:, None, :]
    gram = G.transpose(0, 2, 1) @ G + RELATIVE_RIDGE * np.eye(G.shape[2])
    return np.asarray(-np.linalg.solve(gram, np.einsum("qri,qr->qi", G, r)[:, :, None])[:, :, 0] / size)
