"""Equations as text: what is read, and what is refused and where."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weakform as wf
from weakform.model.expressions import parse_expression
from weakform.support.errors import ModelError


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


def test_a_misspelt_parameter_in_equations_is_named():
    with pytest.raises(wf.WeakformError, match="Did you mean 'rate'"):
        wf.Model.from_text("N' = rate*N - rat*N**2", parameters=["rate"])
    with pytest.raises(wf.WeakformError, match="line 1, column 15"):
        wf.Model.from_text("N' = r*N*(1 ++* N)")


def test_parts_that_are_never_finite_are_named():
    with pytest.raises(ModelError, match="never a finite real number"):
        wf.Model.from_text("x' = 1/((1 - x) - (1 - x))")([0.0], [[1.0]], [])


@pytest.mark.parametrize("part", ["acosh(log(x - x))", "cos(log(x - x))", "log(x - x)", "(x - x)**(-1)"])
def test_parts_that_cancel_to_nonsense_are_pointed_at(part):
    with pytest.raises(ModelError, match=r"line 1, column \d+: this .*finite real number"):
        wf.Model.from_text(f"x' = k*{part}")
