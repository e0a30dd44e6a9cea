"""What the page asks for: each task is a function of plain data that returns plain data, and runs in a worker."""

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
from ..data.matching import inputs_of, match
from ..files.model_file import ModelFile, read_model
from ..files.preflight import examine
from ..fitting import fit
from ..forward.solver import simulate
from ..inference.refits import can_refit
from ..model.function_table import FUNCTIONS
from ..model.model import Model
from ..report.html_blocks import plain, thinned
from ..report.html_report import page, sections
from ..report.mathml import equations
from ..report.verdict_text import verdict
from ..results.fit_result import FitResult
from ..support.errors import FitError, ModelError, WeakformError
from ..support.progress import Progress
from . import examples, uploaded_tables
from .page_settings import Setup

NO_PROJECT = "This is no project of weakform: it cannot be read."
BRIEF = 5.0
"""Seconds of a rough guess."""
FINE, TRIED, MOST = 200, 20_000, 6
"""Steps of a solution beside the sliders, evaluations that it may take, and trajectories that are shown."""


def look_table(path: str, sheet: str | None = None) -> dict[str, Any]:
    """What a table holds."""
    return uploaded_tables.look(Path(path), sheet)


def rows(path: str, sheet: str | None, first: int) -> list[list[str]]:
    """Some rows of it."""
    return uploaded_tables.rows(Path(path), sheet, int(first))


def look_model(text: str, inputs: list[str]) -> dict[str, Any]:
    """What equations say; or what is wrong with them, and where."""
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
        "math": equations(model),
    }


def open_model(path: str) -> dict[str, Any]:
    """A model file, as the page sets it."""
    return _set(read_model(Path(path)))


def _set(file: ModelFile) -> dict[str, Any]:
    def said(name: str) -> dict[str, Any]:
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
        "parameters": {name: said(name) for name in file.parameters},
    }


def check(setup: dict[str, Any], path: str) -> dict[str, Any]:
    """What is wrong or doubtful before a fit."""
    made = Setup.of(setup)
    try:
        file = made.model()
        data = made.data(Path(path))
    except WeakformError as error:
        return {"good": [], "wrong": [str(error)], "doubtful": []}
    found = examine(file, data)
    return {"good": found.good, "wrong": found.wrong, "doubtful": [*data.notes, *found.doubtful]}


@lru_cache(maxsize=4)
def _read(text: str, path: str) -> tuple[Model, Dataset]:
    """A model and its data; the same for all positions of the sliders."""
    made = Setup.of(json.loads(text))
    data = made.data(Path(path)) if path else Dataset([0.0, 5.0, 10.0], np.zeros((3, 1)))
    file = made.model()
    if not path:
        return file.model, data
    matched = match(data, file.model)
    return matched.model, matched.data


def solve(
    setup: dict[str, Any], path: str, values: dict[str, float], initial: dict[str, list[float]]
) -> dict[str, Any]:
    """The model solved with the values of the sliders, beside the data; initial values are those of each trajectory."""
    settled = {k: v for k, v in setup.items() if k not in ("parameters", "seed", "starts", "time_limit", "method")}
    model, data = _read(json.dumps(settled), path)
    columns = list(data.names or model.states) if path else []
    hidden = [s for s in model.states if s not in columns and s not in model.hidden]
    p = np.array([_value(values, name, 1.0, name) for name in model.parameters])
    begun: dict[str, list[float]] = {}
    charts, trouble = [], ""
    for k, q in enumerate(data.trajectories[:MOST]):
        one, inputs = model.of(k), inputs_of(model, data, k)
        said = one.map("g")(q.times[:1], np.zeros((1, len(one.states))), p)[0]
        u0 = np.empty(len(one.states))
        for d, state in enumerate(one.states):
            here = _first(q.values[:, columns.index(state)]) if state in columns else 1.0
            if state in one.initial:
                u0[d] = said[d]
                continue
            each = initial.get(state, [])
            u0[d] = _value(dict(enumerate(each)) if isinstance(each, list) else {}, k, here, f"{state}(0)")
            begun.setdefault(state, []).append(float(u0[d]))
        first = min(q.times[0], 0.0) if one.initial else q.times[0]  # given initial values hold at t = 0
        times = np.unique(np.concatenate([np.linspace(first, q.times[-1], FINE), q.times[:FINE]]))
        solved = simulate(one, p, u0, times, inputs=inputs, rtol=1e-6, max_evaluations=TRIED)
        trouble = trouble or ("" if solved.success else f"The model cannot be solved here: {solved.status.value}.")
        names = [*columns, *hidden]
        reached = solved.states[: len(times)]
        curve = one.map("h", names)(
            times[: len(reached)], reached, p, None if inputs is None else inputs(times[: len(reached)])
        )
        for j, name in enumerate(names):
            t, u = thinned(times[: len(reached)], curve[:, j])
            dots = [plain(column) for column in thinned(q.times, q.values[:, j])] if j < len(columns) else []
            charts.append({"name": name, "label": q.label, "line": [plain(t), plain(u)], "dots": dots})
    more = len(data.trajectories) - MOST
    return {
        "charts": charts,
        "initial": begun,
        "trouble": trouble,
        "more": f"{more} more trajectories are not drawn here." if more > 0 else "",
    }


def _value(given: Mapping[Any, Any], key: object, default: float, name: str) -> float:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"The value of {name} must be a number; received {value!r}.")
    return float(value)


