"""Many short trajectories as one, for what is asked of them again and again.

Trajectories with the same equations stand one behind the other, as on a mesh (`collocation.mesh`): the windows of their
test functions are moved along, and one pass gives the weak residuals of all, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..basis.functions import TestFunctions
from ..support.typing import FloatArray, IntArray
from .form import WeakForm

SHORT = 500
"""Samples of a trajectory above which a pass of its own costs nothing beside the work, and copies would."""


def joined(forms: Sequence[WeakForm]) -> tuple[WeakForm, ...]:
    """The forms, those in a row that can be put together as one."""
    groups: list[list[WeakForm]] = []
    for form in forms:
        if groups and _alike(groups[-1][-1], form):
            groups[-1].append(form)
        else:
            groups.append([form])
    return tuple(group[0] if len(group) == 1 else _together(group) for group in groups)


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
