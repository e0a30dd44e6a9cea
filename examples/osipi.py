"""Contrast-enhanced MRI: 15 + 24 voxels with known parameters, fitted in two calls (curves of the OSIPI collection).

python examples/osipi.py [folder for the picture]

A contrast agent arrives with the blood, with the measured concentration `ca`, and passes into the tissue. Only the
total concentration in a voxel is measured; the concentrations in its compartments are hidden states. The reference
values and the tolerances are those of the collection; time is in minutes.
"""

import csv
import sys
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.report.plots import DATA, FIT, STYLE, TRUTH, pyplot, save

HERE = Path(__file__).parent
OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
RELATIVE = {"Ktrans": 0.1, "ps": 0.1, "fp": 0.1}
ABSOLUTE = {"ve": 0.05, "vp": 0.025, "Ktrans": 0.005, "ps": 0.005, "fp": 5.0}


def read(name, curves):
    """Read the columns of a table: those in `curves` hold many numbers in each field."""
    with (HERE / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = {key: np.array([[float(v) for v in row[key].split()] for row in rows]) for key in curves}
    return table | {key: np.array([row[key] for row in rows]) for key in rows[0] if key not in curves}


def compare(title, batch, table):
    """Print the deviations from the reference values, and return them in units of the tolerance."""
    print(f"\n{title}: {batch.success.sum()} of {batch.size} are successes")
    print(f"{'':8s}{'largest deviation':>19s}{'of its tolerance':>18s}{'within':>8s}{'median standard error':>23s}")
    shares = {}
    for name in batch.parameters:
        reference = table[name].astype(float)
        tolerance = ABSOLUTE[name] + RELATIVE.get(name, 0.0) * reference
        shares[name] = (batch.interval(name).T - reference) / tolerance, (batch.estimate[name] - reference) / tolerance
        size = np.abs(shares[name][1])
        print(
            f"{name:8s}{np.abs(batch.estimate[name] - reference).max():19.2g}{size.max():18.0%}"
            f"{f'{(size <= 1).sum()}/{len(size)}':>8s}{np.median(batch.standard_errors[name]):23.2g}"
        )
    return shares


tofts = wf.Model.from_text(
    """
    ce' = Ktrans/ve*(ca - ce)
    ce(0) = 0
    C = vp*ca + ve*ce
    """,
    inputs=["ca"],
)
table = read("osipi_extended_tofts.csv", ["t", "C", "ca"])
first = wf.fit_batch(
    tofts,
    table["t"][0] / 60,
    table["C"],
    names=["C"],
    inputs={"ca": table["ca"]},
    bounds={"ve": (0, 1), "vp": (0, 1), "Ktrans": (0, 5)},
)
shares = compare("Extended Tofts, 331 samples", first, table)

exchange = wf.Model.from_text(
    """
    cp' = (fp/100*(ca - cp) + ps*(ce - cp))/vp
    ce' = ps*(cp - ce)/ve
    cp(0) = 0
    ce(0) = 0
    C = vp*cp + ve*ce
    """,
    inputs=["ca"],
)
table = read("osipi_exchange.csv", ["t", "C_t", "cp_aif"])
second = wf.fit_batch(
    exchange,
    table["t"][0] / 60,
    table["C_t"],
    names=["C"],
    inputs={"ca": table["cp_aif"]},
    bounds={"ve": (0, 1), "vp": (0, 1), "ps": (0, 5), "fp": (0, 200)},
)
shares_of_second = compare("Two-compartment exchange, 600 samples", second, table)

with pyplot().rc_context(STYLE):
    figure, axes = pyplot().subplots(1, 3, figsize=(11, 3.2), width_ratios=(3, 3, 4))
    voxels = (("extended Tofts: voxel T1_20", first, 3), ("exchange: case_16", second, 15))
    for axis, (title, batch, k) in zip(axes, voxels, strict=False):
        fit = batch[k]  # the full result of one voxel
        q, curve = fit.data.trajectories[0], fit.states[batch.columns[0]]
        axis.plot(q.times, q.values[:, 0], ".", ms=3, color=DATA, label="data")
        axis.plot(curve.times, curve.values, color=FIT, lw=1.3, label="fit")
        axis.set(title=title, xlabel="minutes")
        axis.legend(loc="lower right")
    axes[0].set_ylabel("concentration, mM")
    axis, ticks = axes[2], []
    for model, part, colour in (("Tofts", shares, FIT), ("exchange", shares_of_second, TRUTH)):
        for name, (ends, middle) in part.items():
            height = len(ticks) + np.linspace(-0.3, 0.3, len(middle))
            axis.hlines(height, *ends, color=colour, lw=1, alpha=0.6)
            axis.plot(middle, height, ".", ms=4, color=colour)
            ticks.append(f"{name}, {model}")
    axis.axvspan(-1, 1, color=DATA, alpha=0.15, lw=0)
    axis.set_yticks(range(len(ticks)), ticks)
    axis.set(xlim=(-1.2, 1.2), title="estimate − reference, 95% intervals", xlabel="in units of the tolerance")
    axis.invert_yaxis()
    print("Picture:", save(axes, OUT / "osipi.png"))
