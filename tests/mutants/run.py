"""Measure by mutation how many faults in the numerical code the tests notice.

    python tests/mutants/run.py [--seed SEED] [--count 200] [--jobs 2] [--out build/mutants.jsonl]

Without a seed the mutants of `sample.txt` are run: 200 that were drawn once, so that one commit can be compared with
another. With a seed others are drawn, which shows what the tests notice of faults that nobody has looked at.

A mutant is the source with one small fault: an operator (`+ - * / **`), a comparison, `and` or `or`, or the sign of a
number is changed. They are drawn from the numerical rooms, the folders of `src/weakform`. Each is put into its own copy
of `src` in a temporary folder; the checkout is only read. A mutant is killed if a test fails or takes far too long;
otherwise it survives.

Which tests are run:

1. Each test file of the rooms, and of `WHOLE_FITS`, runs once under coverage with one context for each test. This
   shows which tests execute which line, and how long they take.
2. For a mutant only the tests that execute its line run, the quickest first, and about `SECONDS_PER_MUTANT` of them:
   the tests of its room, then those of whole fits, then those of other rooms. The first failure ends the run.
3. A constant of a module or a class is set when it is imported, so the lines that mention its name count instead.

A failure counts only if the same test passes alone on the unchanged source.

OUT has one JSON object in each line, written as soon as the mutant is decided, and the runs under coverage are kept
beside it. An interrupted command continues where it stopped; records of other sources or tests are ignored.

Survivors are compared with `survivors.md`, which has a line and a judgement for each that is accepted. The exit status
is 1 if one is not listed there. Mutants are identified by file, function and expression, not by line number; where a
function has the same expression several times, the later ones have a number: `function #2`.

Not covered: lines that run only in other processes, in slow tests, or only for the first user of a cached property that
several tests share. No annotations, assertions, messages or representations are mutated. Needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "weakform"
SURVIVORS = Path(__file__).with_name("survivors.md")
SAMPLE = Path(__file__).with_name("sample.txt")

ROOMS = (
    *("noise", "basis", "weak", "optimize", "collocation", "estimators", "forward", "linalg", "parameters"),
    *("diagnostics", "results", "inference", "analysis", "fitting", "model", "data"),
)
"""Folders of `src/weakform` that are mutated; one that does not exist is skipped."""
TESTED_ELSEWHERE = {"fitting": ("results", "analysis"), "diagnostics": ("results",)}
"""Folders of tests for a room that has none of its own."""
WHOLE_FITS = ("test_fitting.py", "test_hidden.py", "test_edges.py", "test_doses.py")
"""Test files that run after those of the room."""
SECONDS_PER_ROOM = 40.0
"""Seconds of the room's own tests for one mutant, measured under coverage. By judgement."""
SECONDS_PER_MUTANT = 60.0
"""Seconds of all tests for one mutant, measured under coverage. By judgement: most are killed within a few."""
TIMEOUT_BASE = 60.0
"""Seconds that a run may take beyond `TIMEOUT_FACTOR` times the time of its tests. By judgement: more than a loaded
machine adds."""
TIMEOUT_FACTOR = 4.0
"""Factor between the time that the tests of a run take under coverage and its limit, without `TIMEOUT_BASE`. By
judgement."""
TIMEOUT_OF_TRACE = 1800.0
"""Seconds after which a test file under coverage is stopped, and with it the command. By judgement."""
MEMORY_LIMIT = 8 << 30
"""Bytes of address space of a run, so that a mutant that allocates too much fails instead of filling the memory of the
machine. By judgement."""

OPERATORS: dict[type, tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/",)),
    ast.Div: ("/", ("*",)),
    ast.Pow: ("**", ("*",)),
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.And: ("and", ("or",)),
    ast.Or: ("or", ("and",)),
}
"""The token of each operator, and the tokens that replace it."""
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Delete)
"""Statements without a body."""
SKIPPED = (ast.Assert, ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)
"""Nodes that are not mutated."""
REPRESENTATION = re.compile(r"__(repr|str|format|rich_repr)__|_repr_\w+_")
"""Names of methods that only represent an object as text; they are not mutated."""
LISTED = re.compile(r"^- `(?P<file>[^`]+)` `(?P<function>[^`]+)`: `(?P<old>[^`]+)` -> `(?P<new>[^`]+)`: (?P<why>.+)$")
"""A line of `survivors.md`."""


