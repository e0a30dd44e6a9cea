"""The child process of foreign libraries: exploding files are refused, no other file is opened, nothing is fetched."""

import subprocess
import sys

import pytest

from support import MATH
from weakform.files.formats.sbml import from_antimony, from_sbml
from weakform.support.errors import ModelError

HEAD = '<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">'
PARAMETER = '<listOfParameters><parameter id="x" value="1" constant="false"/></listOfParameters>'


def rate_rule(formula, before=""):
    """Return a document with one rate rule for x."""
    rule = f'<listOfRules><rateRule variable="x">{MATH}{formula}</math></rateRule></listOfRules>'
    return f"{HEAD}{before}{PARAMETER}{rule}</model></sbml>"


def doubling_functions(n):
    """Return a document whose functions each call the one before twice: 2ⁿ terms when expanded."""
    call = "<apply><ci>f{0}</ci><ci>a</ci></apply>"
    bodies = ["<ci>a</ci>", *(f"<apply><plus/>{call.format(k) * 2}</apply>" for k in range(n))]
    lines = [
        f'<functionDefinition id="f{k}">{MATH}<lambda><bvar><ci>a</ci></bvar>{body}</lambda></math>'
        "</functionDefinition>"
        for k, body in enumerate(bodies)
    ]
    before = f"<listOfFunctionDefinitions>{''.join(lines)}</listOfFunctionDefinitions>"
    return rate_rule(f"<apply><ci>f{n}</ci><ci>x</ci></apply>", before)


def test_long_sum_is_not_refused_as_nested():
    """MathML nests the terms of a long sum, which is flat for a reader."""
    n = 300
    text = rate_rule("<apply><plus/>" * n + "<ci>x</ci>" + "<ci>x</ci></apply>" * n)
    assert from_sbml(text).model([0.0], [[2.0]], []) == pytest.approx(2.0 * (n + 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rate_rule("<apply><minus/>" * 100_000 + "<ci>x</ci>" + "</apply>" * 100_000), "could not be read"),
        (HEAD.replace(">", "><notes>", 2)[:-7] + "<p>" * 200_000 + "</p>" * 200_000 + "</model></sbml>", "read|valid"),
        (rate_rule("<apply><exp/>" * 150 + "<ci>x</ci>" + "</apply>" * 150), "nested"),
        (doubling_functions(30), "more than 100000 parts"),
    ],
    ids=["deep", "deep notes", "nested", "doubling"],
)
def test_exploding_formulas_are_refused(text, words):
    with pytest.raises(ModelError, match=words):
        from_sbml(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "model m0() x' = -k*x; x=1; k=1; end\n"
        + "".join(f"model m{i}() a: m{i - 1}(); b: m{i - 1}(); end\n" for i in range(1, 26)),
        "model m() x=1; x' = " + "+".join(["x"] * 100_000) + "; end",
    ],
    ids=["submodels", "a long sum"],
)
def test_files_that_exceed_memory_or_time_are_refused(text):
    with pytest.raises(ModelError, match="could not be read"):
        from_antimony(text)


def test_rules_that_double_in_size_are_refused():
    n = 40
    sums = [f"<apply><plus/><ci>y{k - 1}</ci><cn>{c}</cn></apply>" for k in range(1, n) for c in (1, 2)]
    formulas = ["<ci>x</ci>", *(f"<apply><times/>{a}{b}</apply>" for a, b in zip(sums[::2], sums[1::2], strict=True))]
    rules = "".join(
        f'<assignmentRule variable="y{k}">{MATH}{text}</math></assignmentRule>' for k, text in enumerate(formulas)
    )
    parameters = "".join(f'<parameter id="y{k}" constant="false"/>' for k in range(n))
    text = rate_rule(f"<ci>y{n - 1}</ci>").replace("<listOfRules>", "<listOfRules>" + rules)
    with pytest.raises(ModelError, match="terms and operations"):
        from_sbml(text.replace("</listOfParameters>", parameters + "</listOfParameters>"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('x = 1; import "other.ant"', id="after a statement"),
        pytest.param('import // why\n "other.ant"', id="comment between"),
        pytest.param('import /* a\n b */ "other.ant"\nx\' = 1', id="long comment between"),
        pytest.param('import\\\n"other.ant"', id="line goes on"),
        pytest.param('im\\\nport "other.ant"', id="word goes on"),
        pytest.param('/*\n// */ import "other.ant"', id="comment in a comment"),
        pytest.param('s = "//"; import "other.ant"', id="comment in a text"),
    ],
)
def test_antimony_import_is_refused(text):
    with pytest.raises(ModelError, match="imports another file"):
        from_antimony(text)


def test_word_import_in_comment_is_accepted():
    file = from_antimony("model m() // import of glucose\n  x = 1; k = 1; x' = -k*x; // the import\nend")
    assert file.model.states == ("x",)


LIMITED = """
import socket
from weakform.files.formats.subprocess_reader import _limit_resources
_limit_resources()
connect = lambda: socket.create_connection(("localhost", 9))
for attempt in (connect, lambda: socket.socket(), lambda: bytearray(3 << 30)):
    try:
        attempt()
    except (OSError, MemoryError) as error:
        print(type(error).__name__, error)
"""


def test_child_process_has_no_network_and_limited_memory():
    printed = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True).stdout
    assert printed.count("nothing is fetched") == 2
    assert "MemoryError" in printed
