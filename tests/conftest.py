import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: one thread of linear algebra for each. It has to be said before NumPy is loaded.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True, max_examples=int(os.environ.get("EXAMPLES", "40")))
settings.load_profile("gate")
