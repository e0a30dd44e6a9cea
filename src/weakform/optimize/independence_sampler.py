"""Draws from a density that is nearly known in its coordinates.

Most steps of a chain are independent of where it is: drawn from a reference φ, Student's t with mean m and shape S, and
accepted with probability `min(1, w(z')/w(z))`, w = π/φ. Where π is φ every draw is accepted, and they are independent.
The others are steps to somewhere nearby, so that a chain that has come to where φ has too thin a tail finds its way
back. In the warm-up m and S are learnt from all chains where the weights w are uneven: of the references that were
tried, the one remains for which `(Σw)²/(n Σw²)`, the share of its draws that count, is largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..support.array_types import FloatArray

EVEN = 0.6
"""Share of the draws that count from which on a reference is good enough."""
WIDER = 1.2
"""S is larger than what was seen by this factor."""
ROUNDS = 6
"""Parts of the warm-up, after each of which m and S may be learnt."""
NEAR = 1.7
"""Length of a step nearby, in units of `√(S/d)`."""
EVERY = 4
"""How often there is one where the reference is good."""


class Evaluated(Protocol):
    """A density at a point; and what the caller wants to keep."""

    @property
    def log(self) -> float:
        """Its logarithm."""


E = TypeVar("E", bound=Evaluated)


@dataclass(frozen=True)
class _Reference:
    """Student's t with `tail` degrees of freedom."""

    mean: FloatArray
    root: FloatArray
    tail: float

    def log(self, z: FloatArray) -> float:
        """The logarithm of its density, up to a constant that is the same for all z."""
        y = np.linalg.solve(self.root, z - self.mean)
        return -0.5 * (self.tail + len(z)) * math.log1p(float(y @ y) / self.tail)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """A point."""
        y = self.root @ rng.standard_normal(len(self.mean))
        return np.asarray(self.mean + y * math.sqrt(self.tail / rng.chisquare(self.tail)))

    def learnt(self, past: FloatArray) -> _Reference:
        """From draws `(n, d)`, mixed with the standard shape where they are too few."""
        n, d = past.shape
        share = n / (n + 5.0 * d)
        shape = share * WIDER * np.cov(past.T).reshape(d, d) + (1 - share) * np.eye(d)
        return _Reference(past.mean(axis=0), np.linalg.cholesky(shape), self.tail)


class Walk(Generic[E]):
    """Chains from a density in coordinates in which it is about a standard one.

    Parameters
    ----------
    density : callable
        Of z `(d,)`; None where nothing can be computed.
    dimension : int
    chains : int
    rng : Generator
    tail : float
        Degrees of freedom that the density has, about.

    Attributes
    ----------
    kept : list of lists, (chains, steps)
        What was found, step by step.
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
        self.points = [self._start(dimension) for _ in range(chains)]
        self.kept: list[list[E]] = [[] for _ in self.points]
        self.every = 2
        self.steps = self.taken = self.lost = 0

    def _start(self, dimension: int) -> tuple[FloatArray, E]:
        """Where a chain begins; nearer to zero as long as there is nothing."""
        wide = 1.0
        for _ in range(200):
            z = wide * self.rng.standard_normal(dimension)
            found = self.density(z)
            if found is not None and math.isfinite(found.log):
                return z, found
            wide *= 0.97
        raise ValueError("the density is zero, or unknown, wherever it was tried")

    def _step(self, nearby: bool) -> list[float]:
        """One step of each chain; returns the logarithms of the weights of what was proposed."""
        reference, weights = self.reference, []
        for c, (z, found) in enumerate(self.points):
            if nearby:
                length = NEAR / math.sqrt(len(z)) * math.exp(0.5 * self.rng.standard_normal())
                trial = z + length * (reference.root @ self.rng.standard_normal(len(z)))
            else:
                trial = reference.draw(self.rng)
            chance = math.log(self.rng.uniform())
            there = self.density(trial)
            self.steps += 1
            if there is None:
                self.lost += 1
                weights.append(-math.inf)
                continue
            weights.append(there.log - reference.log(trial))
            ratio = there.log - found.log if nearby else weights[-1] - found.log + reference.log(z)
            if chance < ratio:
                self.points[c] = trial, there
                self.taken += 1
        return weights

    def warm_up(self, steps: int) -> None:
        """Learn, and forget these steps."""
        past: list[FloatArray] = []
        best = (-1.0, self.reference)
        for _ in range(ROUNDS):
            weights = []
            for i in range(steps // ROUNDS):
                found = self._step(nearby=i % 2 == 1)
                weights += [] if i % 2 == 1 else found
                past += [z for z, _ in self.points]
            best = max(best, (_even(np.array(weights)), self.reference), key=lambda pair: pair[0])
            if best[0] > EVEN:
                break
            self.reference, past = self.reference.learnt(np.array(past)), past[len(past) // 3 :]
        share, self.reference = best
        self.every = EVERY if share > EVEN / 2 else 2
        self.steps = self.taken = self.lost = 0

    def go_on(self, steps: int) -> None:
        """More steps, all kept."""
        for i in range(steps):
            self._step(nearby=i % self.every == 0)
            for c, (_, found) in enumerate(self.points):
                self.kept[c].append(found)


def _even(logs: FloatArray) -> float:
    """`(Σw)²/(n Σw²)` from the logarithms of w."""
    if not np.isfinite(logs).any():
        return 0.0
    w = np.exp(logs - logs.max())
    return float(w.sum() ** 2 / (len(w) * (w @ w)))
