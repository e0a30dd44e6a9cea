"""`import weakform` loads no heavy library, and the number of public names is limited."""

import subprocess
import sys

import weakform as wf


def test_import_loads_no_heavy_library():
    code = (
        "import sys, weakform; heavy = {'scipy', 'symengine', 'sympy', 'pandas', 'matplotlib', 'numpy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_loaded():
    for name in wf.__all__:
        assert getattr(wf, name) is not None
    assert len(wf.__all__) <= 23
    assert set(wf.__all__) <= set(dir(wf))
