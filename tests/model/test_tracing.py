"""Tracing of functions: the model equals that of the text, or an error explains why tracing failed."""

import numpy as np
import pytest

import weakform as wf
from weakform.model.expressions import FUNCTIONS
from weakform.support.errors import ModelError

GOODWIN = """
    u1' = p1 / (2.15 + p3 * u3**p4) - p2 * u1
    u2' = p5 * u1 - p6 * u2
    u3' = p7 * u2 - p8 * u3
"""


def test_traced_function_equals_the_model_from_text():
    def f(t, u, p):
        return [
            p[0] / (2.15 + p[2] * u[2] ** p[3]) - p[1] * u[0],
            p[4] * u[0] - p[5] * u[1],
            p[6] * u[1] - p[7] * u[2],
        ]

    traced = wf.Model(f, states=["u1", "u2", "u3"], parameters=[f"p{j}" for j in range(1, 9)])
    text = wf.Model.from_text(GOODWIN)
    rng = np.random.default_rng(0)
    U, p = rng.uniform(0.5, 2, (7, 3)), rng.uniform(0.5, 2, 8)
    assert np.allclose(traced(0.0, U, p), text(0.0, U, p), rtol=1e-14)
    assert traced.linear_parameters == text.linear_parameters == ("p1", "p2", "p5", "p6", "p7", "p8")


def test_numpy_functions_are_traced():
    def f(t, u, p):
        A = np.array([[0.0, 1.0], [-1.0, 0.0]])
        return A @ u * np.exp(-p[0] * t) + np.array([np.sqrt(p[1]) * np.tanh(u[1]), np.square(u[0]) / 3])

    model = wf.Model(f, ["a", "b"], ["x", "y"])
    u, p, t = np.array([0.3, 0.7]), np.array([0.2, 1.7]), 1.3
    assert np.allclose(model(t, u, p), np.asarray(f(t, u, p), dtype=float), rtol=1e-14)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) & set(dir(np))))
def test_numpy_function_gives_the_same_values_traced_and_as_text(name):
    function = getattr(np, name)
    if FUNCTIONS[name][0] == 2:
        return
    u = 1.3 if name in ("arccosh", "acosh") else 0.4
    model = wf.Model(lambda t, u, p: [p[0] * function(u[0])], ["u"], ["p"])
    assert model(0.0, [u], [2.0]) == pytest.approx([2.0 * function(u)], rel=1e-13)
    text = wf.Model.from_text(f"u' = p*{name}(u)")
    assert text(0.0, [u], [2.0]) == pytest.approx([2.0 * function(u)], rel=1e-13)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        pytest.param(lambda t, u, p: [u[0] if u[0] > 0 else p[0]], "branches", id="if"),
        pytest.param(lambda t, u, p: [p[0] * max(u[0], 0.0)], "branches", id="max"),
        pytest.param(lambda t, u, p: [np.where(t == 0, p[0], u[0])], "branches", id="where"),
        pytest.param(lambda t, u, p: [p[0] * float(u[0])], "needs the number", id="float"),
        pytest.param(lambda t, u, p: [p[0] * u[0], 1.0], "returned 2 values for 1 states", id="two values"),
        pytest.param(lambda t, u, p: None, "returned 0 values", id="nothing"),
        pytest.param(lambda t, u, p: [p[3] * u[0]], "could not be traced", id="no such parameter"),
        pytest.param(lambda t, u, p: ["p"], "not a number or an expression", id="text"),
    ],
)
def test_function_that_cannot_be_traced_is_refused_with_the_reason(f, message):
    with pytest.raises(ModelError, match=message):
        wf.Model(f, ["u"], ["p"])


@pytest.mark.parametrize("number", [int, float, np.float64])
@pytest.mark.parametrize(
    ("operation", "value"),
    [
        pytest.param(lambda x, c: c + x, 6.0, id="c + x"),
        pytest.param(lambda x, c: x + c, 6.0, id="x + c"),
        pytest.param(lambda x, c: c - x, -2.0, id="c - x"),
        pytest.param(lambda x, c: x - c, 2.0, id="x - c"),
        pytest.param(lambda x, c: c * x, 8.0, id="c * x"),
        pytest.param(lambda x, c: x * c, 8.0, id="x * c"),
        pytest.param(lambda x, c: c / x, 0.5, id="c / x"),
        pytest.param(lambda x, c: x / c, 2.0, id="x / c"),
        pytest.param(lambda x, c: (c + 1) ** x, 81.0, id="(c + 1) ** x"),
        pytest.param(lambda x, c: (x + 1) ** c, 25.0, id="(x + 1) ** c"),
        pytest.param(lambda x, c: abs(-x - c), 6.0, id="abs(-x - c)"),
    ],
)
def test_operators_with_a_number_on_either_side_are_traced(operation, value, number):
    """With x = 4 and c = 2."""
    model = wf.Model(lambda t, u, p: [p[0] * operation(u[0], number(2))], ["x"], ["p"])
    assert model(0.0, [4.0], [1.0]) == pytest.approx([value], rel=1e-13)


def test_traced_function_receives_the_inputs():
    model = wf.Model(lambda t, u, p, q: [-p[0] * u[0] + q[0]], ["x"], ["k"], inputs=["q"])
    assert str(model) == str(wf.Model.from_text("x' = -k*x + q", inputs=["q"]))
