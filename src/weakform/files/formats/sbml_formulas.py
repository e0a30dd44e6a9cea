"""Translation of SBML formulas into text for our own parser.

A formula is translated node by node. Functions of the document are expanded where they are called, so the text can be
exponentially longer than the document; a budget of nodes for the whole document keeps it bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ...support.errors import ModelError

MAX_FORMULA_DEPTH = 100
"""Levels of nesting of a formula, or of assignment rules that need one another, above which a document is refused. It
is well below Python's recursion limit. By judgement; `tests/files/test_subprocess_reader.py` nests 150 deep."""
MAX_FORMULA_NODES = 100_000
"""Nodes of all formulas of a document together, after functions are expanded, above which it is refused. By judgement;
`tests/files/test_subprocess_reader.py` has thirty functions that each call the one before twice."""
CHARACTERS_PER_NODE = 8
"""Characters of repeated text that count as one node of the budget. By judgement."""
_FUNCTION_NAMES = {
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
"""Our function of one argument for each of libsbml's node types, without their prefix."""
_COMPARISON_SIGNS = {"RELATIONAL_LT": "<", "RELATIONAL_LEQ": "<=", "RELATIONAL_GT": ">", "RELATIONAL_GEQ": ">="}
"""Sign of each comparison in our own formulas."""
_CONSTANT_TEXTS = {
    "AST_CONSTANT_PI": "pi",
    "AST_CONSTANT_E": "exp(1)",
    "AST_NAME_TIME": "t",
    "AST_NAME_AVOGADRO": "6.02214179e23",
}
"""Text of each node that is a constant or the time."""
_CHAINS = {"AST_PLUS": "+", "AST_MINUS": "+", "AST_TIMES": "*", "AST_DIVIDE": "*"}
"""Operators that are written as one flat sum (`+`) or one flat product (`*`)."""
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}
"""The inverse of each operator, for the right side of a difference or a quotient."""


