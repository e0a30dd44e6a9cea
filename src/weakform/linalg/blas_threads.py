"""One BLAS thread for many small blocks.

Products of blocks of a few dozen rows gain nothing from threads and lose much when other processes compete for the
cores, so the numerical work runs on one thread. Parallel work belongs to whole fits, in processes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any


@cache
def _get_thread_controller() -> Any:
    """Return the controller of the thread pools of the BLAS libraries that are loaded."""
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks for libraries)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _SingleThreadContext(AbstractContextManager[None]):
    """A context with one BLAS thread; `depth` counts the contexts that are open, and only the outermost sets the limit.

    Setting the limit asks every loaded library, which is slow compared with the small products inside.
    """

    depth = 0

    def __enter__(self) -> None:
        _SingleThreadContext.depth += 1
        outermost = _SingleThreadContext.depth == 1
        self.limiter = _get_thread_controller().limit(limits=1, user_api="blas") if outermost else nullcontext()
        self.limiter.__enter__()

    def __exit__(self, *details: Any) -> None:
        _SingleThreadContext.depth -= 1
        self.limiter.__exit__(*details)


def use_single_thread() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread; contexts may be nested, and inner ones have no effect."""
    return _SingleThreadContext()
