"""Tapes compute what SymEngine computes, in NumPy and compiled, and contain nothing else."""

import numpy as np
import pytest
import symengine as se
from hypothesis import given
from hypothesis import strategies as st
from lane_cases import COMPILED, build_tape_passes, use_instruction_set

import weakform as wf
from weakform.engine.instruction_tape import MAX_WHOLE_POWER, OPERATIONS, write_tape
from weakform.engine.passes import from_groups
from weakform.model.function_table import FUNCTIONS
from weakform.support.errors import ModelError

X, Y, Z, A, B = se.symbols("x y z a b")
VARIABLES = (X, Y, A, B)
SAMPLES = np.random.default_rng(0).uniform(0.2, 0.9, (4, 50)) * np.array([[1], [3], [-1], [1]])
"""Values of x, y, a and b. The first lies in the domain of all functions but two."""


def evaluate(expressions, values=SAMPLES, arguments=("x", "y"), parameters=("a", "b")):
    """Evaluate expressions by a tape, `(expressions, points)`."""
    with np.errstate(all="ignore"):
        return write_tape(arguments, parameters, expressions).evaluate(np.asarray(values, dtype=float))


def lambdify(expressions, values=SAMPLES, variables=VARIABLES):
    """Evaluate expressions by SymEngine, `(expressions, points)`."""
    function = se.Lambdify(list(variables), [se.sympify(e) for e in expressions])
    return np.array([function(point) for point in np.asarray(values, dtype=float).T]).T


def apply_function(name, *arguments):
    """Apply a function of models to as many of the arguments as it takes."""
    count, function = FUNCTIONS[name]
    return function(*arguments[:count])


def list_operations(tape):
    """Return the names of the operations of a tape."""
    return [OPERATIONS[code] for code in tape.code[:, 0]]


# ---- Functions and operations ----


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_derivatives_are_those_of_symengine(name):
    """Points are in and outside the domain; outside it both are NaN."""
    # Above one only arccosh, arcsec and arccsc are defined, below one only their counterparts.
    for argument in (X, -X, 1 + X, 4 * X, Y * X):
        e = apply_function(name, argument, Y, B)
        expressions = [e, e.diff(X), e.diff(Y)]
        got, expected = evaluate(expressions), lambdify(expressions)
        finite = np.isfinite(expected)
        assert np.array_equal(np.isfinite(got), finite)
        assert got[finite] == pytest.approx(expected[finite], rel=1e-12, abs=1e-12)
    inverse = name.removeprefix("arc").removeprefix("a")
    e = apply_function(name, 1 + X if name != inverse and inverse in ("cosh", "sec", "csc") else X, Y, B)
    assert np.isfinite(evaluate([e])).all()


def test_each_operation_is_used_and_computes_what_its_name_says():
    """Every operation has an expression that uses it, so that no code of the interpreter is untested."""
    numpy_names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    numpy_names |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
    x, y, a, _ = SAMPLES
    from scipy import special

    cases = {
        "add": (X + Y, x + y),
        "subtract": (X - Y, x - y),
        "multiply": (X * Y, x * y),
        "negate": (-X, -x),
        "reciprocal": (1 / X, 1 / x),
        "square root": (se.sqrt(X), np.sqrt(x)),
        "power": (X**A, x**a),
        "acosh": (se.acosh(1 + X), np.arccosh(1 + x)),
        "erf": (se.erf(Y), special.erf(y)),
        "erfc": (se.erfc(Y), special.erfc(y)),
    }
    for name in OPERATIONS[8:]:
        if name not in cases:
            cases[name] = (getattr(se, name)(X), getattr(np, numpy_names.get(name, name))(x))
    # A quotient is the product with a reciprocal; no expression divides.
    assert set(cases) | {"divide"} == set(OPERATIONS)
    for name, (e, expected) in cases.items():
        tape = write_tape(("x", "y"), ("a", "b"), [e])
        assert name in list_operations(tape)
        assert tape.evaluate(SAMPLES)[0] == pytest.approx(expected, rel=1e-15, abs=0), name


