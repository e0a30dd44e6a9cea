"""The commands of README can be typed unchanged, in order, in one shell of a fresh checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_readme_can_be_typed_in_order(tmp_path):
    for name in ("README.md", "examples", "docs"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)  # `make demo` creates it in a checkout
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    typed = "\n".join(line for block in blocks for line in block.splitlines() if not line.startswith("make "))
    path_without_venv = os.pathsep.join(
        p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != Path(sys.prefix) / "bin"
    )
    done = subprocess.run(
        ["bash", "-ec", typed],
        cwd=tmp_path,
        env={**os.environ, "PATH": path_without_venv},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weakform fit: wendy, converged" in done.stdout
    assert (tmp_path / "lynx.html").exists()
    shown = re.search(r"```text\n( +parameter .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    for line in shown.group(1).splitlines():
        assert line in done.stdout, "README shows numbers that differ from those of the fit it describes"
