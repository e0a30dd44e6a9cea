"""SBML and Antimony as text equations (see `document`); runs in a process of its own (see `isolated`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...support.errors import ModelError
from ...support.optional_imports import extra
from .sbml_document import Document

REFUSED_PACKAGES = {"arrays", "comp", "dyn", "multi", "qual", "spatial"}
"""Packages that change what a model means; one that is only declared does not."""


def _imports(text: str) -> bool:
    """Whether Antimony text may open another file: the word stands anywhere but in a comment at the end of a line."""
    for line in (*text.splitlines(), *re.sub(r"\\\s*\n", "", text).splitlines()):
        code = line.partition("//")[0]
        plain = not any(mark in code for mark in '"/') and "*/" not in line
        if re.search(r"\bimport\b", code if plain else line):
            return True
    return False


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ModelError(f"SBML and Antimony need their libraries; install them with: {extra('sbml')}") from None


def sbml_of_antimony(text: str, where: str) -> str:
    """Antimony text as an SBML document."""
    if _imports(text):
        raise ModelError(f"{where} imports another file; put everything into one.")
    antimony = _library("antimony")
    antimony.clearPreviousLoads()
    try:
        if antimony.loadAntimonyString(text) < 0:
            raise ModelError(f"{where} is not valid Antimony: {antimony.getLastError().strip()[:1000]}")
        return str(antimony.getSBMLString(antimony.getMainModuleName()))
    except UnicodeError:
        raise ModelError(f"{where} is not valid Antimony: it has characters other than ASCII.") from None
    finally:
        antimony.clearPreviousLoads()


def equations_of_sbml(
    text: str, where: str, kept: frozenset[str] = frozenset(), moving: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """An SBML document as equations.

    Parameters
    ----------
    text : str
    where : str
    kept : frozenset of str
        Identifiers that stay parameters, though the document gives their values or a formula for their beginning.
    moving : frozenset of str
        Those among them that change in time.

    Returns
    -------
    dict
        `equations`, text; `states` and `parameters`, names; `values`, by name, where there are some; `constants`, the
        parameters that are known; `names`, of all that has an identifier; `defined`, identifiers that are formulas;
        `begins`, the initial value of each state as a formula; `defaults`, formulas of kept parameters; `events`;
        `title`.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ModelError(f"{where} declares entities, which are not part of a model.")
    libsbml = _library("libsbml")
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
        if package in REFUSED_PACKAGES and document.getPackageRequired(package) and not _idle(model, package):
            raise ModelError(f"{where}: the SBML package {package!r} cannot be translated.")
    return Document(libsbml, model, where, kept, moving).equations()


def _idle(model: Any, package: str) -> bool:
    """Whether a package is declared, and nothing of it used."""
    plugin = model.getPlugin(package)
    return plugin is None or all(part is None or len(part) == 0 for part in _lists(plugin))


def _lists(plugin: Any) -> list[Any]:
    """The lists that a plugin of a model has."""
    return [
        getattr(plugin, name)()
        for name in dir(plugin)
        if name.startswith("getListOf") and name != "getListOfAllElements"
    ]


def equations_of_antimony(text: str, where: str) -> dict[str, Any]:
    """Antimony text as equations; the result is that of `equations_of_sbml`."""
    return equations_of_sbml(sbml_of_antimony(text, where), where)


def _petab(path: str, where: str) -> dict[str, Any]:
    from ..petab.petab_tables import tables

    return tables(path, where)


TASKS: dict[str, Callable[[str, str], Any]] = {
    "sbml": equations_of_sbml,
    "antimony": equations_of_antimony,
    "antimony to sbml": sbml_of_antimony,
    "petab": _petab,
}
