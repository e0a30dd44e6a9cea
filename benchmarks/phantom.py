"""A simulated image of the upper abdomen after the injection of a contrast agent, with known parameters in each voxel.

    phantom = build_phantom((64, 64, 32))
    curves = phantom.simulate(sigma=0.02, seed=0)            # (64, 64, 32, time), NaN where there is no tissue

The organs are ellipsoids whose sections look like a real image: fat and muscle around them, liver with a lesion,
spleen, kidneys with cortex and medulla, stomach, vertebra, aorta and vena cava. Each organ has its own parameters of
the extended Tofts model,

    C = vp ca + ve ce,    ve ce' = Ktrans (ca - ce),    ce(0) = 0,

which vary smoothly by some 10% within it. ca is the concentration in arterial plasma by the population average of
Parker et al. (Magn Reson Med 56:993, 2006), from 20 s on, linear between the samples. In two places the model is wrong:
the blood of the vena cava, and most of that of one lobe of the liver, which the portal vein feeds, comes later than the
model assumes. In the aorta nothing leaves the blood, so that no data can determine ve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PARAMETERS = ("Ktrans", "ve", "vp")
TISSUES: dict[str, tuple[float, float, float]] = {
    "air": (np.nan, np.nan, np.nan),
    "fat": (0.04, 0.12, 0.01),
    "muscle": (0.10, 0.14, 0.02),
    "vertebra": (0.16, 0.18, 0.05),
    "liver": (0.42, 0.32, 0.08),
    "portal lobe": (0.42, 0.32, 0.08),
    "lesion": (0.75, 0.46, 0.14),
    "core": (0.08, 0.40, 0.015),
    "spleen": (0.52, 0.24, 0.16),
    "cortex": (0.62, 0.36, 0.24),
    "medulla": (0.30, 0.48, 0.10),
    "stomach": (0.26, 0.28, 0.06),
    "aorta": (0.0, 0.0, 0.58),
    "vein": (0.0, 0.0, 0.58),
}
"""Ktrans (per minute), ve and vp of each tissue. By judgement: of a plausible size, and different from each other."""
WRONG = ("portal lobe", "vein")
"""Tissues for which the model is wrong."""
ORDINARY = ("fat", "muscle", "vertebra", "liver", "lesion", "core", "spleen", "cortex", "medulla", "stomach")
"""Tissues for which the model is right and has three parameters."""
BOUNDS = {"Ktrans": (0.0, 5.0), "ve": (0.0, 1.0), "vp": (0.0, 1.0)}
EQUATIONS = "ce' = Ktrans/ve*(ca - ce)\nce(0) = 0\nC = vp*ca + ve*ce"
TIMES = np.arange(80) / 15.0
"""Minutes: one image every four seconds."""
ONSET = 1.0 / 3.0
"""Minutes until the agent arrives."""
DELAY, DISPERSION = 0.2, 0.12
"""Minutes by which the blood of the portal vein is late, and the mean time over which it is mixed."""
PORTAL_SHARE = 0.75
"""Share of the portal vein in the blood of the portal lobe."""


@dataclass(frozen=True)
class Phantom:
    """The image.

    Attributes
    ----------
    tissue : ndarray of int, (*shape)
        Positions in `TISSUES`.
    truth : dict of ndarray, (*shape)
        The true parameters by name.
    times : ndarray, (time,)
    ca : ndarray, (time,)
        Concentration in arterial plasma, mM.
    """

    tissue: np.ndarray
    truth: dict[str, np.ndarray]
    times: np.ndarray
    ca: np.ndarray

    def find(self, *names: str) -> np.ndarray:
        """Return True in the voxels of some tissues, `(*shape)`."""
        return np.isin(self.tissue, [list(TISSUES).index(name) for name in names])

    def compute_curves(self) -> np.ndarray:
        """Compute the curves without noise, `(*shape, time)`."""
        late = delay(self.times, self.ca)
        truth = [self.truth[name] for name in PARAMETERS]
        curves = respond(self.times, self.ca, *truth)
        for name, share in (("portal lobe", PORTAL_SHARE), ("vein", 1.0)):
            at = self.find(name)
            curves[at] = respond(self.times, (1 - share) * self.ca + share * late, *(values[at] for values in truth))
        return curves

    def simulate(self, sigma: float, seed: int) -> np.ndarray:
        """Return curves with noise of standard deviation sigma (mM), `(*shape, time)`."""
        curves = self.compute_curves()
        return curves + sigma * np.random.default_rng([seed, 23]).standard_normal(curves.shape)


def build_phantom(shape: tuple[int, int, int], heights: tuple[float, float] = (-0.6, 0.6)) -> Phantom:
    """Build the image.

    Parameters
    ----------
    shape : tuple of int
        Voxels from front to back, from the patient's right to the left, and from the feet to the head.
    heights : tuple of float
        Lowest and highest section; 0 is the middle of the organs.
    """
    rows, columns, slices = shape
    y, x, z = np.meshgrid(
        np.linspace(0.75, -0.75, rows), np.linspace(-1, 1, columns), np.linspace(*heights, slices), indexing="ij"
    )
    tissue = draw_organs(x, y, z)
    truth = {}
    table = np.array(list(TISSUES.values()))
    for k, name in enumerate(PARAMETERS):
        wave = np.sin(5.1 * x + 2.0 * k + 1.5 * z) * np.cos(6.3 * y - 1.3 * k) + 0.6 * np.sin(9.0 * y + 8.0 * x + k)
        truth[name] = table[tissue, k] * (1 + 0.08 * wave)
    return Phantom(tissue, truth, TIMES, compute_arterial_plasma(TIMES))


def draw_organs(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the tissue at some points, as positions in `TISSUES`: later organs lie over earlier ones."""
    tissue = np.zeros(x.shape, dtype=int)

    def inside(centre: tuple[float, float, float], radii: tuple[float, float, float], turn: float = 0.0) -> np.ndarray:
        """Return True inside an ellipsoid that is turned by an angle in the plane of the section."""
        dx, dy, dz = x - centre[0], y - centre[1], z - centre[2]
        u, v = np.cos(turn) * dx + np.sin(turn) * dy, np.cos(turn) * dy - np.sin(turn) * dx
        return (u / radii[0]) ** 2 + (v / radii[1]) ** 2 + (dz / radii[2]) ** 2 < 1

    def paint(where: np.ndarray, name: str) -> None:
        tissue[where] = list(TISSUES).index(name)

    def frame(width: float, height: float) -> np.ndarray:
        """Return True inside a rounded rectangle, the shape of the trunk."""
        return np.abs(x / width) ** 2.6 + np.abs(y / height) ** 2.6 < 1

    paint(frame(0.95, 0.69), "fat")
    paint(frame(0.86, 0.61), "muscle")
    cavity = frame(0.79, 0.54)
    paint(cavity, "fat")
    for side in (-1, 1):
        paint(inside((0.24 * side, -0.47, 0), (0.20, 0.12, 9.0)), "muscle")
    liver = inside((-0.40, 0.09, 0.15), (0.44, 0.42, 1.0), 0.25) | inside((-0.02, 0.28, 0.1), (0.40, 0.17, 0.8), -0.15)
    liver &= cavity
    paint(liver, "liver")
    paint(liver & (x > -0.10 + 0.4 * (y - 0.2)) & (y > 0.05), "portal lobe")
    paint(inside((-0.47, 0.12, 0.05), (0.15, 0.15, 0.5)), "lesion")
    paint(inside((-0.47, 0.12, 0.05), (0.08, 0.08, 0.3)), "core")
    paint(inside((0.46, 0.20, 0.1), (0.22, 0.17, 0.8), 0.5) & cavity, "stomach")
    paint(inside((0.46, 0.20, 0.1), (0.15, 0.10, 0.6), 0.5) & cavity, "air")
    paint(inside((0.63, -0.03, 0.1), (0.13, 0.28, 0.8), -0.25) & cavity, "spleen")
    for side in (-1, 1):
        centre = (0.42 * side, -0.32, -0.15)
        paint(inside(centre, (0.15, 0.19, 0.8), 0.45 * side), "cortex")
        paint(inside(centre, (0.09, 0.12, 0.5), 0.45 * side), "medulla")
    paint(inside((0.0, -0.35, 0), (0.15, 0.13, 9.0)), "vertebra")
    paint(inside((0.05, -0.15, 0), (0.062, 0.062, 9.0)), "aorta")
    paint(inside((-0.13, -0.13, 0), (0.075, 0.06, 9.0)), "vein")
    return tissue


