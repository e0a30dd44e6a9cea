"""README and documentation: every block runs, every link leads somewhere, and the site builds without a network."""

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
    """An empty folder with the examples in it, and our command on the path."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


# Pages that fit for long are run by `make test-slow`.
LONG = ("data", "studies", "hidden-states", "reading-the-report", "petab", "populations", "compare")
RUN = [pytest.param(page, marks=pytest.mark.slow) if page.stem in LONG else page for page in PAGES]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_block_runs(page, folder, capsys):
    import matplotlib.pyplot as plt

    namespace: dict[str, object] = {}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, str(page), "exec"), namespace)
            plt.close("all")
            continue
        commands = "\n".join(line for line in block.splitlines() if not line.startswith("make "))
        done = subprocess.run(["bash", "-euc", commands], capture_output=True, text=True)
        assert done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"
        assert done.stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_pictures_are_there(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_are_the_makefile_s():
    text = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"\n{target}:" in text
        assert f"make {target}" in readme


def test_benchmarks_that_are_named_are_there():
    for page in PAGES:
        for name in re.findall(r"python (benchmarks/\w+\.py)", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_site_builds_without_a_network(tmp_path):
    # A proxy that is not there: whatever asks for the network fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for page in (*(p.stem for p in PAGES[1:] if p.stem != "index"), "reference"):
        assert (tmp_path / "site" / page / "index.html").exists()
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in home
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    assert "intervals" in reference
