"""A benchmark problem: equations with known truth, and noisy data drawn from them."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from ..data.dataset import Dataset
from ..data.trajectory import Truth
from ..forward.solver import simulate
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..support.compact_repr import Tidy
from ..support.errors import DataError
from ..support.whole_numbers import is_whole
from ..support.wording import suggestion

RTOL, ATOL = 1e-10, 1e-12


@dataclass(frozen=True, repr=False)
class Problem(Tidy):
    """A system of equations with its true parameters.

    Attributes
    ----------
    name, title, source : str
    equations : str
        As `Model.from_text` reads them.
    truth : tuple of float
        True parameters, in the order of `model.parameters`.
    initial : tuple of float
        The state at time 0.
    duration : float
        The time of the last sample.
    box : tuple of pairs of float
        From which random starts are drawn, and the bounds of the fits in studies.
    noise : str
        A kind of `noise.kinds.KINDS`.
    search : tuple of float, optional
        Range of radii, in time units, in the authors' search for the paper's test functions.
    """

    name: str
    title: str
    equations: str
    truth: tuple[float, ...]
    initial: tuple[float, ...]
    duration: float
    box: tuple[tuple[float, float], ...]
    noise: str
    source: str
    search: tuple[float, float] | None = None
    names: tuple[str, ...] | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> Model:
        """The equations."""
        return Model.from_text(self.equations, parameters=self.names)

    @property
    def parameters(self) -> FloatArray:
        """True parameters, `(J,)`."""
        return np.array(self.truth)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The box, by name."""
        return dict(zip(self.model.parameters, self.box, strict=True))

    def with_noise(self, kind: str) -> Problem:
        """The same problem with another kind of noise."""
        if kind not in KINDS:
            raise DataError(f"No noise {kind!r}.{suggestion(str(kind), KINDS)} There are: {', '.join(KINDS)}.")
        return replace(self, noise=kind)

    def start(self, seed: int) -> FloatArray:
        """A random start, uniform in the box, `(J,)`."""
        low, high = np.array(self.box).T
        return np.asarray(np.random.default_rng([seed, 1]).uniform(low, high))

    def solution(self, M: int = 256, duration: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Times `(M + 1,)` and the noise-free states `(M + 1, D)`, solved at rtol 1e-10, atol 1e-12."""
        length = float(self.duration if duration is None else duration)
        if not is_whole(M, 7) or not length > 0:
            raise DataError(f"At least 7 steps and a positive duration are needed; received {M!r} and {length:g}.")
        times, states = _solve(self, int(M), length)
        return times.copy(), states.copy()

    def simulate(
        self,
        M: int = 256,
        noise: float | None = None,
        seed: int = 1,
        by_state: bool = False,
        duration: float | None = None,
    ) -> Dataset:
        """Noisy data that know their truth.

        Parameters
        ----------
        M : int
            Number of steps; there are M + 1 samples.
        noise : float, optional
            Noise ratio, 0.05 by default. Gaussian: the standard deviation is this fraction of the root mean square of
            all states, the same for each state; or of each state's own with `by_state`. Log-normal: the standard
            deviation of the logarithm. Poisson: counts, whose scatter follows from their mean; leave it out.
        seed : int
        by_state : bool
        duration : float, optional
            In place of the problem's own.
        """
        kind = KINDS[self.noise]
        ratio = kind.ratio if noise is None else noise
        if not (isinstance(ratio, numbers.Real) and np.isfinite(ratio) and ratio >= 0):
            raise DataError(f"The noise ratio must be a finite number, not negative; received {noise!r}.")
        times, states = self.solution(M, duration)
        sigma = kind.sigma(states, float(ratio), by_state)
        values = kind.draw(np.random.default_rng([seed, 0]), states, sigma)
        truth = Truth(self.parameters, states, np.array(self.initial), sigma)
        return Dataset(times, values, noise=self.noise, names=self.model.states, truth=truth)


@lru_cache(maxsize=64)
def _solve(problem: Problem, M: int, duration: float) -> tuple[FloatArray, FloatArray]:
    times = np.linspace(0.0, duration, M + 1)
    solved = simulate(
        problem.model, problem.parameters, problem.initial, times, rtol=RTOL, atol=ATOL, max_evaluations=10**9
    )
    if not solved.success:
        raise DataError(f"The problem {problem.name!r} could not be solved: {solved.status.value}.")
    return times, solved.states
