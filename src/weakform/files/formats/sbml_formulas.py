"""Formulas of SBML documents as text that our own parser reads, self-contained and bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ...support.errors import ModelError

MAX_DEPTH = 100
MAX_NODES = 100_000
_CALLS = {
    "EXP": "exp",
    "LN": "log",
    "ABS": "abs",
    "SIN": "sin",
    "COS": "cos",
    "TAN": "tan",
    "ARCSIN": "asin",
    "ARCCOS": "acos",
    "ARCTAN": "atan",
    "SINH": "sinh",
    "COSH": "cosh",
    "TANH": "tanh",
    "ARCSINH": "asinh",
    "ARCCOSH": "acosh",
    "ARCTANH": "atanh",
    **{name: name.lower() for name in ("COT", "SEC", "CSC", "ARCCOT", "ARCSEC", "ARCCSC", "COTH", "SECH", "CSCH")},
}
_COMPARED = {"RELATIONAL_LT": "<", "RELATIONAL_LEQ": "<=", "RELATIONAL_GT": ">", "RELATIONAL_GEQ": ">="}
_NUMBERS = {
    "AST_CONSTANT_PI": "pi",
    "AST_CONSTANT_E": "exp(1)",
    "AST_NAME_TIME": "t",
    "AST_NAME_AVOGADRO": "6.02214179e23",
}
_CHAINS = {"AST_PLUS": "+", "AST_MINUS": "+", "AST_TIMES": "*", "AST_DIVIDE": "*"}
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}


class Formulas:
    """The walk through the formulas of one SBML model.

    Parameters
    ----------
    libsbml : module
    model : libsbml.Model
    where : str
        What it is, for error messages.

    Attributes
    ----------
    names : dict of str to str
        Our name for each identifier of the document.
    """

    def __init__(self, libsbml: Any, model: Any, where: str) -> None:
        self.model, self.where = model, where
        self.kinds = {
            getattr(libsbml, n): n
            for n in dir(libsbml)
            if n.startswith("AST_") and isinstance(getattr(libsbml, n), int)
        }
        self.names: dict[str, str] = {}
        self.rates: dict[str, str] = {}
        self.rules: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        self.nodes = 0

    def error(self, what: str) -> ModelError:
        """An error that names the document."""
        return ModelError(f"{self.where}: {what}")

    def text(self, node: Any, local: dict[str, str] | None = None, depth: int = 0) -> str:
        """A formula as text for our parser, self-contained: in parentheses unless it is a name, a number or a call."""
        self.nodes += 1
        if node is None:
            raise self.error("a formula is missing.")
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise self.error(f"formulas are nested more than {MAX_DEPTH} deep, or have more than {MAX_NODES} parts.")
        kind = self.kinds.get(node.getType(), str(node.getType()))
        inside = [node.getChild(k) for k in range(node.getNumChildren())]

        def shown(child: Any) -> str:
            return self.text(child, local, depth + 1)

        if kind in ("AST_INTEGER", "AST_REAL", "AST_REAL_E", "AST_RATIONAL"):
            return self._number(node, kind)
        if kind == "AST_NAME":
            return self._name(node.getName(), local or {})
        if kind in _NUMBERS:
            return _NUMBERS[kind]
        if kind in _CHAINS:
            return self._chain(node, _CHAINS[kind], shown)
        if kind in ("AST_POWER", "AST_FUNCTION_POWER") and len(inside) == 2:
            return f"({shown(inside[0])}**{shown(inside[1])})"
        if kind == "AST_FUNCTION_ROOT" and inside:
            degree = shown(inside[0]) if len(inside) == 2 else "2"
            return f"({shown(inside[-1])}**(1/{degree}))"
        if kind == "AST_FUNCTION_LOG" and inside:
            base = shown(inside[0]) if len(inside) == 2 else "10"
            return f"(log({shown(inside[-1])})/log({base}))"
        function = kind.removeprefix("AST_").removeprefix("FUNCTION_")
        if function in _CALLS and len(inside) == 1:
            return f"{_CALLS[function]}({shown(inside[0])})"
        if kind == "AST_FUNCTION_PIECEWISE" and inside:
            return self._piecewise(inside, shown, local, depth)
        if kind in ("AST_FUNCTION_MIN", "AST_FUNCTION_MAX") and inside:
            sign, values = "<" if kind.endswith("MIN") else ">", [shown(child) for child in inside]
            self.nodes += sum(map(len, values)) * len(values) // 8
            plain = [value for value in values if _is_number(value)]
            if plain:  # of numbers one is left
                best = (min if sign == "<" else max)(plain, key=float)
                values = [*(value for value in values if value not in plain), best]
            parts = []
            for k, value in enumerate(values[:-1]):
                parts += [value, "(" + " and ".join(f"{value} {sign} {other}" for other in values[k + 1 :]) + ")"]
            return f"piecewise({', '.join([*parts, values[-1]])})" if parts else values[0]
        if kind == "AST_FUNCTION_RATE_OF" and len(inside) == 1:
            return self._rate_of(inside[0].getName() or "")
        if kind == "AST_FUNCTION":
            return self._call(node.getName(), [shown(child) for child in inside], depth)
        raise self.error(
            f"{node.getName() or function.lower()!r} in a formula cannot be translated; right-hand sides must be "
            "smooth between jumps, and without delays."
        )

    def _piecewise(
        self, inside: list[Any], shown: Callable[[Any], str], local: dict[str, str] | None, depth: int
    ) -> str:
        parts = []
        for k in range(0, len(inside) - 1, 2):
            parts += [shown(inside[k]), self.condition(inside[k + 1], local, depth + 1)]
        if len(inside) % 2 == 0:
            parts.append("0")
        else:
            parts.append(shown(inside[-1]))
        return f"piecewise({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def condition(self, node: Any, local: dict[str, str] | None, depth: int) -> str:
        """A condition as text for our parser."""
        kind = self.kinds.get(node.getType(), "").removeprefix("AST_")
        inside = [node.getChild(k) for k in range(node.getNumChildren())]
        if depth > MAX_DEPTH:
            raise self.error(f"formulas are nested more than {MAX_DEPTH} deep.")
        if kind in _COMPARED and len(inside) == 2:
            left, right = (self.text(child, local, depth + 1) for child in inside)
            return f"({left} {_COMPARED[kind]} {right})"
        if kind in ("LOGICAL_AND", "LOGICAL_OR") and inside:
            word = f" {kind.removeprefix('LOGICAL_').lower()} "
            return "(" + word.join(self.condition(child, local, depth + 1) for child in inside) + ")"
        if kind == "LOGICAL_NOT" and len(inside) == 1:
            return f"(not {self.condition(inside[0], local, depth + 1)})"
        raise self.error(
            f"the condition {kind.lower().removeprefix('relational_')!r} cannot be translated; conditions are "
            "comparisons (<, <=, >, >=) joined by and, or and not."
        )

    def rising(self, node: Any, depth: int = 0) -> str:
        """A trigger as a formula that is at least zero where it holds."""
        kind = self.kinds.get(node.getType(), "").removeprefix("AST_")
        inside = [node.getChild(k) for k in range(node.getNumChildren())]
        if depth > MAX_DEPTH:
            raise self.error(f"formulas are nested more than {MAX_DEPTH} deep.")
        if kind in _COMPARED and len(inside) == 2:
            left, right = (self.text(child) for child in inside)
            return f"({left} - {right})" if ">" in _COMPARED[kind] else f"({right} - {left})"
        if kind == "LOGICAL_NOT" and len(inside) == 1:
            return f"(-{self.rising(inside[0], depth + 1)})"
        if kind in ("LOGICAL_AND", "LOGICAL_OR") and inside:
            sign, whole = "-" if kind == "LOGICAL_AND" else "+", self.rising(inside[0], depth + 1)
            for child in inside[1:]:  # the smaller, or the larger, of two
                other = self.rising(child, depth + 1)
                self.nodes += (len(whole) + len(other)) // 8
                whole = f"(({whole} + {other} {sign} abs({whole} - {other}))/2)"
            return whole
        raise self.error(f"the trigger {kind.lower()!r} of an event cannot be translated; it must be a comparison.")

    def _rate_of(self, name: str) -> str:
        if name not in self.names:
            raise self.error(f"rateOf {name!r} cannot be translated: nothing has this name.")
        self.asked[f"rate_of_{self.names[name]}_"] = name
        return f"rate_of_{self.names[name]}_"

    def _number(self, node: Any, kind: str) -> str:
        value = float(node.getValue())
        if not math.isfinite(value):
            raise self.error(f"a formula has the number {value}.")
        text = str(int(value)) if kind == "AST_INTEGER" else repr(value)
        return f"({text})" if value < 0 else text

    def _name(self, name: str, local: dict[str, str]) -> str:
        if name in local:
            return local[name]
        if name not in self.names:
            raise self.error(f"{name!r} is used in a formula, but nothing has this name.")
        return self.names[name]

    def _call(self, name: str, arguments: list[str], depth: int) -> str:
        """A function of the file, with its arguments in place."""
        function = self.model.getFunctionDefinition(name)
        if function is None or function.getBody() is None or function.getNumArguments() != len(arguments):
            raise self.error(f"the function {name!r} is not defined, or has another number of arguments.")
        names = [function.getArgument(k).getName() for k in range(len(arguments))]
        self.nodes += sum(map(len, arguments)) // 8
        return self.text(function.getBody(), dict(zip(names, arguments, strict=True)), depth + 1)

    def _chain(self, node: Any, plain: str, shown: Callable[[Any], str]) -> str:
        """A sum or a product with all the sums, or products, in it: as long as it likes, it is one level deep."""
        parts: list[tuple[str, str]] = []
        stack = [(plain, node)]
        while stack:
            sign, part = stack.pop()
            kind = self.kinds.get(part.getType(), "")
            if _CHAINS.get(kind) != plain:
                parts.append((sign, shown(part)))
                continue
            self.nodes += 1
            inside = [part.getChild(k) for k in range(part.getNumChildren())]
            inverse = kind in ("AST_MINUS", "AST_DIVIDE")
            if inverse and len(inside) == 1 and kind == "AST_MINUS":
                stack.append((_INVERSE[sign], inside[0]))
                continue
            if inverse and len(inside) != 2:
                raise self.error("a difference or a quotient does not have two parts.")
            signs = [sign, _INVERSE[sign]] if inverse else [sign] * len(inside)
            stack += reversed(list(zip(signs, inside, strict=True)))
        if not parts:
            return "0" if plain == "+" else "1"
        first = {"+": "", "-": "-", "*": "", "/": "1/"}[parts[0][0]]
        return "(" + first + parts[0][1] + "".join(f" {sign} {text}" for sign, text in parts[1:]) + ")"

    def refuse(self) -> None:
        """Name what cannot be translated."""
        model = self.model
        for reaction in model.getListOfReactions():
            if reaction.isSetFast() and reaction.getFast():
                raise self.error(f"the reaction {reaction.getId()!r} is fast, which cannot be translated.")


def names_in(text: str) -> set[str]:
    """Every name in a formula; the e of 1e-05 is none."""
    return set(re.findall(r"(?<![\w.])[^\W\d]\w*", text))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