# Mutants.


@dataclass(frozen=True)
class Mutant:
    """A change of one token.

    Attributes
    ----------
    file, function, old, new : str
        Path below `src/weakform`, qualified name, and the expression before and after: these identify the mutant.
    start, stop : int
        Characters of the file that are replaced by `text`.
    lines : tuple of int
        First and last line of the statement; a test that executes one of them may notice the mutant.
    names : tuple of str
        Names that the statement binds, if it is executed when the module is imported.
    """

    file: str
    function: str
    old: str
    new: str
    start: int = field(compare=False)
    stop: int = field(compare=False)
    text: str = field(compare=False)
    lines: tuple[int, int] = field(compare=False)
    names: tuple[str, ...] | None = field(compare=False)

    @property
    def room(self) -> str:
        """The first folder of its path."""
        return self.file.split("/")[0]

    @property
    def key(self) -> str:
        """The line of `survivors.md` without the judgement."""
        return f"- `{self.file}` `{self.function}`: `{self.old}` -> `{self.new}`"


class Finder(ast.NodeVisitor):
    """A walk through a module that collects its mutants in `mutants`."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        lines = source.splitlines(keepends=True)
        self.begins = [0]
        for line in lines:
            self.begins.append(self.begins[-1] + len(line))
        # Columns of `ast` count bytes, those of `tokenize` characters.
        self.bytes = [line.encode() for line in lines]
        self.tokens = [
            (self.begins[t.start[0] - 1] + t.start[1], self.begins[t.end[0] - 1] + t.end[1], t.string)
            for t in tokenize.generate_tokens(io.StringIO(source).readline)
            if t.type in (tokenize.OP, tokenize.NAME)
        ]
        self.names: list[str] = []
        self.depth = 0
        """Number of functions and lambdas around the node: 0 is executed when the module is imported."""
        self.span = (1, 1)
        self.bound: tuple[str, ...] = ()
        self.parents: list[ast.AST] = []
        self.mutants: list[Mutant] = []
        self.visit(ast.parse(source))

    def place(self, line: int, column: int) -> int:
        """Return the position in the file, in characters, of a line and column of `ast`."""
        return self.begins[line - 1] + len(self.bytes[line - 1][:column].decode())

    def range(self, node: Any) -> tuple[int, int]:
        """Return the first character of a node in the file and the one after its last."""
        return self.place(node.lineno, node.col_offset), self.place(node.end_lineno, node.end_col_offset)

    def visit(self, node: ast.AST) -> None:
        """Visit a node unless it has no numerical code; keep track of the lines of the statement around it."""
        # A table of a module has texts beside its functions; messages are built when something runs.
        if isinstance(node, SKIPPED) or (self.depth and isinstance(node, SIMPLE) and is_message(node)):
            return
        span, bound = self.span, self.bound
        if isinstance(node, SIMPLE):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return
            self.bound = tuple(n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name))
            self.span = (node.lineno, node.end_lineno or node.lineno)
        elif isinstance(node, ast.stmt):
            body = getattr(node, "body", None)  # the head of a statement with a body: a condition or an iterable
            self.span = (node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno)
        elif isinstance(node, ast.Lambda):
            self.span = (node.lineno, node.end_lineno or node.lineno)  # executed when it is called
        self.parents.append(node)
        super().visit(node)
        self.parents.pop()
        self.span, self.bound = span, bound

    def visit_If(self, node: ast.If) -> None:
        """Leave out code that only a type checker reads."""
        if ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING":
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body, with the name of the class before that of its methods."""
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit defaults and body, not annotations and decorators; representations are skipped."""
        if REPRESENTATION.fullmatch(node.name):
            return
        self.names.append(node.name)
        self.depth += 1
        for child in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.span = (node.body[0].lineno, node.end_lineno or node.lineno)
            self.parents.append(node.args)
            super().visit(child)
            self.parents.pop()
        for statement in node.body:
            self.visit(statement)
        self.depth -= 1
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Visit the body."""
        self.depth += 1
        self.visit(node.body)
        self.depth -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Mutate an operator between two numbers or arrays; sums of texts and lists are not numerical."""
        if not any(isinstance(side, (ast.List, ast.Tuple)) or is_text(side) for side in (node.left, node.right)):
            self.replace_operator(node, node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Mutate `+=` and its like, unless lists or texts are joined."""
        if not isinstance(node.value, (ast.List, ast.Tuple, ast.ListComp)) and not is_text(node.value):
            self.replace_operator(node, node.op, node.target, node.value, "=")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Mutate each comparison of a chain."""
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.replace_operator(node, op, left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Mutate each `and` and `or`."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.replace_operator(node, node.op, left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Mutate a minus sign."""
        if isinstance(node.op, ast.USub):
            start = self.range(node)[0]
            self.add(self.context(node), start, start + 1, "+")
        if not (isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Mutate the sign of a number with a decimal point; integers are mostly positions and axes."""
        if isinstance(node.value, float) and node.value:
            start, stop = self.range(node)
            self.add(self.context(node), start, stop, f"(-{self.source[start:stop]})")

    def context(self, node: ast.AST) -> ast.AST:
        """Return the expression or statement around a number, by which it can be recognised."""
        parent = self.parents[-2]
        return parent if isinstance(parent, (ast.expr, ast.keyword, *SIMPLE)) else node

    def replace_operator(self, node: ast.AST, op: ast.AST, left: ast.AST, right: ast.AST, after: str = "") -> None:
        """Add the mutants of the operator between two nodes."""
        if type(op) not in OPERATORS:
            return
        token, replacements = OPERATORS[type(op)]
        low, high = self.range(left)[1], self.range(right)[0]
        hits = [(a, b) for a, b, text in self.tokens if low <= a and b <= high and text == token + after]
        if len(hits) == 1:
            for replacement in replacements:
                self.add(node, *hits[0], replacement + after)

    def add(self, node: ast.AST, start: int, stop: int, text: str) -> None:
        """Add a mutant; `node` is the expression by which it is identified."""
        low, high = self.range(node)
        old = self.source[low:high]
        new = self.source[low:start] + text + self.source[stop:high]
        if "`" in old:
            return
        function = ".".join(self.names) or "<module>"
        names = None if self.depth else self.bound
        words = (" ".join(part.split()) for part in (old, new))
        self.mutants.append(Mutant(self.file, function, *words, start, stop, text, self.span, names))


def is_text(node: ast.AST) -> bool:
    """Return True if a node is a literal text."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_message(statement: ast.AST) -> bool:
    """Return True if a statement builds a message: it has a formatted text, or a text of several words."""
    return any(
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value)
        for node in ast.walk(statement)
    )


