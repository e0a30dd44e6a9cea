"""Reference pages generated from the code when the site is built, so that they cannot go stale.

A generated page contains the line `<!-- made from the code -->`; the hook of mkdocs replaces it by the text of the
function for that page (see `PAGES`). What cannot be generated is checked: `api.md` must list every public name, each
attribute of a result must have a description, and a key of a model file without a description here stops the build.

    python docs/make_reference.py reference/status.md     # print the generated part
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import symengine as se

import weakform
from weakform import estimators
from weakform.cli import main as command_line
from weakform.estimators import COMMON_OPTIONS, ESTIMATORS, Options, Status
from weakform.files.model_file import TOP_KEYS
from weakform.files.template import TEMPLATE
from weakform.files.toml_keys import PARAMETER_KEYS
from weakform.fitting.policy import FallbackPolicy
from weakform.fitting.strategies import LADDERS
from weakform.forward import SimulationStatus
from weakform.noise import kinds
from weakform.parameters import parameter

MARK = "<!-- made from the code -->"
ROOT = Path(__file__).parent.parent


# Small parts


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown; a bar in a cell is escaped."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(re.sub(r"\s*\n\s*|\|", _cell, cell) for cell in line) + " |" for line in lines)


def _cell(match: re.Match[str]) -> str:
    return r"\|" if match[0] == "|" else " "


def yes(flag: bool) -> str:
    """Return the cell for a flag."""
    return "yes" if flag else "no"


def code(text: object) -> str:
    """Return the text in the font of code."""
    return f"`{text}`"


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    text = " ".join(text.split())
    return text and f"{text[0].upper()}{text[1:]}" + ("" if text[-1] in ".!?" else ".")


def attributes(thing: Any) -> dict[str, tuple[str, str]]:
    """Return type and description of each attribute in a NumPy-style docstring."""
    lines = inspect.getdoc(thing).splitlines()
    described: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    inside = False
    for k, line in enumerate(lines):
        if line.startswith("---"):
            inside = lines[k - 1] in ("Attributes", "Parameters")
        elif inside and (k + 1 == len(lines) or not lines[k + 1].startswith("---")):
            if line and not line.startswith(" "):
                listed, _, kind = line.partition(" : ")
                names = listed.split(", ")
                described.update(dict.fromkeys(names, (kind, "")))
            elif line.strip():
                described.update(
                    {name: (described[name][0], f"{described[name][1]} {line.strip()}".strip()) for name in names}
                )
    return described


# Command line


def commands() -> str:
    """Return every command with its arguments, options and an example."""
    top = command_line.build_parser()
    (chosen,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {action.dest: action.help or "" for action in chosen._choices_actions}
    overview = [[f"[`weakform {name}`](#weakform-{name})", summaries.get(name, "")] for name in chosen.choices]
    parts = [sentence(top.description or ""), table(("command", "what it does"), overview)]
    parts += [_last_paragraph(command_line), "`weakform --version` prints the version."]
    for name, sub in chosen.choices.items():
        example = (sub.epilog or "").removeprefix("example: ")
        parts += [f"## weakform {name}", sub.description or "", f"```text\n{usage(sub)}\n```"]
        shown = [action for action in sub._actions if not isinstance(action, argparse._HelpAction)]
        if shown:
            formatter = sub._get_formatter()
            parts.append(table(("argument", "meaning"), [[_option(a), _meaning(a, formatter)] for a in shown]))
        if example:
            parts.append(f"Example:\n\n```sh\n{example}\n```")
    return "\n\n".join(parts)


def _last_paragraph(module: Any) -> str:
    """Return the last paragraph of a module's docstring."""
    return inspect.getdoc(module).split("\n\n")[-1]


