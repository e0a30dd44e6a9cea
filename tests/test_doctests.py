"""Every public name has an example, and it runs."""

import doctest
import inspect

import pytest

import weakform as wf


@pytest.mark.parametrize("name", wf.__all__)
def test_the_example_runs(name):
    thing = getattr(wf, name)
    text = inspect.getdoc(thing) or ""
    assert ">>> " in text, f"{name} has no example"
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}):
        outcome = runner.run(test)
        assert outcome.attempted > 0
        assert outcome.failed == 0
