"""Derivatives of the right-hand side in working coordinates, compared with finite differences."""

import numpy as np
import pytest

import weakform as wf
from support import ALL
from weakform.model.system import TENSORS


@pytest.mark.parametrize("noise", ["gaussian", "lognormal"])
@pytest.mark.parametrize("name", ALL)
def test_every_derivative_matches_differences(name, noise):
    problem = wf.problems.get(name)
    system = problem.model.system((noise,) * len(problem.model.states))
    rng = np.random.default_rng(3)
    u, p, t = rng.uniform(0.6, 1.4, (4, system.D)), problem.parameters * 1.1, rng.uniform(0.5, 5, 4)
    shapes = {"u": system.D, "p": system.J}

    def evaluate(tensor, x, q):
        shape = (system.D, *(shapes[letter] for letter in TENSORS[tensor]))
        value = system.evaluate(t, system.from_working(x), q, (tensor,))[tensor].to_dense(shape)
        letters = TENSORS[tensor]
        for axis in range(1, len(letters)):
            if letters[axis] == letters[axis - 1]:  # symmetric, so only the upper triangle is stored
                mirrored = np.swapaxes(value, axis, axis + 1)
                upper = np.triu(np.ones(value.shape[axis : axis + 2]), 1).reshape(
                    [value.shape[k] if k in (axis, axis + 1) else 1 for k in range(value.ndim)]
                )
                value = value + mirrored * np.swapaxes(upper, axis, axis + 1)
        return value

    x = system.to_working(u)
    for tensor, letters in TENSORS.items():
        if not letters:
            continue
        parent = "f" + letters[:-1]
        exact = evaluate(tensor, x, p)
        for k in range(shapes[letters[-1]]):
            h = 1e-4 if letters[-1] == "u" else 1e-4 * abs(p[k])

            def evaluate_at(s, k=k, h=h, letters=letters, parent=parent):
                dx, dq = x.copy(), p.copy()
                if letters[-1] == "u":
                    dx[:, k] += s * h
                else:
                    dq[k] += s * h
                return evaluate(parent, dx, dq)

            near, far = evaluate_at(1) - evaluate_at(-1), evaluate_at(2) - evaluate_at(-2)
            numeric = (8 * near - far) / (12 * h)
            analytic = exact[..., k, :]
            assert np.allclose(analytic, numeric, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(numeric).max())), tensor


def test_lognormal_division_does_not_overflow():
    """The quotient u/u is 1 even where u² would overflow."""
    model = wf.Model.from_text("u' = p1*u - p2*u**2")
    system = model.system(("lognormal",))
    values = system.evaluate(np.zeros(1), np.array([[1e200]]), np.array([2.0, 1e-200]), ("f", "fu"))
    assert values["f"].values[0] == pytest.approx([1.0])
    assert values["fu"].values[0] == pytest.approx([-1.0])
