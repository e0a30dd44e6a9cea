"""Foreign libraries in this process, where it is not their isolation that is tested: a child takes 0.4 s each time."""

import pytest

from weakform.files.formats import sbml, translation
from weakform.files.petab import petab_problem


@pytest.fixture
def here(monkeypatch):
    """The same translation, without a child."""
    for module in (sbml, petab_problem):
        monkeypatch.setattr(module, "ask", lambda task, text, where: translation.TASKS[task](text, where))
