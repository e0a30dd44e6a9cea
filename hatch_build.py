"""Compile the kernels where a C compiler is at hand; without one the package is pure Python: the same, slower."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/weakform/linalg")
SUFFIX = ".dll" if sys.platform == "win32" else ".so"


class CompiledKernels(BuildHookInterface):
    """One shared library without a word of Python in it: one wheel for each platform, whatever the Python."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile, and make the wheel one of this platform."""
        del version
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        library = root / FOLDER / f"libkernels{SUFFIX}"
        if not compiled(root / FOLDER / "kernels.c", library):
            library.unlink(missing_ok=True)
            self.app.display_warning("No C compiler: the kernels are left to NumPy.")
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"{FOLDER.as_posix()}/libkernels{SUFFIX}")


def compiled(source: Path, library: Path) -> bool:
    """Whether it could be."""
    names = [os.environ.get("CC"), "cc", "gcc", "clang"]
    compiler = next((found for name in names if name and (found := shutil.which(name))), None)
    if compiler is None:
        return False
    command = [compiler, "-O3", "-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-s"]
    new = library.with_name(f".{os.getpid()}-{library.name}")
    done = subprocess.run([*command, "-o", str(new), str(source), "-lm"], capture_output=True, check=False)
    if done.returncode:
        new.unlink(missing_ok=True)
        return False
    new.replace(library)  # at once: a program that runs meanwhile has the old one or the new one, never none
    return True
