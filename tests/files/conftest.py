"""A fixture that translates foreign files in this process; a child process for each would take 0.4 s."""

import pytest

from weakform.files.formats import sbml, translation
from weakform.files.petab import petab_problem


@pytest.fixture
def translate_in_process(monkeypatch):
    """Replace the child process by a direct call of the same translation."""
    for module in (sbml, petab_problem):
        monkeypatch.setattr(module, "run_in_subprocess", lambda task, text, where: translation.TASKS[task](text, where))
