"""Parameters of differential-equation models from noisy data, without solving the equations.

    import weakform as wf
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    data = wf.Dataset(t, N)
    print(wf.fit(model, data))

Importing is cheap: each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import problems as problems
    from .basis import Local as Local
    from .basis import Orthonormal as Orthonormal
    from .data import Dataset as Dataset
    from .errors import WeakformError as WeakformError
    from .estimators.base import Options as Options
    from .fitting import fit as fit
    from .model import Model as Model
    from .result import FitResult as FitResult

__version__ = "0.1.0"

_HOME = {
    "Dataset": ".data",
    "Local": ".basis",
    "Model": ".model",
    "Orthonormal": ".basis",
    "WeakformError": ".errors",
    "FitResult": ".result",
    "Options": ".estimators.base",
    "fit": ".fitting",
    "problems": ".problems",
}

__all__ = [
    "Dataset",
    "FitResult",
    "Local",
    "Model",
    "Options",
    "Orthonormal",
    "WeakformError",
    "fit",
    "problems",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'weakform' has no attribute {name!r}")
    module = import_module(_HOME[name], __name__)
    value = module if name == "problems" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