def all_mutants() -> list[Mutant]:
    """Return every mutant of the rooms; if several have the same identity, the later ones get a number."""
    mutants = []
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            times: Counter[Mutant] = Counter()
            for mutant in Finder(path.relative_to(PACKAGE).as_posix(), source).mutants:
                times[mutant] += 1
                if times[mutant] > 1:
                    named = f"{mutant.function} #{times[mutant]}"
                    mutant = Mutant(mutant.file, named, *list(vars(mutant).values())[2:])  # noqa: PLW2901
                mutants.append(mutant)
    return mutants


# Child processes: a test file under coverage, or some tests on a mutant.


class Watcher:
    """A pytest plugin that records results and times of tests, and the context of coverage.

    A fixture that several tests share has a context `fixture:NAME`: its lines count for each test that asks for it.
    """

    def __init__(self, coverage: Any = None) -> None:
        self.coverage = coverage
        self.running = ""
        self.tests: dict[str, dict[str, Any]] = {}
        self.fixtures: dict[str, float] = {}
        self.failed: str | None = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tests[nodeid] = {"seconds": 0.0, "passed": False, "fixtures": []}

    def pytest_runtest_setup(self, item: Any) -> None:
        self.tests[item.nodeid]["fixtures"] = list(item.fixturenames)

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        if report.when == "call":
            test["passed"] = report.passed
        if report.failed:
            test["passed"] = False
            self.failed = self.failed or report.nodeid


def tracing(watcher: Watcher) -> Any:
    """Return a plugin that switches the context of coverage; hooks with wrappers need pytest."""
    import pytest

    class Contexts:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            # A cached result would hide from all tests but the first which lines they need.
            clear_caches()
            watcher.running = item.nodeid
            watcher.coverage.switch_context(item.nodeid)
            try:
                return (yield)
            finally:
                watcher.running = ""
                watcher.coverage.switch_context("")

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
            if fixturedef.scope == "function":
                return (yield)
            outer, name = watcher.running, f"fixture:{fixturedef.argname}"
            watcher.running = name
            watcher.coverage.switch_context(name)
            begin = time.perf_counter()
            try:
                return (yield)
            finally:
                watcher.fixtures[fixturedef.argname] = time.perf_counter() - begin
                watcher.running = outer
                watcher.coverage.switch_context(outer)

    return Contexts()