def usage(sub: argparse.ArgumentParser) -> str:
    """Return the usage of a command, in lines whose width does not depend on the terminal."""
    formatter = argparse.HelpFormatter(sub.prog, width=100)
    formatter.add_usage(None, sub._actions, sub._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _option(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{word} {value}".strip()) for word in action.option_strings)


def _meaning(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    return formatter._expand_help(action) if action.help else ""


# Model file

KEYS = {
    "title": "A title, for the figures of studies.",
    "equations": "One equation for each state, as text; see [your own model](../your-model.md#as-text).",
    "model": "In place of `equations`: the name of an SBML or Antimony file in the same folder.",
    "inputs": "Names in the equations that are columns of known values.",
    "hold": "`true`: inputs keep their value until the next sample; `false`, the default: they are interpolated.",
    "noise": "A [kind of noise](noise.md), or a table with a word for each state; `gaussian` by default.",
    "sigma": "The standard deviation of the noise if it is known: a number, or a table with one for each measured "
    "state. Its meaning depends on the [kind of noise](noise.md).",
    "trajectory": "The column that identifies the experiment of each row.",
    "parameters": "A table for each parameter with bounds, a start, a prior or another property; see below.",
    "columns": "Names of the columns that differ from those of the states, the inputs, or `time`; "
    '`""` for a state that was not measured although the table has a column of its name.',
    "units": "Units of the states and of `time`, for the report.",
    "initial": "Initial values of the states, for `weakform simulate` and for studies.",
    "duration": "The time of the last sample, for `weakform simulate` and for studies.",
    "missing": 'Entries of the table that mean a missing value, such as `[-999, "<LOD"]`.',
}
TRUTH = ("float", "The true value for simulated data: for `weakform simulate` and for studies.")


def keys() -> str:
    """Return every key of a model file, and the file that `weakform new` writes."""
    missing = [key for key in TOP_KEYS if key not in KEYS]
    unknown = [key for key in KEYS if key not in TOP_KEYS]
    if missing or unknown:
        raise ValueError(f"docs/make_reference.py: KEYS lacks {missing}, and does not need {unknown}.")
    described = {**attributes(parameter.Parameter), "truth": TRUTH}
    return "\n\n".join(
        [
            "## Keys of the file",
            table(("key", "meaning"), [[code(key), KEYS[key]] for key in TOP_KEYS]),
            "## Keys of a parameter",
            "They belong to a table `[parameters.name]`. A number instead of the table, `parameters.name = 2.0`, fixes "
            "the parameter.",
            table(("key", "type", "meaning"), [[code(key), *_typed(described[key])] for key in PARAMETER_KEYS]),
            "## The file that `weakform new` writes",
            f"```toml\n{TEMPLATE}```",
        ]
    )


TOML = {
    "pair of float": "list of two numbers",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "tuple": "list",
    "bool, sequence of str, or mapping of str to str": "true, list of text, or table of text",
}


def _typed(described: tuple[str, str]) -> tuple[str, str]:
    """Return type and description of a key in terms of TOML, which has lists instead of tuples, and no `None`."""
    kind = described[0].replace(", optional", "")
    words = described[1].replace("`None` or infinity", "`inf`")
    return TOML.get(kind, kind), re.sub(r"`\((.*?)\)`", r"`[\1]`", words)


# How a fit ends


def statuses() -> str:
    """Return every status of a fit and of a forward solution."""
    fits = [[code(s.name), yes(s.converged), yes(s.success), *_remedy(s.value)] for s in Status]
    solved = [[code(s.name), *_remedy(s.value)] for s in SimulationStatus]
    return "\n\n".join(
        [
            "## Status of a fit",
            table(("`fit.status`", "`converged`", "`success`", "what happened", "what to do"), fits),
            "## Status of a forward solution",
            table(("`simulation.status`", "what happened", "what to do"), solved),
        ]
    )


def _remedy(text: str) -> tuple[str, str]:
    """Split the text of a status at its last semicolon or colon: what happened, and what to do."""
    what, _, remedy = text.rpartition("; ") if "; " in text else text.rpartition(": ")
    return (sentence(what), sentence(remedy)) if what else (sentence(text), "")


# Methods


def methods() -> str:
    """Return every estimator, and every option."""
    modules = [module for module in vars(estimators).values() if hasattr(module, "ESTIMATOR")]
    where = {module.ESTIMATOR.name: module for module in modules}
    rows = [
        [
            f"[`{e.name}`](#{e.name})",
            e.summary,
            yes(e.likelihood),
            yes(not e.closed_form),
            yes(e.refine is not None),
            yes(e.refits),
            yes(e.handles_hidden_states or e.hidden_state_method is not None),
            ", ".join(map(code, e.options)) or "none",
        ]
        for e in ESTIMATORS.values()
    ]
    header = ("method", "what it is", "likelihood", "start", "refined", "refits", "hidden states", "own options")
    described = attributes(Options)
    options = [[code(f.name), code(repr(f.default)), _users(f.name), described[f.name][1]] for f in fields(Options)]
    parts = [
        table(header, rows),
        "- *likelihood*: the objective is a likelihood, so that priors can be used.\n"
        "- *start*: the method needs a start even if the model is linear in its parameters.\n"
        "- *refined*: a second stage improves the best outcome of the search.\n"
        "- *refits*: the fit can be repeated with a parameter held or with other data, as profile and bootstrap "
        "intervals need it.\n"
        "- *hidden states*: the method can fit models whose states are not all measured, or is replaced by one that "
        "can.",
    ]
    for name in ESTIMATORS:
        parts += [f"## {name} {{ #{name} }}", _opening(where[name])]
    parts += ["## Options", "`wf.fit(..., options={...})`. A method refuses an option that it does not use."]
    parts.append(table(("option", "default", "used by", "meaning"), options))
    return "\n\n".join(parts)


def _opening(module: Any, skip: int = 0) -> str:
    """Return the docstring of a module, with its indented formulas as blocks of text."""
    paragraphs = inspect.getdoc(module).split("\n\n")[skip:]
    return "\n\n".join(f"```text\n{inspect.cleandoc(p)}\n```" if p.startswith("    ") else p for p in paragraphs)


def _users(option: str) -> str:
    if option in COMMON_OPTIONS:
        return "all"
    return ", ".join(code(e.name) for e in ESTIMATORS.values() if option in e.options)


# The ladder of strategies


def ladders() -> str:
    """Return the strategies, when each is tried, and their order for each method."""
    strategies = list(dict.fromkeys(strategy for ladder in LADDERS.values() for strategy in ladder))
    rows = [[strategy.name, sentence(strategy.summary), sentence(strategy.condition)] for strategy in strategies]
    order = [[code(name), " → ".join(strategy.name for strategy in ladder)] for name, ladder in LADDERS.items()]
    policy = attributes_of_policy()
    return "\n\n".join(
        [
            table(("strategy", "what it does", "when it is tried"), rows),
            "The order for each method; the other methods have no fallback:",
            table(("method", "strategies in their order"), order),
            "The thresholds of these decisions, with the defaults:",
            table(("threshold", "value", "meaning"), policy),
        ]
    )


def attributes_of_policy() -> list[list[str]]:
    """Return name, default and description of each field of the fallback policy, from the strings in its source."""
    tree = ast.parse(inspect.getsource(FallbackPolicy)).body[0]
    assert isinstance(tree, ast.ClassDef)
    described = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            described[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return [[code(f.name), f"{f.default:g}", described[f.name]] for f in fields(FallbackPolicy)]


# Noise


def noise() -> str:
    """Return every kind of noise."""
    u = se.Symbol("u")
    rows = [
        [
            code(name),
            kind.needs,
            code(kind.slope(u)),
            "the ratio times the root mean square of the states" if kind.relative else "the ratio itself",
            f"{kind.ratio:g}",
        ]
        for name, kind in kinds.KINDS.items()
    ]
    header = ("kind", "what values must be", "`du/dx`", "σ of simulated data", "their noise ratio by default")
    return f"{_opening(kinds, skip=1)}\n\n{table(header, rows)}"


# Python


def public() -> str:
    """Return the public names with their first sentences."""
    rows = []
    for name in weakform.__all__:
        first = (inspect.getdoc(getattr(weakform, name)) or "").split("\n\n")[0]
        rows.append([f"[`weakform.{name}`][weakform.{name}]", " ".join(first.split())])
    return table(("name", "what it is"), rows)


def check_api(markdown: str) -> None:
    """Raise an error if a public name is not on the page, or an attribute of a result has no description."""
    shown = set(re.findall(r"^::: (\S+)", markdown, flags=re.M))
    missing = [name for name in weakform.__all__ if f"weakform.{name}" not in shown]
    if missing:
        raise ValueError(f"docs/reference/api.md lacks '::: weakform.{missing[0]}'.")
    described = attributes(weakform.FitResult)
    missing = [f.name for f in fields(weakform.FitResult) if not described.get(f.name, ("", ""))[1]]
    if missing:
        raise ValueError(f"The docstring of FitResult does not describe {', '.join(missing)}.")


# Contributing


def contributing() -> str:
    """Return CONTRIBUTING.md with the links of the site; files that are not on the site are named, not linked."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n")[2].strip()
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\[([^]]+)\]\((?![a-z]+:|#)([^)]+)\)", _on_site, text)


def _on_site(link: re.Match[str]) -> str:
    return link[0] if (ROOT / "docs" / link[2].partition("#")[0]).exists() else f"{link[1]} (`{link[2]}`)"


PAGES: dict[str, Callable[[], str]] = {
    "reference/api.md": public,
    "reference/command-line.md": commands,
    "reference/model-file.md": keys,
    "reference/methods.md": methods,
    "reference/noise.md": noise,
    "reference/status.md": statuses,
    "which-method.md": ladders,
    "contributing.md": contributing,
}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the mark on a page by its generated part; mkdocs calls this for each page."""
    name = page.file.src_uri
    if name == "reference/api.md":
        check_api(markdown)
    if (name in PAGES) != (MARK in markdown):
        raise ValueError(
            f"docs/{name}: the line {MARK!r} belongs to the pages of docs/make_reference.py, and to no other."
        )
    return markdown.replace(MARK, PAGES[name]()) if name in PAGES else markdown


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        print(PAGES[chosen]())
