"""Conversion of models from and to SymPy, and models as functions of arrays."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import weakform as wf

sympy = pytest.importorskip("sympy")
LORENZ = wf.problems.get("lorenz")


def test_round_trip_through_sympy_keeps_the_model():
    model = wf.Model.from_sympy(LORENZ.model.to_sympy())
    assert model.states == LORENZ.model.states
    assert model.parameters == LORENZ.model.parameters
    u, p = np.array([1.0, 2.0, 3.0]), LORENZ.parameters
    np.testing.assert_allclose(model(0.0, u, p), LORENZ.model(0.0, u, p), rtol=1e-14)


def test_states_may_be_functions_of_time_or_names():
    t, k = sympy.symbols("t k")
    x = sympy.Function("x")(t)
    y = sympy.Function("y")(t)
    model = wf.Model.from_sympy({x: -k * x + y, y: sympy.sin(t) - x * y})
    assert model.states == ("x", "y")
    assert model.parameters == ("k",)
    np.testing.assert_allclose(model(2.0, [1.0, 3.0], [0.5]), [2.5, np.sin(2) - 3])
    assert wf.Model.from_sympy({"x": -k * sympy.Symbol("x")}).states == ("x",)


def test_fit_of_a_sympy_model_equals_that_of_the_text():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=60, noise=0.03, seed=1)
    u, p1, p2 = sympy.symbols("u p1 p2")
    fit = wf.fit(wf.Model.from_sympy({u: p1 * u - p2 * u**2}), data)
    assert list(fit.estimate) == list(wf.fit(problem.model, data).estimate)


def test_switches_become_piecewise_expressions():
    model = wf.Model.from_text("x' = if(t < 2, a, -a)*x")
    (expression,) = model.to_sympy().values()
    t, x, a = sympy.symbols("t x a")
    assert expression.subs({t: 1, x: 3, a: 2}) == 6
    assert expression.subs({t: 3, x: 3, a: 2}) == -6


@pytest.mark.parametrize(
    ("equations", "message"),
    [
        ({}, "derivative of each state"),
        ("x' = 1", "derivative of each state"),
        ({"x": object()}, "not an expression"),
        ({"1x": sympy.Symbol("k")}, "1x"),
    ],
)
def test_equations_that_are_no_model_are_refused(equations, message):
    with pytest.raises(wf.ModelError, match=message):
        wf.Model.from_sympy(equations)
    x, k, z = sympy.symbols("x k z")
    with pytest.raises(wf.ModelError, match="'z' is neither"):
        wf.Model.from_sympy({x: -k * x + z}, parameters=[k])


def test_jacobians_of_a_function_match_differences():
    f = LORENZ.model.function()
    rng, p, h = np.random.default_rng(0), LORENZ.parameters, 1e-6
    u = rng.normal(size=(5, 3))
    np.testing.assert_allclose(f(0.0, u, p), [f(0.0, row, p) for row in u])
    for j in range(3):
        step = h * np.eye(3)[j]
        by_u = (f(0.0, u + step, p) - f(0.0, u - step, p)) / (2 * h)
        by_p = (f(0.0, u, p + step) - f(0.0, u, p - step)) / (2 * h)
        np.testing.assert_allclose(f.by_states(0.0, u, p)[:, :, j], by_u, atol=1e-7)
        np.testing.assert_allclose(f.by_parameters(0.0, u, p)[:, :, j], by_p, atol=1e-7)
    named = dict(zip(f.parameters, p, strict=True))
    solved = solve_ivp(f, (0, 1), LORENZ.initial, args=(named,), jac=f.by_states, rtol=1e-9, method="LSODA")
    simulated = wf.simulate(LORENZ.model, p, LORENZ.initial, [0.0, 1.0]).states[-1]
    np.testing.assert_allclose(solved.y[:, -1], simulated, rtol=1e-4)
    assert repr(f).startswith("<f(t, u, p) with u = (u1, u2, u3)")


def test_function_takes_inputs_and_refuses_bad_arguments():
    f = wf.Model.from_text("x' = -k*x + u", inputs=["u"]).function()
    assert f(0.0, [2.0], [3.0], [1.0]) == [-5.0]
    np.testing.assert_allclose(f([0.0, 1.0], [[2.0], [1.0]], [3.0], [[1.0], [2.0]]), [[-5.0], [-1.0]])
    for wrong in (([2.0, 1.0], [3.0], [1.0]), ([2.0], [3.0, 1.0], [1.0]), ([2.0], [3.0], [])):
        with pytest.raises(wf.ModelError, match="Expected 1 states, 1 parameters and 1 inputs"):
            f(0.0, *wrong)
    with pytest.raises(wf.ModelError, match="No value for 'k'"):
        f(0.0, [2.0], {"a": 1.0}, [1.0])
    with pytest.raises(wf.ModelError, match="must be numbers"):
        f(0.0, ["a"], [3.0], [1.0])
    with pytest.raises(wf.ModelError, match="switches"):
        wf.Model.from_text("x' = if(t < 2, a, -a)*x").function()


def test_states_may_have_names_that_sympy_reads_as_constants():
    sympy = pytest.importorskip("sympy")
    T, b = sympy.symbols("t b")
    S, E = sympy.Function("S")(T), sympy.Function("E")(T)
    model = wf.Model.from_sympy({S: -b * S * E, E: b * S * E - E})
    assert model(0.0, [2.0, 3.0], [0.5]).tolist() == [-3.0, 0.0]
