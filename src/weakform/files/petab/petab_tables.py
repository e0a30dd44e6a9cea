"""The files of a PEtab problem as plain tables; runs in a process of its own (see `formats.isolated`).

A table is a list of rows, a row a mapping of columns to text. Nothing is made of them here but the equations of the
model, in which all that the tables name stays a parameter or a state.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ...support.errors import ModelError
from ...support.optional_imports import extra
from ..formats.translation import equations_of_sbml

MAX_BYTES = 50_000_000
Rows = list[dict[str, str]]
KINDS = ("parameter", "observable", "measurement", "condition", "experiment")


def tables(path: str, where: str) -> dict[str, Any]:
    """A problem from its YAML file.

    Returns
    -------
    dict
        `version`; `model`, as `equations_of_sbml` returns it; and a list of rows for each of `KINDS`.
    """
    try:
        import yaml
    except ImportError:
        raise ModelError(f"PEtab needs libraries; install them with: {extra('petab')}") from None
    if not Path(path).is_file():
        raise ModelError(f"There is no PEtab problem {where}.")
    try:
        told = yaml.safe_load(_bytes(Path(path), where))
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise ModelError(f"{where} is not a PEtab problem: not valid YAML: {str(error)[:300]}") from None
    if not isinstance(told, dict) or "format_version" not in told:
        raise ModelError(f"{where} is not a PEtab problem: it has no format_version.")
    version = str(told["format_version"]).split(".", maxsplit=1)[0]
    if version not in ("1", "2"):
        raise ModelError(f"{where} is PEtab of version {told['format_version']}; versions 1 and 2 are read.")
    files, model = _first(told, where) if version == "1" else _second(told, where)
    folder = Path(path).resolve().parent
    found: dict[str, Any] = {kind: _table(folder, files.get(kind, []), kind, where) for kind in KINDS}
    sbml = _bytes(_inside(folder, model, where), where).decode("utf-8", errors="replace")
    moving = frozenset(row.get("targetId", "") for row in found["condition"] if len(found["experiment"]) > 1)
    found["model"] = equations_of_sbml(sbml, f"{where}, {model}", _named(found), moving)
    found["version"] = int(version)
    return found


def _first(told: dict[str, Any], where: str) -> tuple[dict[str, list[str]], str]:
    """The files of version 1."""
    problems = told.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        count = len(problems) if isinstance(problems, list) else "no"
        raise ModelError(f"{where} has {count} problems; one is expected.")
    one = problems[0]
    files = {kind: _words(one.get(f"{kind}_files"), where) for kind in KINDS if kind != "parameter"}
    files["parameter"] = _words(told.get("parameter_file"), where)
    models = _words(one.get("sbml_files"), where)
    if len(models) != 1:
        raise ModelError(f"{where} has {len(models)} SBML files; one is expected.")
    return files, models[0]


def _second(told: dict[str, Any], where: str) -> tuple[dict[str, list[str]], str]:
    """The files of version 2."""
    if told.get("extensions"):
        raise ModelError(
            f"{where} uses extensions of PEtab, which are not read: {', '.join(map(str, told['extensions']))}."
        )
    models = told.get("model_files")
    if not isinstance(models, dict) or len(models) != 1:
        count = len(models) if isinstance(models, dict) else "no"
        raise ModelError(f"{where} has {count} models; one is expected.")
    (model,) = models.values()
    language = model.get("language") if isinstance(model, dict) else None
    if language != "sbml":
        raise ModelError(f"{where} has a model in {language!r}; SBML is read.")
    return {kind: _words(told.get(f"{kind}_files"), where) for kind in KINDS}, str(model.get("location"))


def _words(value: Any, where: str) -> list[str]:
    names = [value] if isinstance(value, str) else value or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{where}: a list of files is expected; received {str(value)[:100]}.")
    return names


def _inside(folder: Path, name: str, where: str) -> Path:
    """A file beside the problem, or below."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise ModelError(f"{where} names the file {name!r}, which is outside of its folder.")
    if not path.is_file():
        raise ModelError(f"{where} names the file {name!r}, which is not there.")
    return path


def _bytes(path: Path, where: str) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"{where}: {path.name} has more than {MAX_BYTES // 1_000_000} MB.")
    return path.read_bytes()


def _table(folder: Path, names: list[str], kind: str, where: str) -> Rows:
    rows: Rows = []
    for name in names:
        text = _bytes(_inside(folder, name, where), where).decode("utf-8-sig", errors="replace")
        reader = csv.reader(io.StringIO(text), delimiter="\t")
        try:
            header = [cell.strip() for cell in next(reader, [])]
            for line in reader:
                if any(cell.strip() for cell in line):
                    rows.append({column: cell.strip() for column, cell in zip(header, line, strict=False) if column})
        except csv.Error as error:
            raise ModelError(f"{where}: {name} is not a table: {error}.") from None
        if not header:
            raise ModelError(f"{where}: the {kind} table {name} is empty.")
    return rows


def _named(found: dict[str, Any]) -> frozenset[str]:
    """What the tables say something of: columns of conditions, targets, and parameters."""
    named = {row.get("parameterId", "") for row in found["parameter"]}
    named |= {row.get("targetId", "") for row in found["condition"]}
    named |= {column for row in found["condition"] for column in row}
    return frozenset(named - {"", "conditionId", "conditionName", "targetId", "targetValue"})
