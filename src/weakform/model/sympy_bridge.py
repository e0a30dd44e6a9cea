"""Models from SymPy, and to SymPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import symengine as se

from ..support.errors import ModelError
from .naming import natural

if TYPE_CHECKING:
    from .model import Model


def parts(equations: Mapping[Any, Any], parameters: Sequence[Any] | None, inputs: Sequence[Any]) -> dict[str, Any]:
    """States, expressions and parameters of equations in SymPy (or SymEngine)."""
    if not isinstance(equations, Mapping) or not equations:
        raise ModelError(
            f"Give the derivative of each state, such as {{x: -k*x}}; received a {type(equations).__name__}."
        )
    plain = {}
    for state, expression in equations.items():
        try:
            plain[_name(state)] = se.sympify(_without_time(expression, equations))
        except (TypeError, ValueError, RuntimeError, AttributeError, se.SympifyError) as error:
            raise ModelError(f"The derivative of {state} is no expression that can be read: {error}") from None
    driven = [_name(one) for one in inputs]
    known = {"t", *plain, *driven}
    used = {str(symbol) for expression in plain.values() for symbol in expression.free_symbols} - known
    names = sorted(used, key=natural) if parameters is None else [_name(one) for one in parameters]
    strangers = sorted(used - set(names))
    if strangers:
        raise ModelError(f"{strangers[0]!r} is neither a state, an input nor one of the parameters.")
    return {"f": list(plain.values()), "states": list(plain), "parameters": names, "inputs": driven}


def _name(symbol: Any) -> str:
    """`x` of the symbol x, of the function x(t), and of the text."""
    function = getattr(symbol, "func", None)
    if function is not None and getattr(symbol, "is_Function", False):
        return str(function)
    return str(symbol)


def _without_time(expression: Any, equations: Mapping[Any, Any]) -> Any:
    """States that are functions of time as symbols."""
    functions = {state: se.Symbol(_name(state)) for state in equations if getattr(state, "is_Function", False)}
    return expression.subs({state: str(symbol) for state, symbol in functions.items()}) if functions else expression


def to_sympy(model: Model) -> dict[Any, Any]:
    """The derivative of each state as a SymPy expression, by its symbol; see `Model.to_sympy`."""
    try:
        import sympy
    except ImportError:
        raise ModelError("This needs SymPy: pip install sympy") from None
    switches = {
        sympy.Symbol(name): sympy.Piecewise((1, trigger._sympy_() >= 0), (0, True))
        for name, trigger in model.switches.items()
    }
    return {
        sympy.Symbol(state): se.sympify(expression)._sympy_().subs(switches)
        for state, expression in zip(model.states, model.expressions, strict=True)
    }
