"""The code in the README runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_python_blocks(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        namespace: dict[str, object] = {}
        for block in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.S):
            exec(compile(block, str(document), "exec"), namespace)
    assert "converged" in capsys.readouterr().out


def test_links_lead_somewhere():
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_commands_are_the_makefile_s():
    text = (ROOT / "Makefile").read_text()
    for target in ("demo:", "test:"):
        assert f"\n{target}" in text
