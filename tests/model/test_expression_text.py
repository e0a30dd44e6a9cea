"""Expressions written as text are read back unchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weakform as wf
from support import ALL, MODELS
from weakform.model.expression_text import format_expression
from weakform.model.expressions import parse_expression


def are_equal(first, second):
    rng = np.random.default_rng(0)
    u, p = rng.uniform(0.5, 2, (5, len(first.states))), rng.uniform(0.5, 2, len(first.parameters))
    return np.array_equal(first(np.arange(5.0), u, p), second(np.arange(5.0), u, p))


@pytest.mark.parametrize("name", [*MODELS, *ALL])
def test_text_round_trip_is_exact(name):
    model = wf.problems.get(name).model if name in ALL else wf.Model.from_text(MODELS[name])
    equations = dict(zip(model.states, model.expressions, strict=True))
    for expr in equations.values():
        if any("'" in str(s) for s in expr.free_symbols):
            continue
        assert parse_expression(format_expression(expr), ["t", *model.states, *model.parameters]) == expr
    copy = wf.Model.from_text(str(model), parameters=model.parameters)
    assert copy.states == model.states
    assert are_equal(copy, model) or name in MODELS


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e250, max_value=1e250))
def test_numbers_round_trip_to_the_last_bit(value):
    expr = parse_expression(f"({value!r})*x", ["x"])
    assert parse_expression(format_expression(expr), ["x"]) == expr
