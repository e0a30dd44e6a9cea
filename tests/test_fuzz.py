"""Untrusted files: any content gives a result or one of our errors, and none is run as code, hangs or fills the memory.

The default tests try 300 inputs of each kind, `make test-slow` 10⁵ of each.
"""

import contextlib
import os
import re
import resource
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weakform as wf
from weakform.experiments.study import read_study
from weakform.files.formats.sbml import assemble_model_file, to_sbml
from weakform.files.formats.translation import translate_antimony, translate_sbml
from weakform.files.model_file import parse_model, parse_toml
from weakform.files.template import TEMPLATE
from weakform.model.expressions import FUNCTIONS
from weakform.support.errors import WeakformError

FEW_EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
MANY_EXAMPLES = settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
MAX_CPU_SECONDS = 20
"""CPU time of one input; docs/robustness.md states this limit."""
MAX_MEMORY_MB = 4000
"""Peak of the resident memory of the tests; docs/robustness.md states this limit."""


class Hang(BaseException):
    """The time limit of one input, which the code under test must not catch."""


@contextlib.contextmanager
def time_limit():
    """Raise `Hang` after `MAX_CPU_SECONDS` of CPU time."""

    def stop(*_):
        raise Hang(f"more than {MAX_CPU_SECONDS} s")

    previous_handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous_handler)


def survives(action) -> None:
    """Check that an action returns or raises one of our errors, within the limits and without running any code."""
    outcome = "an answer"
    with time_limit():
        try:
            action()
        except WeakformError as error:
            outcome = str(error)
    assert 0 < len(outcome) < 5000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1024 * MAX_MEMORY_MB
    assert not os.path.exists("hacked")


