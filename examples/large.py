"""A long series: 20,000 samples of a chaotic system in one fit.

python examples/large.py [folder for the picture]
"""

import sys
import time
from pathlib import Path

import weakform as wf
from weakform.report.plots import residuals, save

OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
M = 20_000

problem = wf.problems.get("lorenz")
data = problem.simulate(M=M, noise=0.1, seed=1, duration=M / 100)
begin = time.process_time()
fit = wf.fit(problem.model, data)
print(fit)
print("Picture:", save(residuals(fit), OUT / "large.png"))
print(
    f"{M:,} samples took {time.process_time() - begin:.0f} CPU seconds; the time grows linearly with the number of "
    "samples. No solver could follow this chaotic system over 200 time units. The fit needs none: each test function "
    "uses twenty samples."
)
