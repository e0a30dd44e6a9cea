"""A literal, dense transcription of the paper's formulas: the slow reference of every comparison.

The matrices are those of the paper: `∇_u g` is (KD, (M+1)D), and each `∂_jS` and `∂_ijS` is formed in full. The
gradient and the Hessian are the printed sums (with the factor ½ throughout and the last term of `∂_ijS` corrected). The
package supplies only the derivatives of the right-hand side and the test functions.
"""

from __future__ import annotations

import numpy as np

from weakform.weak.weak_form import WeakForm


class Paper:
    """The weak likelihood of one trajectory, as printed in the paper."""

    def __init__(self, form: WeakForm) -> None:
        self.form = form
        self.phi, self.dphi = form.functions.to_dense()
        self.K, N = self.phi.shape
        self.D, self.J = form.system.D, form.system.J
        variance = np.broadcast_to(form.variance, form.u.shape)
        self.sigma = variance.T.ravel()  # the diagonal of Σ ⊗ I
        self.b = -(self.dphi @ form.system.to_working(form.u)).T.ravel()
        self.lhs = np.zeros((self.K * self.D, N * self.D))
        for d in range(self.D):
            self.lhs[d * self.K : (d + 1) * self.K, d * N : (d + 1) * N] = self.dphi

    def _gradient_u(self, values: np.ndarray) -> np.ndarray:
        """Compute `∇_u g` (KD, (M+1)D) from values (D, D, time)."""
        return np.block([[self.phi * values[a, b] for b in range(self.D)] for a in range(self.D)])

    def _weak(self, values: np.ndarray) -> np.ndarray:
        """Compute `vec[Φ F]` (KD,) from values (D, time)."""
        return (self.phi @ values.T).T.ravel()

    def _parts(self, p: np.ndarray, order: int) -> dict[str, np.ndarray]:
        """Return the dense derivatives of the right-hand side that an order needs, by name."""
        names = (("f", "fu"), ("f", "fu", "fp", "fup"), ("f", "fu", "fp", "fup", "fpp", "fupp"))[order]
        D, J = self.D, self.J
        shapes = {
            "f": (D,),
            "fu": (D, D),
            "fp": (D, J),
            "fup": (D, D, J),
            "fpp": (D, J, J),
            "fupp": (D, D, J, J),
        }
        tensors = self.form.evaluate_tensors(p, names)
        parts = {name: tensors[name].to_dense(shapes[name]) for name in names}
        for name in ("fpp", "fupp"):
            if name in parts:
                upper = parts[name]
                for i in range(J):
                    for j in range(i):
                        upper[..., i, j, :] = upper[..., j, i, :]
        return parts

    def covariance(self, p: np.ndarray) -> np.ndarray:
        """Compute S (KD, KD), with the states as the outer index."""
        A = self._gradient_u(self._parts(p, 0)["fu"]) + self.lhs
        return (A * self.sigma) @ A.T

    def residual(self, p: np.ndarray) -> np.ndarray:
        """Compute r (KD,)."""
        return self._weak(self._parts(p, 0)["f"]) - self.b

    def value(self, p: np.ndarray) -> float:
        """Compute ℓ."""
        parts = self._parts(p, 0)
        A = self._gradient_u(parts["fu"]) + self.lhs
        S = (A * self.sigma) @ A.T
        r = self._weak(parts["f"]) - self.b
        return 0.5 * (np.linalg.slogdet(S)[1] + r @ np.linalg.solve(S, r) + len(r) * np.log(2 * np.pi))

    def gradient(self, p: np.ndarray) -> np.ndarray:
        """Compute ∇ℓ (J,), eq. wnll-grad."""
        parts = self._parts(p, 1)
        A = self._gradient_u(parts["fu"]) + self.lhs
        Sinv = np.linalg.inv((A * self.sigma) @ A.T)
        r = self._weak(parts["f"]) - self.b
        g = np.empty(self.J)
        for j in range(self.J):
            dA = self._gradient_u(parts["fup"][:, :, j])
            dS = (dA * self.sigma) @ A.T + (A * self.sigma) @ dA.T
            dr = self._weak(parts["fp"][:, j])
            dSinv = -Sinv @ dS @ Sinv
            g[j] = 0.5 * (np.trace(Sinv @ dS) + 2 * dr @ Sinv @ r + r @ dSinv @ r)
        return g

    def hessian(self, p: np.ndarray) -> np.ndarray:
        """Compute ∇²ℓ (J, J), eq. wnll-hess."""
        parts = self._parts(p, 2)
        A = self._gradient_u(parts["fu"]) + self.lhs
        Sinv = np.linalg.inv((A * self.sigma) @ A.T)
        r = self._weak(parts["f"]) - self.b
        dA = [self._gradient_u(parts["fup"][:, :, j]) for j in range(self.J)]
        dS = [(d * self.sigma) @ A.T + (A * self.sigma) @ d.T for d in dA]
        dSinv = [-Sinv @ d @ Sinv for d in dS]
        dr = [self._weak(parts["fp"][:, j]) for j in range(self.J)]
        H = np.empty((self.J, self.J))
        for i in range(self.J):
            for j in range(i + 1):
                ddA = self._gradient_u(parts["fupp"][:, :, i, j])
                ddS = (ddA * self.sigma) @ A.T + (A * self.sigma) @ ddA.T
                ddS += (dA[i] * self.sigma) @ dA[j].T + (dA[j] * self.sigma) @ dA[i].T
                ddSinv = Sinv @ dS[i] @ Sinv @ dS[j] @ Sinv
                ddSinv += ddSinv.T - Sinv @ ddS @ Sinv
                ddr = self._weak(parts["fpp"][:, i, j])
                H[i, j] = H[j, i] = 0.5 * (
                    np.trace(dSinv[i] @ dS[j] + Sinv @ ddS)
                    + 2 * dr[j] @ dSinv[i] @ r
                    + 2 * dr[i] @ dSinv[j] @ r
                    + 2 * dr[j] @ Sinv @ dr[i]
                    + 2 * ddr @ Sinv @ r
                    + r @ ddSinv @ r
                )
        return H
