"""The compiled right-hand side of the equations of the states and of their sensitivities."""

from __future__ import annotations

from typing import Any

import symengine as se

from ..model.compilation import compile_expressions
from ..model.model import Model


def compile_rhs(model: Model, sensitivities: bool) -> Any:
    """Compile the right-hand side of a model as one function of (t, u, inputs and switches, p); cached in the model.

    Parameters
    ----------
    model : Model
    sensitivities : bool
        Whether the derivatives `F = ∂f/∂u` and `f_p` follow `f`.

    Returns
    -------
    compiled function
        Its outputs are f `(D,)`, then F `(D, D)` and f_p `(D, J)` row by row.
    """
    key = "sensitivities" if sensitivities else "states"
    if key not in model.compiled_functions:
        expressions = list(model.expressions)
        if sensitivities:
            for part in (model.states, model.parameters):
                expressions += [expr.diff(se.Symbol(name)) for expr in model.expressions for name in part]
        names = ["t", *model.states, *model.driving_names, *model.parameters]
        model.compiled_functions[key] = compile_expressions(names, expressions)
    return model.compiled_functions[key]
