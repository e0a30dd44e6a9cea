"""Parsing of equations as text: values of expressions, refusals with place and reason, suggestions for names."""

import math
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
        pytest.param("-2**2", -4.0, id="minus square"),
        pytest.param("2^3^2", 512.0, id="tower"),
        pytest.param("2**-1", 0.5, id="negative power"),
        pytest.param("1 - 2 - 3", -4.0, id="differences"),
        pytest.param("8/4/2", 1.0, id="quotients"),
        pytest.param("--3", 3.0, id="two minuses"),
        pytest.param("1e3 + .5 + 2.", 1002.5, id="numbers"),
        pytest.param("sin(pi/2)", 1.0, id="pi"),
        pytest.param("log(exp(2)) + ln(1)", 2.0, id="logarithms"),
        pytest.param("pow(2, 3) + abs(-2)", 10.0, id="pow and abs"),
        pytest.param("10**15 * 10**15", 1e30, id="large integers"),
    ],
)
def test_arithmetic_follows_the_usual_precedence(text, value):
    assert float(parse_expression(text, [])) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        pytest.param('u\' = __import__("os").system("touch hacked")', "line 1, column 17", "quotes", id="quotes"),
        pytest.param("u' = __import__(u)", "line 1, column 6", "unknown function", id="import"),
        pytest.param("u' = eval(u)", "line 1, column 6", "unknown function", id="eval"),
        pytest.param("u' = u.__class__", "line 1, column 7", "attribute access", id="attribute"),
        pytest.param("u' = -p*u\nv' = (lambda: 1)", "line 2", "expected ')', found ':'", id="lambda"),
        pytest.param("u' = p*u[0]", "line 1, column 9", "indexing", id="indexing"),
        pytest.param("u' = u**10**10**10", "line 1", "exponent is too large", id="tower with u"),
        pytest.param("u' = 9**9**9 * p*u", "line 1", "exponent", id="tower"),
        pytest.param("u' = p*u**1000000000", "column 9", "exponent is too large", id="large exponent"),
        pytest.param("u' = " + "(" * 5000 + "u" + ")" * 5000, "line 1", "nested more than", id="deep brackets"),
        pytest.param("u' = " + "exp(" * 5000 + "u" + ")" * 5000, "line 1", "nested more than", id="deep calls"),
        pytest.param("u' = " + "2**" * 5000 + "u", "line 1", "nested more than", id="deep powers"),
        pytest.param("u' = p*u/0", "column 9", "division by zero", id="division by 0"),
        pytest.param("u' = p*u/(1 - 1)", "column 9", "division by zero", id="division by 1 - 1"),
        pytest.param("u' = sqrt(-1)*p", "column 6", "not a finite real number", id="root of -1"),
        pytest.param("u' = log(0)*p", "column 6", "not a finite real number", id="log of 0"),
        pytest.param("u' = 1e999*p", "column 6", "too large", id="1e999"),
        pytest.param("u' = p u", "column 8", "operator is missing", id="a space"),
        pytest.param("u' = 2p", "column 7", "operator is missing", id="2p"),
        pytest.param("u' = p*(u + 1", "line 1", "expected ')'", id="open bracket"),
        pytest.param("u' = p*(u + rate", "column 17", "expected ')', found the end", id="open bracket at the end"),
        pytest.param("u' = p*u)", "column 9", "expected the end of the equation", id="closed twice"),
        pytest.param("u' = p*", "line 1", "expected a number", id="ends early"),
        pytest.param("u' = ", "line 1", "expected a number", id="empty"),
        pytest.param("u' = max(u, p)", "column 6", "not smooth", id="max"),
        pytest.param("u' = exp(u, p)", "column 6", "takes 1 argument", id="two arguments"),
        pytest.param("u' = p*u\nu' = 2*p", "line 2", "two equations", id="state twice"),
        pytest.param("u' = -p*u'", "line 1", "only where there is an equation u''", id="own derivative"),
        pytest.param("p*u", "line 1", "no '='", id="no equation"),
        pytest.param("u' = p*u = 2", "column 10", "second '='", id="two signs"),
        pytest.param("u' = r*u\nr = p*2", "line 1, column 6", "used before it is defined", id="defined later"),
        pytest.param("t' = p*t", "line 1", "reserved", id="t as a state"),
        pytest.param("u + 1 = p", "line 1", "left-hand side", id="a sum on the left"),
        pytest.param("exp' = p*u", "line 1", "reserved", id="exp as a state"),
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


