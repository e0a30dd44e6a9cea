"""The files of a PEtab problem as plain tables, read in a separate process (see `formats.subprocess_reader`).

A table is a list of rows, a row a mapping from columns to text. Only the model is interpreted here: it is translated
into equations in which everything that the tables name stays a parameter or a state.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ...support.errors import ModelError
from ...support.optional_imports import format_install_hint
from ..formats.translation import translate_sbml

MAX_TABLE_BYTES = 50_000_000
"""Size of each file of a problem in bytes above which the problem is refused. By judgement."""
Rows = list[dict[str, str]]
"""Rows of a table, each a mapping from columns to cells."""
TABLE_KINDS = ("parameter", "observable", "measurement", "condition", "experiment")
"""Kinds of tables that a problem may have."""


def read_tables(path: str, where: str) -> dict[str, Any]:
    """Read the tables of a problem.

    Parameters
    ----------
    path : str
        The YAML file.
    where : str
        Name of the problem in errors.

    Returns
    -------
    dict
        `version`, 1 or 2; `model`, as `translate_sbml` returns it; and a list of rows for each of `TABLE_KINDS`.

    Raises
    ------
    ModelError
        If a file is missing, too large, outside of the folder of the problem, or not in the format of its kind.
    """
    try:
        import yaml
    except ImportError:
        raise ModelError(
            f"PEtab problems need further libraries; install them with: {format_install_hint('petab')}"
        ) from None
    if not Path(path).is_file():
        raise ModelError(f"There is no PEtab problem {where}; the path of its YAML file is needed.")
    try:
        document = yaml.safe_load(_read_bytes(Path(path), where))
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise ModelError(f"{where} is not a PEtab problem: not valid YAML: {str(error)[:300]}") from None
    if not isinstance(document, dict) or "format_version" not in document:
        raise ModelError(f"{where} is not a PEtab problem: it has no format_version.")
    version = str(document["format_version"]).split(".", maxsplit=1)[0]
    if version not in ("1", "2"):
        raise ModelError(f"{where} is PEtab of version {document['format_version']}; versions 1 and 2 are read.")
    files, model = (
        _list_files_of_version_1(document, where) if version == "1" else _list_files_of_version_2(document, where)
    )
    folder = Path(path).resolve().parent
    contents: dict[str, Any] = {kind: _read_table(folder, files.get(kind, []), kind, where) for kind in TABLE_KINDS}
    sbml = _read_bytes(_resolve_inside(folder, model, where), where).decode("utf-8", errors="replace")
    # The targets of conditions can change in time only if there is more than one period.
    moving = frozenset(row.get("targetId", "") for row in contents["condition"] if len(contents["experiment"]) > 1)
    contents["model"] = translate_sbml(sbml, f"{where}, {model}", _collect_identifiers(contents), moving)
    contents["version"] = int(version)
    return contents


def _list_files_of_version_1(document: dict[str, Any], where: str) -> tuple[dict[str, list[str]], str]:
    """Return the files of the tables by kind, and the model file, of a problem of version 1."""
    problems = document.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        count = len(problems) if isinstance(problems, list) else "no"
        raise ModelError(f"{where} has {count} problems; one is expected.")
    problem = problems[0]
    files = {kind: _read_file_names(problem.get(f"{kind}_files"), where) for kind in TABLE_KINDS if kind != "parameter"}
    files["parameter"] = _read_file_names(document.get("parameter_file"), where)
    models = _read_file_names(problem.get("sbml_files"), where)
    if len(models) != 1:
        raise ModelError(f"{where} has {len(models)} SBML files; one is expected.")
    return files, models[0]


def _list_files_of_version_2(document: dict[str, Any], where: str) -> tuple[dict[str, list[str]], str]:
    """Return the files of the tables by kind, and the model file, of a problem of version 2."""
    if document.get("extensions"):
        raise ModelError(
            f"{where} uses extensions of PEtab, which are not supported: {', '.join(map(str, document['extensions']))}."
        )
    models = document.get("model_files")
    if not isinstance(models, dict) or len(models) != 1:
        count = len(models) if isinstance(models, dict) else "no"
        raise ModelError(f"{where} has {count} models; one is expected.")
    (model,) = models.values()
    language = model.get("language") if isinstance(model, dict) else None
    if language != "sbml":
        raise ModelError(f"{where} has a model in {language!r}; only SBML is read.")
    return {kind: _read_file_names(document.get(f"{kind}_files"), where) for kind in TABLE_KINDS}, str(
        model.get("location")
    )


def _read_file_names(value: Any, where: str) -> list[str]:
    """Return the value of a YAML key, a file name or a list of file names, as a list."""
    names = [value] if isinstance(value, str) else value or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{where}: a list of files is expected; received {str(value)[:100]}.")
    return names


def _resolve_inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file in the folder of the problem or below; raise if it is elsewhere or missing."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise ModelError(
            f"{where} names the file {name!r}, which is outside of its folder; all files of a problem must be inside."
        )
    if not path.is_file():
        raise ModelError(f"{where} names the file {name!r}, which does not exist.")
    return path


def _read_bytes(path: Path, where: str) -> bytes:
    """Read a file; raise if it is too large."""
    if path.stat().st_size > MAX_TABLE_BYTES:
        raise ModelError(f"{where}: {path.name} has more than {MAX_TABLE_BYTES // 1_000_000} MB.")
    return path.read_bytes()


def _read_table(folder: Path, names: list[str], kind: str, where: str) -> Rows:
    """Read the tables of one kind and join their rows; cells are stripped, empty rows and unnamed columns left out."""
    rows: Rows = []
    for name in names:
        text = _read_bytes(_resolve_inside(folder, name, where), where).decode("utf-8-sig", errors="replace")
        reader = csv.reader(io.StringIO(text), delimiter="\t")
        try:
            header = [cell.strip() for cell in next(reader, [])]
            # A row may be shorter than the header, without its trailing empty cells.
            for line in reader:
                if any(cell.strip() for cell in line):
                    rows.append({column: cell.strip() for column, cell in zip(header, line, strict=False) if column})
        except csv.Error as error:
            raise ModelError(f"{where}: {name} is not a table: {error}.") from None
        if not header:
            raise ModelError(f"{where}: the {kind} table {name} is empty.")
    return rows


def _collect_identifiers(contents: dict[str, Any]) -> frozenset[str]:
    """Return the identifiers that the tables refer to: parameters, targets, and columns of conditions."""
    named = {row.get("parameterId", "") for row in contents["parameter"]}
    named |= {row.get("targetId", "") for row in contents["condition"]}
    named |= {column for row in contents["condition"] for column in row}
    return frozenset(named - {"", "conditionId", "conditionName", "targetId", "targetValue"})
