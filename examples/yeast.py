"""Yeast growth: does the logistic model describe how the growth saturates?

python examples/yeast.py [folder for the picture]
"""

import sys
from pathlib import Path

import weakform as wf
from weakform.report.plots import save, states

HERE = Path(__file__).parent
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

data = wf.Dataset.from_csv(HERE / "yeast.csv")
logistic = wf.fit(wf.Model.from_text("yeast' = r*yeast*(1 - yeast/K)"), data)
theta = wf.fit(
    wf.Model.from_text("yeast' = r*yeast*(1 - (yeast/K)**theta)"),
    data,
    bounds={"r": (0, 10), "K": (300, 2000), "theta": (0.1, 10)},
)
for fit in (logistic, theta):
    print(fit, "\nForward R²:", round(fit.r_squared["yeast"], 5), "\n")
print("Picture:", save(states(theta), OUT / "yeast.png"))
low, high = theta["theta"].interval
print(
    f"The theta-logistic model gives theta = {theta['theta'].value:.2f}, 95% interval [{low:.2f}, {high:.2f}], which "
    "contains 1, the logistic model. With only 19 samples, treat the intervals as rough, as the report warns."
)