@pytest.mark.parametrize("exponent", [*range(-9, 10), 31, MAX_WHOLE_POWER, MAX_WHOLE_POWER + 1, 200, -65])
def test_whole_powers_are_exact_for_both_signs_of_the_base(exponent):
    values = np.array([[-1.7, -0.3, 0.6, 1.0, 2.5]] * 4)
    got = evaluate([X ** se.Integer(exponent)], values)[0]
    assert got == pytest.approx(values[0] ** exponent, rel=1e-14, abs=0)
    tape = write_tape(("x",), (), [X ** se.Integer(exponent)])
    assert ("power" in list_operations(tape)) == (abs(exponent) > MAX_WHOLE_POWER)
    if "power" not in list_operations(tape):
        assert len(tape.code) <= 12


@pytest.mark.parametrize("twice", [1, 3, 5, 7, 127, -1, -3, -5])
def test_half_powers_are_roots(twice):
    tape = write_tape(("x",), (), [X ** se.Rational(twice, 2)])
    assert "power" not in list_operations(tape)
    assert not tape.needs_positive_states
    values = np.array([[0.3, 1.0, 2.5]])
    assert tape.evaluate(values)[0] == pytest.approx(values[0] ** (twice / 2), rel=1e-14)


@pytest.mark.parametrize("exponent", [2.0, 3.0, -2.0, 2.5, 0.5, -0.5])
def test_decimal_exponents_are_those_of_whole_and_half_numbers(exponent):
    """A model from a text has decimals: `x^2.0` is defined for negative x."""
    model = wf.Model.from_text(f"x' = k*x^{exponent}" if exponent > 0 else f"x' = k*x^({exponent})")
    tape = write_tape(("x",), ("k",), model.expressions)
    assert "power" not in list_operations(tape)
    values = np.array([[-1.5, 0.3, 2.5], [2.0, 2.0, 2.0]])
    with np.errstate(all="ignore"):
        assert tape.evaluate(values)[0] == pytest.approx(2 * values[0] ** exponent, rel=1e-14, nan_ok=True)


@pytest.mark.parametrize("exponent", [se.Rational(1, 3), se.Rational(-2, 3), 0.37, se.pi, A, A * Y, -B])
def test_other_powers_need_positive_states(exponent):
    tape = write_tape(("x", "y"), ("a", "b"), [X**exponent])
    assert tape.needs_positive_states
    assert tape.evaluate(SAMPLES) == pytest.approx(lambdify([X**exponent]), rel=1e-13)


def test_only_logarithms_and_general_powers_need_positive_states():
    for e in (X + Y, se.exp(X) / Y, X**3, se.sqrt(X), se.sin(X)):
        assert not write_tape(("x", "y"), (), [e]).needs_positive_states
    for e in (se.log(X), X**A, 1 + se.log(Y) * X):
        assert write_tape(("x", "y"), ("a",), [e]).needs_positive_states


def test_constants_are_numbers():
    expressions = [se.pi * X, se.E**X, se.sqrt(2) * X, se.Rational(1, 3) + X, X * 0.1, se.log(se.Integer(10)) * X]
    expressions += [se.exp(se.Rational(1, 2)) - X, se.Integer(7), se.pi**2, se.sin(se.Integer(1)) / X]
    got, x = evaluate(expressions), SAMPLES[0]
    expected = [np.pi * x, np.exp(x), np.sqrt(2) * x, 1 / 3 + x, 0.1 * x, np.log(10) * x, np.exp(0.5) - x]
    expected += [np.full_like(x, 7), np.full_like(x, np.pi**2), np.sin(1) / x]
    assert got == pytest.approx(np.array(expected), rel=1e-15, abs=0)
    # Equal constants share a register.
    assert len(write_tape(("x", "y"), (), [2 * X + 2 * Y * X, 2 + X]).constants) == 1


def test_states_on_a_log_scale_are_exponentials_of_their_arguments():
    tape = write_tape(("log x", "y"), ("a",), [X * Y, X.diff(X) * X, A / X], {"x": "log x"})
    values = np.array([[-0.3, 2.0], [1.5, 0.5], [3.0, 4.0]])
    x = np.exp(values[0])
    assert tape.evaluate(values) == pytest.approx(np.array([x * values[1], x, values[2] / x]), rel=1e-15)


# ---- Registers ----


def check_registers(tape):
    """Check that operations read what has been written, and overwrite nothing that is needed.

    Arguments, constants and the results of the prologue are never overwritten: the operations after the prologue are
    run again for the next points.
    """
    kept = set(range(len(tape.names) + len(tape.constants)))
    written = set(kept)
    for position, (_, result, first, second) in enumerate(tape.code.tolist()):
        assert {first, second} <= written
        assert result not in kept
        written.add(result)
        if position < tape.prologue:
            kept.add(result)
    assert written == set(range(tape.registers))
    assert set(tape.outputs.tolist()) <= written


