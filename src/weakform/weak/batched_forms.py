"""Many short trajectories as one, for what is asked of them again and again.

Trajectories with the same equations stand one behind the other, as on a mesh (`collocation.mesh`): the windows of their
test functions are moved along, and one pass gives the weak residuals of all, in the same order, and their covariance:
blocks of two trajectories share no samples. Where the functions of a trajectory end before its last block does, the
rest of it are functions that are zero, each independent of all others with variance one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..basis.test_functions import TestFunctions
from ..support.array_types import BoolArray, FloatArray, IntArray
from .weak_form import WeakForm

SHORT = 500
"""Samples of a trajectory above which a pass of its own costs nothing beside the work, and copies would."""


@dataclass(frozen=True)
class Together:
    """Some trajectories as one.

    Attributes
    ----------
    form : WeakForm
        Of all.
    members : tuple of WeakForm
        Of each.
    """

    form: WeakForm
    members: tuple[WeakForm, ...]

    def denoise(self, p: FloatArray) -> list[FloatArray]:
        """The states of each less their noise, see `WeakForm.denoise`."""
        ends = np.cumsum([len(form.times) for form in self.members])[:-1]
        return np.split(self.form.denoise(p), ends)

    def standardised(self, p: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Centres and standardised weak residuals of each, see `WeakForm.standardised`."""
        centres, scores = self.form.standardised(p)
        begins = np.cumsum([0, *(form.functions.blocks * form.functions.length for form in self.members)])
        parts = [slice(b, b + form.functions.count) for b, form in zip(begins, self.members, strict=False)]
        return [(centres[part], scores[:, part]) for part in parts]


def joined(forms: Sequence[WeakForm]) -> tuple[Together, ...]:
    """The forms, those in a row that can be put together as one."""
    groups: list[list[WeakForm]] = []
    for form in forms:
        if groups and _alike(groups[-1][-1], form):
            groups[-1].append(form)
        else:
            groups.append([form])
    return tuple(Together(g[0] if len(g) == 1 else _together(g), tuple(g)) for g in groups)


def standardised(forms: Sequence[WeakForm], p: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Centres and standardised weak residuals of each trajectory, see `WeakForm.standardised`."""
    return tuple(scores for group in joined(forms) for scores in group.standardised(p))


def _alike(one: WeakForm, other: WeakForm) -> bool:
    """Whether two have the same equations, driven by nothing of their own, and blocks of the same size."""
    return (
        one.system.core == other.system.core
        and one.system.inputs is None
        and other.system.inputs is None
        and one.functions.phi.shape[1:] == other.functions.phi.shape[1:]
        and max(len(one.times), len(other.times)) <= SHORT
    )


def _together(forms: list[WeakForm]) -> WeakForm:
    parts = [form.functions for form in forms]
    begins = np.cumsum([0, *(part.samples for part in parts)])
    n = parts[0].phi.shape[2]
    widths = [np.minimum(np.minimum(_width(part), n), part.samples - part.start) for part in parts]
    functions = TestFunctions(
        np.concatenate([_used(part, part.phi) for part in parts]),
        np.concatenate([_used(part, part.dphi) for part in parts]),
        np.concatenate([part.start + begin for part, begin in zip(parts, begins, strict=False)]),
        samples=int(begins[-1]),
        count=sum(part.blocks for part in parts) * parts[0].length,
        radius=min(part.radius for part in parts),
        description=parts[0].description,
        width=np.concatenate(widths),
        empty=np.concatenate([_empty(part) for part in parts]),
    )
    return WeakForm(
        forms[0].system,
        np.concatenate([form.times for form in forms]),
        np.concatenate([form.u for form in forms]),
        np.concatenate([np.broadcast_to(form.variance, form.u.shape) for form in forms]),
        functions,
    )


def _width(part: TestFunctions) -> IntArray:
    return np.full(part.blocks, part.phi.shape[2]) if part.width is None else part.width


def _used(part: TestFunctions, values: FloatArray) -> FloatArray:
    """The functions of all blocks, zero where they are not used."""
    copied = np.array(values)
    copied[-1, part.used.stop :] = 0.0
    return copied


def _empty(part: TestFunctions) -> BoolArray:
    """The places of a trajectory's blocks that have no function, `(B, L)`."""
    empty = np.zeros((part.blocks, part.length), dtype=bool)
    empty[-1, part.used.stop :] = True
    return empty