def compute_arterial_plasma(t: np.ndarray) -> np.ndarray:
    """Compute the concentration in arterial plasma (mM) at t minutes, by Parker's population average."""
    s = t - ONSET
    blood = 1.050 * np.exp(-0.1685 * s) / (1 + np.exp(-38.078 * (s - 0.483)))
    for area, centre, width in ((0.809, 0.17046, 0.0563), (0.330, 0.365, 0.132)):
        blood = blood + area / (width * np.sqrt(2 * np.pi)) * np.exp(-((s - centre) ** 2) / (2 * width**2))
    return np.where(s > 0, blood, 0.0) / (1 - 0.42)


def delay(t: np.ndarray, ca: np.ndarray) -> np.ndarray:
    """Return a later and mixed arterial curve, `(time,)`."""
    later = np.interp(t - DELAY, t, ca, left=0.0)
    return respond(t, later, np.array(1 / DISPERSION), np.array(1.0), np.array(0.0))


def respond(t: np.ndarray, ca: np.ndarray, Ktrans: np.ndarray, ve: np.ndarray, vp: np.ndarray) -> np.ndarray:
    """Compute the curves of the extended Tofts model, `(*shape, time)`, exactly for ca linear between samples.

    With k = Ktrans/ve and E = exp(-k h), `ce(t + h) = E ce + (1 - E) ca + (1 - (1 - E)/(k h)) Δca`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        k = np.where(Ktrans > 0, Ktrans / ve, 0.0)
    ce = np.zeros(np.shape(Ktrans))
    curves = np.empty((*np.shape(Ktrans), len(t)))
    curves[..., 0] = vp * ca[0]
    for m, h in enumerate(np.diff(t)):
        kh = np.maximum(k * h, 1e-12)
        gone = -np.expm1(-kh)
        ce = ce + gone * (ca[m] - ce) + (1 - gone / kh) * (ca[m + 1] - ca[m])
        curves[..., m + 1] = vp * ca[m + 1] + ve * ce
    return curves
