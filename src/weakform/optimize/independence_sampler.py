"""An independence sampler for densities that are nearly Student's t in their coordinates.

Most proposals of a chain are independent of its state: they are drawn from a reference φ, Student's t with mean m and
shape S, and accepted with probability `min(1, w(z')/w(z))`, w = π/φ. If π is φ, every draw is accepted, and all are
independent. The remaining proposals are steps from the current point, so that a chain can leave a region in which the
tail of φ is too thin. In the warm-up m and S are learnt from all chains as long as the weights w are uneven. Of the
references that were tried, the one with the largest effective share of draws `(Σw)²/(n Σw²)` is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..support.array_types import FloatArray

GOOD_EFFECTIVE_SHARE = 0.6
"""Effective share of draws `(Σw)²/(n Σw²)` above which a reference is not learnt again.

Above half of it local steps are also rarer. A larger value prolongs the warm-up. By judgement.
"""
SHAPE_INFLATION = 1.2
"""Factor of the learnt shape over the covariance of past draws.

A reference that is wider than the density costs some draws; one that is narrower makes chains stick. By judgement.
"""
DRAWS_PER_DIMENSION = 5.0
"""Number of past draws for each dimension at which the learnt shape and the standard one have equal weight.

By judgement."""
WARM_UP_ROUNDS = 6
"""Number of parts of the warm-up, after each of which m and S may be learnt. By judgement."""
LOCAL_STEP_LENGTH = 1.7
"""Median length of a local step, in units of `√(S/d)`. By judgement."""
LOCAL_STEP_PERIOD = 2
"""One step in this many is local. By judgement."""
RARE_LOCAL_STEP_PERIOD = 4
"""One step in this many is local if the reference is good (see `GOOD_EFFECTIVE_SHARE`). By judgement."""
MAX_START_ATTEMPTS = 200
"""Number of random points tried for the start of a chain. By judgement."""
START_CONTRACTION = 0.97
"""Factor by which the width of the random points is multiplied after each attempt, down to 0.2% after all of them. By
judgement."""


class Evaluated(Protocol):
    """A density at a point, with any other values that the caller wants to keep."""

    @property
    def log(self) -> float:
        """Logarithm of the density."""


E = TypeVar("E", bound=Evaluated)


@dataclass(frozen=True)
class _Reference:
    """Student's t with mean `(d,)`, Cholesky factor of the shape `(d, d)` and `tail` degrees of freedom."""

    mean: FloatArray
    root: FloatArray
    tail: float

    def log(self, z: FloatArray) -> float:
        """Compute the logarithm of the density at z `(d,)`, up to a constant."""
        y = np.linalg.solve(self.root, z - self.mean)
        return -0.5 * (self.tail + len(z)) * math.log1p(float(y @ y) / self.tail)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw a point `(d,)`."""
        y = self.root @ rng.standard_normal(len(self.mean))
        return np.asarray(self.mean + y * math.sqrt(self.tail / rng.chisquare(self.tail)))

    def learn_from(self, past: FloatArray) -> _Reference:
        """Return a reference with the mean and shape of draws `(n, d)`; few draws are mixed with the standard shape."""
        n, d = past.shape
        share = n / (n + DRAWS_PER_DIMENSION * d)
        shape = share * SHAPE_INFLATION * np.cov(past.T).reshape(d, d) + (1 - share) * np.eye(d)
        return _Reference(past.mean(axis=0), np.linalg.cholesky(shape), self.tail)


class IndependenceSampler(Generic[E]):
    """Chains from a density, in coordinates in which it is about standard normal.

    Parameters
    ----------
    density : callable
        Returns the density at z `(d,)`; None if it cannot be computed.
    dimension : int
        d.
    chains : int
    rng : Generator
    tail : float
        Approximate degrees of freedom of the density.

    Attributes
    ----------
    kept : list of lists, (chains, steps)
        Evaluated density of each chain at each step after the warm-up.
    steps, accepted, failed : int
        Numbers of proposals since the warm-up: all, accepted, and with a density that could not be computed.
    """

    def __init__(
        self,
        density: Callable[[FloatArray], E | None],
        dimension: int,
        chains: int,
        rng: np.random.Generator,
        tail: float = 30.0,
    ) -> None:
        self.density, self.rng = density, rng
        self.reference = _Reference(np.zeros(dimension), np.eye(dimension), tail)
        self.points = [self._draw_start(dimension) for _ in range(chains)]
        self.kept: list[list[E]] = [[] for _ in self.points]
        self.local_period = LOCAL_STEP_PERIOD
        self.steps = self.accepted = self.failed = 0

    def _draw_start(self, dimension: int) -> tuple[FloatArray, E]:
        """Draw the start of a chain `(d,)`, nearer to zero with each attempt that fails.

        Raises
        ------
        ValueError
            If the density is zero or cannot be computed at any attempt.
        """
        width = 1.0
        for _ in range(MAX_START_ATTEMPTS):
            z = width * self.rng.standard_normal(dimension)
            value = self.density(z)
            if value is not None and math.isfinite(value.log):
                return z, value
            width *= START_CONTRACTION
        raise ValueError(f"the density is zero or cannot be computed at any of {MAX_START_ATTEMPTS} random starts")

    def _take_step(self, is_local: bool) -> list[float]:
        """Take one step of each chain.

        Parameters
        ----------
        is_local : bool
            Propose a step from the current point in place of a draw from the reference.

        Returns
        -------
        list of float
            Logarithm of the weight w of each proposal.
        """
        reference, weights = self.reference, []
        for c, (z, current) in enumerate(self.points):
            if is_local:
                # Lengths of different magnitude serve directions of different width.
                length = LOCAL_STEP_LENGTH / math.sqrt(len(z)) * math.exp(0.5 * self.rng.standard_normal())
                trial = z + length * (reference.root @ self.rng.standard_normal(len(z)))
            else:
                trial = reference.draw(self.rng)
            chance = math.log(self.rng.uniform())
            proposed = self.density(trial)
            self.steps += 1
            if proposed is None:
                self.failed += 1
                weights.append(-math.inf)
                continue
            weights.append(proposed.log - reference.log(trial))
            # A local step is symmetric: the ratio of densities. A draw from the reference: the ratio of weights.
            ratio = proposed.log - current.log if is_local else weights[-1] - current.log + reference.log(z)
            if chance < ratio:
                self.points[c] = trial, proposed
                self.accepted += 1
        return weights

    def warm_up_chains(self, steps: int) -> None:
        """Learn the reference in up to `steps` steps of each chain, and discard them."""
        past: list[FloatArray] = []
        best = (-1.0, self.reference)
        for _ in range(WARM_UP_ROUNDS):
            weights = []
            for i in range(steps // WARM_UP_ROUNDS):
                proposed = self._take_step(is_local=i % 2 == 1)
                weights += [] if i % 2 == 1 else proposed
                past += [z for z, _ in self.points]
            best = max(best, (_compute_effective_share(np.array(weights)), self.reference), key=lambda pair: pair[0])
            if best[0] > GOOD_EFFECTIVE_SHARE:
                break
            # The oldest third is dropped: chains began far from the density.
            self.reference, past = self.reference.learn_from(np.array(past)), past[len(past) // 3 :]
        share, self.reference = best
        self.local_period = RARE_LOCAL_STEP_PERIOD if share > GOOD_EFFECTIVE_SHARE / 2 else LOCAL_STEP_PERIOD
        self.steps = self.accepted = self.failed = 0

    def take_steps(self, steps: int) -> None:
        """Take steps of each chain and keep all of them in `kept`."""
        for i in range(steps):
            self._take_step(is_local=i % self.local_period == 0)
            for c, (_, current) in enumerate(self.points):
                self.kept[c].append(current)


def _compute_effective_share(logs: FloatArray) -> float:
    """Compute the effective share of draws `(Σw)²/(n Σw²)` from the logarithms of w, `(n,)`."""
    if not np.isfinite(logs).any():
        return 0.0
    w = np.exp(logs - logs.max())
    return float(w.sum() ** 2 / (len(w) * (w @ w)))
