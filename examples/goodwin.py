"""Goodwin's oscillator: a Hill coefficient in an exponent, and two parameters of which the data determine the ratio.

python examples/goodwin.py [folder for the picture]
"""

import sys
from pathlib import Path

import weakform as wf
from weakform.report.plots import profiles, save, states

OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

problem = wf.problems.get("goodwin")
data = problem.simulate(M=256, noise=0.05, seed=1)
fit = wf.fit(problem.model, data, bounds=problem.bounds)
print(fit)

fixed = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0})
print("Pictures:", save(profiles(fit), OUT / "goodwin_profiles.png"))
print("Picture:", save(states(fit), OUT / "goodwin.png"))
print(
    f"The Hill coefficient p4 = {fit['p4'].value:.2f} ± {fit['p4'].error:.2f} (truth 10) is well determined, although "
    f"it is an exponent. p1 and p3 are poorly determined: the data determine mainly their ratio. With p3 fixed, the "
    f"error of p1 falls from {fit['p1'].error:.2f} to {fixed['p1'].error:.3f}."
)
