"""Build hook that compiles the kernels if there is a C compiler; without one the package is pure Python and slower."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL_FOLDER = Path("src/weakform/linalg")
"""The folder of `kernels.c`, where the library is written."""
LIBRARY_SUFFIX = ".dll" if sys.platform == "win32" else ".so"
"""File name ending of a shared library on this platform."""


class CompiledKernels(BuildHookInterface):
    """A build hook for one shared library that does not use Python: one wheel for each platform, for all Pythons."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile the library, and tag the wheel with this platform; without a compiler the wheel stays pure Python."""
        del version
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        library = root / KERNEL_FOLDER / f"libkernels{LIBRARY_SUFFIX}"
        if not compile_kernels(root / KERNEL_FOLDER / "kernels.c", library):
            library.unlink(missing_ok=True)
            self.app.display_warning(
                "The kernels were not compiled (no C compiler?): the package uses NumPy instead, which is slower."
            )
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"{KERNEL_FOLDER.as_posix()}/libkernels{LIBRARY_SUFFIX}")


def compile_kernels(source: Path, library: Path) -> bool:
    """Compile the kernels, with `CC` or the first compiler in the path; return True if this succeeds."""
    names = [os.environ.get("CC"), "cc", "gcc", "clang"]
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        return False
    # -ffp-contract=off: with fused multiply-add the results would depend on the processor.
    command = [compiler, "-O3", "-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-s"]
    new = library.with_name(f".{os.getpid()}-{library.name}")
    process = subprocess.run([*command, "-o", str(new), str(source), "-lm"], capture_output=True, check=False)
    if process.returncode:
        new.unlink(missing_ok=True)
        return False
    new.replace(library)  # atomic: a program that is running uses the old library or the new one, never half of one
    return True
