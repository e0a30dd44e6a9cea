"""Functions of the model as a tape: a list of elementary operations that an interpreter runs on many numbers at once.

A right-hand side such as `r*N*(1 - N/K)` becomes a few operations on numbered registers,

    6 = 1/K        7 = N*6        8 = 1 - 7        9 = r*N        10 = 9*8

Each register holds one number for every point at which the functions are evaluated, so the interpreter decides once
for each operation what to do, and the work is done by loops over arrays. Equal expressions share one register. The
operations that depend only on parameters come first: they are run once for many points.

A tape contains nothing but numbers, so a model from an untrusted file can do no more than compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import symengine as se
from numpy.typing import NDArray

from ..model.function_table import Expr
from ..support.array_types import FloatArray
from ..support.errors import ModelError

OPERATIONS = (
    *("add", "subtract", "multiply", "divide", "negate", "reciprocal", "square root", "power"),
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc"),
)
"""Names of the operations; the position of each is its code in `engine.c`."""
_CODES = {name: code for code, name in enumerate(OPERATIONS)}
_FUNCTIONS: dict[str, str] = {
    **{"exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos"},
    **{"atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh"},
    **{"atanh": "atanh", "erf": "erf", "erfc": "erfc"},
}
"""The operation of each function, by its SymEngine name in lower case."""
MAX_WHOLE_POWER = 64
"""Largest whole exponent that is computed by multiplication, at most twelve of them; larger ones use a logarithm.
By judgement."""
ZERO_SUBSTITUTE = 1e-300
"""Number that replaces a state of zero if the tape has logarithms or powers that are not whole.

