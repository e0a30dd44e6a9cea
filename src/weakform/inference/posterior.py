"""Draws from the posterior of parameters, initial values and σ, and whether they can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg.blas_threads import single_thread
from ..optimize.independence_sampler import Walk
from ..optimize.mcmc_diagnostics import effective, rhat
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.optional_imports import extra, pandas
from ..support.whole_numbers import is_whole
from ..support.wording import Progress
from .posterior_density import At, Target

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MIXED, ENOUGH, FEW = 1.01, 400.0, 0.005
"""R̂ below which, and effective size from which on, chains have mixed; share of steps that may be lost."""
WARM = 120
"""Steps of each chain that are not kept."""
THINNER = (1, 2, 4, 8)
"""Steps for each draw, more of them until the chains have mixed."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from the posterior.

    Attributes
    ----------
    names : tuple of str
        Parameters, then initial values such as `x(0)`, then `sigma x` where σ was estimated.
    draws : ndarray, (chains, n, names)
    rhat, effective : dict of str to float
        Split R̂ and effective size of each.
    accepted, lost : float
        Shares of the steps that were accepted, and that led to where nothing could be computed.
    missed : int
        Other solutions of the fit that explain the data as well: chains begin at one of them, and stay there.
    notes : tuple of str
        What the reader should know.
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
        """Whether the chains have mixed: R̂ below 1.01, an effective size of 400 for each, and no steps lost."""
        return not self.trouble

    @property
    def trouble(self) -> str:
        """Why the draws are not to be trusted, or nothing."""
        if self.missed:
            return (
                "another solution fits equally well, which the chains do not reach; see fit.alternatives, and give "
                "bounds that leave one of them"
            )
        worst, least = max(self.names, key=self.rhat.__getitem__), min(self.names, key=self.effective.__getitem__)
        if not self.rhat[worst] < MIXED:
            return f"the chains do not agree on {worst} (R̂ = {self.rhat[worst]:.3f}): draw more"
        if not self.effective[least] >= ENOUGH:
            return f"{least} has an effective size of {self.effective[least]:.0f}, below {ENOUGH:.0f}: draw more"
        if self.lost > FEW:
            return (
                f"{self.lost:.1%} of the steps led to where the model cannot be solved: part of the posterior is out "
                "of reach; give bounds, or a log scale, that keep it where it can"
            )
        return ""

    def __getitem__(self, name: str) -> FloatArray:
        """All draws of one quantity, `(chains·n,)`."""
        if name not in self.names:
            raise KeyError(f"Nothing called {name!r} was drawn; there are: {', '.join(self.names)}.")
        return np.asarray(self.draws[:, :, self.names.index(name)].ravel())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Central intervals, by name."""
        if not 0 < level < 1:
            raise FitError(f"The level must be a number between 0 and 1, such as 0.95; received {level!r}.")
        ends = np.quantile(self.draws.reshape(-1, len(self.names)), [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return {name: (float(a), float(b)) for name, a, b in zip(self.names, *ends, strict=True)}

    def to_frame(self) -> Any:
        """The draws as a pandas data frame, with the chain of each."""
        pd = pandas()

        chains, n, _ = self.draws.shape
        frame = pd.DataFrame(self.draws.reshape(-1, len(self.names)), columns=list(self.names))
        frame.insert(0, "chain", np.repeat(np.arange(chains), n))
        return frame

    def to_arviz(self) -> Any:
        """The draws as ArviZ has them: `InferenceData` of version 0, a `DataTree` of version 1."""
        try:
            import arviz
        except ImportError:
            raise FitError(f"ArviZ is not installed; install it with: {extra('arviz')}") from None
        parts = {name: self.draws[:, :, k] for k, name in enumerate(self.names)}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": parts})
        return arviz.from_dict(posterior=parts)

    def plot(self, names: list[str] | None = None) -> Any:
        """Draw pairs of quantities, the parameters by default; returns the matplotlib axes."""
        from ..report.posterior_pairs import pairs

        return pairs(self, names)

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
            shown = f"[{low:.6g}, {high:.6g}]"
            lines.append(
                f"{name:{width}s}  {x.mean():12.6g} {x.std():11.4g}   {shown:26s} {self.rhat[name]:6.3f} "
                f"{self.effective[name]:6.0f}"
            )
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    def __repr__(self) -> str:
        return f"<Posterior: {', '.join(self.names[:8])}{', ...' if len(self.names) > 8 else ''}>\n{self}"


@np.errstate(all="ignore")
def sample(fit: FitResult, draws: int, chains: int, seed: int) -> Posterior:
    """See `FitResult.sample`."""
    if not is_whole(draws, 100) or not is_whole(chains, 2):
        raise FitError(f"sample needs 100 draws and 2 chains at least; received {draws!r} and {chains!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    rng = np.random.default_rng([seed, 7])
    n = -(-draws // chains)
    with single_thread():
        target = Target(fit)
        try:
            walk = Walk(target.at, len(target.estimate), chains, rng, target.tail)
        except ValueError as error:
            raise FitError(f"Nothing can be drawn: {error}.") from None
        walk.warm_up(WARM)
        bar = Progress(lambda: f"sample: {walk.steps} steps")
        for thin in THINNER if draws >= ENOUGH else THINNER[:1]:
            while len(walk.kept[0]) < thin * n:
                walk.go_on(min(10, thin * n - len(walk.kept[0])))
                bar.update()
            found = _told(target, walk, thin, rng)
            if found.success:
                break
        bar.close()
    return found


def _told(target: Target, walk: Walk[At], thin: int, rng: np.random.Generator) -> Posterior:
    kept = [chain[thin - 1 :: thin] for chain in walk.kept]
    theta = np.array([[at.theta for at in chain] for chain in kept])
    squares = np.array([[at.squares for at in chain] for chain in kept])
    noise, sigma = target.noise(squares, rng)
    names = (*target.names(), *noise)
    whole = np.concatenate([target.natural(theta), sigma], axis=2)
    return Posterior(
        names,
        whole,
        {name: rhat(whole[:, :, k]) for k, name in enumerate(names)},
        {name: effective(whole[:, :, k]) for k, name in enumerate(names)},
        accepted=walk.taken / walk.steps,
        lost=walk.lost / walk.steps,
        missed=len(target.fit.alternatives),
        notes=_notes(target.fit, target),
    )


def _notes(fit: FitResult, target: Target) -> tuple[str, ...]:
    notes = []
    if fit.population is not None:
        notes.append("Means and spreads of the random effects are held at their estimates.")
    if not fit.success:
        notes.append(f"The fit itself is no success: {fit.status.value} What is drawn is what this model would say.")
    loose = [
        name
        for j, name in enumerate(target.names()[: target.F])
        if not (np.isfinite(target.low[j]) and np.isfinite(target.high[j]))
    ]
    known = set() if fit.prior is None else {fit.model.parameters[j] for j in fit.prior.index}
    flat = [name for name in loose if name not in known]
    if flat:
        logs = {name for name, log in zip(fit.model.parameters, fit.log_scale, strict=True) if log}
        how = [f"log {name}" if name in logs else name for name in flat]
        notes.append(f"Without a prior and without bounds, flat in: {', '.join(how)}.")
    return tuple(notes)