class FormulaTranslator:
    """The translation of the formulas of one SBML model.

    Parameters
    ----------
    libsbml : module
    model : libsbml.Model
    where : str
        Name of the document in errors.

    Attributes
    ----------
    kinds : dict of int to str
        Name of each of libsbml's node types.
    names : dict of str to str
        Our name for each identifier of the document.
    rates, rules : dict of str to str
        Right-hand side of each state, and formula of each abbreviation, by identifier.
    requested_rates : dict of str to str
        Identifier whose rate of change each placeholder stands for, by placeholder.
    nodes : int
        Nodes that were translated, which are bounded by `MAX_FORMULA_NODES`.
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
        self.requested_rates: dict[str, str] = {}
        self.nodes = 0

    def build_error(self, what: str) -> ModelError:
        """Return an error whose message begins with the name of the document."""
        return ModelError(f"{self.where}: {what}")

    def translate_formula(self, node: Any, local: dict[str, str] | None = None, depth: int = 0) -> str:
        """Translate a formula into text for our parser.

        Parameters
        ----------
        node : libsbml.ASTNode
        local : dict of str to str, optional
            Text for names that are defined in this formula only: arguments of a function, parameters of a reaction.
        depth : int
            Level of nesting.

        Returns
        -------
        str
            Self-contained text: in parentheses unless it is a name, a number or a call.
        """
        self.nodes += 1
        if node is None:
            raise self.build_error("a formula is missing.")
        if depth > MAX_FORMULA_DEPTH or self.nodes > MAX_FORMULA_NODES:
            raise self.build_error(
                f"formulas are nested more than {MAX_FORMULA_DEPTH} deep, or have more than {MAX_FORMULA_NODES} parts."
            )
        kind = self.kinds.get(node.getType(), str(node.getType()))
        children = [node.getChild(k) for k in range(node.getNumChildren())]

        def translate_child(child: Any) -> str:
            return self.translate_formula(child, local, depth + 1)

        if kind in ("AST_INTEGER", "AST_REAL", "AST_REAL_E", "AST_RATIONAL"):
            return self._translate_number(node, kind)
        if kind == "AST_NAME":
            return self._translate_name(node.getName(), local or {})
        if kind in _CONSTANT_TEXTS:
            return _CONSTANT_TEXTS[kind]
        if kind in _CHAINS:
            return self._translate_chain(node, _CHAINS[kind], translate_child)
        if kind in ("AST_POWER", "AST_FUNCTION_POWER") and len(children) == 2:
            return f"({translate_child(children[0])}**{translate_child(children[1])})"
        if kind == "AST_FUNCTION_ROOT" and children:
            # The degree of a root and the base of a logarithm are optional in MathML: 2 and 10.
            degree = translate_child(children[0]) if len(children) == 2 else "2"
            return f"({translate_child(children[-1])}**(1/{degree}))"
        if kind == "AST_FUNCTION_LOG" and children:
            base = translate_child(children[0]) if len(children) == 2 else "10"
            return f"(log({translate_child(children[-1])})/log({base}))"
        function = kind.removeprefix("AST_").removeprefix("FUNCTION_")
        if function in _FUNCTION_NAMES and len(children) == 1:
            return f"{_FUNCTION_NAMES[function]}({translate_child(children[0])})"
        if kind == "AST_FUNCTION_PIECEWISE" and children:
            return self._translate_piecewise(children, translate_child, local, depth)
        if kind in ("AST_FUNCTION_MIN", "AST_FUNCTION_MAX") and children:
            # min(a, b, c) becomes piecewise(a, a < b and a < c, b, b < c, c): each value is compared only with later
            # ones, because its condition is tested only if no earlier value is the smallest.
            sign, values = "<" if kind.endswith("MIN") else ">", [translate_child(child) for child in children]
            self.nodes += sum(map(len, values)) * len(values) // CHARACTERS_PER_NODE
            plain = [value for value in values if _is_number(value)]
            if plain:  # of several numbers only the smallest (or largest) can be the result
                best = (min if sign == "<" else max)(plain, key=float)
                values = [*(value for value in values if value not in plain), best]
            parts = []
            for k, value in enumerate(values[:-1]):
                parts += [value, "(" + " and ".join(f"{value} {sign} {rival}" for rival in values[k + 1 :]) + ")"]
            return f"piecewise({', '.join([*parts, values[-1]])})" if parts else values[0]
        if kind == "AST_FUNCTION_RATE_OF" and len(children) == 1:
            return self._request_rate(children[0].getName() or "")
        if kind == "AST_FUNCTION":
            return self._expand_call(node.getName(), [translate_child(child) for child in children], depth)
        raise self.build_error(
            f"{node.getName() or function.lower()!r} in a formula cannot be translated; right-hand sides must be "
            "smooth between jumps, and without delays."
        )

    def _translate_piecewise(
        self, children: list[Any], translate_child: Callable[[Any], str], local: dict[str, str] | None, depth: int
    ) -> str:
        """Translate a piecewise function; its value is zero where no condition holds and there is no default."""
        parts = []
        for k in range(0, len(children) - 1, 2):
            parts += [translate_child(children[k]), self.translate_condition(children[k + 1], local, depth + 1)]
        if len(children) % 2 == 0:
            parts.append("0")
        else:
            parts.append(translate_child(children[-1]))
        return f"piecewise({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def translate_condition(self, node: Any, local: dict[str, str] | None, depth: int) -> str:
        """Translate a condition: comparisons joined by and, or and not."""
        kind = self.kinds.get(node.getType(), "").removeprefix("AST_")
        children = [node.getChild(k) for k in range(node.getNumChildren())]
        if depth > MAX_FORMULA_DEPTH:
            raise self.build_error(f"formulas are nested more than {MAX_FORMULA_DEPTH} deep.")
        if kind in _COMPARISON_SIGNS and len(children) == 2:
            left, right = (self.translate_formula(child, local, depth + 1) for child in children)
            return f"({left} {_COMPARISON_SIGNS[kind]} {right})"
        if kind in ("LOGICAL_AND", "LOGICAL_OR") and children:
            word = f" {kind.removeprefix('LOGICAL_').lower()} "
            return "(" + word.join(self.translate_condition(child, local, depth + 1) for child in children) + ")"
        if kind == "LOGICAL_NOT" and len(children) == 1:
            return f"(not {self.translate_condition(children[0], local, depth + 1)})"
        raise self.build_error(
            f"the condition {kind.lower().removeprefix('relational_')!r} cannot be translated; conditions are "
            "comparisons (<, <=, >, >=) joined by and, or and not."
        )

    def translate_trigger(self, node: Any, depth: int = 0) -> str:
        """Translate a trigger into a formula that is at least zero where the trigger holds.

        A comparison `a > b` becomes `a - b`. The conjunction of two conditions becomes the smaller of their formulas,
        and the disjunction the larger one, `(a + b ∓ |a - b|)/2`. The negation changes the sign.
        """
        kind = self.kinds.get(node.getType(), "").removeprefix("AST_")
        children = [node.getChild(k) for k in range(node.getNumChildren())]
        if depth > MAX_FORMULA_DEPTH:
            raise self.build_error(f"formulas are nested more than {MAX_FORMULA_DEPTH} deep.")
        if kind in _COMPARISON_SIGNS and len(children) == 2:
            left, right = (self.translate_formula(child) for child in children)
            # Strict and non-strict comparisons differ only where the formula is zero. For comparisons of time alone
            # this matters at the initial time; `translate_events` treats that case.
            return f"({left} - {right})" if ">" in _COMPARISON_SIGNS[kind] else f"({right} - {left})"
        if kind == "LOGICAL_NOT" and len(children) == 1:
            return f"(-{self.translate_trigger(children[0], depth + 1)})"
        if kind in ("LOGICAL_AND", "LOGICAL_OR") and children:
            sign, whole = "-" if kind == "LOGICAL_AND" else "+", self.translate_trigger(children[0], depth + 1)
            for child in children[1:]:
                part = self.translate_trigger(child, depth + 1)
                self.nodes += (len(whole) + len(part)) // CHARACTERS_PER_NODE
                whole = f"(({whole} + {part} {sign} abs({whole} - {part}))/2)"
            return whole
        raise self.build_error(
            f"the trigger {kind.lower()!r} of an event cannot be translated; it must be a comparison."
        )

    def _request_rate(self, name: str) -> str:
        """Return a placeholder for the rate of change of a symbol.

        The rates are known only after all rules and reactions have been read; `DynamicsTranslator._resolve_rates` then
        inserts them.
        """
        if name not in self.names:
            raise self.build_error(f"rateOf {name!r} cannot be translated: nothing has this name.")
        self.requested_rates[f"rate_of_{self.names[name]}_"] = name
        return f"rate_of_{self.names[name]}_"

    def _translate_number(self, node: Any, kind: str) -> str:
        """Translate a number, in parentheses if it is negative."""
        value = float(node.getValue())
        if not math.isfinite(value):
            raise self.build_error(f"a formula has the number {value}.")
        text = str(int(value)) if kind == "AST_INTEGER" else repr(value)
        return f"({text})" if value < 0 else text

    def _translate_name(self, name: str, local: dict[str, str]) -> str:
        """Return the text for a name: that of a local symbol, else our name for an identifier."""
        if name in local:
            return local[name]
        if name not in self.names:
            raise self.build_error(f"{name!r} is used in a formula, but nothing has this name.")
        return self.names[name]

    def _expand_call(self, name: str, arguments: list[str], depth: int) -> str:
        """Expand a call of a function that the document defines."""
        function = self.model.getFunctionDefinition(name)
        if function is None or function.getBody() is None or function.getNumArguments() != len(arguments):
            raise self.build_error(f"the function {name!r} is not defined, or has another number of arguments.")
        names = [function.getArgument(k).getName() for k in range(len(arguments))]
        self.nodes += sum(map(len, arguments)) // CHARACTERS_PER_NODE
        return self.translate_formula(function.getBody(), dict(zip(names, arguments, strict=True)), depth + 1)

    def _translate_chain(self, node: Any, operator: str, translate_child: Callable[[Any], str]) -> str:
        """Translate a sum or a product, with all sums or products inside it, as one flat chain of terms.

        MathML nests the terms of a sum: without this, a sum of 150 terms would be 150 levels deep.
        """
        parts: list[tuple[str, str]] = []
        # A stack instead of recursion: a chain may be far longer than `MAX_FORMULA_DEPTH`. The sign of each part tells
        # whether it is added or subtracted, multiplied or divided.
        stack = [(operator, node)]
        while stack:
            sign, part = stack.pop()
            kind = self.kinds.get(part.getType(), "")
            if _CHAINS.get(kind) != operator:
                parts.append((sign, translate_child(part)))
                continue
            self.nodes += 1
            children = [part.getChild(k) for k in range(part.getNumChildren())]
            inverse = kind in ("AST_MINUS", "AST_DIVIDE")
            if inverse and len(children) == 1 and kind == "AST_MINUS":
                stack.append((_INVERSE[sign], children[0]))
                continue
            if inverse and len(children) != 2:
                raise self.build_error("a difference or a quotient does not have two parts.")
            signs = [sign, _INVERSE[sign]] if inverse else [sign] * len(children)
            stack += reversed(list(zip(signs, children, strict=True)))
        if not parts:
            return "0" if operator == "+" else "1"
        first = {"+": "", "-": "-", "*": "", "/": "1/"}[parts[0][0]]
        return "(" + first + parts[0][1] + "".join(f" {sign} {text}" for sign, text in parts[1:]) + ")"

    def refuse_untranslatable(self) -> None:
        """Raise an error for a model that cannot be translated at all: one with fast reactions."""
        model = self.model
        for reaction in model.getListOfReactions():
            if reaction.isSetFast() and reaction.getFast():
                raise self.build_error(f"the reaction {reaction.getId()!r} is fast, which cannot be translated.")


def find_names(text: str) -> set[str]:
    """Return every name in a formula; the e of a number such as 1e-05 is not a name."""
    return set(re.findall(r"(?<![\w.])[^\W\d]\w*", text))


def _is_number(text: str) -> bool:
    """Return True if a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
