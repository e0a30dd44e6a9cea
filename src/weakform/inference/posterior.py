"""Draws from the posterior of parameters, initial values and σ, and whether the chains have mixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg.blas_threads import use_single_thread
from ..optimize.independence_sampler import IndependenceSampler
from ..optimize.mcmc_diagnostics import compute_effective_size, compute_rhat
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.optional_imports import format_install_hint, import_pandas
from ..support.whole_numbers import is_whole
from ..support.wording import ProgressLine
from .posterior_density import DensityPoint, PosteriorDensity

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


@dataclass(frozen=True)
class _MixingPolicy:
    """When the draws of a posterior can be trusted; documented in docs/posterior.md."""

    max_rhat: float = 1.01
    """Split R̂ below which chains agree; the threshold of Vehtari et al. (2021), doi 10.1214/20-BA1221."""
    min_effective_size: float = 400.0
    """Effective size that each quantity must reach: 100 for each of four chains, as in the same paper."""
    max_share_lost: float = 0.005
    """Largest share of the steps that may lead to points at which the density cannot be computed. With a larger one,
    part of the posterior may not be reached. By judgement."""


MIXING_POLICY = _MixingPolicy()
WARM_UP_STEPS = 120
"""Steps of each chain that are discarded, in which the reference density is learnt. By judgement;
`benchmarks/draws.py` measures draws with it."""
STEPS_PER_DRAW = (1, 2, 4, 8)
"""Steps for each draw, raised from one to the next until the chains have mixed; documented in docs/posterior.md."""
STEPS_BETWEEN_UPDATES = 10
"""Steps of each chain between two updates of the progress bar. By judgement."""
MIN_DRAWS = 100
"""Least number of draws: fewer have no quantiles at 95% to speak of. By judgement."""
MIN_CHAINS = 2
"""Least number of chains: R̂ compares chains."""
MAX_NAMES_IN_REPR = 8
"""Number of quantities that the short form of a posterior lists."""
POSTERIOR_STREAM = 7
"""Second number of the seed of draws. It keeps these random numbers apart from all others of the same seed."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from the posterior.

    Attributes
    ----------
    names : tuple of str
        Parameters, then initial values such as `x(0)`, then `sigma x` if σ was estimated.
    draws : ndarray, (chains, n, names)
    rhat, effective : dict of str to float
        Split R̂ and effective size of each quantity.
    accepted, lost : float
        Shares of the steps that were accepted, and of those that led to points at which the density could not be
        computed.
    missed : int
        Number of other solutions that explain the data as well: chains begin at one solution, and stay near it.
    notes : tuple of str
        Remarks for the reader.
    """

    names: tuple[str, ...]
    draws: FloatArray
    rhat: dict[str, float]
    effective: dict[str, float]
    accepted: float
    lost: float
    missed: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def success(self) -> bool:
        """True if the chains have mixed: R̂ below 1.01, an effective size of 400 for each quantity, no steps lost."""
        return not self.trouble

    @property
    def trouble(self) -> str:
        """The reason not to trust the draws, with its remedy; empty if there is none."""
        if self.missed:
            return (
                "another solution fits equally well, which the chains do not reach; see fit.alternatives, and give "
                "bounds that contain only one of them"
            )
        policy = MIXING_POLICY
        worst, least = max(self.names, key=self.rhat.__getitem__), min(self.names, key=self.effective.__getitem__)
        if not self.rhat[worst] < policy.max_rhat:
            return f"the chains do not agree on {worst} (R̂ = {self.rhat[worst]:.3f}): draw more"
        if not self.effective[least] >= policy.min_effective_size:
            return (
                f"{least} has an effective size of {self.effective[least]:.0f}, below {policy.min_effective_size:.0f}: "
                "draw more"
            )
        if self.lost > policy.max_share_lost:
            return (
                f"the model could not be solved in {self.lost:.1%} of the steps, so that part of the posterior is not "
                "reached; give bounds, or a log scale, that keep parameters where it can be solved"
            )
        return ""

    def __getitem__(self, name: str) -> FloatArray:
        """Return all draws of one quantity, `(chains·n,)`."""
        if name not in self.names:
            raise KeyError(f"The posterior has no quantity {name!r}. The draws are of: {', '.join(self.names)}.")
        return np.asarray(self.draws[:, :, self.names.index(name)].ravel())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return central intervals, by name.

        Parameters
        ----------
        level : float
            Probability inside each interval.

        Returns
        -------
        dict of str to tuple of float
        """
        if not 0 < level < 1:
            raise FitError(f"The level must be a number between 0 and 1, such as 0.95; received {level!r}.")
        ends = np.quantile(self.draws.reshape(-1, len(self.names)), [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return {name: (float(a), float(b)) for name, a, b in zip(self.names, *ends, strict=True)}

    def to_frame(self) -> Any:
        """Return the draws as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each draw: the number of its chain, then all quantities.
        """
        pd = import_pandas()

        chains, n, _ = self.draws.shape
        frame = pd.DataFrame(self.draws.reshape(-1, len(self.names)), columns=list(self.names))
        frame.insert(0, "chain", np.repeat(np.arange(chains), n))
        return frame

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ reads them: `InferenceData` for its version 0, a `DataTree` for version 1."""
        try:
            import arviz
        except ImportError:
            raise FitError(f"ArviZ is not installed; install it with: {format_install_hint('arviz')}") from None
        parts = {name: self.draws[:, :, k] for k, name in enumerate(self.names)}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": parts})
        return arviz.from_dict(posterior=parts)

    def plot(self, names: list[str] | None = None) -> Any:
        """Draw pairs of quantities.

        Parameters
        ----------
        names : list of str, optional
            The quantities; the parameters by default.

        Returns
        -------
        matplotlib axes
        """
        from ..report.posterior_pairs import plot_pairs

        return plot_pairs(self, names)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        ends = self.intervals()
        chains, n = self.draws.shape[:2]
        verdict = "mixed" if self.success else f"NOT TO BE TRUSTED: {self.trouble}"
        lines = [
            f"{chains} chains of {n} draws: {verdict}",
            "",
            f"{'':{width}s}  {'mean':>12s} {'sd':>11s}   {'95% interval':26s} {'R̂':>6s} {'size':>6s}",
        ]
        for name in self.names:
            x, (low, high) = self[name], ends[name]
            interval = f"[{low:.6g}, {high:.6g}]"
            lines.append(
                f"{name:{width}s}  {x.mean():12.6g} {x.std():11.4g}   {interval:26s} {self.rhat[name]:6.3f} "
                f"{self.effective[name]:6.0f}"
            )
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    def __repr__(self) -> str:
        some = ", ".join(self.names[:MAX_NAMES_IN_REPR])
        return f"<Posterior: {some}{', ...' if len(self.names) > MAX_NAMES_IN_REPR else ''}>\n{self}"


@np.errstate(all="ignore")
def draw_posterior(fit: FitResult, draws: int, chains: int, seed: int) -> Posterior:
    """Draw from the posterior, with more steps for each draw until the chains have mixed; see `FitResult.sample`."""
    if not is_whole(draws, MIN_DRAWS) or not is_whole(chains, MIN_CHAINS):
        raise FitError(
            f"sample needs at least {MIN_DRAWS} draws and {MIN_CHAINS} chains; received {draws!r} and {chains!r}."
        )
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    rng = np.random.default_rng([seed, POSTERIOR_STREAM])
    per_chain = -(-draws // chains)  # rounded up
    with use_single_thread():
        target = PosteriorDensity(fit)
        try:
            walk = IndependenceSampler(target.evaluate, len(target.estimate), chains, rng, target.tail_degrees)
        except ValueError as error:
            raise FitError(f"No draws can be made: {error}.") from None
        walk.warm_up_chains(WARM_UP_STEPS)
        bar = ProgressLine(lambda: f"sample: {walk.steps} steps")
        posterior = None
        # Too few draws cannot reach the effective size that success needs, however many steps are between them.
        for thin in STEPS_PER_DRAW if draws >= MIXING_POLICY.min_effective_size else STEPS_PER_DRAW[:1]:
            while len(walk.kept[0]) < thin * per_chain:
                walk.take_steps(min(STEPS_BETWEEN_UPDATES, thin * per_chain - len(walk.kept[0])))
                bar.update()
            posterior = _collect_draws(target, walk, thin, rng)
            if posterior.success:
                break
        bar.close()
    assert posterior is not None
    return posterior


def _collect_draws(
    target: PosteriorDensity, walk: IndependenceSampler[DensityPoint], thin: int, rng: np.random.Generator
) -> Posterior:
    """Collect every `thin`-th step of the chains, with a draw of σ for each, and the diagnostics of mixing."""
    kept = [chain[thin - 1 :: thin] for chain in walk.kept]
    theta = np.array([[at.theta for at in chain] for chain in kept])
    squares = np.array([[at.squares for at in chain] for chain in kept])
    noise, sigma = target.draw_noise_levels(squares, rng)
    names = (*target.list_names(), *noise)
    quantities = np.concatenate([target.convert_to_natural(theta), sigma], axis=2)
    return Posterior(
        names,
        quantities,
        {name: compute_rhat(quantities[:, :, k]) for k, name in enumerate(names)},
        {name: compute_effective_size(quantities[:, :, k]) for k, name in enumerate(names)},
        accepted=walk.accepted / walk.steps,
        lost=walk.failed / walk.steps,
        missed=len(target.fit.alternatives),
        notes=_list_notes(target.fit, target),
    )


def _list_notes(fit: FitResult, target: PosteriorDensity) -> tuple[str, ...]:
    """Return remarks on what the posterior is conditional on: random effects, the status of the fit, flat priors."""
    notes = []
    if fit.population is not None:
        notes.append("Means and spreads of the random effects are held at their estimates.")
    if not fit.success:
        notes.append(
            f"The fit itself did not succeed: {fit.status.value} The draws are from the posterior that this model "
            "would have if it were right."
        )
    # A parameter that is bounded on both sides has a uniform prior, which is proper.
    open_ended = [
        name
        for j, name in enumerate(target.list_names()[: target.F])
        if not (np.isfinite(target.low[j]) and np.isfinite(target.high[j]))
    ]
    with_prior = set() if fit.prior is None else {fit.model.parameters[j] for j in fit.prior.index}
    flat = [name for name in open_ended if name not in with_prior]
    if flat:
        logs = {name for name, log in zip(fit.model.parameters, fit.log_scale, strict=True) if log}
        scales = [f"log {name}" if name in logs else name for name in flat]
        notes.append(f"Without a prior and without bounds, the density is flat in: {', '.join(scales)}.")
    return tuple(notes)