def clear_caches() -> None:
    """Empty the cached functions of the package and of the helpers of its tests."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "weakform" and not str(getattr(module, "__file__", "")).startswith(
            str(ROOT / "tests")
        ):
            continue
        for value in list(vars(module).values()):
            for function in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                if hasattr(function, "cache_clear") and hasattr(function, "cache_info"):
                    function.cache_clear()


def child(task: dict[str, Any]) -> int:
    """Run pytest on `task["tests"]`, write the results to `task["out"]`, and return the exit status."""
    import pytest

    with suppress(ImportError, ValueError, OSError):  # not every system has such a limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    watcher = Watcher()
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *task["tests"]]
    plugins: list[Any] = [watcher]
    if task["data"]:
        import coverage

        watcher.coverage = coverage.Coverage(
            data_file=task["data"], config_file=False, include=[str(PACKAGE / "*")], messages=False
        )
        watcher.coverage.start()
        plugins.append(tracing(watcher))
    else:
        arguments.insert(0, "-x")
    status = int(pytest.main(arguments, plugins))
    if task["data"]:
        watcher.coverage.stop()
        watcher.coverage.save()
    report = {"status": status, "failed": watcher.failed, "tests": watcher.tests, "fixtures": watcher.fixtures}
    Path(task["out"]).write_text(json.dumps(report))
    return status


class Interrupted(Exception):
    """A run that ended because the command was interrupted, without a verdict on its mutant."""


RUNNING: set[subprocess.Popen[bytes]] = set()
STOPPED = threading.Event()


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process that this command started, and its whole process group."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_child(source: Path, tests: Sequence[str], limit: float, data: Path | None = None) -> dict[str, Any] | None:
    """Run tests in a new process against the package in `source`; None if they take longer than `limit` seconds."""
    if STOPPED.is_set():
        raise Interrupted
    environment = {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        out, task = Path(folder) / "out.json", Path(folder) / "task.json"
        task.write_text(json.dumps({"tests": list(tests), "out": str(out), "data": str(data) if data else None}))
        command = [sys.executable, __file__, "--child", str(task)]
        # A separate session: tests start processes, which have to end together with it.
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        RUNNING.add(process)
        try:
            if STOPPED.is_set():
                raise Interrupted
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_process(process)
            RUNNING.discard(process)
        if STOPPED.is_set():
            raise Interrupted
        # Without a report the process crashed or ran out of memory.
        return json.loads(out.read_text()) if out.exists() else {"status": status or -1, "failed": None, "tests": {}}


# Which tests execute a line.


def tree_hash() -> str:
    """Return a hash of all sources and tests: results of other trees do not count."""
    digest = hashlib.sha256(str(ROOT).encode())
    own = Path(__file__).parent
    for path in sorted([*(ROOT / "src").rglob("*"), *(ROOT / "tests").rglob("*"), ROOT / "pyproject.toml"]):
        if path.is_file() and "__pycache__" not in path.parts and own not in path.parents:
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class Trace:
    """The lines that the tests of one file execute, and the time that they take.

    Attributes
    ----------
    tests : dict
        For each test that passes on the unchanged source: its seconds without shared fixtures, and the shared
        fixtures it uses.
    fixtures : dict
        Seconds of each shared fixture.
    """

    def __init__(self, data: Path, report: dict[str, Any]) -> None:
        import coverage

        self.data = coverage.CoverageData(str(data))
        self.data.read()
        self.fixtures: dict[str, float] = report["fixtures"]
        self.tests: dict[str, tuple[float, list[str]]] = {}
        for name, test in report["tests"].items():
            if test["passed"]:
                self.tests[name] = (test["seconds"], [f for f in test["fixtures"] if f in self.fixtures])
        self.lock = threading.Lock()
        self.cached: dict[str, dict[int, list[str]]] = {}

    def executing(self, file: str, lines: Iterable[int]) -> set[str]:
        """Return the tests that execute one of some lines of a file below `src/weakform`."""
        with self.lock:
            if file not in self.cached:
                self.cached[file] = self.data.contexts_by_lineno(str(PACKAGE / file))
            contexts = {context for line in lines for context in self.cached[file].get(line, ())}
        shared = {context.removeprefix("fixture:") for context in contexts if context.startswith("fixture:")}
        return {name for name, (_, used) in self.tests.items() if name in contexts or shared & set(used)}


def test_files(room: str) -> list[Path]:
    """Return the test files of a room."""
    folder = ROOT / "tests" / room
    folders = [folder] if folder.is_dir() else [ROOT / "tests" / name for name in TESTED_ELSEWHERE.get(room, ())]
    return [path for tests_folder in folders for path in sorted(tests_folder.rglob("test_*.py"))]


def trace_file(path: Path, folder: Path) -> Trace:
    """Run a test file under coverage, unless `folder` has its results already."""
    name = "-".join(path.relative_to(ROOT / "tests").parts)
    data, kept = folder / f"{name}.coverage", folder / f"{name}.json"
    if not kept.exists():
        data.unlink(missing_ok=True)
        report = run_child(ROOT / "src", [str(path.relative_to(ROOT))], TIMEOUT_OF_TRACE, data)
        if report is None or not data.exists():
            raise SystemExit(f"{path} did not run under coverage; run it with pytest to see why.")
        kept.write_text(json.dumps(report))
    return Trace(data, json.loads(kept.read_text()))


@cache
def source_lines(file: str) -> list[str]:
    return (PACKAGE / file).read_text(encoding="utf-8").splitlines()


@cache
def function_lines(file: str) -> list[int]:
    """Return the lines of a file that are in functions."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return sorted({line for f in functions for line in range(f.body[0].lineno, (f.end_lineno or f.lineno) + 1)})