The derivative of `x^n` by n is `x^n log x`, which tends to zero with x but is not a number at zero. It is the same
number as in `model.expression_map`.
"""


@dataclass(frozen=True)
class InstructionTape:
    """Some functions of (t, states, inputs, parameters) as elementary operations.

    Registers 0 to `len(names) - 1` hold the arguments, the next ones the constants, the others results.

    Attributes
    ----------
    names : tuple of str
        The arguments.
    code : ndarray of int32, (operations, 4)
        Code of the operation, register of the result, registers of the operands (the same one twice if it has one).
    prologue : int
        Number of operations, from the first one, that depend only on parameters and constants.
    constants : ndarray, (constants,)
    outputs : ndarray of int32, (functions,)
        Register of each function.
    registers : int
        Number of registers.
    needs_positive_states : bool
        Whether a state of zero has to be replaced by `ZERO_SUBSTITUTE`.
    """

    names: tuple[str, ...]
    code: NDArray[np.int32]
    prologue: int
    constants: FloatArray
    outputs: NDArray[np.int32]
    registers: int
    needs_positive_states: bool

    def evaluate(self, arguments: FloatArray) -> FloatArray:
        """Evaluate all functions with NumPy.

        Parameters
        ----------
        arguments : ndarray, (arguments, points)

        Returns
        -------
        ndarray, (functions, points)
        """
        values = np.empty((self.registers, arguments.shape[1]))
        count = len(self.names)
        values[:count] = arguments
        values[count : count + len(self.constants)] = self.constants[:, None]
        for code, result, first, second in self.code.tolist():
            values[result] = _apply_operation(OPERATIONS[code], values[first], values[second])
        return values[self.outputs]


def _apply_operation(name: str, a: FloatArray, b: FloatArray) -> FloatArray:
    """Apply an operation to arrays; `b` is ignored if it has one operand."""
    match name:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply":
            return a * b
        case "divide":
            return np.asarray(a / b)
        case "negate":
            return -a
        case "reciprocal":
            return np.asarray(1.0 / a)
        case "square root":
            return np.sqrt(a)
        case "power":
            return np.asarray(a**b)
        case "erf" | "erfc":
            from scipy import special

            return np.asarray(getattr(special, name)(a))
    numpy_names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    numpy_names.update(asinh="arcsinh", acosh="arccosh", atanh="arctanh")
    return np.asarray(getattr(np, numpy_names.get(name, name))(a))


def _read_number(expr: Expr) -> float:
    """Return the value of an expression without symbols, which has to be real and finite."""
    try:
        value = complex(expr if expr.is_Number else expr.n(53, real=False))
    except RuntimeError:  # infinite or undefined
        value = complex(math.nan)
    if value.imag:
        raise ModelError(f"An equation has a constant part that is not real: {expr}.")
    if not math.isfinite(value.real):
        raise ModelError("An equation has a constant part that is not a finite real number, such as 1/0.")
    return value.real


class _TapeWriter:
    """Writes the operations of expressions, each distinct one once.

    Parameters
    ----------
    names : sequence of str
        The arguments, in the order of their registers.
    varying : frozenset of str
        The arguments that differ from point to point: all but the parameters.
    """

    def __init__(self, names: Sequence[str], varying: frozenset[str]) -> None:
        self.names = tuple(names)
        self.registers: dict[Expr, int] = {se.Symbol(name): k for k, name in enumerate(names)}
        self.varies = [name in varying for name in names]
        self.constants: dict[float, int] = {}
        self.operations: dict[tuple[int, int, int], int] = {}
        self.has_logarithm = False

    def write_constant(self, value: float) -> int:
        """Return the register of a constant; constants have negative numbers until the tape is complete."""
        return self.constants.setdefault(value, -1 - len(self.constants))

    def write_operation(self, name: str, first: int, second: int | None = None) -> int:
        """Return the register of the result of an operation."""
        key = (_CODES[name], first, first if second is None else second)
        if name in ("add", "multiply") and key[2] < key[1]:
            key = (key[0], key[2], key[1])
        if key not in self.operations:
            self.operations[key] = len(self.varies)
            self.varies.append(any(register >= 0 and self.varies[register] for register in key[1:]))
        return self.operations[key]

    def is_varying(self, register: int) -> bool:
        """Return True if a register differs from point to point."""
        return register >= 0 and self.varies[register]

    def write(self, expr: Expr) -> int:
        """Return the register of the value of an expression."""
        if expr not in self.registers:
            self.registers[expr] = self._write_new(expr)
        return self.registers[expr]

    def _write_new(self, expr: Expr) -> int:
        """Write an expression that has no register."""
        if expr.is_Number or not expr.free_symbols:
            return self.write_constant(_read_number(expr))
        if expr.is_Symbol:
            raise ModelError(f"An equation contains {expr}, which is not an argument of the function.")
        if expr.is_Add:
            return self._write_sum(expr.args)
        if expr.is_Mul:
            return self._write_product(expr.args)
        if expr.is_Pow:
            return self._write_power(*expr.args)
        name = type(expr).__name__.lower()
        if name == "abs":
            argument = self.write(expr.args[0])
            return self.write_operation("square root", self.write_operation("multiply", argument, argument))
        if name not in _FUNCTIONS:
            raise ModelError(f"The compiled engine does not know the function {name!r}.")
        self.has_logarithm |= name == "log"
        return self.write_operation(_FUNCTIONS[name], self.write(expr.args[0]))

    def _reduce(self, name: str, registers: Sequence[int]) -> int:
        """Join registers by an operation, those that depend only on parameters first."""
        ordered = sorted(registers, key=lambda register: (self.is_varying(register), register))
        result = ordered[0]
        for register in ordered[1:]:
            result = self.write_operation(name, result, register)
        return result

    def _write_sum(self, terms: Sequence[Expr]) -> int:
        """Write a sum: terms with a negative factor are subtracted."""
        positive, negative = [], []
        for term in terms:
            coefficient = term if term.is_Number else term.args[0] if term.is_Mul else se.Integer(1)
            if coefficient.is_Number and _read_number(coefficient) < 0:
                negative.append(self.write(-term))
            else:
                positive.append(self.write(term))
        if not negative:
            return self._reduce("add", positive)
        taken = self._reduce("add", negative)
        if not positive:
            return self.write_operation("negate", taken)
        return self.write_operation("subtract", self._reduce("add", positive), taken)

    def _write_product(self, factors: Sequence[Expr]) -> int:
        """Write a product: a factor of -1 becomes a change of sign."""
        kept = [factor for factor in factors if factor != -1]
        result = self._reduce("multiply", [self.write(factor) for factor in kept])
        return result if len(kept) == len(factors) else self.write_operation("negate", result)

    def _write_power(self, base: Expr, exponent: Expr) -> int:
        """Write a power: by multiplication and roots if the exponent is a whole number or a half."""
        if base == se.E:
            return self.write_operation("exp", self.write(exponent))
        if exponent.is_Number:
            value = _read_number(exponent)
            if value < 0:
                return self.write_operation("reciprocal", self.write(base ** (-exponent)))
            # A model from a text may have 2.0 in place of 2.
            if (2 * value).is_integer() and value <= MAX_WHOLE_POWER:
                whole, half = divmod(int(2 * value), 2)
                root = self.write_operation("square root", self.write(base)) if half else None
                if not whole:
                    assert root is not None
                    return root
                power = self._write_whole_power(self.write(base), whole)
                return power if root is None else self.write_operation("multiply", power, root)
        self.has_logarithm = True
        return self.write_operation("power", self.write(base), self.write(exponent))

    def _write_whole_power(self, base: int, exponent: int) -> int:
        """Write a whole power by repeated squaring."""
        if exponent == 1:
            return base
        half = self._write_whole_power(base, exponent // 2)
        square = self.write_operation("multiply", half, half)
        return self.write_operation("multiply", square, base) if exponent % 2 else square


def write_tape(
    arguments: Sequence[str],
    parameters: Sequence[str],
    expressions: Sequence[Expr],
    exponentials: Mapping[str, str] | None = None,
) -> InstructionTape:
    """Write the tape of some expressions.

    Parameters
    ----------
    arguments : sequence of str
        `t`, the states and the inputs.
    parameters : sequence of str
        They follow the other arguments.
    expressions : sequence of expressions, (functions,)
    exponentials : mapping of str to str, optional
        Names in the expressions that are the exponential of an argument: states on a log scale.

    Returns
    -------
    InstructionTape

    Raises
    ------
    ModelError
        If an expression contains a function that the tape does not have, or a constant that is not finite.
    """
    names = (*arguments, *parameters)
    writer = _TapeWriter(names, frozenset(arguments))
    for name, argument in (exponentials or {}).items():
        writer.registers[se.Symbol(name)] = writer.write_operation("exp", names.index(argument))
    wanted = [writer.write(se.sympify(expr)) for expr in expressions]
    return _complete_tape(writer, wanted)


def _complete_tape(writer: _TapeWriter, wanted: list[int]) -> InstructionTape:
    """Drop unused operations, move those of parameters to the front, and reuse registers whose value is not needed."""
    inputs = len(writer.names)
    by_result = {result: (code, a, b) for (code, a, b), result in writer.operations.items()}
    needed: set[int] = set()
    stack = list(wanted)
    while stack:
        register = stack.pop()
        if register >= inputs and register not in needed:
            needed.add(register)
            stack += by_result[register][1:]
    ordered = sorted(needed, key=lambda register: (writer.varies[register], register))
    prologue = sum(not writer.varies[register] for register in ordered)
    last_use = {register: len(ordered) for register in wanted}
    for position, register in enumerate(ordered):
        for operand in by_result[register][1:]:
            last_use[operand] = max(last_use.get(operand, -1), position)
    constants = np.array(list(writer.constants), dtype=float)
    place = {-1 - k: inputs + k for k in range(len(constants))} | {k: k for k in range(inputs)}
    free: list[int] = []
    total = inputs + len(constants)
    code = np.zeros((len(ordered), 4), dtype=np.int32)
    for position, register in enumerate(ordered):
        name_code, a, b = by_result[register]
        operands = place[a], place[b]
        # Results of the prologue are kept: the other operations are run again for the next points.
        free += [
            place[operand]
            for operand in {a, b}
            if operand >= inputs and writer.varies[operand] and last_use[operand] == position
        ]
        if free and position >= prologue:
            place[register] = free.pop()
        else:
            place[register], total = total, total + 1
        code[position] = name_code, place[register], *operands
    outputs = np.array([place[register] for register in wanted], dtype=np.int32)
    return InstructionTape(
        names=writer.names,
        code=code,
        prologue=prologue,
        constants=constants,
        outputs=outputs,
        registers=total,
        needs_positive_states=writer.has_logarithm,
    )
