import os
import signal
from contextlib import suppress

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: one thread of linear algebra for each. It has to be said before NumPy is loaded.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from hypothesis import settings

# What is started in the background has Ctrl-C ignored, and so would have all that the tests start.
with suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile("gate", deadline=None, derandomize=True, max_examples=int(os.environ.get("EXAMPLES", "40")))
settings.load_profile("gate")
