"""The picture of `docs/many-data-sets.md`: one section of the simulated image of benchmarks/phantom.py, seeded.

python docs/figures/make_maps.py      # a minute; writes docs/maps.png and prints the numbers
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap, LogNorm, Normalize

import weakform as wf
from weakform.report.plots import DATA, STYLE, TRUTH

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent.parent / "benchmarks"))

import phantom  # noqa: E402, from the folder of the benchmarks

SHAPE, SIGMA = (128, 128, 1), 0.03
ASPECT = 0.75
"""Height of a voxel over its width."""
TITLES = {"Ktrans": r"$K^\mathrm{trans}$, per minute", "ve": r"$v_e$", "vp": r"$v_p$"}
LIMITS = {"Ktrans": (0.0, 0.8), "ve": (0.0, 0.5), "vp": (0.0, 0.3)}
WITHOUT = "#cfcfcf"
"""Colour of tissue without a standard error."""
STATUS_COLOURS = {
    wf.Status.CONVERGED: "#bcd7ea",
    wf.Status.UNDETERMINED: "#E69F00",
    wf.Status.REJECTED: "#7a0f4b",
}
ORGANS = {
    "liver": (22, 62, 8, -14),
    "lesion": (33, 45, 38, -14),
    "portal lobe": (72, 44, 72, -14),
    "stomach": (100, 42, 114, -14),
    "kidney": (36, 92, 8, 141),
    "vein": (54, 76, 40, 141),
    "aorta": (67, 77, 68, 141),
    "muscle": (79, 104, 95, 141),
    "spleen": (106, 68, 123, 141),
}
"""Column and row of a point in each organ, and of its name outside the body, in voxels."""
VOXELS = {"lesion": ((44, 34), "#0072B2"), "portal lobe": (None, TRUTH), "muscle": ((104, 79), "#009E73")}
"""Row and column of the voxels whose curves are shown, and their colours; in the lobe one with the median p-value."""


def show(axis, values, tissue, norm, cmap):
    """Draw a map; tissue without a value is grey, and everything else white."""
    axis.imshow(np.where(tissue, 1.0, np.nan), cmap=ListedColormap([WITHOUT]), aspect=ASPECT)
    shown = np.where(tissue & np.isfinite(values), values, np.nan)
    picture = axis.imshow(shown, norm=norm, cmap=cmap, aspect=ASPECT, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    return picture


def main():
    """Simulate, fit, draw and print."""
    made = phantom.build_phantom(SHAPE, (0.0, 0.0))
    curves = made.simulate(SIGMA, 0)[:, :, 0]
    model = wf.Model.from_text(phantom.EQUATIONS, inputs=["ca"])
    batch = wf.fit_batch(model, made.times, curves, names=["C"], inputs={"ca": made.ca}, bounds=phantom.BOUNDS)
    print(batch)
    tissue = np.isfinite(made.truth["ve"][:, :, 0])
    figure, axes = plt.subplots(3, 4, figsize=(11, 6.3))
    for row, name in enumerate(phantom.PARAMETERS):
        scale = Normalize(*LIMITS[name])
        show(axes[row, 0], made.truth[name][:, :, 0], tissue, scale, "viridis")
        bar = add_bar(axes[row, 1], show(axes[row, 1], batch.estimate[name], tissue, scale, "viridis"), "max")
        bar.set_ticks(np.linspace(*LIMITS[name], 5 if name == "Ktrans" else 6 if name == "ve" else 4))
        errors = batch.standard_errors[name]
        low, high = np.quantile(errors[batch.success & np.isfinite(errors)], [0.005, 0.995])
        ticks = [tick for tick in (0.002, 0.0025, 0.003, 0.004, 0.006, 0.01, 0.02, 0.04) if low <= tick <= high]
        bar = add_bar(axes[row, 2], show(axes[row, 2], errors, tissue, LogNorm(low, high), "cividis"), "both")
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
        axes[row, 0].set_ylabel(TITLES[name], fontsize=12)
    for axis, title in zip(axes[0, :3], ("truth", "estimate", "standard error"), strict=True):
        axis.set_title(title, pad=24)
    for organ, (column, line, name_column, name_line) in ORGANS.items():
        axes[0, 0].annotate(
            organ,
            (column, line),
            (name_column, name_line),
            ha="center",
            va="center",
            fontsize=7,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": "#555555", "shrinkA": 0, "shrinkB": 0},
        )
    axis = axes[0, 3]
    picture = show(axis, np.maximum(batch.p_value, 1e-6), tissue, LogNorm(1e-6, 1.0), "magma")
    add_bar(axis, picture, "min").set_ticks([1e-6, 1e-4, 1e-2, 1.0], labels=["$10^{-6}$", "$10^{-4}$", "0.01", "1"])
    axis.set_title("p-value of the model", pad=24)
    draw_status(axes[1, 3], batch, tissue)
    draw_curves(axes[2, 3], axes[0, 1], made, batch, curves)
    figure.savefig(FOLDER.parent / "maps.png", metadata={"Software": None}, dpi=140, pil_kwargs={"optimize": True})
    print_coverage(made, batch)


def add_bar(axis, picture, extend):
    """Add the scale of a map."""
    bar = axis.figure.colorbar(picture, ax=axis, fraction=0.04, pad=0.02, shrink=0.8, extend=extend)
    bar.outline.set_visible(False)
    return bar


def draw_status(axis, batch, tissue):
    """Draw the status of each voxel."""
    codes = np.full(batch.shape, np.nan)
    for k, status in enumerate(STATUS_COLOURS):
        codes[batch.status == status] = k
    show(axis, codes, tissue, Normalize(-0.5, len(STATUS_COLOURS) - 0.5), ListedColormap(list(STATUS_COLOURS.values())))
    axis.set_title("status")
    for status, colour in STATUS_COLOURS.items():
        axis.plot([], [], "s", color=colour, label=status.name.lower())
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=3, fontsize=8, handletextpad=0.1, columnspacing=0.8
    )


def draw_curves(axis, chart, made, batch, curves):
    """Draw data and fitted curves of some voxels, and mark the voxels on a map."""
    lobe = made.find("portal lobe")[:, :, 0]
    middle = np.argmin(np.where(lobe, np.abs(batch.p_value - np.median(batch.p_value[lobe])), np.inf))
    for name, (place, colour) in VOXELS.items():
        row, column = np.unravel_index(middle, batch.shape) if place is None else place
        estimate = [np.array(batch.estimate[p][row, column]) for p in phantom.PARAMETERS]
        axis.plot(made.times, curves[row, column], ".", ms=3, color=DATA)
        label = f"{name}, p = {batch.p_value[row, column]:.2g}"
        axis.plot(made.times, phantom.respond(made.times, made.ca, *estimate), color=colour, lw=1.4, label=label)
        chart.plot(column, row, "o", ms=5, mfc=colour, mec="white", mew=0.8)
    axis.set(xlabel="minutes", title="three voxels: C in mM", ylim=(-0.1, 2.5))
    axis.legend(fontsize=8, loc="upper right", handlelength=1.2, labelspacing=0.3, borderaxespad=0)


def print_coverage(made, batch):
    """Print the coverage of the intervals in tissues for which the model is right."""
    right = made.find(*phantom.ORDINARY)[:, :, 0] & batch.success
    for name in phantom.PARAMETERS:
        ends, truth = batch.interval(name), made.truth[name][:, :, 0]
        with np.errstate(invalid="ignore"):
            inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        known = right & np.isfinite(ends).all(axis=-1)
        print(f"{name}: {inside[known].mean():.1%} of {known.sum()} intervals contain the truth")
    ordinary = made.find(*phantom.ORDINARY)[:, :, 0]
    rejected = batch.status == wf.Status.REJECTED
    print(f"rejected where the model is right: {rejected[ordinary].mean():.1%} of {ordinary.sum()} voxels")


if __name__ == "__main__":
    plt.rcParams.update(STYLE)
    main()
