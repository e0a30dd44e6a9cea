"""Benchmark problems: equations with known true parameters, and simulated noisy data."""

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
from ..support.compact_repr import CompactRepr
from ..support.errors import DataError
from ..support.whole_numbers import is_whole
from ..support.wording import suggest_name

SOLUTION_RTOL = 1e-10
"""Relative tolerance of noise-free solutions, far below any noise that is simulated. By judgement."""
SOLUTION_ATOL = 1e-12
"""Absolute tolerance of noise-free solutions, in the units of each state. By judgement."""
MIN_STEPS = 7
"""Smallest number of steps of simulated data: 8 samples, the fewest from which the noise filter estimates σ."""
SOLUTION_EVALUATIONS = 10**9
"""Limit of evaluations of the right-hand side for one solution: none in practice, as the problems are known to be
solvable."""


@dataclass(frozen=True, repr=False)
class Problem(CompactRepr):
    """A system of equations with its true parameters.

    Attributes
    ----------
    name, title, source : str
        The name for `problems.get`, the name in figures, and the reference.
    equations : str
        The equations as text for `Model.from_text`.
    truth : tuple of float
        The true parameters, in the order of `model.parameters`.
    initial : tuple of float
        The state at time 0.
    duration : float
        The time of the last sample.
    box : tuple of pairs of float
        Range of each parameter: random starts are drawn from it, and it bounds the fits in studies.
    noise : str
        The kind of noise, a key of `noise.kinds.KINDS`.
    search : tuple of float, optional
        Smallest and largest radius, in time units, in the search of the paper's authors for their test functions.
    names : tuple of str, optional
        The names of the parameters in their order; by default the order of `Model.from_text`.
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
        """The model of the equations."""
        return Model.from_text(self.equations, parameters=self.names)

    @property
    def parameters(self) -> FloatArray:
        """The true parameters, `(J,)`."""
        return np.array(self.truth)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The box as bounds by parameter, for `fit`."""
        return dict(zip(self.model.parameters, self.box, strict=True))

    def with_noise(self, kind: str) -> Problem:
        """Return the same problem with another kind of noise."""
        if kind not in KINDS:
            raise DataError(f"No noise {kind!r}.{suggest_name(str(kind), KINDS)} There are: {', '.join(KINDS)}.")
        return replace(self, noise=kind)

    def start(self, seed: int) -> FloatArray:
        """Draw a random start, `(J,)`, uniform in the box; the same seed gives the same start."""
        low, high = np.array(self.box).T
        return np.asarray(np.random.default_rng([seed, 1]).uniform(low, high))

    def solution(self, M: int = 256, duration: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Solve the equations with the true parameters.

        Parameters
        ----------
        M : int
            Number of steps, at least 7.
        duration : float, optional
            The time of the last sample; by default that of the problem.

        Returns
        -------
        times : ndarray, (M + 1,)
        states : ndarray, (M + 1, D)
            Noise-free, solved at rtol 1e-10 and atol 1e-12.
        """
        length = float(self.duration if duration is None else duration)
        if not is_whole(M, MIN_STEPS) or not length > 0:
            raise DataError(
                f"At least {MIN_STEPS} steps and a positive duration are needed; received {M!r} and {length:g}."
            )
        times, states = _solve_problem(self, int(M), length)
        return times.copy(), states.copy()  # the originals are in the cache of `_solve_problem`

    def simulate(
        self,
        M: int = 256,
        noise: float | None = None,
        seed: int = 1,
        by_state: bool = False,
        duration: float | None = None,
    ) -> Dataset:
        """Simulate noisy data with a known truth.

        Parameters
        ----------
        M : int
            Number of steps, at least 7; there are M + 1 samples.
        noise : float, optional
            The noise ratio, by default 0.05 for Gaussian and log-normal noise. Gaussian: standard deviation over
            root mean square of the states. Log-normal: standard deviation of the logarithm. Poisson: leave it out,
            because the scatter of counts follows from their mean.
        seed : int
            Seed of the noise; the same seed gives the same data.
        by_state : bool
            For Gaussian noise: False if the root mean square is that of all states together, so that all have the same
            standard deviation; True if it is that of each state.
        duration : float, optional
            The time of the last sample; by default that of the problem.

        Returns
        -------
        Dataset
            With the true parameters, states and σ as `truth`.
        """
        kind = KINDS[self.noise]
        ratio = kind.ratio if noise is None else noise
        if not (isinstance(ratio, numbers.Real) and np.isfinite(ratio) and ratio >= 0):
            raise DataError(f"The noise ratio must be a finite number that is not negative; received {noise!r}.")
        times, states = self.solution(M, duration)
        sigma = kind.compute_sigma(states, float(ratio), by_state)
        # Noise and random starts have separate streams, [seed, 0] and [seed, 1].
        values = kind.draw(np.random.default_rng([seed, 0]), states, sigma)
        truth = Truth(self.parameters, states, np.array(self.initial), sigma)
        return Dataset(times, values, noise=self.noise, names=self.model.states, truth=truth)


@lru_cache(maxsize=64)
def _solve_problem(problem: Problem, M: int, duration: float) -> tuple[FloatArray, FloatArray]:
    """Solve a problem; solutions are cached, because studies draw many data sets from the same one."""
    times = np.linspace(0.0, duration, M + 1)
    solved = simulate(
        problem.model,
        problem.parameters,
        problem.initial,
        times,
        rtol=SOLUTION_RTOL,
        atol=SOLUTION_ATOL,
        max_evaluations=SOLUTION_EVALUATIONS,
    )
    if not solved.success:
        raise DataError(f"The problem {problem.name!r} could not be solved: {solved.status.value}.")
    return times, solved.states
