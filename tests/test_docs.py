"""README and documentation: every code block runs, every link has a target, and the site builds offline."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", flags=re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder that has only the examples, with the command `weakform` on the path."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


# Pages whose fits take long are run by `make test-slow` only.
SLOW_PAGES = ("data", "studies", "hidden-states", "reading-the-report", "petab", "populations", "compare")
PAGES_TO_RUN = [pytest.param(page, marks=pytest.mark.slow) if page.stem in SLOW_PAGES else page for page in PAGES]


@pytest.mark.parametrize("page", PAGES_TO_RUN, ids=lambda page: page.stem)
def test_every_block_runs(page, folder, capsys):
    import matplotlib.pyplot as plt

    namespace: dict[str, object] = {}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, str(page), "exec"), namespace)
            plt.close("all")
            continue
        commands = "\n".join(line for line in block.splitlines() if not line.startswith("make "))
        process = subprocess.run(["bash", "-euc", commands], capture_output=True, text=True)
        assert process.returncode == 0, f"{page.name}: {process.stdout}{process.stderr}"
        assert process.stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_targets_of_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_in_readme_exist_in_the_makefile():
    text = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"\n{target}:" in text
        assert f"make {target}" in readme


def test_benchmarks_named_in_the_documentation_exist():
    for page in PAGES:
        for name in re.findall(r"python (benchmarks/\w+\.py)", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_site_builds_without_a_network(tmp_path):
    # Nothing listens at the address of this proxy, so every request to the network fails.
    unreachable = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, **unreachable, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    for page in (*(p.stem for p in PAGES[1:] if p.stem != "index"), "reference"):
        assert (tmp_path / "site" / page / "index.html").exists()
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in home
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    assert "intervals" in reference