def test_outputs_may_be_arguments_constants_operands_and_the_same_twice():
    product = X * Y
    expressions = [
        product,
        se.exp(product),
        product,
        X,
        A,
        se.Integer(3),
        product + se.exp(product),
        Y,
        A * B,
        A * B + X,
    ]
    tape = write_tape(("x", "y"), ("a", "b"), expressions)
    check_registers(tape)
    assert tape.outputs[0] == tape.outputs[2]
    assert tape.outputs[[3, 7, 4]].tolist() == [0, 1, 2]
    x, y, a, b = SAMPLES
    expected = [x * y, np.exp(x * y), x * y, x, a, np.full_like(x, 3), x * y + np.exp(x * y), y, a * b, a * b + x]
    assert tape.evaluate(SAMPLES) == pytest.approx(np.array(expected), rel=1e-15)


def test_registers_are_used_again():
    """A chain of sixty operations needs two registers, not sixty."""
    e = X
    for _ in range(20):
        e = se.cos(se.sin(e) * Y)
    tape = write_tape(("x", "y"), (), [e])
    assert len(tape.code) == 60
    assert tape.registers <= len(tape.names) + len(tape.constants) + 2
    check_registers(tape)
    assert tape.evaluate(SAMPLES[:2]) == pytest.approx(lambdify([e], SAMPLES[:2], (X, Y)), rel=1e-12)


def test_operations_of_parameters_come_first_and_unused_ones_are_dropped():
    tape = write_tape(("x",), ("a", "b"), [se.exp(A / B) * X + se.sqrt(A), se.exp(A / B)])
    names = list_operations(tape)
    assert sorted(names[: tape.prologue]) == ["exp", "multiply", "reciprocal", "square root"]
    assert sorted(names[tape.prologue :]) == ["add", "multiply"]
    check_registers(tape)
    # A constant does not differ from point to point.
    assert write_tape(("x",), ("a",), [se.sin(X), 2 * A, A / 3 - 1]).prologue == 3


def test_equal_expressions_are_computed_once():
    assert list_operations(write_tape(("x", "y"), (), [se.exp(X * Y) + 1, 2 * se.exp(X * Y), Y * X])).count("exp") == 1
    assert list_operations(write_tape(("x", "y"), (), [X * Y, Y * X])) == ["multiply"]
    assert list_operations(write_tape(("x", "y"), (), [X - Y, Y - X])).count("subtract") == 2


# ---- Random expressions ----


def join(name, left, right):
    """Join two expressions; the base of a power and the argument of a logarithm are positive."""
    positive = left**2 + se.Rational(1, 10)
    return {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": left / (right**2 + se.Rational(1, 2)),
        "**": positive ** (right / (1 + right**2)),
        "exp": se.exp(-(left**2)) * right,
        "log": se.log(positive) + right,
        "sin": se.sin(left) - right,
        "cos": se.cos(right) / positive,
        "sqrt": se.sqrt(positive) * right,
        "tanh": se.tanh(left) - right**3,
        "erf": se.erf(right) + left,
        "-1": -left * (-right),
    }[name]


NAMES = ("+", "-", "*", "/", "**", "exp", "log", "sin", "cos", "sqrt", "tanh", "erf", "-1")
LEAVES = st.one_of(
    st.sampled_from(VARIABLES),
    st.integers(-4, 4).map(se.Integer),
    st.sampled_from([0.25, -1.5, 3.1]).map(se.RealDouble),
    st.builds(se.Rational, st.integers(-5, 5), st.integers(1, 7)),
)
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.builds(join, st.sampled_from(NAMES), inner, inner), max_leaves=8)
POINTS = SAMPLES[:, :8]


def find_well_conditioned(expressions, expected):
    """Return True where a change of the arguments by 1e-9 changes an expression by less than 1e-6 of its size."""
    moved = [lambdify(expressions, POINTS * (1 + 1e-9 * sign)) for sign in (np.array([[1], [-1], [1], [-1]]), 1)]
    with np.errstate(all="ignore"):
        change = np.maximum(*(np.abs(m - expected) for m in moved))
        return np.isfinite(expected) & (np.abs(expected) > 1e-6) & (change <= 1e-6 * np.abs(expected))


