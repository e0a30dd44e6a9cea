"""The finest test functions: one box for each sampling interval.

With φ = 1 on [t_m, t_{m+1}], integration by parts leaves `-⟨φ', x⟩ = x(t_{m+1}) - x(t_m)`: the weak equation reads

    c_m(p, x) = x_{m+1} - x_m - h/6 (f_m + 4 f_{m+½} + f_{m+1}) = 0
    x_{m+½} = (x_m + x_{m+1})/2 + h/8 (f_m - f_{m+1})

by Simpson's rule with the cubic Hermite midpoint (fourth order, A-stable). M such equations for M + 1 states leave no
information in the data unused. They are a constraint on the noise-free states: of all states that obey them the most
probable are those nearest to the data,

    minimise ½ Σ (x^data - x)²/v   over p and x   subject to c(p, x) = 0,

solved by Gauss–Newton steps on the linearised constraint (Gauss–Helmert). At (p, x̂), with e = x^data - x̂, A = ∂c/∂x,
G = ∂c/∂p, S = A diag(v) Aᵀ and ρ = c + A e:

    δp = -(Gᵀ S⁻¹ G)⁻¹ Gᵀ S⁻¹ ρ,     z = S⁻¹(ρ + G δp),     x̂ ← x^data - diag(v) Aᵀ z,     Cov p̂ = (Gᵀ S⁻¹ G)⁻¹.

S is banded with 2D - 1 sub-diagonals: a step costs O(M D²(D + J)). A value that was not measured has a large v and is
put back to its current estimate before each step, so that it carries no weight; a finer mesh is data with such rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..linalg.banded import Banded
from ..model.system import System
from ..support.typing import FloatArray

SUBSTEPS = 16
"""Steps of the solution by which the rule on an interval is checked."""
AFTER = 1e-9
"""How far before the end of a step it ends: an input may jump there."""
LATENT = 1e6
"""Variance of a value that was not measured, in units of that of one that was."""


@dataclass(frozen=True)
class Mesh:
    """One trajectory on the nodes of a mesh.

    Attributes
    ----------
    system : System
    times : ndarray, (nodes,)
    data : ndarray, (nodes, D)
        In working coordinates; anything finite where not measured.
    measured : ndarray of bool, (nodes, D)
    scale : ndarray, (nodes, D), or None for ones
        Standard deviation of each value relative to the σ of its state.
    """

    system: System
    times: FloatArray
    data: FloatArray
    measured: NDArray[np.bool_]
    scale: FloatArray | None = None

    def variances(self, sigma: FloatArray) -> FloatArray:
        """Of the noise, `(nodes, D)`, from that of the states `(D,)`."""
        v = np.where(self.measured, 1.0, LATENT)
        if self.scale is not None:
            v = np.where(self.measured, self.scale**2, v)
        return np.asarray(v * sigma**2)

    def residuals(self, x: FloatArray) -> FloatArray:
        """`x^data - x` over the scale, zero where not measured, `(nodes, D)`."""
        e = np.where(self.measured, self.data - x, 0.0)
        return e if self.scale is None else np.where(self.measured, e / self.scale, 0.0)

    def _evaluate(
        self, times: FloatArray, x: FloatArray, p: FloatArray, names: tuple[str, ...], before: bool = False
    ) -> list[FloatArray]:
        """Dense tensors with time first, `(nodes, D, ...)`."""
        D, J = self.system.D, self.system.J
        shapes = {"f": (D,), "fu": (D, D), "fp": (D, J)}
        tensors = self.system.evaluate(times, self.system.from_working(x), p, names, before)
        return [np.moveaxis(tensors[name].dense(shapes[name]), -1, 0) for name in names]

    def _ends(self, x: FloatArray, p: FloatArray, names: tuple[str, ...]) -> list[tuple[FloatArray, FloatArray]]:
        """Tensors at the left and at the right end of each interval; they differ at a node where an input jumps."""
        after = self._evaluate(self.times, x, p, names)
        if not self.system.jumps:
            return [(tensor[:-1], tensor[1:]) for tensor in after]
        before = self._evaluate(self.times[1:], x[1:], p, names, before=True)
        return [(a[:-1], b) for a, b in zip(after, before, strict=True)]

    def _middle(self, x: FloatArray, f: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        h = np.diff(self.times)
        return self.times[:-1] + h / 2, 0.5 * (x[1:] + x[:-1]) + h[:, None] / 8 * (f[0] - f[1])

    def defects(self, p: FloatArray, x: FloatArray) -> FloatArray:
        """`c(p, x)`, `(intervals, D)`."""
        h = np.diff(self.times)[:, None]
        ((f0, f1),) = self._ends(x, p, ("f",))
        (middle,) = self._evaluate(*self._middle(x, (f0, f1)), p, ("f",))
        return np.asarray(x[1:] - x[:-1] - h / 6 * (f0 + 4 * middle + f1))

    def linearise(self, p: FloatArray, x: FloatArray) -> Linearised:
        """`c` and its derivatives at (p, x)."""
        h = np.diff(self.times)[:, None]
        names = ("f", "fu", "fp")
        (f0, f1), (F0, F1), (fp0, fp1) = self._ends(x, p, names)
        fm, Fm, fpm = self._evaluate(*self._middle(x, (f0, f1)), p, names)
        c = x[1:] - x[:-1] - h / 6 * (f0 + 4 * fm + f1)
        H, I = h[:, :, None], np.eye(self.system.D)
        left = -I - H / 6 * (F0 + 4 * Fm @ (I / 2 + H / 8 * F0))
        right = I - H / 6 * (F1 + 4 * Fm @ (I / 2 - H / 8 * F1))
        G = -H / 6 * (fp0 + 4 * (fpm + Fm @ (H / 8 * (fp0 - fp1))) + fp1)
        return Linearised(c, left, right, G)

    def halved(self, p: FloatArray, x: FloatArray) -> tuple[Mesh, FloatArray]:
        """A mesh twice as fine, and the states on it.

        The Hermite midpoint is of fourth order, as the rule itself; two passes that carry the end points to the middle
        by the rule on each half make it better than the rule.
        """
        times, middle = self._middle(x, *self._ends(x, p, ("f",)))
        fine = np.empty((2 * len(x) - 1, x.shape[1]))
        fine[::2], fine[1::2] = x, middle
        nodes = np.empty(len(fine))
        nodes[::2], nodes[1::2] = self.times, times
        measured = np.zeros(fine.shape, dtype=bool)
        measured[::2] = self.measured
        data = np.where(measured, np.repeat(self.data, 2, axis=0)[: len(fine)], fine)
        scale = None
        if self.scale is not None:
            scale = np.ones(fine.shape)
            scale[::2] = self.scale
        mesh = Mesh(self.system, nodes, data, measured, scale)
        for _ in range(2):
            c = mesh.defects(p, fine)
            fine[1::2] += 0.5 * (c[1::2] - c[::2])
        return mesh, fine

    def truncation(self, p: FloatArray, x: FloatArray) -> FloatArray:
        """What an exact solution over each interval would change in `c`, `(intervals, D)`: the error of the rule.

        By the classical Runge–Kutta method with many small steps in each interval, all intervals at once; not finite
        where the equations are too stiff even for these.
        """
        h = np.diff(self.times) / SUBSTEPS
        y, wide = x[:-1], h[:, None]

        def f(share: float, y: FloatArray) -> FloatArray:
            (value,) = self._evaluate(self.times[:-1] + share * h, y, p, ("f",))
            return value

        for k in range(SUBSTEPS):
            a = f(k, y)
            b = f(k + 0.5, y + wide / 2 * a)
            c = f(k + 0.5, y + wide / 2 * b)
            d = f(k + 1 - AFTER, y + wide * c)
            y = y + wide / 6 * (a + 2 * b + 2 * c + d)
        return np.asarray(x[1:] - y - self.defects(p, x))


@dataclass(frozen=True)
class Linearised:
    """`c(p + δp, x + δx) ≈ c + A δx + G δp`, with `A δx = left δx_m + right δx_{m+1}`.

    Attributes
    ----------
    c : ndarray, (intervals, D)
    left, right : ndarray, (intervals, D, D)
    G : ndarray, (intervals, D, J)
    """

    c: FloatArray
    left: FloatArray
    right: FloatArray
    G: FloatArray

    def apply(self, dx: FloatArray) -> FloatArray:
        """`A δx`, `(intervals, D)`."""
        return np.asarray((self.left @ dx[:-1, :, None] + self.right @ dx[1:, :, None])[:, :, 0])

    def transposed(self, z: FloatArray) -> FloatArray:
        """`Aᵀ z`, `(nodes, D)`."""
        result = np.zeros((len(z) + 1, z.shape[1]))
        result[:-1] += (z[:, None, :] @ self.left)[:, 0]
        result[1:] += (z[:, None, :] @ self.right)[:, 0]
        return result

    def covariance(self, v: FloatArray) -> Banded:
        """S = A diag(v) Aᵀ, factorised; `v` is `(nodes, D)`."""
        M, D, _ = self.left.shape
        diagonal = (self.left * v[:-1, None, :]) @ self.left.transpose(0, 2, 1)
        diagonal += (self.right * v[1:, None, :]) @ self.right.transpose(0, 2, 1)
        lower = (self.left[1:] * v[1:-1, None, :]) @ self.right[:-1].transpose(0, 2, 1)
        band = np.zeros((2 * D, M * D))
        for i in range(D):
            for j in range(D):
                if i >= j:
                    band[i - j, j::D] = diagonal[:, i, j]
                band[D + i - j, j : (M - 1) * D : D] = lower[:, i, j]
        return Banded.factorised(band)