def watched_lines(mutant: Mutant) -> list[tuple[str, Sequence[int]]]:
    """Return the lines, file by file, that a test must execute to notice a mutant."""
    if mutant.names is None:
        return [(mutant.file, range(mutant.lines[0], mutant.lines[1] + 1))]
    mentions = []
    if mutant.names:
        word = re.compile(rf"\b({'|'.join(map(re.escape, mutant.names))})\b")
        for path in sorted(PACKAGE.rglob("*.py")):
            file = path.relative_to(PACKAGE).as_posix()
            inside = set(function_lines(file))
            lines = [k for k, text in enumerate(source_lines(file), 1) if k in inside and word.search(text)]
            if lines:
                mentions.append((file, lines))
    return mentions or [(mutant.file, function_lines(mutant.file))]


def select_tests(traces: Sequence[Trace], mutant: Mutant, seconds: float, barred: set[str]) -> tuple[list[str], float]:
    """Return tests that execute a mutant, the quickest first, and their seconds: at least one, then up to `seconds`."""
    lines = watched_lines(mutant)
    options = []
    for trace in traces:
        for name in set().union(*(trace.executing(file, numbers) for file, numbers in lines)) - barred:
            own, used = trace.tests[name]
            options.append(
                (own + sum(trace.fixtures[f] for f in used), name, own, {(id(trace), f) for f in used}, trace)
            )
    chosen, total, paid = [], 0.0, set()
    for _, name, own, used, trace in sorted(options, key=lambda option: option[:2]):
        cost = own + sum(trace.fixtures[f] for key, f in used - paid if key == id(trace))
        if chosen and total + cost > seconds:
            break
        chosen.append(name)
        total += cost
        paid |= used
    return chosen, total


# The verdict on each mutant.