@given(st.lists(EXPRESSIONS, min_size=1, max_size=4))
def test_random_expressions_and_their_derivatives_are_those_of_symengine(values):
    every = [*values, *(e.diff(v) for e in values for v in VARIABLES)]
    every = [e for e in every if not se.sympify(e).free_symbols or se.sympify(e).free_symbols <= set(VARIABLES)]
    tape = write_tape(("x", "y"), ("a", "b"), every)
    check_registers(tape)
    got, expected = tape.evaluate(POINTS), lambdify(every, POINTS)
    good = find_well_conditioned(every, expected)
    assert got[good] == pytest.approx(expected[good], rel=1e-9)


# ---- What a tape refuses ----


@pytest.mark.parametrize(
    "expression",
    [
        *(se.zoo, se.nan, se.oo, X + se.zoo, se.log(se.Integer(0)), X / se.Integer(0)),
        *(se.I, X + se.I, se.I * X, se.sqrt(se.Integer(-2)) * X, se.log(se.Integer(-1)) * X, X**se.I),
        *(se.RealDouble(float("nan")) * X, se.RealDouble(float("inf")) + X, se.Integer(10) ** 400 * X),
        *(Z, X + Z, se.Function("system")(X), se.Function("f")(X).diff(X), se.sign(X), se.floor(X), se.gamma(X)),
        *(se.Max(X, Y), se.Piecewise((X, X > 0), (Y, True)), X > 0, se.true),
    ],
    ids=str,
)
def test_what_is_not_a_real_function_of_the_arguments_is_refused(expression):
    with pytest.raises(ModelError):
        write_tape(("x", "y"), ("a",), [expression])


def test_a_tape_contains_only_numbers():
    tape = write_tape(("x", "y"), ("a",), [se.exp(X) / (A + Y)])
    assert tape.code.dtype == np.int32
    assert tape.code[:, 0].min() >= 0
    assert tape.code[:, 0].max() < len(OPERATIONS)
    assert tape.code[:, 1:].min() >= 0
    assert tape.code[:, 1:].max() < tape.registers
    assert tape.constants.dtype == float


# ---- The compiled interpreter ----

EXTREME = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 1e-8, -1e-8, 0.999999999, 1.0000001, np.pi, np.pi / 2),
        *(5e-324, 1e-310, -1e-310, 2.3e-308, 1e-300, 1e300, -1e300, 700.0, -700.0, 709.0, -707.9, 800.0, -800.0),
        *(99_999.5, -99_999.5, 1e5, 1e7, 1e22, -1e22, np.nan, np.inf, -np.inf),
        *np.random.default_rng(1).uniform(-20, 20, 25),
        *10 ** np.random.default_rng(2).uniform(-12, 5, 20),
    ]
)
"""Arguments at which exponentials overflow, logarithms see subnormal numbers, and angles are huge."""


