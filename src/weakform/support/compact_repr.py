"""Records that print in a line: what is not as by default, arrays by their shape."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np


class Tidy:
    """A base of dataclasses (with `repr=False`)."""

    def __repr__(self) -> str:
        shown = []
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            default = one.default if one.default_factory is MISSING else one.default_factory()
            if one.repr and not _same(value, default):
                shown.append(f"{one.name}={brief(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and not isinstance(value, np.ndarray) and value == default)


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"<array {'×'.join(map(str, value.shape))}>"
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.ndim else str(value.item())
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list) and len(value) > 6:
        return f"<{len(value)} of {type(value[0]).__name__}>"
    if isinstance(value, tuple):
        return f"({', '.join(map(brief, value))}{',' * (len(value) == 1)})"
    return repr(value)
