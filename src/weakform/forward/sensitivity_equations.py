"""The right-hand side with what its sensitivities need, compiled."""

from __future__ import annotations

from typing import Any

import symengine as se

from ..model.compilation import compiled
from ..model.model import Model


def compiled_sensitivities(model: Model, sensitivities: bool) -> Any:
    """`f`, or `f`, `F` and `f_p` row by row, as one compiled function of (t, u, p); kept with the model."""
    key = "sensitivities" if sensitivities else "states"
    if key not in model.compiled:
        expressions = list(model.expressions)
        if sensitivities:
            for part in (model.states, model.parameters):
                expressions += [expr.diff(se.Symbol(name)) for expr in model.expressions for name in part]
        names = ["t", *model.states, *model.driven, *model.parameters]
        model.compiled[key] = compiled(names, expressions)
    return model.compiled[key]