def run_both(monkeypatch, level, expressions, values, width, names=("x",)):
    """Evaluate expressions at `values` `(points, states)` compiled and by NumPy, `(points, expressions)` each.

    Three lanes have the points in a different order, so that each point meets others in its tile.
    """
    count = len(values)
    lanes = np.array([values, values[::-1], np.roll(values, count // 3, axis=0)])
    results = []
    for name in (level, "numpy"):
        use_instruction_set(monkeypatch, name)
        with np.errstate(all="ignore"):
            out = from_groups(build_tape_passes(names, expressions, lanes, width).evaluate(), 3)
        again = np.array([out[0], out[1][::-1], np.roll(out[2], -(count // 3), axis=0)])
        if name == "numpy":
            assert np.array_equal(again[0], again[1], equal_nan=True)
        results.append(again)
    return results


def assert_close(got, expected, rel=1e-13, absolute=0.0):
    """Assert that arrays agree: NaN with NaN, infinities with infinities, numbers to a relative or absolute error."""
    with np.errstate(all="ignore"):
        same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
        close = same | (np.abs(got - expected) <= absolute + rel * np.abs(expected) + 1e-307)
    assert close.all(), (got[~close][:5], expected[~close][:5])


@pytest.mark.parametrize("width", [8, 1])
@pytest.mark.parametrize("level", COMPILED)
def test_compiled_functions_agree_with_numpy_at_extreme_arguments(monkeypatch, level, width):
    single = [name for name, (count, _) in FUNCTIONS.items() if count == 1]
    expressions = [apply_function(name, X) for name in single]
    got, expected = run_both(monkeypatch, level, expressions, EXTREME[:, None], width)
    for k, name in enumerate(single):
        # A cube root, as any power that is not whole, is `exp(b log a)`, which is NaN for minus infinity.
        rows = np.isfinite(EXTREME) if name == "cbrt" else np.ones(len(EXTREME), dtype=bool)
        # These two are written as they read, `log(1 + x)` and `exp(x) - 1`: near zero their rounding is absolute.
        is_difference = name in ("log1p", "expm1")
        assert_close(got[:, rows, k], expected[:, rows, k], absolute=1e-15 if is_difference else 0.0)


@pytest.mark.parametrize("level", COMPILED)
def test_compiled_sines_agree_with_numpy_near_multiples_of_a_quarter_turn(monkeypatch, level):
    """Below 1e5 the compiled code reduces the angle itself, in three parts; the error is absolute."""
    turns = np.pi / 2 * np.random.default_rng(4).integers(-60_000, 60_000, 300)
    angles = np.concatenate([turns, np.linspace(-99_999, 99_999, 301), np.linspace(-8, 8, 301)])
    got, expected = run_both(monkeypatch, level, [se.sin(X), se.cos(X), se.tan(X)], angles[:, None], 8)
    assert_close(got, expected, 1e-13, absolute=2.3e-16)


@pytest.mark.parametrize("level", COMPILED)
def test_compiled_powers_agree_with_numpy(monkeypatch, level):
    bases = [0.0, 1e-300, 1e-8, 0.3, 1.0, 1.7, 40.0, 1e300, np.inf, np.nan]
    exponents = [0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-5, 0.37, 2.7, -7.1, np.nan]
    values = np.array([(a, b) for a in bases for b in exponents if not (a == 1 and np.isnan(b))])
    got, expected = run_both(monkeypatch, level, [X**Y], values, 8, ("x", "y"))
    # The rounding of `b log a` is that of its size: 7.1 log 1e300 = 4905.
    assert_close(got, expected, 2e-13)


@pytest.mark.parametrize("level", COMPILED)
def test_compiled_powers_of_negative_bases_agree_with_numpy(monkeypatch, level):
    """`x^n` with a parameter n = 2 is defined for negative x, and so is `x^65`."""
    values = np.array([(a, b) for a in (-1.5, -0.2, -40.0) for b in (0.0, 1.0, 2.0, -3.0, 11.0, 0.5, 2.5)])
    got, expected = run_both(monkeypatch, level, [X**Y, X**65], values, 8, ("x", "y"))
    assert_close(got, expected)


@pytest.mark.parametrize("width", [8, 1])
@pytest.mark.parametrize("level", COMPILED)
def test_compiled_tapes_use_registers_as_numpy_does(monkeypatch, level, width):
    """Results that replace their operand, that are needed again, and outputs that are arguments or constants."""
    p = se.Symbol("p")
    e = X
    for k in range(6):
        e = se.sin(e) * Y - se.Integer(k + 1) / (1 + e**2)
    expressions = [e, se.sin(X), se.cos(se.sin(X)), X, se.Integer(2), X, p, se.exp(p), se.exp(p) * X, e.diff(X), -e]
    values = np.random.default_rng(3).uniform(-2, 2, (70, 2))
    got, expected = run_both(monkeypatch, level, expressions, values, width, ("x", "y"))
    assert_close(got, expected, 1e-11)
    assert_close(got[:, :, [1, 2, 3, 4, 5, 6, 7, 8]], expected[:, :, [1, 2, 3, 4, 5, 6, 7, 8]], 1e-14)


@pytest.mark.parametrize("level", [*COMPILED, "numpy"])
def test_a_state_of_zero_has_the_limit_of_its_power(monkeypatch, level):
    """`x^n log x`, the derivative of `x^n` by n, tends to zero with x; a polynomial sees the zero itself."""
    use_instruction_set(monkeypatch, level)
    values = np.zeros((1, 3, 1))
    passes = build_tape_passes(("x",), [X ** se.Symbol("p"), X ** se.Symbol("p") * se.log(X)], values)
    assert np.abs(from_groups(passes.evaluate(), 1)).max() < 1e-100
    assert (from_groups(build_tape_passes(("x",), [X, 1 / (1 + X)], values).evaluate(), 1)[0] == [0.0, 1.0]).all()
