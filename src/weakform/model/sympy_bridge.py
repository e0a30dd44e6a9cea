"""Conversion of models from and to SymPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import symengine as se

from ..support.errors import ModelError
from .naming import natural_sort_key

if TYPE_CHECKING:
    from .model import Model


def convert_sympy_equations(
    equations: Mapping[Any, Any], parameters: Sequence[Any] | None, inputs: Sequence[Any]
) -> dict[str, Any]:
    """Convert equations in SymPy (or SymEngine) to arguments of `Model`; see `Model.from_sympy`.

    Returns
    -------
    dict
        With the keys `f`, `states`, `parameters` and `inputs`.

    Raises
    ------
    ModelError
        If the equations are not a mapping, a derivative cannot be read, or a symbol is not declared.
    """
    if not isinstance(equations, Mapping) or not equations:
        raise ModelError(
            "equations must be a mapping with the derivative of each state, such as {x: -k*x}; received "
            f"{'an empty mapping' if isinstance(equations, Mapping) else f'a {type(equations).__name__}'}."
        )
    derivatives = {}
    for state, expression in equations.items():
        try:
            derivatives[_read_name(state)] = se.sympify(_replace_state_functions(expression, equations))
        except (TypeError, ValueError, RuntimeError, AttributeError, se.SympifyError) as error:
            raise ModelError(f"The derivative of {state} is not an expression that can be read: {error}") from None
    input_names = [_read_name(symbol) for symbol in inputs]
    used = {str(symbol) for expression in derivatives.values() for symbol in expression.free_symbols} - {
        "t",
        *derivatives,
        *input_names,
    }
    names = sorted(used, key=natural_sort_key) if parameters is None else [_read_name(symbol) for symbol in parameters]
    unknown = sorted(used - set(names))
    if unknown:
        raise ModelError(f"{unknown[0]!r} is neither a state, an input nor one of the parameters.")
    return {"f": list(derivatives.values()), "states": list(derivatives), "parameters": names, "inputs": input_names}


def _read_name(symbol: Any) -> str:
    """Return the name `x` of the symbol x, of the function x(t), or of the text `x`."""
    function = getattr(symbol, "func", None)
    if function is not None and getattr(symbol, "is_Function", False):
        return str(function)
    return str(symbol)


def _replace_state_functions(expression: Any, equations: Mapping[Any, Any]) -> Any:
    """Return an expression with the states that are functions of time replaced by symbols."""
    functions = [state for state in equations if getattr(state, "is_Function", False)]
    if not functions:
        return expression
    from sympy import Symbol

    # A text would be parsed: SymPy reads "E" as 2.718 and "S" as a function.
    return expression.subs({state: Symbol(_read_name(state)) for state in functions})


def to_sympy(model: Model) -> dict[Any, Any]:
    """Return the derivative of each state as a SymPy expression, by its symbol; see `Model.to_sympy`."""
    try:
        import sympy
    except ImportError:
        raise ModelError("to_sympy() needs SymPy, which is not installed: pip install sympy") from None
    switches = {
        sympy.Symbol(name): sympy.Piecewise((1, trigger._sympy_() >= 0), (0, True))
        for name, trigger in model.switches.items()
    }
    return {
        sympy.Symbol(state): se.sympify(expression)._sympy_().subs(switches)
        for state, expression in zip(model.states, model.expressions, strict=True)
    }
