"""Tasks of the page. Each is a function from plain data to plain data, and runs in a worker process."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..data.dataset import Dataset
from ..data.matching import collect_inputs, match
from ..files.model_file import ModelFile, read_model
from ..files.preflight import check_before_fit
from ..fitting import fit
from ..forward.solver import simulate
from ..inference.refits import can_refit
from ..model.function_table import FUNCTIONS
from ..model.model import Model
from ..report.html_blocks import thin_columns, to_json_numbers
from ..report.html_report import build_page, build_sections
from ..report.mathml import render_equations
from ..report.verdict_text import judge_fit
from ..results.fit_result import FitResult
from ..support.errors import FitError, ModelError, WeakformError
from ..support.progress import Progress
from . import examples, uploaded_tables
from .page_settings import PageSettings

NOT_A_PROJECT = "The file cannot be read: it is not a project of weakform."
"""Message for a file that is no JSON, or not of the form that the page saves."""
GUESS_TIME_LIMIT = 5.0
"""Seconds of the fit behind a rough guess. By judgement."""
CURVE_POINTS = 200
"""Points of a curve beside the sliders, besides the times of the data. By judgement: smooth on a screen."""
MAX_EVALUATIONS = 20_000
"""Evaluations of the right-hand side for a curve beside the sliders. A solution that needs more is not shown. By
judgement: the curve must follow the slider."""
CURVE_TOLERANCE = 1e-6
"""Relative tolerance of the solver for a curve beside the sliders. By judgement: far finer than a pixel."""
MAX_SHOWN_TRAJECTORIES = 6
"""Trajectories that are shown beside the sliders. By judgement."""


def describe_table(path: str, sheet: str | None = None) -> dict[str, Any]:
    """Describe a table."""
    return uploaded_tables.describe_table(Path(path), sheet)


def read_rows(path: str, sheet: str | None, first: int) -> list[list[str]]:
    """Return some rows of a table."""
    return uploaded_tables.read_rows(Path(path), sheet, int(first))


def parse_equations(text: str, inputs: list[str]) -> dict[str, Any]:
    """Parse equations.

    Parameters
    ----------
    text : str
    inputs : list of str

    Returns
    -------
    dict
        With `ok` True: states, parameters and the like, and the equations as MathML. With `ok` False: the error and
        its place, a line and a column, or None.
    """
    try:
        model = Model.from_text(text, inputs=[str(name) for name in inputs])
    except ModelError as error:
        place = None if error.place is None else list(error.place)
        return {"ok": False, "error": error.reason or str(error), "place": place}
    return {
        "ok": True,
        "states": [state for state in model.states if state not in model.hidden],
        "observables": list(model.observables),
        "parameters": list(model.parameters),
        "inputs": list(model.inputs),
        "initial": {state: str(e) for state, e in model.initial.items()},
        "free": [state for state in model.states if state not in model.initial],
        "events": [str(event) for event in model.events],
        "math": render_equations(model),
    }


def open_model(path: str) -> dict[str, Any]:
    """Read a model file as settings of the page."""
    return _convert_model_file(read_model(Path(path)))


def _convert_model_file(file: ModelFile) -> dict[str, Any]:
    """Convert a model file to settings of the page."""

    def convert_parameter(name: str) -> dict[str, Any]:
        record = file.parameters[name]
        ends = None if record.bounds is None else [None if np.isinf(end) else end for end in record.bounds]
        fixed = {"fixed": record.fixed, "unit": record.unit}
        return {"bounds": ends, "start": record.start, "log": record.log or None, **fixed}

    return {
        "equations": (file.equations or str(file.model)).strip("\n"),
        "inputs": list(file.inputs),
        "columns": dict(file.columns),
        "trajectory": file.trajectory,
        "hold": file.hold,
        "noise": {name: kind for name, kind in file.noise.items() if kind != "gaussian"},
        "units": dict(file.units),
        "missing": list(file.missing),
        "parameters": {name: convert_parameter(name) for name in file.parameters},
    }


def check_settings(setup: dict[str, Any], path: str) -> dict[str, Any]:
    """Check model and data before a fit.

    Returns
    -------
    dict
        Sentences under `good`, `wrong` (no fit is possible) and `doubtful`.
    """
    settings = PageSettings.from_request(setup)
    try:
        file = settings.build_model_file()
        data = settings.read_dataset(Path(path))
    except WeakformError as error:
        return {"good": [], "wrong": [str(error)], "doubtful": []}
    findings = check_before_fit(file, data)
    return {"good": findings.facts, "wrong": findings.errors, "doubtful": [*data.notes, *findings.warnings]}


@lru_cache(maxsize=4)
def _read_model_and_data(text: str, path: str) -> tuple[Model, Dataset]:
    """Read a model and its data; kept, because they are the same for all positions of the sliders."""
    settings = PageSettings.from_request(json.loads(text))
    data = settings.read_dataset(Path(path)) if path else Dataset([0.0, 5.0, 10.0], np.zeros((3, 1)))
    file = settings.build_model_file()
    if not path:
        return file.model, data
    matched = match(data, file.model)
    return matched.model, matched.data


def solve_model(
    setup: dict[str, Any], path: str, values: dict[str, float], initial: dict[str, list[float]]
) -> dict[str, Any]:
    """Solve the model with the values of the sliders.

    Parameters
    ----------
    setup : dict
        Settings of the page.
    path : str
        The table; empty if there is none yet.
    values : dict of str to float
        Values of the parameters; 1 for those that are missing.
    initial : dict of str to list of float
        For each state its initial values, one for each trajectory.

    Returns
    -------
    dict
        Charts with curves and data, the initial values in use, and remarks.
    """
    # Without the settings that neither the model nor the data depend on, the cache serves every slider position.
    unchanging = {k: v for k, v in setup.items() if k not in ("parameters", "seed", "starts", "time_limit", "method")}
    model, data = _read_model_and_data(json.dumps(unchanging), path)
    columns = list(data.names or model.states) if path else []
    hidden = [s for s in model.states if s not in columns and s not in model.hidden]
    p = np.array([_get_number(values, name, 1.0, name) for name in model.parameters])
    used_initial: dict[str, list[float]] = {}
    charts, trouble = [], ""
    for k, q in enumerate(data.trajectories[:MAX_SHOWN_TRAJECTORIES]):
        own_model, inputs = model.for_trajectory(k), collect_inputs(model, data, k)
        fixed_initial = own_model.build_map("g")(q.times[:1], np.zeros((1, len(own_model.states))), p)[0]
        u0 = np.empty(len(own_model.states))
        for d, state in enumerate(own_model.states):
            default = _get_first_measured(q.values[:, columns.index(state)]) if state in columns else 1.0
            if state in own_model.initial:
                u0[d] = fixed_initial[d]
                continue
            entries = initial.get(state, [])
            numbers = dict(enumerate(entries)) if isinstance(entries, list) else {}
            u0[d] = _get_number(numbers, k, default, f"{state}(0)")
            used_initial.setdefault(state, []).append(float(u0[d]))
        # Initial values in the equations hold at t = 0.
        first = min(q.times[0], 0.0) if own_model.initial else q.times[0]
        times = np.unique(np.concatenate([np.linspace(first, q.times[-1], CURVE_POINTS), q.times[:CURVE_POINTS]]))
        solved = simulate(own_model, p, u0, times, inputs=inputs, rtol=CURVE_TOLERANCE, max_evaluations=MAX_EVALUATIONS)
        trouble = trouble or (
            "" if solved.success else f"The model cannot be solved with these values: {solved.status.value}."
        )
        names = [*columns, *hidden]
        reached = solved.states[: len(times)]
        curve = own_model.build_map("h", names)(
            times[: len(reached)], reached, p, None if inputs is None else inputs(times[: len(reached)])
        )
        for j, name in enumerate(names):
            t, u = thin_columns(times[: len(reached)], curve[:, j])
            points = (
                [to_json_numbers(column) for column in thin_columns(q.times, q.values[:, j])]
                if j < len(columns)
                else []
            )
            charts.append(
                {"name": name, "label": q.label, "line": [to_json_numbers(t), to_json_numbers(u)], "dots": points}
            )
    more = len(data.trajectories) - MAX_SHOWN_TRAJECTORIES
    return {
        "charts": charts,
        "initial": used_initial,
        "trouble": trouble,
        "more": f"Trajectories that are not shown here: {more}." if more > 0 else "",
    }


def _get_number(numbers: Mapping[Any, Any], key: object, default: float, name: str) -> float:
    """Return a number that the page sent, or `default`; raises an error that calls it `name` if it is not one."""
    value = numbers.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"The value of {name} must be a number; received {value!r}.")
    return float(value)


def guess_parameters(setup: dict[str, Any], path: str) -> dict[str, Any]:
    """Estimate the parameters roughly.

    Weak least squares is used, or the default method with little time if some states are not measured.
    """
    settings = PageSettings.from_request(setup)
    file, data = settings.build_model_file(), settings.read_dataset(Path(path))
    # Weak least squares needs no starts and no iterations, but every state.
    complete = match(data, file.model).complete
    arguments: dict[str, Any] = file.arguments() | ({"method": "wls"} if complete else {})
    result = fit(
        file.model, data, **arguments, options={"time_limit": GUESS_TIME_LIMIT}, seed=0, callback=lambda _: None
    )
    return {"values": {n: float(f"{v:.6g}") for n, v in result.params.items()}}


def _get_first_measured(values: Any) -> float:
    """Return the first measured value; 1 if there is none."""
    measured = values[np.isfinite(values)]
    return float(measured[0]) if len(measured) else 1.0


def run_fit(
    setup: dict[str, Any], path: str, saved: str, send: Callable[[str, Any], None], should_stop: Callable[[], bool]
) -> None:
    """Fit; report the progress, then the result, then the result with profiles.

    Parameters
    ----------
    setup : dict
        Settings of the page.
    path : str
        The table.
    saved : str
        Where to save the fit.
    send : callable
        Called with `"progress"` or `"fitted"`, and a dict.
    should_stop : callable
        Returns True once the user has asked to stop.
    """
    settings = PageSettings.from_request(setup)
    file = settings.build_model_file()
    data = settings.read_dataset(Path(path))

    def report_progress(progress: Progress) -> bool:
        send("progress", {**vars(progress), "words": str(progress)})
        return should_stop()

    arguments: dict[str, Any] = file.arguments() | ({"method": settings.method} if settings.method else {})
    result = fit(
        file.model,
        data,
        **arguments,
        starts=settings.starts,
        options={"time_limit": settings.time_limit},
        seed=settings.seed,
        callback=report_progress,
    )
    result.save(saved)
    send("fitted", describe_fit(result, settings))
    if result.converged and can_refit(result) and not should_stop():
        try:
            result.intervals(kind="profile")
        except WeakformError:  # the fit without profiles has been sent already
            return
        result.save(saved)
        send("fitted", describe_fit(result, settings))


def describe_fit(result: FitResult, settings: PageSettings) -> dict[str, Any]:
    """Describe a fit for the page: the report as HTML, the verdict, the estimates and the initial values."""
    judgement = judge_fit(result)
    return {
        "html": "".join(build_sections(result, settings.command)),
        "headline": judgement.headline,
        "kind": judgement.kind,
        "success": result.success,
        "converged": result.converged,
        "method": result.method,
        "bic": result.bic,
        "seconds": result.seconds,
        "estimates": result.params,
        "initial": _collect_initial_values(result),
    }


def _collect_initial_values(result: FitResult) -> dict[str, list[float]]:
    """Return the initial values of the trajectories that are shown, for each state."""
    from ..inference.fitted_states import get_initial_state

    initial_states = np.array(
        [get_initial_state(result, k)[1] for k in range(min(len(result.data.trajectories), MAX_SHOWN_TRAJECTORIES))]
    )
    return dict(zip(result.model.states, initial_states.T.tolist(), strict=True))


def open_fit(saved: str, setup: dict[str, Any]) -> dict[str, Any]:
    """Describe a fit that was saved with a project."""
    return describe_fit(FitResult.load(saved), PageSettings.from_request(setup))


def open_project(folder: str) -> dict[str, Any]:
    """Read a project: write its table and its fits to files of their own, and describe them.

    Parameters
    ----------
    folder : str
        Folder with `project.json`; the files are written there.

    Returns
    -------
    dict
        Name of the table, settings, descriptions of the fits, and where they are saved.
    """
    home = Path(folder)
    try:
        project = json.loads((home / "project.json").read_bytes())
        if project["weakform"] != "project" or not isinstance(project.get("setup"), dict):
            raise ModelError(NOT_A_PROJECT)
        table = project.get("table")
        if table:
            (home / "table").write_bytes(base64.b64decode(table["content"], validate=True))
        fits, saved = [], []
        for k, entry in enumerate(project.get("fits", [])):
            path = home / f"fit{k}.json"
            path.write_text(json.dumps(entry["saved"]), encoding="utf-8")
            fits.append(
                {"name": str(entry["name"]), "setup": entry["setup"], "result": open_fit(str(path), entry["setup"])}
            )
            saved.append(str(path))
    except (KeyError, TypeError, AttributeError, RecursionError, binascii.Error, UnicodeError, json.JSONDecodeError):
        raise ModelError(NOT_A_PROJECT) from None
    name = str(table.get("name")) if table else None
    return {"table": name, "setup": project["setup"], "fits": fits, "saved": saved}


def export_file(kind: str, setup: dict[str, Any], path: str, saved: str) -> str:
    """Write a file to download.

    Parameters
    ----------
    kind : str
        `"model"`, `"command"`, `"script"`, `"fit"`, `"report"` or `"estimates"`.
    setup : dict
        Settings of the page.
    path : str
        The table.
    saved : str
        Where the fit is saved; empty if there is none.

    Returns
    -------
    str
    """
    settings = PageSettings.from_request(setup)
    if kind == "model":
        return settings.file_text
    if kind == "command":
        return settings.command
    if kind == "script":
        return settings.write_script(Path(path))
    if not saved:
        raise FitError("There is no fit yet.")
    if kind == "fit":
        return Path(saved).read_text(encoding="utf-8")
    result = FitResult.load(saved)
    if kind == "report":
        return build_page(result, settings.command)
    if kind == "estimates":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["parameter", "estimate", "standard error", "lower 95%", "upper 95%", "unit", "note"])
        for name, (low, high) in zip(result.model.parameters, result.intervals(), strict=True):
            q = result[name]
            fixed = result.fixed[result.model.parameters.index(name)]
            numbers = [q.value, "", "", ""] if fixed else [q.value, q.error, low, high]
            writer.writerow([name, *numbers, result.units.get(name, ""), q.note])
        return out.getvalue()
    raise FitError(f"There is no export {kind!r}.")


def compare_fits(fits: list[tuple[str, str]]) -> dict[str, Any]:
    """Compare fits of the same data, given as pairs of a name and where the fit is saved."""
    from ..analysis.comparison import compare
    from ..report.comparison_page import build_comparison_sections

    comparison = compare({name: FitResult.load(saved) for name, saved in fits})
    return {"html": "".join(build_comparison_sections(comparison)), "sentence": comparison.sentence}


def list_words() -> dict[str, Any]:
    """Return the names of functions, which the editor colours, and the list of examples."""
    return {"functions": sorted(FUNCTIONS), "gallery": examples.list_examples()}


def open_example(entry: str) -> dict[str, Any]:
    """Return an example: its settings, its title, and its table as text."""
    file, table = examples.open_example(entry)
    return {"setup": _convert_model_file(file), "title": file.title, "file": f"{entry}.csv", "text": table}


TASKS: dict[str, Callable[..., Any]] = {
    "look_table": describe_table,
    "rows": read_rows,
    "look_model": parse_equations,
    "open_model": open_model,
    "check": check_settings,
    "solve": solve_model,
    "guess": guess_parameters,
    "open_project": open_project,
    "export": export_file,
    "side_by_side": compare_fits,
    "words": list_words,
    "take": open_example,
}
"""The tasks by the names that the server uses; `run_fit`, which reports its progress, is called separately."""
