"""Models: what is read, what is refused and where, and derivatives against differences."""

import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weakform as wf
from support import ALL
from weakform.model.expressions import FUNCTIONS, parse_expression
from weakform.model.system import TENSORS
from weakform.support.errors import ModelError

GOODWIN = """
    u1' = p1 / (2.15 + p3 * u3**p4) - p2 * u1
    u2' = p5 * u1 - p6 * u2
    u3' = p7 * u2 - p8 * u3
"""


def test_order_of_states_and_parameters():
    model = wf.Model.from_text("b' = p10*a - p2*b\na' = -p1*a")
    assert model.states == ("b", "a")
    assert model.parameters == ("p1", "p2", "p10")
    assert wf.Model.from_text("b' = p10*b + p2", parameters=["p10", "p2"]).parameters == ("p10", "p2")


@pytest.mark.parametrize(
    "text",
    [
        "x' = -k*x",
        "dx/dt = -k*x",
        "d/dt x = -k*x",
        "d/dt(x) = -k * x   # decay",
        "d(x)/dt = -k*x",
        "x' =\n   -k\n   * x",
        "x' = (\n -k*x\n)",
        "# a comment\n\nrate = k*x; x' = -rate",
    ],
)
def test_ways_to_write_an_equation(text):
    model = wf.Model.from_text(text)
    assert (model.states, model.parameters) == (("x",), ("k",))
    assert model(0.0, [2.0], [3.0]) == pytest.approx([-6.0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2**2", -4.0),
        ("2^3^2", 512.0),
        ("2**-1", 0.5),
        ("1 - 2 - 3", -4.0),
        ("8/4/2", 1.0),
        ("--3", 3.0),
        ("1e3 + .5 + 2.", 1002.5),
        ("sin(pi/2)", 1.0),
        ("log(exp(2)) + ln(1)", 2.0),
        ("pow(2, 3) + abs(-2)", 10.0),
        ("10**15 * 10**15", 1e30),
    ],
)
def test_arithmetic(text, value):
    assert float(parse_expression(text, [])) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('u\' = __import__("os").system("touch hacked")', "line 1, column 17", "quotes"),
        ("u' = __import__(u)", "line 1, column 6", "unknown function"),
        ("u' = eval(u)", "line 1, column 6", "unknown function"),
        ("u' = u.__class__", "line 1, column 7", "attribute access"),
        ("u' = -p*u\nv' = (lambda: 1)", "line 2", "unexpected character ':'"),
        ("u' = p*u[0]", "line 1, column 9", "indexing"),
        ("u' = u**10**10**10", "line 1", "exponent is too large"),
        ("u' = 9**9**9 * p*u", "line 1", "exponent"),
        ("u' = p*u**1000000000", "column 9", "exponent is too large"),
        ("u' = " + "(" * 5000 + "u" + ")" * 5000, "line 1", "nested more than"),
        ("u' = " + "exp(" * 5000 + "u" + ")" * 5000, "line 1", "nested more than"),
        ("u' = " + "2**" * 5000 + "u", "line 1", "nested more than"),
        ("u' = p*u/0", "column 9", "division by zero"),
        ("u' = p*u/(1 - 1)", "column 9", "division by zero"),
        ("u' = sqrt(-1)*p", "column 6", "not a finite real number"),
        ("u' = log(0)*p", "column 6", "not a finite real number"),
        ("u' = 1e999*p", "column 6", "too large"),
        ("u' = p u", "column 8", "operator is missing"),
        ("u' = 2p", "column 7", "operator is missing"),
        ("u' = p*(u + 1", "line 1", "expected ')'"),
        ("u' = p*u)", "column 9", "expected the end of the equation"),
        ("u' = p*", "line 1", "expected a number"),
        ("u' = ", "line 1", "expected a number"),
        ("u' = max(u, p)", "column 6", "not smooth"),
        ("u' = exp(u, p)", "column 6", "takes 1 argument"),
        ("u' = p*u\nu' = 2*p", "line 2", "two equations"),
        ("u' = -p*u'", "line 1", "only where there is an equation u''"),
        ("p*u", "line 1", "no '='"),
        ("u' = p*u = 2", "column 10", "second '='"),
        ("u' = r*u\nr = p*2", "line 1, column 6", "used before it is defined"),
        ("t' = p*t", "line 1", "reserved"),
        ("u + 1 = p", "line 1", "left-hand side"),
        ("exp' = p*u", "line 1", "reserved"),
    ],
)
def test_refusals_name_the_place_and_the_reason(text, place, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin = time.process_time()
    with pytest.raises(ModelError) as caught:
        wf.Model.from_text(text)
    assert time.process_time() - begin < 1.0
    message = str(caught.value)
    assert place in message
    assert reason in message
    assert len(message) < 1000
    assert not list(tmp_path.iterdir())


def test_definitions_cannot_grow_without_bound():
    doubling = "a0 = p*u + 1\n" + "\n".join(f"a{k + 1} = a{k} + sin(a{k})" for k in range(200)) + "\nu' = a200"
    with pytest.raises(ModelError, match="more than"):
        wf.Model.from_text(doubling)
    towering = "a0 = p*u + 1\n" + "\n".join(f"a{k + 1} = a{k}*u + 1" for k in range(5000)) + "\nu' = a5000"
    with pytest.raises(ModelError, match=r"deep|more than"):
        wf.Model.from_text(towering)


@given(st.text(alphabet="up'=+-*/^() .,0123456789\nexplogsint#\"_[]", max_size=60))
def test_any_text_is_a_model_or_a_model_error(text):
    try:
        model = wf.Model.from_text(text)
    except ModelError:
        return
    assert model.states


def test_misspelt_names_are_guessed():
    with pytest.raises(ModelError, match="Did you mean 'alpha'"):
        wf.Model.from_text("u' = alpah*u", parameters=["alpha"])
    with pytest.raises(ModelError, match="does not occur"):
        wf.Model.from_text("u' = alpha*u", parameters=["alpha", "beta"])
    with pytest.raises(ModelError, match="Did you mean 'exp'"):
        wf.Model.from_text("u' = exq(u)*p")


def test_a_function_and_its_text_are_the_same_model():
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
def test_every_numpy_function_that_text_knows(name):
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
        (lambda t, u, p: [u[0] if u[0] > 0 else p[0]], "branches"),
        (lambda t, u, p: [p[0] * max(u[0], 0.0)], "branches"),
        (lambda t, u, p: [np.where(t == 0, p[0], u[0])], "branches"),
        (lambda t, u, p: [p[0] * float(u[0])], "needs the number"),
        (lambda t, u, p: [p[0] * u[0], 1.0], "returned 2 values for 1 states"),
        (lambda t, u, p: None, "returned 0 values"),
        (lambda t, u, p: [p[3] * u[0]], "could not be traced"),
        (lambda t, u, p: ["p"], "not a number or an expression"),
    ],
)
def test_functions_that_cannot_be_traced_say_why(f, message):
    with pytest.raises(ModelError, match=message):
        wf.Model(f, ["u"], ["p"])


