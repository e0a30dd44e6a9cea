"""Theophylline: an oral dose, twelve subjects, a hidden gut compartment (a data set that comes with R).

python examples/theophylline.py [folder for the picture]
"""

import sys
from pathlib import Path

import pandas as pd

import weakform as wf
from weakform.report.plots import pyplot, save

HERE = Path(__file__).parent
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

model = wf.Model.from_text("""
A' = -ka*A
C' = ka*A/V - ke*C
A(0) = 0
C(0) = 0
""")
table = pd.read_csv(HERE / "theophylline.csv")
data = wf.Dataset.from_frame(table, time="Time", names={"C": "conc"}, trajectory="Subject")
doses = table.groupby("Subject").first().reset_index()
doses = pd.DataFrame({"id": doses["Subject"], "time": 0.0, "amount": doses["Dose"]})
fit = wf.fit(
    model,
    data.with_doses(doses, into="A"),
    local=["ka", "ke", "V"],
    log=["ka", "ke", "V"],
    bounds={"ka": (0.3, 20), "ke": (0.01, 0.3), "V": (0.1, 2)},
    starts=2,
)
print(fit)
figure, axes = pyplot().subplots(3, 4, figsize=(10, 6), sharex=True, sharey=True)
for k, (axis, q) in enumerate(zip(axes.flat, data.trajectories, strict=True)):
    curve = fit.trajectory(k)
    low, high = curve["C"][:, 1], curve["C"][:, 2]
    axis.fill_between(curve.times, low, high, alpha=0.2, lw=0)
    axis.plot(curve.times, curve["C"][:, 0])
    axis.plot(q.times, q.values, "k.", ms=4)
    axis.set_title(f"subject {q.label}", fontsize=9)
figure.supxlabel("hours after the dose")
figure.supylabel("theophylline, mg/l")
print("Picture:", save(axes, OUT / "theophylline.png"))
first = {name: fit[f"{name}_1"].value for name in ("ke", "ka", "V")}
print(f"Subject 1: ke {first['ke']:.4f}, ka {first['ka']:.3f}, clearance {first['ke'] * first['V']:.4f} l/h/kg")
print("R's nls(conc ~ SSfol(Dose, Time, lKe, lKa, lCl)) gives ke 0.0540, ka 1.777, clearance 0.0199 (quoted)")
