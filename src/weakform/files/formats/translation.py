"""Translation of SBML and Antimony documents and PEtab tables into plain data: the tasks of the child process.

See `sbml_document` for the translation and `subprocess_reader` for the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...support.errors import ModelError
from ...support.optional_imports import format_install_hint
from .sbml_document import DocumentTranslator

REFUSED_PACKAGES = {"arrays", "comp", "dyn", "multi", "qual", "spatial"}
"""SBML packages that change the meaning of a model. One that is declared but not used does not."""


def _has_import(text: str) -> bool:
    """Return True if Antimony text may open another file.

    It may if the word `import` occurs anywhere but in a comment at the end of a line. The text is searched twice, the
    second time with continued lines joined, since a backslash may split the word. Quotes and block comments are not
    parsed: a line with any of them is searched whole.
    """
    for line in (*text.splitlines(), *re.sub(r"\\\s*\n", "", text).splitlines()):
        code = line.partition("//")[0]
        # The part before // is code only if nothing before it may make // part of a text or of a block comment.
        plain = not any(mark in code for mark in '"/') and "*/" not in line
        if re.search(r"\bimport\b", code if plain else line):
            return True
    return False


def _import_library(name: str) -> Any:
    """Import a library; raise with the command that installs it if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise ModelError(
            f"SBML and Antimony need their libraries; install them with: {format_install_hint('sbml')}"
        ) from None


def translate_antimony_to_sbml(text: str, where: str) -> str:
    """Translate Antimony text into an SBML document.

    Parameters
    ----------
    text : str
    where : str
        Name of the source in errors.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        If the text is not valid, has characters other than ASCII, or imports another file.
    """
    if _has_import(text):
        raise ModelError(f"{where} imports another file; put everything into one.")
    antimony = _import_library("antimony")
    antimony.clearPreviousLoads()
    try:
        if antimony.loadAntimonyString(text) < 0:
            raise ModelError(f"{where} is not valid Antimony: {antimony.getLastError().strip()[:1000]}")
        return str(antimony.getSBMLString(antimony.getMainModuleName()))
    except UnicodeError:
        raise ModelError(f"{where} is not valid Antimony: it has characters other than ASCII.") from None
    finally:
        antimony.clearPreviousLoads()


def translate_sbml(
    text: str, where: str, kept: frozenset[str] = frozenset(), moving: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Translate an SBML document into equations.

    Parameters
    ----------
    text : str
    where : str
        Name of the document in errors.
    kept : frozenset of str
        Identifiers that stay parameters although the document gives their values or a formula for their initial value.
    moving : frozenset of str
        Identifiers among them that change in time.

    Returns
    -------
    dict
        `equations`, text; `states` and `parameters`, names; `values`, known values by name; `constants`, the parameters
        that are known and not to be estimated; `names`, our name for each identifier; `defined`, identifiers that are
        formulas; `begins`, the initial value of each state as a formula; `defaults`, formulas of kept parameters;
        `events`, as `DynamicsTranslator.translate_events` returns them; `title`.

    Raises
    ------
    ModelError
        If the document is not valid, or has parts that cannot be translated.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ModelError(f"{where} declares entities, which are not part of a model.")
    libsbml = _import_library("libsbml")
    document = libsbml.readSBMLFromString(text)
    for k in range(document.getNumErrors()):
        error = document.getError(k)
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            raise ModelError(f"{where}, line {error.getLine()}: not valid SBML: {error.getMessage().strip()[:1000]}")
    model = document.getModel()
    if model is None:
        raise ModelError(f"{where} has no model.")
    for k in range(document.getNumPlugins()):
        package = document.getPlugin(k).getPackageName()
        if (
            package in REFUSED_PACKAGES
            and document.getPackageRequired(package)
            and not _is_unused_package(model, package)
        ):
            raise ModelError(f"{where}: the SBML package {package!r} cannot be translated.")
    return DocumentTranslator(libsbml, model, where, kept, moving).translate_document()


def _is_unused_package(model: Any, package: str) -> bool:
    """Return True if a package is declared but nothing of it is used."""
    plugin = model.getPlugin(package)
    return plugin is None or all(part is None or len(part) == 0 for part in _list_elements(plugin))


def _list_elements(plugin: Any) -> list[Any]:
    """Return the lists of elements, one of each kind, that the plugin of a package adds to a model."""
    return [
        getattr(plugin, name)()
        for name in dir(plugin)
        if name.startswith("getListOf") and name != "getListOfAllElements"
    ]


def translate_antimony(text: str, where: str) -> dict[str, Any]:
    """Translate Antimony text into equations, as `translate_sbml` does for SBML."""
    return translate_sbml(translate_antimony_to_sbml(text, where), where)


def _read_petab_tables(path: str, where: str) -> dict[str, Any]:
    """Read the tables of a PEtab problem; the import is late, since PEtab needs a further library."""
    from ..petab.petab_tables import read_tables

    return read_tables(path, where)


TASKS: dict[str, Callable[[str, str], Any]] = {
    "sbml": translate_sbml,
    "antimony": translate_antimony,
    "antimony to sbml": translate_antimony_to_sbml,
    "petab": _read_petab_tables,
}
"""Tasks of the child process, by name. Each takes a text and the name of its source, and returns plain data."""
