"""One-line representations of records: only fields that differ from their default, large arrays as their shape."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from dataclasses import Field

MAX_SHOWN_ELEMENTS = 6
"""Number of elements up to which an array or a sequence is written out; a longer one is summarised. By judgement."""


class CompactRepr:
    """A base class that gives dataclasses (declared with `repr=False`) a compact representation."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if field.repr and not _is_default(value, default):
                shown.append(f"{field.name}={format_briefly(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _is_default(value: Any, default: Any) -> bool:
    """Return True if a field has its default value; an array that is not the default object itself never has."""
    return value is default or (type(value) is type(default) and not isinstance(value, np.ndarray) and value == default)


def format_briefly(value: Any) -> str:
    """Format a value briefly: floats with six digits, long arrays as their shape, long sequences as their length."""
    if isinstance(value, np.ndarray) and value.size > MAX_SHOWN_ELEMENTS:
        return f"<array {'×'.join(map(str, value.shape))}>"
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.ndim else str(value.item())
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list) and len(value) > MAX_SHOWN_ELEMENTS:
        return f"<{len(value)} of {type(value[0]).__name__}>"
    if isinstance(value, tuple):
        return f"({', '.join(map(format_briefly, value))}{',' * (len(value) == 1)})"
    return repr(value)
