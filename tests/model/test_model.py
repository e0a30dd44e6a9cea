"""Models: notations of equations, order of names, linearity, second-order equations, refusals."""

import pickle

import numpy as np
import pytest

import weakform as wf
from support import LOGISTIC
from weakform.forward.solver import simulate
from weakform.support.errors import ModelError


def test_states_keep_the_order_of_lines_and_parameters_the_natural_order():
    model = wf.Model.from_text("b' = p10*a - p2*b\na' = -p1*a")
    assert model.states == ("b", "a")
    assert model.parameters == ("p1", "p2", "p10")
    assert wf.Model.from_text("b' = p10*b + p2", parameters=["p10", "p2"]).parameters == ("p10", "p2")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x' = -k*x", id="prime"),
        pytest.param("dx/dt = -k*x", id="dx/dt"),
        pytest.param("d/dt x = -k*x", id="d/dt x"),
        pytest.param("d/dt(x) = -k * x   # decay", id="d/dt(x)"),
        pytest.param("d(x)/dt = -k*x", id="d(x)/dt"),
        pytest.param("x' =\n   -k\n   * x", id="over lines"),
        pytest.param("x' = (\n -k*x\n)", id="in brackets"),
        pytest.param("# a comment\n\nrate = k*x; x' = -rate", id="a definition"),
    ],
)
def test_every_notation_gives_the_same_model(text):
    model = wf.Model.from_text(text)
    assert (model.states, model.parameters) == (("x",), ("k",))
    assert model(0.0, [2.0], [3.0]) == pytest.approx([-6.0])


@pytest.mark.parametrize("text", ["d' = -k*d", "dd/dt = -k*d"])
def test_a_state_may_be_called_d(text):
    assert wf.Model.from_text(text).states == ("d",)


def test_text_in_the_constructor_is_refused_with_a_hint():
    with pytest.raises(ModelError, match="from_text"):
        wf.Model("u' = p*u", states=["u"], parameters=["p"])


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        pytest.param("lorenz", "p1 p2 p3", id="lorenz"),
        pytest.param("hindmarsh-rose", "p1 p2 p3 p4 p5 p6 p7 p8 p9 p10", id="hindmarsh-rose"),
        pytest.param("goodwin", "p1 p2 p5 p6 p7 p8", id="goodwin"),
        pytest.param("sir-tdi", "p3 p4", id="sir-tdi"),
        pytest.param("protein-transduction", "k1 k2 k3 k4 V", id="protein-transduction"),
    ],
)
def test_linear_parameters_are_detected(name, linear):
    model = wf.problems.get(name).model
    assert model.linear_parameters == tuple(linear.split())
    assert model.is_linear == (len(model.parameters) == len(model.linear_parameters))


def test_products_of_parameters_are_linear_in_one_of_them():
    assert wf.Model.from_text("u' = a*(b + u)").linear_parameters in (("a",), ("b",))
    assert wf.Model.from_text("u' = (a + u)**2 - a**2").linear_parameters == ("a",)


def test_pickled_model_is_exactly_equal():
    model = wf.Model.from_text("u' = 0.1234567890123456789*p*u + 1/3")
    copy = pickle.loads(pickle.dumps(model))
    assert copy(0.0, [1.7], [1.0]) == model(0.0, [1.7], [1.0])
    assert (copy.states, copy.parameters) == (model.states, model.parameters)


def test_wrong_shapes_are_refused():
    with pytest.raises(ModelError, match="Expected 1 states and 1 parameters"):
        wf.Model.from_text("u' = p*u")(0.0, [1.0, 2.0], [1.0])


def test_second_order_equation_is_fitted_from_the_position_alone():
    model = wf.Model.from_text("x'' = -k*sin(x) - c*x'")
    first_order = wf.Model.from_text("x' = v\nv' = -k*sin(x) - c*v")
    assert model.states == ("x", "x'")
    assert "x'' = " in str(model)
    t = np.linspace(0, 10, 300)
    u = simulate(first_order, [0.1, 4.0], [2.0, 0.0], t).states
    noisy = u + [0.02, 0.05] * np.random.default_rng(1).standard_normal(u.shape)
    position_fit = wf.fit(model, wf.Dataset(t, noisy[:, 0], names=["x"]))
    full_fit = wf.fit(first_order, wf.Dataset(t, noisy, names=["x", "v"]))
    for fit in (position_fit, full_fit):
        assert (np.abs(fit.estimate - [0.1, 4.0]) < 4 * fit.errors).all()
        assert fit["k"].value == pytest.approx(4.0, rel=0.01)
    assert position_fit["k"].error > full_fit["k"].error
    assert position_fit.sigma[0] == pytest.approx(0.02, rel=0.15)
    assert set(position_fit.r_squared) == {"x"}
    with pytest.raises(ModelError, match="only where there is an equation"):
        wf.Model.from_text("x' = -k*x'")


@pytest.mark.parametrize(
    "refused_call",
    [
        pytest.param(lambda: wf.Model(lambda t, u, p: [p[0] * u[0]], None, ["r"]), id="no states"),
        pytest.param(lambda: LOGISTIC(0, ["a"], [1.0, 2.0]), id="a state that is text"),
    ],
)
def test_bad_arguments_raise_a_weakform_error(refused_call):
    with pytest.raises(wf.WeakformError):
        refused_call()


def test_input_that_occurs_in_no_equation_is_refused():
    with pytest.raises(wf.WeakformError, match="input 'q' does not occur"):
        wf.Model.from_text("u' = a*u", inputs=["q"])
