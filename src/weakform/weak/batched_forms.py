"""Batches of short trajectories, evaluated as one long trajectory.

Trajectories with the same equations are concatenated, as on a mesh (`collocation.mesh`), and the windows of their test
functions are shifted accordingly. One pass then gives the weak residuals of all trajectories, in the same order, and
their covariance, which is exact because blocks of two trajectories share no samples. If the last block of a trajectory
is not full, it is padded with functions that are zero, whose residuals have variance one and are independent of all
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..basis.test_functions import TestFunctions
from ..support.array_types import BoolArray, FloatArray, IntArray
from .weak_form import WeakForm

MAX_BATCHED_SAMPLES = 500
"""Number of samples above which a trajectory is evaluated in a separate pass.

For longer ones the overhead of a pass is small compared with its work, and the copy of the data costs memory. By
judgement.
"""


@dataclass(frozen=True)
class FormBatch:
    """A batch of trajectories.

    Attributes
    ----------
    form : WeakForm
        The form of all trajectories, concatenated.
    members : tuple of WeakForm
        The form of each trajectory.
    """

    form: WeakForm
    members: tuple[WeakForm, ...]

    def denoise(self, p: FloatArray) -> list[FloatArray]:
        """Return the denoised states of each trajectory, `(time, D)`; see `WeakForm.denoise`."""
        ends = np.cumsum([len(form.times) for form in self.members])[:-1]
        return np.split(self.form.denoise(p), ends)

    def standardise(self, p: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return the centres `(K,)` and standardised weak residuals `(D, K)` of each trajectory.

        See `WeakForm.standardise`.
        """
        centres, scores = self.form.standardise(p)
        # The padding of the last block of a trajectory follows the functions of that trajectory and is skipped.
        begins = np.cumsum([0, *(form.functions.blocks * form.functions.length for form in self.members)])
        parts = [slice(begin, begin + form.functions.count) for begin, form in zip(begins, self.members, strict=False)]
        return [(centres[part], scores[:, part]) for part in parts]


def batch_forms(forms: Sequence[WeakForm]) -> tuple[FormBatch, ...]:
    """Group consecutive forms that can be evaluated together into batches, in the same order."""
    groups: list[list[WeakForm]] = []
    for form in forms:
        if groups and _can_share_batch(groups[-1][-1], form):
            groups[-1].append(form)
        else:
            groups.append([form])
    return tuple(FormBatch(g[0] if len(g) == 1 else _concatenate_forms(g), tuple(g)) for g in groups)


def standardise_forms(forms: Sequence[WeakForm], p: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return the centres `(K,)` and standardised weak residuals `(D, K)` of each trajectory; see `FormBatch`."""
    return tuple(scores for batch in batch_forms(forms) for scores in batch.standardise(p))


def _can_share_batch(first: WeakForm, second: WeakForm) -> bool:
    """Return True if two short forms have the same equations without inputs, and blocks of the same size."""
    without_inputs = first.system.inputs is None and second.system.inputs is None
    same_blocks = first.functions.phi.shape[1:] == second.functions.phi.shape[1:]
    short = max(len(first.times), len(second.times)) <= MAX_BATCHED_SAMPLES
    return first.system.equations_id == second.system.equations_id and without_inputs and same_blocks and short


def _concatenate_forms(forms: list[WeakForm]) -> WeakForm:
    """Concatenate forms with the same equations and blocks of the same size into one form."""
    parts = [form.functions for form in forms]
    begins = np.cumsum([0, *(part.samples for part in parts)])
    n = parts[0].phi.shape[2]
    # A window may reach beyond the last sample of its trajectory. In the batch, samples of the next trajectory follow
    # there, so that each window is cut at the end of its trajectory.
    widths = [np.minimum(np.minimum(_count_window_samples(part), n), part.samples - part.start) for part in parts]
    functions = TestFunctions(
        np.concatenate([_clear_unused_functions(part, part.phi) for part in parts]),
        np.concatenate([_clear_unused_functions(part, part.dphi) for part in parts]),
        np.concatenate([part.start + begin for part, begin in zip(parts, begins, strict=False)]),
        samples=int(begins[-1]),
        count=sum(part.blocks for part in parts) * parts[0].length,
        radius=min(part.radius for part in parts),
        description=parts[0].description,
        width=np.concatenate(widths),
        empty=np.concatenate([_mask_empty_functions(part) for part in parts]),
    )
    return WeakForm(
        forms[0].system,
        np.concatenate([form.times for form in forms]),
        np.concatenate([form.u for form in forms]),
        np.concatenate([np.broadcast_to(form.variance, form.u.shape) for form in forms]),
        functions,
    )


def _count_window_samples(part: TestFunctions) -> IntArray:
    """Return the number of samples in each window, `(B,)`."""
    return np.full(part.blocks, part.phi.shape[2]) if part.width is None else part.width


def _clear_unused_functions(part: TestFunctions, values: FloatArray) -> FloatArray:
    """Return a copy of `values` `(B, L, n)`, `φ` or `φ'` of `part`, in which functions that are not used are zero."""
    copied = np.array(values)
    copied[-1, part.used_functions.stop :] = 0.0
    return copied


def _mask_empty_functions(part: TestFunctions) -> BoolArray:
    """Return a mask `(B, L)` of the functions that only pad the blocks of a trajectory."""
    empty = np.zeros((part.blocks, part.length), dtype=bool)
    empty[-1, part.used_functions.stop :] = True
    return empty