class Bench:
    """The unchanged sources and the traces, shared by the threads that run mutants."""

    def __init__(self, folder: Path, traces: dict[Path, Trace]) -> None:
        self.folder, self.traces = folder, traces
        self.clean = folder / "clean"
        shutil.copytree(ROOT / "src", self.clean, ignore=shutil.ignore_patterns("__pycache__"))
        # The copies made from this one keep the times of files, so its compiled modules stay valid for them.
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", str(self.clean)], check=False, stdout=subprocess.DEVNULL
        )
        self.lock = threading.Lock()
        self.sound: dict[str, bool] = {}

    def stages(self, room: str) -> list[list[Trace]]:
        """Return the traces of the room's tests, of whole fits, and of all others."""
        first, second = test_files(room), whole_fit_files()
        third = [path for path in self.traces if path not in (*first, *second)]
        return [[self.traces[path] for path in paths] for paths in (first, second, third)]

    def is_sound(self, test: str, limit: float) -> bool:
        """Return True if a test passes alone on the unchanged source; the result is cached."""
        with self.lock:
            if test not in self.sound:
                report = run_child(self.clean, [test], limit)
                self.sound[test] = report is not None and report["status"] == 0
            return self.sound[test]

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        """Run the tests of a mutant and return its record without its key."""
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            source = Path(folder) / "src"
            shutil.copytree(self.clean, source)
            path = source / "weakform" / mutant.file
            text = path.read_text(encoding="utf-8")
            changed = text[: mutant.start] + mutant.text + text[mutant.stop :]
            ast.parse(changed)
            path.write_text(changed, encoding="utf-8")
            verdict = self.run_stages(source, mutant)
        return {**verdict, "seconds": round(time.perf_counter() - begin, 1)}

    def run_stages(self, source: Path, mutant: Mutant) -> dict[str, Any]:
        """Run the tests of the room, then those of whole fits, then others, until one notices the mutant."""
        count, spent = 0, 0.0
        limits = (SECONDS_PER_ROOM, SECONDS_PER_MUTANT, SECONDS_PER_MUTANT)
        for traces, seconds in zip(self.stages(mutant.room), limits, strict=True):
            if count and spent >= seconds:
                break
            barred: set[str] = set()
            while True:
                tests, expected = select_tests(traces, mutant, seconds - spent, barred)
                if not tests:
                    break
                limit = TIMEOUT_BASE + TIMEOUT_FACTOR * expected
                report = run_child(source, tests, limit)
                if report is None:
                    return {"verdict": "timeout", "by": f"{limit:.0f} s", "tests": count + len(tests)}
                if report["status"] == 0:
                    count, spent = count + len(tests), spent + expected
                    break
                by = report["failed"]
                if by is None:
                    # The package cannot be imported, or the process crashed: check that only the mutant causes it.
                    check = run_child(self.clean, tests, limit)
                    if check is None or check["status"] != 0:
                        return {"verdict": "error", "by": "the tests fail on the unchanged source", "tests": len(tests)}
                    return {"verdict": "killed", "by": "import or crash", "tests": count + len(tests)}
                if self.is_sound(by, limit):
                    return {"verdict": "killed", "by": by, "tests": count + len(tests)}
                barred.add(by)
        return {"verdict": "survived" if count else "not executed", "by": None, "tests": count}


def whole_fit_files() -> list[Path]:
    """Return the test files of whole fits that exist."""
    return [path for name in WHOLE_FITS if (path := ROOT / "tests" / name).exists()]


# The command.


def read_records(path: Path, tree: str) -> dict[str, dict[str, Any]]:
    """Return the records of this tree by their keys; a line cut off by an interruption is left out."""
    records = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if record["tree"] == tree and record["verdict"] != "error":
            records[record["key"]] = record
    return records


def read_judgements() -> dict[str, str]:
    """Return the judgement on each survivor that `survivors.md` lists."""
    judged = {}
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if match := LISTED.match(line):
            judged[line[: match.start("why") - 2]] = match["why"]
        elif line.startswith("- "):
            raise SystemExit(f"{SURVIVORS}: not of the form - `file` `function`: `old` -> `new`: judgement\n{line}")
    return judged


def print_report(drawn: list[Mutant], records: dict[str, dict[str, Any]], everything: list[Mutant]) -> int:
    """Print the table and the survivors; return the number of survivors that are not listed."""
    columns = ("killed", "timeout", "survived", "not executed", "error")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in drawn:
        table[mutant.room][records[mutant.key]["verdict"]] += 1
        table["all"][records[mutant.key]["verdict"]] += 1
    print(f"\n{'room':12}{'drawn':>8}" + "".join(f"{name:>14}" for name in columns) + f"{'share killed':>14}")
    for room in [*(room for room in ROOMS if room in table), "all"]:
        row = table[room]
        total = sum(row.values())
        share = (row["killed"] + row["timeout"]) / total if total else float("nan")
        print(f"{room:12}{total:8}" + "".join(f"{row[name]:14}" for name in columns) + f"{share:14.0%}")

    judged = read_judgements()
    survivors = [m for m in drawn if records[m.key]["verdict"] in ("survived", "not executed")]
    for words, listed in (("accepted", True), ("not listed in survivors.md", False)):
        chosen = [m for m in survivors if (m.key in judged) is listed]
        print(f"\nSurvivors {words}: {len(chosen)}")
        for m in chosen:
            note = judged.get(m.key, records[m.key]["verdict"])
            print(f"{m.key}: {note}")
    gone = sorted(set(judged) - {m.key for m in everything})
    if gone:
        print(f"\nListed in survivors.md, and no longer in the source: {len(gone)}", *gone, sep="\n")
    killed_anyway = [m.key for m in drawn if m.key in judged and m not in survivors]
    if killed_anyway:
        print(f"\nListed in survivors.md, and killed now: {len(killed_anyway)}", *killed_anyway, sep="\n")
    return sum(m.key not in judged for m in survivors)


