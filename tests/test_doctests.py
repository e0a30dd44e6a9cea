"""The docstring of every public name has an example that runs and prints what it shows."""

import doctest
import inspect

import pytest

import weakform as wf


@pytest.mark.parametrize("name", wf.__all__)
def test_docstring_has_an_example_that_runs(name):
    public_object = getattr(wf, name)
    text = inspect.getdoc(public_object) or ""
    assert ">>> " in text, f"{name} has no example"
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(public_object, name, globs={}):
        outcome = runner.run(test)
        assert outcome.attempted > 0
        assert outcome.failed == 0
