"""Estimation of the parameters of differential equations from noisy data, without solving the equations.

    import weakform as wf
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    data = wf.Dataset(t, N)
    print(wf.fit(model, data))

Importing the package is fast, because each name is loaded when it is first used. The names listed in `__all__` are
public; everything else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .support.versions import __version__ as __version__

if TYPE_CHECKING:
    from . import problems as problems
    from .analysis.comparison import compare as compare
    from .basis import Local as Local
    from .basis import Orthonormal as Orthonormal
    from .data import Dataset as Dataset
    from .data.doses import Doses as Doses
    from .estimators import Options as Options
    from .estimators import Status as Status
    from .experiments.batch import fit_batch as fit_batch
    from .experiments.many_datasets import fit_many as fit_many
    from .files.model_file import read_model as read_model
    from .files.petab.petab_problem import read_petab as read_petab
    from .fitting import fit as fit
    from .forward import simulate as simulate
    from .inference.prior_design import design as design
    from .model import Model as Model
    from .parameters import Parameter as Parameter
    from .results.batch_result import BatchResult as BatchResult
    from .results.fit_result import FitResult as FitResult
    from .support.errors import DataError as DataError
    from .support.errors import FitError as FitError
    from .support.errors import ModelError as ModelError
    from .support.errors import WeakformError as WeakformError

_MODULE_OF_NAME = {
    "BatchResult": ".results.batch_result",
    "DataError": ".support.errors",
    "Dataset": ".data",
    "Doses": ".data.doses",
    "FitError": ".support.errors",
    "FitResult": ".results.fit_result",
    "Local": ".basis",
    "Model": ".model",
    "ModelError": ".support.errors",
    "Options": ".estimators",
    "Orthonormal": ".basis",
    "Parameter": ".parameters",
    "Status": ".estimators",
    "WeakformError": ".support.errors",
    "compare": ".analysis.comparison",
    "design": ".inference.prior_design",
    "fit": ".fitting",
    "fit_batch": ".experiments.batch",
    "fit_many": ".experiments.many_datasets",
    "problems": ".problems",
    "read_model": ".files.model_file",
    "read_petab": ".files.petab.petab_problem",
    "simulate": ".forward",
}
"""The module that defines each public name."""

__all__ = [
    "BatchResult",
    "DataError",
    "Dataset",
    "Doses",
    "FitError",
    "FitResult",
    "Local",
    "Model",
    "ModelError",
    "Options",
    "Orthonormal",
    "Parameter",
    "Status",
    "WeakformError",
    "compare",
    "design",
    "fit",
    "fit_batch",
    "fit_many",
    "problems",
    "read_model",
    "read_petab",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, and keep it."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'weakform' has no attribute {name!r}")
    module = import_module(_MODULE_OF_NAME[name], __name__)
    value = module if name == "problems" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too, which may not be loaded yet."""
    return sorted([*globals(), *_MODULE_OF_NAME])
