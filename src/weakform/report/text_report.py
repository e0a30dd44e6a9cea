"""The printed report: what people paste into papers and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics.goodness import DOUBTED, REJECTED, tail
from ..inference.intervals import automatic, overtaken
from ..inference.state_estimates import shown_beginnings
from ..results.status import Status
from ..support.array_types import FloatArray

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

WIDTH = 100
CORRELATION = 0.5
SHOWN = 4
AGREED = 0.05
"""Difference of log-likelihoods below which two starts have led to the same."""
"""Trajectories that are listed one by one."""


def number(value: float, digits: int = 5) -> str:
    """A number for a table."""
    return "" if not np.isfinite(value) else f"{value:.{digits}g}"


def pair(ends: FloatArray, digits: int = 4) -> str:
    """The ends of an interval; a side without an end is infinite, one that could not be found is a question."""
    shown = ["?" if np.isnan(v) else number(v, digits) or ("-∞" if v < 0 else "∞") for v in ends]
    return f"[{shown[0]}, {shown[1]}]"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def wrapped(text: str, first: str, other: str) -> list[str]:
    """Words in lines of at most `WIDTH`."""
    lines, line = [], first
    for word in text.split():
        if len(line) + len(word) + 1 > WIDTH and line.strip() not in ("", first.strip()):
            lines.append(line.rstrip())
            line = other
        line += word + " "
    return [*lines, line.rstrip()]


@np.errstate(all="ignore")
def report(fit: FitResult, truth: FloatArray | None = None) -> str:
    """The text of `print(fit)`; with `truth` `(J,)`, a column beside the estimates."""
    lines = [f"weakform fit: {fit.method}, {'converged' if fit.converged else 'NOT CONVERGED'}"]
    if not fit.success:
        lines += wrapped(fit.message, "  ", "  ")
    lines += [] if fit.population is None else ["", *str(fit.population).splitlines()]
    lines += ["", *_parameters(fit, truth), *_beginnings(fit), ""]
    lines += _correlations(fit)
    for label, text in chosen(fit):
        lines += wrapped(text, f"{label + ':':16s}", " " * 16)
    for title, texts in (("Notes", (*fit.data.notes, *fit.notes)), ("Warnings", (*overtaken(fit), *fit.warnings))):
        if texts:
            lines += ["", f"{title}:"]
            for text in texts:
                lines += wrapped(text, "  - ", "    ")
    return "\n".join(lines)


def _parameters(fit: FitResult, truth: FloatArray | None) -> list[str]:
    header = ["parameter", "estimate", "error", "rel.", "95% interval", "bounds", ""]
    if truth is not None:
        header.insert(1, "truth")
    (intervals, kinds), errors = automatic(fit, 0.95), fit.errors
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
        known = not fit.fixed[j] and np.isfinite(error)
        shown = not fit.fixed[j] and (known or np.isfinite(intervals[j]).any())
        if kinds[j]:
            remark = f"{remark}, {kinds[j]}" if remark else kinds[j]
        row = [
            name,
            number(value),
            number(error, 3) if known else "",
            f"{error / abs(value):.1%}" if known and value and error < 100 * abs(value) else "",
            pair(intervals[j]) if shown else "none",
            "" if not np.isfinite([low, high]).any() else f"[{low:g}, {high:g}]",
            remark,
        ]
        if "unit" in header:
            row.insert(1, fit.units.get(name, ""))
        if truth is not None:
            row.insert(1, number(truth[j]))
        rows.append(row)
    lines = table(header, rows)
    for name, expression in fit.tied.items():
        value = fit.derived(expression)
        low, high = value.interval
        lines.append(f"  {name} = {expression} = {number(value.value)}, 95% [{number(low, 4)}, {number(high, 4)}]")
    return lines


def _beginnings(fit: FitResult) -> list[str]:
    rows = []
    for name, q in shown_beginnings(fit, SHOWN):
        ends = pair(np.array(q.interval)) if np.isfinite(q.error) else q.note or "none"
        rows.append([name, number(q.value), number(q.error, 3), ends if q.note != "given" else q.note])
    return ["", *table(["initial value", "estimate", "error", "95% interval"], rows)] if rows else []


def _correlations(fit: FitResult) -> list[str]:
    names, C = fit.model.parameters, fit.correlation
    pairs = [
        (abs(C[i, j]), names[i], names[j], C[i, j])
        for i in range(len(names))
        for j in range(i)
        if np.isfinite(C[i, j]) and abs(C[i, j]) > CORRELATION
    ]
    if not pairs:
        return []
    pairs.sort(reverse=True)
    shown = [f"{b}, {a}: {c:+.3f}" for _, a, b, c in pairs[:8]]
    more = f" and {len(pairs) - 8} more" if len(pairs) > 8 else ""
    text = f"{'; '.join(shown)}{more}"
    return [*wrapped(text, f"Correlations above {CORRELATION:g}:  ", "    "), ""]


def _bases(fit: FitResult) -> list[str]:
    """The test functions of the trajectories, equal ones together."""
    D = len(fit.model.states)
    same: dict[str, int] = {}
    for b in fit.basis:
        text = f"{b.description}; {b.count} × {D} = {b.count * D} weak residuals"
        same[text] = same.get(text, 0) + 1
    lines = [text if n == 1 else f"{text} (in {n} trajectories each)" for text, n in same.items()]
    return lines[:SHOWN] + ([f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])


def _likelihood(fit: FitResult) -> str:
    if np.isnan(fit.log_likelihood):
        return "none: this estimate has no states that obey the model, or no noise"
    return f"log-likelihood of the data {fit.log_likelihood:.8g}, with the sigma above"


def agreeing(fit: FitResult) -> str:
    """How many starts have led to the best."""
    final = sum(s.behind <= AGREED for s in fit.starts)
    if final:
        return f"{final} reached the best likelihood"
    best = fit.starts[0].objective
    return (
        f"{sum(abs(s.objective - best) <= 1e-4 * max(1.0, abs(best)) for s in fit.starts)} reached the best objective"
    )


def _dosed(fit: FitResult) -> list[str]:
    """How many doses there are into which state."""
    counts: dict[str, int] = {}
    for dose in (each for q in fit.data.trajectories for doses in q.doses for each in doses.each):
        counts[dose.state] = counts.get(dose.state, 0) + 1
    return [f"{count} dose{'s' * (count > 1)} into {state}" for state, count in counts.items()]


def chosen(fit: FitResult) -> list[tuple[str, str]]:
    """What was chosen, in pairs of a label and words."""
    data = fit.data
    D = len(fit.model.states)
    spans = [
        f"{q.label + ': ' if q.label else ''}{len(q.times)} samples, t = {q.times[0]:g}..{q.times[-1]:g}"
        for q in data.trajectories[:SHOWN]
    ]
    if len(data.trajectories) > SHOWN:
        spans.append(f"and {len(data.trajectories) - SHOWN} more trajectories, {data.samples} samples in all")
    gaps = data.samples * data.D - int(data.measurements.sum())
    spans += [f"{gaps} of {data.samples * data.D} values missing"] if gaps else []
    spans += [f"inputs {', '.join(fit.model.inputs)}"] if fit.model.inputs else []
    spans += _dosed(fit)
    kinds = data.noise[0] if len(set(data.noise)) == 1 else ", ".join(data.noise)
    how = "estimated" if fit.sigma_estimated else "given"
    sigmas = ", ".join(f"{name} {value:.3g}" for name, value in zip(data.labels, fit.sigma, strict=True))
    hidden = [state for state in fit.model.states if state not in data.labels]
    parts = [f"{D} state{'s' * (D > 1)}"]
    parts += [f"measured: {', '.join(data.labels)}; hidden: {', '.join(hidden)}"] if hidden else []
    rows = [
        ("data", "; ".join([*parts, *spans])),
        ("noise", f"{kinds}; sigma ({how}): {sigmas}"),
        *(("test functions", text) for text in _bases(fit)),
        ("starts", f"{len(fit.starts)} tried, {agreeing(fit)}; seed {fit.seed}"),
        ("likelihood", _likelihood(fit)),
        ("work", f"{fit.iterations} iteration{'s' * (fit.iterations != 1)}, {fit.seconds:.2f} s"),
        ("intervals", fit.covariance_kind),
    ]
    if fit.goodness is not None:
        p = fit.goodness.p_value
        verdict = "the residuals look like noise"
        if fit.status is Status.MISSTATED:
            verdict = "the residuals are not the noise that was expected, see the warnings"
        elif p < DOUBTED:
            verdict = "REJECTED, see the warnings" if p < REJECTED else "doubtful, see the warnings"
        shown = verdict if fit.status is Status.MISSTATED else f"{verdict} ({tail(p)})"
        rows.insert(-1, ("fit", "too few samples to test" if np.isnan(p) else shown))
    return rows
