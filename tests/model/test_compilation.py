"""Compiled functions: names of a model do not clash with the compiler's names; empty functions."""

import numpy as np
import pytest

import weakform as wf
from weakform.model.expression_map import ExpressionMap


@pytest.mark.parametrize("name", ["x0", "x1", "x12"])
def test_parameter_may_have_a_name_that_the_compiler_uses(name):
    model = wf.Model.from_text(f"x' = -k*x\ny' = k*x - m*y\nx(0) = {name}\ny(0) = 0")
    p = np.array([{"k": 0.8, "m": 0.3, name: 2.0}[q] for q in model.parameters])
    u = np.array([[1.5, 0.4]])
    assert np.allclose(model.build_map("f")(np.zeros(1), u, p), [[-1.2, 1.2 - 0.12]])
    value, by_u, by_p = model.build_map("f").linearise(np.zeros(1), u, p)
    assert np.allclose(value, [[-1.2, 1.08]])
    assert np.allclose(by_u, [[[-0.8, 0.0], [0.8, -0.3]]])
    assert np.allclose(by_p[0, :, model.parameters.index(name)], 0.0)
    assert np.allclose(wf.simulate(model, p, [2.0, 0.0], [0.0, 1.0]).states[-1, 0], 2 * np.exp(-0.8))


def test_function_without_nonzero_expressions_is_zero():
    zero = ExpressionMap([0, 0], ["x", "y"], (), ["k"])
    assert not zero(np.zeros(3), np.ones((3, 2)), np.ones(1)).any()
