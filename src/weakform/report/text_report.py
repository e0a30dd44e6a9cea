"""The printed report of a fit: `print(fit)`, plain text that can be pasted into papers and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics.goodness import DOUBT_LEVEL, REJECTION_LEVEL, format_p_value
from ..inference.intervals import describe_better_fit, get_default_intervals
from ..inference.state_estimates import list_initial_values
from ..results.status import Status
from ..support.array_types import FloatArray

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MAX_LINE_WIDTH = 100
"""Characters. Running text is wrapped at this width; tables may be wider. By judgement."""
MIN_SHOWN_CORRELATION = 0.5
"""Absolute value of a correlation. Above, the pair of parameters is listed. By judgement."""
MAX_SHOWN_PAIRS = 8
"""Pairs of correlated parameters that are listed; the others are counted. By judgement."""
MAX_LISTED_ITEMS = 4
"""Trajectories, or kinds of test functions, that are listed one by one; the others are counted. By judgement."""
LIKELIHOOD_TOLERANCE = 0.05
"""Difference of log-likelihoods. Up to it, a start counts as having reached the best estimate. By judgement: far below
the 0.5 by which one standard error changes a log-likelihood."""
OBJECTIVE_TOLERANCE = 1e-4
"""Difference of objectives, relative to the best one or to 1, whichever is larger. Up to it, a start counts as having
reached the best objective; used where no start has a log-likelihood. By judgement."""
MAX_SHOWN_RELATIVE_ERROR = 100.0
"""Standard error, relative to the estimate. From here on the relative error is left out. By judgement: it would not be
readable as a percentage."""


def format_number(value: float, digits: int = 5) -> str:
    """Format a number for a table; an empty string if it is not finite."""
    return "" if not np.isfinite(value) else f"{value:.{digits}g}"


def format_interval(interval: FloatArray, digits: int = 4) -> str:
    """Format an interval `(2,)` as `[low, high]`.

    An infinite end is printed as ∞; an end that could not be computed, NaN, is printed as a question mark.
    """
    shown = ["?" if np.isnan(v) else format_number(v, digits) or ("-∞" if v < 0 else "∞") for v in interval]
    return f"[{shown[0]}, {shown[1]}]"


def format_table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Align a table: the first column to the left, the others to the right; returns its lines."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def wrap_words(text: str, first_prefix: str, next_prefix: str) -> list[str]:
    """Wrap text into lines of at most `MAX_LINE_WIDTH` characters; a longer word gets its own line.

    The first line begins with `first_prefix`, the others with `next_prefix`. Returns the lines.
    """
    lines, line = [], first_prefix
    for word in text.split():
        if len(line) + len(word) + 1 > MAX_LINE_WIDTH and line.strip() not in ("", first_prefix.strip()):
            lines.append(line.rstrip())
            line = next_prefix
        line += word + " "
    return [*lines, line.rstrip()]


@np.errstate(all="ignore")
def format_report(fit: FitResult, truth: FloatArray | None = None) -> str:
    """Build the text that `print(fit)` shows.

    Parameters
    ----------
    fit : FitResult
    truth : ndarray, (J,), optional
        True parameters, shown in a column of their own.

    Returns
    -------
    str
    """
    lines = [f"weakform fit: {fit.method}, {'converged' if fit.converged else 'NOT CONVERGED'}"]
    if not fit.success:
        lines += wrap_words(fit.message, "  ", "  ")
    lines += [] if fit.population is None else ["", *str(fit.population).splitlines()]
    lines += ["", *_format_parameters(fit, truth), *_format_initial_values(fit), ""]
    lines += _format_correlations(fit)
    for label, text in describe_settings(fit):
        lines += wrap_words(text, f"{label + ':':16s}", " " * 16)
    for title, texts in (
        ("Notes", (*fit.data.notes, *fit.notes)),
        ("Warnings", (*describe_better_fit(fit), *fit.warnings)),
    ):
        if texts:
            lines += ["", f"{title}:"]
            for text in texts:
                lines += wrap_words(text, "  - ", "    ")
    return "\n".join(lines)


def _format_parameters(fit: FitResult, truth: FloatArray | None) -> list[str]:
    """Return the lines of the table of parameters, then one line for each tied parameter."""
    header = ["parameter", "estimate", "error", "rel.", "95% interval", "bounds", ""]
    if truth is not None:
        header.insert(1, "truth")
    (intervals, kinds), errors = get_default_intervals(fit, 0.95), fit.errors
    rows = []
    if any(name in fit.units for name in fit.model.parameters):
        header.insert(1 + (truth is not None), "unit")
    for j, name in enumerate(fit.model.parameters):
        value, error = fit.estimate[j], errors[j]
        low, high = fit.bounds[j]
        remark = "fixed" if fit.fixed[j] else "at its bound" if fit.at_bound[j] else ""
        remark = "not determined" if name in fit.undetermined else remark
        if fit.prior is not None and j in fit.prior.index:
            remark = f"{remark} prior".strip()
        has_error = not fit.fixed[j] and np.isfinite(error)
        has_interval = not fit.fixed[j] and (has_error or np.isfinite(intervals[j]).any())
        if kinds[j]:
            remark = f"{remark}, {kinds[j]}" if remark else kinds[j]
        row = [
            name,
            format_number(value),
            format_number(error, 3) if has_error else "",
            f"{error / abs(value):.1%}"
            if has_error and value and error < MAX_SHOWN_RELATIVE_ERROR * abs(value)
            else "",
            format_interval(intervals[j]) if has_interval else "none",
            "" if not np.isfinite([low, high]).any() else f"[{low:g}, {high:g}]",
            remark,
        ]
        if "unit" in header:
            row.insert(1, fit.units.get(name, ""))
        if truth is not None:
            row.insert(1, format_number(truth[j]))
        rows.append(row)
    lines = format_table(header, rows)
    for name, expression in fit.tied.items():
        value = fit.derived(expression)
        low, high = value.interval
        lines.append(
            f"  {name} = {expression} = {format_number(value.value)}, 95% [{format_number(low, 4)}, "
            f"{format_number(high, 4)}]"
        )
    return lines


def _format_initial_values(fit: FitResult) -> list[str]:
    """Return the lines of the table of initial values; empty if there is nothing to show."""
    rows = []
    for name, q in list_initial_values(fit, MAX_LISTED_ITEMS):
        ends = format_interval(np.array(q.interval)) if np.isfinite(q.error) else q.note or "none"
        rows.append([name, format_number(q.value), format_number(q.error, 3), ends if q.note != "given" else q.note])
    return ["", *format_table(["initial value", "estimate", "error", "95% interval"], rows)] if rows else []


def _format_correlations(fit: FitResult) -> list[str]:
    """Return the line that lists strongly correlated parameters, the strongest first; empty if there are none."""
    names, C = fit.model.parameters, fit.correlation
    pairs = [
        (abs(C[i, j]), names[i], names[j], C[i, j])
        for i in range(len(names))
        for j in range(i)
        if np.isfinite(C[i, j]) and abs(C[i, j]) > MIN_SHOWN_CORRELATION
    ]
    if not pairs:
        return []
    pairs.sort(reverse=True)
    shown = [f"{b}, {a}: {c:+.3f}" for _, a, b, c in pairs[:MAX_SHOWN_PAIRS]]
    more = f" and {len(pairs) - MAX_SHOWN_PAIRS} more" if len(pairs) > MAX_SHOWN_PAIRS else ""
    text = f"{'; '.join(shown)}{more}"
    return [*wrap_words(text, f"Correlations above {MIN_SHOWN_CORRELATION:g}:  ", "    "), ""]


def _describe_test_functions(fit: FitResult) -> list[str]:
    """Describe the test functions of the trajectories, with equal descriptions merged."""
    D = len(fit.model.states)
    counts: dict[str, int] = {}
    for b in fit.basis:
        text = f"{b.description}; {b.count} × {D} = {b.count * D} weak residuals"
        counts[text] = counts.get(text, 0) + 1
    lines = [text if n == 1 else f"{text} (in each of {n} trajectories)" for text, n in counts.items()]
    return lines[:MAX_LISTED_ITEMS] + (
        [f"and {len(lines) - MAX_LISTED_ITEMS} more"] if len(lines) > MAX_LISTED_ITEMS else []
    )


def _describe_likelihood(fit: FitResult) -> str:
    """Describe the log-likelihood of the data, or say why there is none."""
    if np.isnan(fit.log_likelihood):
        return "none: the fit has no states that obey the model, or the data are noise-free"
    return f"log-likelihood of the data {fit.log_likelihood:.8g}, with the sigma above"


def describe_agreement(fit: FitResult) -> str:
    """Describe how many starts reached the best estimate."""
    by_likelihood = sum(s.behind <= LIKELIHOOD_TOLERANCE for s in fit.starts)
    if by_likelihood:
        return f"{by_likelihood} reached the best likelihood"
    best = fit.starts[0].objective
    tolerance = OBJECTIVE_TOLERANCE * max(1.0, abs(best))
    return f"{sum(abs(s.objective - best) <= tolerance for s in fit.starts)} reached the best objective"


def _count_doses(fit: FitResult) -> list[str]:
    """Count the doses into each state, one description per state."""
    counts: dict[str, int] = {}
    for dose in (dose for q in fit.data.trajectories for doses in q.doses for dose in doses.each):
        counts[dose.state] = counts.get(dose.state, 0) + 1
    return [f"{count} dose{'s' * (count > 1)} into {state}" for state, count in counts.items()]


def describe_settings(fit: FitResult) -> list[tuple[str, str]]:
    """Describe data, noise, test functions, search and test of a fit, as pairs of a label and a text."""
    data = fit.data
    D = len(fit.model.states)
    spans = [
        f"{q.label + ': ' if q.label else ''}{len(q.times)} samples, t = {q.times[0]:g}..{q.times[-1]:g}"
        for q in data.trajectories[:MAX_LISTED_ITEMS]
    ]
    if len(data.trajectories) > MAX_LISTED_ITEMS:
        more = len(data.trajectories) - MAX_LISTED_ITEMS
        spans.append(f"and {more} more trajector{'y' if more == 1 else 'ies'}, {data.samples} samples in total")
    # Samples are rows: a row may lack some of its values.
    gaps = data.samples * data.D - int(data.measurements.sum())
    spans += [f"{gaps} of {data.samples * data.D} values missing"] if gaps else []
    spans += [f"inputs {', '.join(fit.model.inputs)}"] if fit.model.inputs else []
    spans += _count_doses(fit)
    kinds = data.noise[0] if len(set(data.noise)) == 1 else ", ".join(data.noise)
    sigma_source = "estimated" if fit.sigma_estimated else "given"
    sigmas = ", ".join(f"{name} {value:.3g}" for name, value in zip(data.labels, fit.sigma, strict=True))
    hidden = [state for state in fit.model.states if state not in data.labels]
    parts = [f"{D} state{'s' * (D > 1)}"]
    parts += [f"measured: {', '.join(data.labels)}; hidden: {', '.join(hidden)}"] if hidden else []
    rows = [
        ("data", "; ".join([*parts, *spans])),
        ("noise", f"{kinds}; sigma ({sigma_source}): {sigmas}"),
        *(("test functions", text) for text in _describe_test_functions(fit)),
        ("starts", f"{len(fit.starts)} tried, {describe_agreement(fit)}; seed {fit.seed}"),
        ("likelihood", _describe_likelihood(fit)),
        ("computation", f"{fit.iterations} iteration{'s' * (fit.iterations != 1)}, {fit.seconds:.2f} s"),
        ("covariance", fit.covariance_kind),
    ]
    if fit.goodness is not None:
        p = fit.goodness.p_value
        test_result = "the residuals look like noise"
        if fit.status is Status.MISSTATED:
            test_result = "the residuals differ from the assumed noise, see the warnings"
        elif p < DOUBT_LEVEL:
            test_result = "REJECTED, see the warnings" if p < REJECTION_LEVEL else "doubtful, see the warnings"
        test_text = test_result if fit.status is Status.MISSTATED else f"{test_result} ({format_p_value(p)})"
        rows.insert(-1, ("fit", "too few samples to test" if np.isnan(p) else test_text))
    return rows
