"""How a fit is shown and kept: as text, a frame, a page, a picture, and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fit_result import FitResult


class Written:
    """The forms in which a fit leaves the program; each is loaded when it is used."""

    def to_frame(self: FitResult, level: float = 0.95) -> Any:  # type: ignore[misc]
        """The parameters as a pandas data frame.

        Parameters
        ----------
        level : float
            Of the intervals.

        Returns
        -------
        pandas.DataFrame
            A row for each parameter: estimate, error, interval, bounds, unit and what is special.

        Examples
        --------
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> list(fit.to_frame().index)
        ['p1', 'p2']
        """
        from .frames import to_frame

        return to_frame(self, level)

    def save(self: FitResult, path: str | Path) -> Path:  # type: ignore[misc]
        """Write everything to a JSON file, to be read by `FitResult.load`.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> path = fit.save(pathlib.Path(tempfile.mkdtemp()) / "fit.json")
        >>> wf.FitResult.load(path).params == fit.params
        True
        """
        from ..files.archive import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> FitResult:
        """Read a fit that `save` wrote, with this version of the package or any since 1.0.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        FitResult
        """
        from ..files.archive import load

        return load(path)

    def to_antimony(self: FitResult) -> str:  # type: ignore[misc]
        """The model with its estimates and the first fitted initial state as Antimony text."""
        from ..files.formats.sbml import fitted

        return fitted(self)

    def to_sbml(self: FitResult) -> str:  # type: ignore[misc]
        """The same as an SBML document; needs the extra `sbml`."""
        from ..files.formats.sbml import fitted, to_sbml

        return to_sbml(fitted(self))

    def report(self: FitResult, path: str | Path, command: str = "") -> Path:  # type: ignore[misc]
        """Write one self-contained HTML page: verdict, estimates, pictures, what was chosen.

        Profiles are computed if they are not there yet.

        Parameters
        ----------
        path : str or Path
            Of the page.
        command : str
            What is shown under "To repeat it".

        Returns
        -------
        Path
        """
        from ..report.html_report import write

        return write(self, path, command)

    def plot(self: FitResult, trajectory: int | str | None = None) -> Any:  # type: ignore[misc]
        """Draw data and fit with its band; needs the extra `plot`.

        Parameters
        ----------
        trajectory : int or str, optional
            The one that is named; all of them by default.

        Returns
        -------
        matplotlib axes
            `weakform.report.plots.save(axes, path)` writes them to a file.
        """
        from ..report.plots import states

        return states(self, trajectory)

    def __str__(self: FitResult) -> str:  # type: ignore[misc]
        from ..report.text_report import report

        return report(self)

    def _repr_html_(self: FitResult) -> str:  # type: ignore[misc]
        from ..report.html_report import fragment

        return fragment(self)
