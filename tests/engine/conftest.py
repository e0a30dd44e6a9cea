"""After each test of the engine the passes choose their instruction set again."""

import pytest

from weakform.engine import passes


@pytest.fixture(autouse=True)
def _choose_instruction_set_again():
    yield
    passes.get_instruction_set.cache_clear()
    passes._get_pass.cache_clear()