def test_error_at_the_end_of_a_text_points_behind_its_last_character():
    with pytest.raises(ModelError) as caught:
        parse_expression("u*(p\n  + 2 -", ["u", "p"])
    assert caught.value.place == (2, 8)
    assert str(caught.value).splitlines()[-1] == "  " + " " * 7 + "^"


def test_chains_of_definitions_are_limited_in_size_and_depth():
    doubling = "a0 = p*u + 1\n" + "\n".join(f"a{k + 1} = a{k} + sin(a{k})" for k in range(200)) + "\nu' = a200"
    with pytest.raises(ModelError, match="more than"):
        wf.Model.from_text(doubling)
    towering = "a0 = p*u + 1\n" + "\n".join(f"a{k + 1} = a{k}*u + 1" for k in range(5000)) + "\nu' = a5000"
    with pytest.raises(ModelError, match=r"deep|more than"):
        wf.Model.from_text(towering)


@given(st.text(alphabet="up'=+-*/^() .,0123456789\nexplogsint#\"_[]", max_size=60))
def test_any_text_gives_a_model_or_a_model_error(text):
    try:
        model = wf.Model.from_text(text)
    except ModelError:
        return
    assert model.states


def test_errors_suggest_the_name_that_was_misspelt():
    with pytest.raises(ModelError, match="Did you mean 'alpha'"):
        wf.Model.from_text("u' = alpah*u", parameters=["alpha"])
    with pytest.raises(ModelError, match="does not occur"):
        wf.Model.from_text("u' = alpha*u", parameters=["alpha", "beta"])
    with pytest.raises(ModelError, match="Did you mean 'exp'"):
        wf.Model.from_text("u' = exq(u)*p")


def test_misspelt_parameter_in_an_equation_is_reported_with_its_column():
    with pytest.raises(wf.WeakformError, match="Did you mean 'rate'"):
        wf.Model.from_text("N' = rate*N - rat*N**2", parameters=["rate"])
    with pytest.raises(wf.WeakformError, match="line 1, column 15"):
        wf.Model.from_text("N' = r*N*(1 ++* N)")


def test_expression_that_is_never_finite_is_refused_when_compiled():
    with pytest.raises(ModelError, match="never a finite real number"):
        wf.Model.from_text("x' = 1/((1 - x) - (1 - x))")([0.0], [[1.0]], [])


@pytest.mark.parametrize("part", ["acosh(log(x - x))", "cos(log(x - x))", "log(x - x)", "(x - x)**(-1)"])
def test_part_that_cancels_to_an_undefined_constant_is_refused_with_its_column(part):
    with pytest.raises(ModelError, match=r"line 1, column \d+: this .*finite real number"):
        wf.Model.from_text(f"x' = k*{part}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cot", lambda x: math.cos(x) / math.sin(x)),
        ("sec", lambda x: 1 / math.cos(x)),
        ("csc", lambda x: 1 / math.sin(x)),
        ("acot", lambda x: math.pi / 2 - math.atan(x)),
        ("asec", lambda x: math.acos(1 / x)),
        ("acsc", lambda x: math.asin(1 / x)),
        ("arccot", lambda x: math.pi / 2 - math.atan(x)),
        ("arcsec", lambda x: math.acos(1 / x)),
        ("arccsc", lambda x: math.asin(1 / x)),
        ("coth", lambda x: (math.exp(x) + math.exp(-x)) / (math.exp(x) - math.exp(-x))),
        ("sech", lambda x: 2 / (math.exp(x) + math.exp(-x))),
        ("csch", lambda x: 2 / (math.exp(x) - math.exp(-x))),
        ("log10", math.log10),
        ("log2", math.log2),
        ("log1p", math.log1p),
        ("expm1", math.expm1),
        ("cbrt", lambda x: x ** (1 / 3)),
    ],
)
def test_functions_made_of_others_have_the_values_of_their_definitions(name, value):
    for x in (1.25, 3.0):
        assert float(parse_expression(f"{name}({x})", [])) == pytest.approx(value(x), rel=1e-14)
