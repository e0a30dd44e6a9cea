"""Settings of all tests: one BLAS thread for each worker, Ctrl-C as in a terminal, and reproducible Hypothesis."""

import os
import signal
from contextlib import suppress

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores, so each gets one BLAS thread. NumPy reads these variables when it is loaded.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from hypothesis import settings

# A process in the background ignores Ctrl-C, and its children inherit this; some tests need the default.
with suppress(ValueError):  # raised outside the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile("gate", deadline=None, derandomize=True, max_examples=int(os.environ.get("EXAMPLES", "40")))
settings.load_profile("gate")