def run_mutants(
    todo: list[Mutant],
    records: dict[str, dict[str, Any]],
    out: Path,
    where: tuple[str, Path, Path],
    pool: ThreadPoolExecutor,
) -> None:
    """Trace the test files that are needed and judge each mutant; add the verdicts to `records` and to the file `out`.

    `where` is the hash of the tree, the folder of traces and a temporary folder.
    """
    tree, folder, temporary = where
    begin, lock = time.perf_counter(), threading.Lock()
    # All rooms, whichever are drawn: a verdict must not depend on the other mutants.
    paths = list(dict.fromkeys([*(path for room in ROOMS for path in test_files(room)), *whole_fit_files()]))

    def decide(mutant: Mutant) -> None:
        record = {"key": mutant.key, "tree": tree, "line": mutant.lines[0], **bench.judge(mutant)}
        with lock, out.open("a") as file:
            # The new line must not be appended to one that an interruption cut off.
            file.write("\n" * (file.tell() > 0 and not out.read_bytes().endswith(b"\n")) + json.dumps(record) + "\n")
            records[mutant.key] = record
            print(f"{record['verdict']:13}{record['seconds']:7.1f} s  {mutant.key[2:]}", flush=True)

    try:
        traces = dict(zip(paths, pool.map(lambda path: trace_file(path, folder), paths), strict=True))
        print(f"{len(paths)} test files traced in {time.perf_counter() - begin:.0f} s.", flush=True)
        bench = Bench(temporary, traces)
        list(pool.map(decide, todo))
    except BaseException:
        # Otherwise the pool would first run all tasks that wait in it.
        STOPPED.set()
        for process in list(RUNNING):
            end_process(process)
        pool.shutdown(wait=True, cancel_futures=True)
        raise


def main() -> int:
    """Run the command, and return its exit status: 1 if a survivor is not listed, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="number of mutants (default 200)")
    parser.add_argument("--seed", type=int, help="draw other mutants than those of sample.txt with this seed")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run simultaneously (default 2)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.jsonl", help="file of the records")
    options = parser.parse_args()
    try:
        import coverage  # noqa: F401
    except ImportError:
        raise SystemExit("coverage is needed to select tests: pip install -e '.[dev]'") from None
    tree, everything = tree_hash(), all_mutants()
    if options.seed is None:
        sample = set(SAMPLE.read_text(encoding="utf-8").splitlines())
        drawn = [mutant for mutant in everything if mutant.key in sample][: options.count]
        origin = f"are in {SAMPLE.name}, {len(sample) - len(drawn)} others of which are not in the source any more"
    else:
        drawn = random.Random(options.seed).sample(everything, min(options.count, len(everything)))
        origin = f"were drawn with seed {options.seed}"
    records = read_records(options.out, tree)
    todo = [mutant for mutant in drawn if mutant.key not in records]
    print(
        f"{len(drawn)} of {len(everything)} mutants {origin}; {len(todo)} are to be run.",
        flush=True,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    folder = options.out.with_suffix(".traces") / tree
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
    try:
        with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as pool:
            if todo:
                run_mutants(todo, records, options.out, (tree, folder, Path(temporary)), pool)
    except KeyboardInterrupt:
        print("Interrupted; the same command continues here.", file=sys.stderr)
        return 130
    unlisted = print_report(drawn, records, everything)
    return 1 if unlisted else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(json.loads(Path(sys.argv[2]).read_text())))
    sys.exit(main())