def guess(setup: dict[str, Any], path: str) -> dict[str, Any]:
    """Rough values of the parameters: by weak least squares, or by the method for hidden states with little time."""
    made = Setup.of(setup)
    file, data = made.model(), made.data(Path(path))
    complete = match(data, file.model).complete
    arguments: dict[str, Any] = file.arguments() | ({"method": "wls"} if complete else {})
    found = fit(file.model, data, **arguments, options={"time_limit": BRIEF}, seed=0, callback=lambda _: None)
    return {"values": {n: float(f"{v:.6g}") for n, v in found.params.items()}}


def _first(values: Any) -> float:
    there = values[np.isfinite(values)]
    return float(there[0]) if len(there) else 1.0


def run_fit(
    setup: dict[str, Any], path: str, saved: str, tell: Callable[[str, Any], None], stopped: Callable[[], bool]
) -> None:
    """Fit; tells how far it is, then what was found, and once more with profiles."""
    made = Setup.of(setup)
    file = made.model()
    data = made.data(Path(path))

    def watch(progress: Progress) -> bool:
        tell("progress", {**vars(progress), "words": str(progress)})
        return stopped()

    arguments: dict[str, Any] = file.arguments() | ({"method": made.method} if made.method else {})
    found = fit(
        file.model,
        data,
        **arguments,
        starts=made.starts,
        options={"time_limit": made.time_limit},
        seed=made.seed,
        callback=watch,
    )
    found.save(saved)
    tell("fitted", told(found, made))
    if found.converged and can_refit(found) and not stopped():
        try:
            found.intervals(kind="profile")
        except WeakformError:
            return
        found.save(saved)
        tell("fitted", told(found, made))


def told(found: FitResult, made: Setup) -> dict[str, Any]:
    """What the page keeps of a fit."""
    said = verdict(found)
    return {
        "html": "".join(sections(found, made.command)),
        "headline": said.headline,
        "kind": said.kind,
        "success": found.success,
        "converged": found.converged,
        "method": found.method,
        "bic": found.bic,
        "seconds": found.seconds,
        "estimates": found.params,
        "initial": _begun(found),
    }


def _begun(found: FitResult) -> dict[str, list[float]]:
    """Where the trajectories that are shown begin."""
    from ..inference.fitted_states import beginning

    begins = np.array([beginning(found, k)[1] for k in range(min(len(found.data.trajectories), MOST))])
    return dict(zip(found.model.states, begins.T.tolist(), strict=True))


def open_fit(saved: str, setup: dict[str, Any]) -> dict[str, Any]:
    """A fit that was saved with a project."""
    return told(FitResult.load(saved), Setup.of(setup))


def open_project(folder: str) -> dict[str, Any]:
    """The parts of a project: its table and its fits are written to files of their own."""
    home = Path(folder)
    try:
        given = json.loads((home / "project.json").read_bytes())
        if given["weakform"] != "project" or not isinstance(given.get("setup"), dict):
            raise ModelError(NO_PROJECT)
        table = given.get("table")
        if table:
            (home / "table").write_bytes(base64.b64decode(table["content"], validate=True))
        fits, saved = [], []
        for k, one in enumerate(given.get("fits", [])):
            path = home / f"fit{k}.json"
            path.write_text(json.dumps(one["saved"]), encoding="utf-8")
            fits.append({"name": str(one["name"]), "setup": one["setup"], "result": open_fit(str(path), one["setup"])})
            saved.append(str(path))
    except (KeyError, TypeError, AttributeError, RecursionError, binascii.Error, UnicodeError, json.JSONDecodeError):
        raise ModelError(NO_PROJECT) from None
    name = str(table.get("name")) if table else None
    return {"table": name, "setup": given["setup"], "fits": fits, "saved": saved}


def export(kind: str, setup: dict[str, Any], path: str, saved: str) -> str:
    """A file to take along."""
    made = Setup.of(setup)
    if kind == "model":
        return made.file_text
    if kind == "command":
        return made.command
    if kind == "script":
        return made.script(Path(path))
    if not saved:
        raise FitError("There is no fit yet.")
    if kind == "fit":
        return Path(saved).read_text(encoding="utf-8")
    found = FitResult.load(saved)
    if kind == "report":
        return page(found, made.command)
    if kind == "estimates":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["parameter", "estimate", "standard error", "lower 95%", "upper 95%", "unit", "note"])
        for name, (low, high) in zip(found.model.parameters, found.intervals(), strict=True):
            q = found[name]
            fixed = found.fixed[found.model.parameters.index(name)]
            numbers = [q.value, "", "", ""] if fixed else [q.value, q.error, low, high]
            writer.writerow([name, *numbers, found.units.get(name, ""), q.note])
        return out.getvalue()
    raise FitError(f"Nothing called {kind!r} can be exported.")


def side_by_side(fits: list[tuple[str, str]]) -> dict[str, Any]:
    """Fits of the same data compared: their names, and where they are saved."""
    from ..analysis.comparison import compare
    from ..report.comparison_page import sections as rivals

    found = compare({name: FitResult.load(saved) for name, saved in fits})
    return {"html": "".join(rivals(found)), "sentence": found.sentence}


def words() -> dict[str, Any]:
    """What the editor colours, and the models to begin with."""
    return {"functions": sorted(FUNCTIONS), "gallery": examples.listed()}


def take(entry: str) -> dict[str, Any]:
    """A model of the gallery, and the text of its table."""
    file, table = examples.opened(entry)
    return {"setup": _set(file), "title": file.title, "file": f"{entry}.csv", "text": table}


TASKS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        look_table,
        rows,
        look_model,
        open_model,
        check,
        solve,
        guess,
        open_project,
        export,
        side_by_side,
        words,
        take,
    )
}