def test_text_given_to_the_constructor():
    with pytest.raises(ModelError, match="from_text"):
        wf.Model("u' = p*u", states=["u"], parameters=["p"])


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        ("lorenz", "p1 p2 p3"),
        ("hindmarsh-rose", "p1 p2 p3 p4 p5 p6 p7 p8 p9 p10"),
        ("goodwin", "p1 p2 p5 p6 p7 p8"),
        ("sir-tdi", "p3 p4"),
        ("protein-transduction", "k1 k2 k3 k4 V"),
    ],
)
def test_linearity_is_detected(name, linear):
    model = wf.problems.get(name).model
    assert model.linear_parameters == tuple(linear.split())
    assert model.is_linear == (len(model.parameters) == len(model.linear_parameters))


def test_products_of_parameters_are_linear_in_one_of_them():
    assert wf.Model.from_text("u' = a*(b + u)").linear_parameters in (("a",), ("b",))
    assert wf.Model.from_text("u' = (a + u)**2 - a**2").linear_parameters == ("a",)


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
        value = system.evaluate(t, system.from_working(x), q, (tensor,))[tensor].dense(shape)
        letters = TENSORS[tensor]
        for axis in range(1, len(letters)):
            if letters[axis] == letters[axis - 1]:  # stored once
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

            def at(s, k=k, h=h, letters=letters, parent=parent):
                dx, dq = x.copy(), p.copy()
                if letters[-1] == "u":
                    dx[:, k] += s * h
                else:
                    dq[k] += s * h
                return evaluate(parent, dx, dq)

            numeric = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
            got = exact[..., k, :]
            assert np.allclose(got, numeric, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(numeric).max())), tensor


def test_lognormal_division_leaves_no_overflow():
    """u/u is 1 also where u² would overflow."""
    model = wf.Model.from_text("u' = p1*u - p2*u**2")
    system = model.system(("lognormal",))
    values = system.evaluate(np.zeros(1), np.array([[1e200]]), np.array([2.0, 1e-200]), ("f", "fu"))
    assert values["f"].values[0] == pytest.approx([1.0])
    assert values["fu"].values[0] == pytest.approx([-1.0])


def test_models_are_pickled_exactly():
    model = wf.Model.from_text("u' = 0.1234567890123456789*p*u + 1/3")
    copy = pickle.loads(pickle.dumps(model))
    assert copy(0.0, [1.7], [1.0]) == model(0.0, [1.7], [1.0])
    assert (copy.states, copy.parameters) == (model.states, model.parameters)


def test_wrong_shapes():
    with pytest.raises(ModelError, match="Expected 1 states and 1 parameters"):
        wf.Model.from_text("u' = p*u")(0.0, [1.0, 2.0], [1.0])


def test_parts_that_are_never_finite_are_named():
    with pytest.raises(ModelError, match="never a finite real number"):
        wf.Model.from_text("x' = 1/((1 - x) - (1 - x))")([0.0], [[1.0]], [])


@pytest.mark.parametrize("part", ["acosh(log(x - x))", "cos(log(x - x))", "log(x - x)", "(x - x)**(-1)"])
def test_parts_that_cancel_to_nonsense_are_pointed_at(part):
    with pytest.raises(ModelError, match=r"line 1, column \d+: this .*finite real number"):
        wf.Model.from_text(f"x' = k*{part}")
