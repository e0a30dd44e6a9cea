"""What people ask once they have a fit: which model, how sure, and what next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.trajectory import Truth
from ..inference.fitted_states import fitted
from ..inference.information_criteria import Criteria
from ..support.array_types import FloatArray

if TYPE_CHECKING:
    from ..analysis.accuracy_metrics import Metrics
    from ..analysis.term_ranking import MissingTerms
    from ..inference.experiment_design import Design
    from ..inference.posterior import Posterior
    from .fit_result import FitResult


class Questions(Criteria):
    """The answers of a fit, each computed when it is asked for."""

    @property
    def params(self: FitResult) -> dict[str, float]:  # type: ignore[misc]
        """The estimates by name."""
        return {name: float(value) for name, value in zip(self.model.parameters, self.estimate, strict=True)}

    @property
    def residuals(self: FitResult) -> tuple[FloatArray, ...]:  # type: ignore[misc]
        """Measured values less fitted ones, `(time, columns)` for each trajectory; NaN where nothing was measured."""
        return tuple(q.values - fitted(self, k) for k, q in enumerate(self.data.trajectories))

    @property
    def r_squared(self: FitResult) -> dict[str, float]:  # type: ignore[misc]
        """Share of the variance of each state that the forward solution explains, over all trajectories.

        The model is solved from the fitted initial states; NaN where that fails.
        """
        from ..analysis.accuracy_metrics import r_squared
        from ..inference.fitted_states import Seen
        from ..inference.prediction import forward

        values = np.concatenate([q.values for q in self.data.trajectories])
        parts = []
        for k, q in enumerate(self.data.trajectories):
            parts.append(Seen.of(self, k, every=True).values(q.times, forward(self, k)))
        shares = r_squared(values, np.concatenate(parts))
        return {name: float(share) for name, share in zip(self.data.labels, shares, strict=True)}

    def metrics(self: FitResult, truth: Truth | Mapping[str, float] | None = None) -> Metrics:  # type: ignore[misc]
        """The paper's measures of this estimate against a known truth.

        Parameters
        ----------
        truth : Truth or mapping, optional
            By default that of simulated data; or the true parameters by name, for data that have no truth of their own:
            the forward error is then measured against the solution from the fitted initial state.
        """
        from ..analysis.accuracy_metrics import as_truth, measure
        from ..data.matching import inputs_of

        known = as_truth(self, truth)
        times, inputs = self.data.trajectories[0].times, inputs_of(self.model, self.data, 0)
        return measure(self.model.of(0), self.estimate, self.covariance, times, known, inputs)

    def sample(self: FitResult, draws: int = 2000, chains: int = 4, seed: int = 0) -> Posterior:  # type: ignore[misc]
        """Draw from the posterior of parameters, initial values and σ, given the data, priors and bounds.

        Where no prior is given it is flat, on the scale of each parameter, inside its bounds; flat in log σ. Proposals
        are independent, in coordinates in which the posterior is nearly normal: projections of the residuals.

        Parameters
        ----------
        draws : int
            In all chains together, after a warm-up.
        chains : int
        seed : int
        """
        from ..inference.posterior import sample

        self.late.posterior[:] = [sample(self, draws, chains, seed)]
        return self.late.posterior[0]

    @property
    def posterior(self: FitResult) -> Posterior | None:  # type: ignore[misc]
        """What `sample` has drawn the last time, or None."""
        return self.late.posterior[0] if self.late.posterior else None

    def missing_terms(  # type: ignore[misc]
        self: FitResult, candidates: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    ) -> MissingTerms:
        """Which term the model may lack, and in which equation; or that none of those tried would improve it.

        Parameters
        ----------
        candidates : sequence of str, or mapping of states to them, optional
            Terms such as `"x*y"`, to be tried in every equation, or in those that are named. By default products of up
            to three states, inputs and time, and simple saturations.
        """
        from ..analysis.missing_terms import missing_terms

        return missing_terms(self, candidates)

    def design(self: FitResult, candidates: Any = None, *, trajectory: int | str = 0) -> Design:  # type: ignore[misc]
        """How much further experiments would shrink each error, by the information they bring.

        Parameters
        ----------
        candidates : mapping of str, or array_like, optional
            Experiments by name: times of further samples, or `{"times": ..., "states": [...], "initial": {...},
            "doses": ..., "sigma": ...}`, where `initial` is the known state of a new experiment, `doses` are its
            doses, `states` the columns that are measured and `sigma` another noise. By default ten samples in each of
            eight windows.
        trajectory : int or str
            Which one is gone on with.
        """
        from ..inference.design_from_fit import plan

        return plan(self, candidates, trajectory)
