"""Indomethacin: a dose of 25 mg into a vein, two compartments, six subjects (a data set that comes with R).

python examples/indomethacin.py [folder for the picture]
"""

import sys
from pathlib import Path

import weakform as wf
from weakform.report.plots import save, states

HERE = Path(__file__).parent
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

model = wf.Model.from_text("""
C' = -(k10 + k12)*C + k21*P
P' = k12*C - k21*P
C(0) = 0
P(0) = 0
""")
data = wf.Dataset.from_csv(
    HERE / "indomethacin.csv", time="time", names={"C": "conc"}, trajectory="Subject", noise="lognormal"
)
# Only the dose determines the volume V: the concentration jumps by 25 mg over V.
data = data.with_doses(wf.Doses("C", times=0.0, amounts="25/V"))
fit = wf.fit(
    model,
    data,
    local=["V", "k10", "k12", "k21"],
    starts=2,
    log=["V", "k10", "k12", "k21"],
    bounds={"V": (1, 100), "k10": (0.01, 20), "k12": (0.01, 20), "k21": (0.01, 5)},
)
print(fit)
print("Picture:", save(states(fit), OUT / "indomethacin.png"))