SIGNS = [
    "=",
    "+",
    "-",
    "*",
    "/",
    "**",
    "^",
    "(",
    ")",
    ",",
    "'",
    "\n",
    ";",
    "#",
    ".",
    "[",
    "]",
    '"',
    "\\",
    "\0",
    "  ",
    "\t",
]
NUMBERS = ["1", "2.5", "1e308", "1e-308", "0", "9" * 30, "1e999"]
NAMES = ["x", "y", "k", "t", "pi", "x'", "x''", "d/dt", "dx/dt", "x'=", "é", "∂"]
NASTY = ["min", "if", "lambda", "__import__", "os", "open('hacked','w')"]
WORDS = st.sampled_from([*FUNCTIONS, *SIGNS, *NUMBERS, *NAMES, *NASTY])
FORMULAS = st.recursive(
    st.sampled_from(["x", "y", "k", "a", "t", "2", "0.5", "pi"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/^"), inner).map(lambda p: f"({p[0]}{p[1]}{p[2]})"),
        st.tuples(st.sampled_from(sorted(set(FUNCTIONS) - {"pow"})), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, st.sampled_from("+*"), st.integers(2, 12)).map(lambda p: "(" + p[1].join([p[0]] * p[2]) + ")"),
    ),
    max_leaves=25,
)
EQUATIONS = st.one_of(
    st.text(max_size=200),
    st.lists(WORDS, max_size=60).map(" ".join),
    st.lists(WORDS, max_size=60).map("".join),
    st.tuples(FORMULAS, FORMULAS).map(lambda p: f"x' = {p[0]}\ny' = {p[1]}"),
)
CELLS = st.one_of(
    st.text(max_size=8),
    st.floats(width=32).map(str),
    st.integers().map(str),
    st.sampled_from(["", "NA", "1,5", "1e999", "2024-01-01", '"', "#", "nan"]),
)
SEPARATORS = st.sampled_from([",", ";", "\t"])


@st.composite
def tables(draw):
    """Draw the bytes of a table: random ones, or cells with a header and a separator."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=400))
    separator, columns = draw(SEPARATORS), draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=15))
    header = ["t", "x", "y", "z"][:columns]
    text = "\n".join(separator.join(row) for row in [header, *rows])
    return draw(st.sampled_from(["", "\ufeff", "# c\n"])).encode() + text.encode("utf-8", "surrogatepass")


def mutated(text):
    """Return a strategy that cuts out, repeats or replaces pieces of a text."""

    @st.composite
    def change(draw):
        result = text
        for _ in range(draw(st.integers(1, 4))):
            a, b = sorted(draw(st.tuples(*[st.integers(0, len(result))] * 2)))
            piece = draw(st.one_of(st.just(""), st.text(max_size=12), st.just(result[a:b] * 2), WORDS))
            result = result[:a] + piece + result[min(b, a + 40) :]
        return result

    return change()


def swapped(text, word, further_words=()):
    """Return a strategy that exchanges some words of a text, so that its form stays.

    `word` is a regular expression; each match is replaced by another match or by one of `further_words`.
    """
    words = sorted(set(re.findall(word, text)))

    @st.composite
    def change(draw):
        matches = list(re.finditer(word, text))
        chosen = draw(st.lists(st.integers(0, len(matches) - 1), min_size=1, max_size=4, unique=True))
        result = text
        for k in sorted(chosen, reverse=True):
            new = draw(st.sampled_from([*words, *further_words]))
            result = result[: matches[k].start()] + new + result[matches[k].end() :]
        return result

    return change()


STUDY = """
name = "s"
runs = 3
start = "random"
methods = ["mle", "wls"]
[[cells]]
problems = ["lorenz"]
noise = [0.1, 0.2]
samples = [64]
"""
ANTIMONY = (
    "function h(a, n)\n a^n/(1 + a^n)\nend\n"
    "model m()\n compartment c = 2; species A in c, B in c; A = 1; B = 2; k = 0.1; q = 2*k;\n"
    " J: A -> B; c*k*A/(1 + B^2);\n J2: 2 B -> ; h(B, q);\n y := A + B;\n x = 1; x' = -k*x*y + exp(-time);\nend\n"
)
SBML = to_sbml(ANTIMONY)
TOML_WORDS = ["-1", "0", "1e400", "nan", "true", '""', "[]", "{}", "[1, 0]", '"t"', '"poisson"', "2024-01-01"]
XML_WORDS = ['"-1"', '"nan"', '"true"', '"false"', '""', '"1e400"', '"c"', '"level"', '"t"', '"x"']
MODEL_FILES = st.one_of(
    mutated(TEMPLATE), swapped(TEMPLATE, r'"[^"\n]+"|\[0, 10\]|\w+', TOML_WORDS), st.text(max_size=200)
)
STUDIES = st.one_of(mutated(STUDY), swapped(STUDY, r'"\w+"|\[.*?\]|\w+', TOML_WORDS), st.text(max_size=200))
DOCUMENTS = st.one_of(
    mutated(SBML),
    swapped(SBML, '"[^"<>]*"', XML_WORDS),
    swapped(SBML, r"<\w+/>|<c[in]>.*?</c[in]>", ["<root/>", "<piecewise/>", "<exp/>", "<cn>nan</cn>", "<infinity/>"]),
    st.text(max_size=200),
)
SCRIPTS = st.one_of(mutated(ANTIMONY), swapped(ANTIMONY, r"\w+|[^\w\s]"), EQUATIONS, st.text(max_size=200))


def equations(text):
    """Check that equations can be parsed, evaluated and differentiated, or are refused."""

    def read():
        model = wf.Model.from_text(text)
        n, J = len(model.states), len(model.parameters)
        model([0.0], [[1.0] * n], [1.0] * J)
        _ = model.linear_parameters
        for name in ("fupp", "fuup"):
            model.system(("gaussian",) * n).differentiate_tensor(name)

    survives(read)


def table(folder, content):
    """Check that a table can be read, with default and with odd choices of its columns, or is refused."""
    path = folder / "d.csv"
    path.write_bytes(content)
    survives(lambda: wf.Dataset.from_csv(path))
    survives(lambda: wf.Dataset.from_csv(path, noise="lognormal", trajectory="t", time="x"))


def model_file(text):
    """Check that a model file can be parsed or is refused."""
    survives(lambda: parse_model(text, "m.toml"))


def study_file(text):
    """Check that a study can be read or is refused."""
    survives(lambda: read_study(parse_toml(text, "s.toml")))


def sbml(text):
    """Check that an SBML document can be translated or is refused."""
    survives(lambda: assemble_model_file(translate_sbml(text, "m"), "m", "m"))


def antimony(text):
    """Check that an Antimony text can be translated or is refused."""
    survives(lambda: assemble_model_file(translate_antimony(text, "m"), "m", "m"))


class Fuzz:
    """One test for each kind of file."""

    effort = FEW_EXAMPLES

    def test_equations(self):
        self.effort(given(EQUATIONS)(equations))()

    def test_tables(self, tmp_path):
        self.effort(given(tables())(lambda content: table(tmp_path, content)))()

    def test_model_files(self):
        self.effort(given(MODEL_FILES)(model_file))()

    def test_studies(self):
        self.effort(given(STUDIES)(study_file))()

    def test_sbml(self):
        self.effort(given(DOCUMENTS)(sbml))()

    def test_antimony(self):
        self.effort(given(SCRIPTS)(antimony))()


class TestFew(Fuzz):
    pass


@pytest.mark.slow
class TestMany(Fuzz):
    effort = MANY_EXAMPLES
