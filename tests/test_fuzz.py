"""Files from strangers: whatever is in them, an answer or one of our errors; nothing runs, hangs or eats the memory.

A few hundred inputs of each kind in the gate; `make test-slow` tries 10⁵ of each.
"""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weakform as wf
from weakform.errors import WeakformError
from weakform.experiments.study import read_study
from weakform.expressions import FUNCTIONS
from weakform.formats.sbml import from_sbml, to_sbml
from weakform.modelfile import TEMPLATE, parse_model, parse_toml

FEW = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
SECONDS = 20.0


def survives(action) -> None:
    """An answer or a refusal of ours, soon."""
    begin, said = time.process_time(), "an answer"
    try:
        action()
    except WeakformError as error:
        said = str(error)
    assert 0 < len(said) < 5000
    assert time.process_time() - begin < SECONDS
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
EQUATIONS = st.one_of(
    st.text(max_size=200), st.lists(WORDS, max_size=60).map(" ".join), st.lists(WORDS, max_size=60).map("".join)
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
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=400))
    separator, columns = draw(SEPARATORS), draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=15))
    header = ["t", "x", "y", "z"][:columns]
    text = "\n".join(separator.join(row) for row in [header, *rows])
    return draw(st.sampled_from(["", "\ufeff", "# c\n"])).encode() + text.encode("utf-8", "surrogatepass")


def mutated(text):
    """A text with pieces cut out, repeated, or replaced by others."""

    @st.composite
    def change(draw):
        result = text
        for _ in range(draw(st.integers(1, 4))):
            a, b = sorted(draw(st.tuples(*[st.integers(0, len(result))] * 2)))
            piece = draw(st.one_of(st.just(""), st.text(max_size=12), st.just(result[a:b] * 2), WORDS))
            result = result[:a] + piece + result[min(b, a + 40) :]
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
SBML = to_sbml(
    "model m()\n compartment c = 2; species A in c, B in c; A = 1; B = 2; k = 0.1;\n"
    " J: A -> B; c*k*A/(1 + B^2);\n y := A + B;\n x = 1; x' = -k*x*y;\nend\n"
)


def equations(text):
    def read():
        model = wf.Model.from_text(text)
        model([0.0], [[1.0] * len(model.states)], [1.0] * len(model.parameters))

    survives(read)


def table(folder, content):
    path = folder / "d.csv"
    path.write_bytes(content)
    survives(lambda: wf.Dataset.from_csv(path))
    survives(lambda: wf.Dataset.from_csv(path, noise="lognormal", trajectory="t", time="x"))


def model_file(text):
    survives(lambda: parse_model(text, "m.toml"))


def study_file(text):
    survives(lambda: read_study(parse_toml(text, "s.toml")))


def sbml(text):
    survives(lambda: from_sbml(text))


class TestFew:
    @FEW
    @given(EQUATIONS)
    def test_equations(self, text):
        equations(text)

    @FEW
    @given(content=tables())
    def test_tables(self, tmp_path_factory, content):
        table(tmp_path_factory.getbasetemp(), content)

    @FEW
    @given(st.one_of(mutated(TEMPLATE), st.text(max_size=200)))
    def test_model_files(self, text):
        model_file(text)

    @FEW
    @given(st.one_of(mutated(STUDY), st.text(max_size=200)))
    def test_studies(self, text):
        study_file(text)

    @FEW
    @given(st.one_of(mutated(SBML), st.text(max_size=200)))
    def test_sbml(self, text):
        sbml(text)


@pytest.mark.slow
class TestMany:
    @MANY
    @given(EQUATIONS)
    def test_equations(self, text):
        equations(text)

    @MANY
    @given(content=tables())
    def test_tables(self, tmp_path_factory, content):
        table(tmp_path_factory.getbasetemp(), content)

    @MANY
    @given(st.one_of(mutated(TEMPLATE), st.text(max_size=200)))
    def test_model_files(self, text):
        model_file(text)

    @MANY
    @given(st.one_of(mutated(STUDY), st.text(max_size=200)))
    def test_studies(self, text):
        study_file(text)

    @MANY
    @given(st.one_of(mutated(SBML), st.text(max_size=200)))
    def test_sbml(self, text):
        sbml(text)
