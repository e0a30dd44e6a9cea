"""Build hook that compiles the kernels if there is a C compiler; without one the package is pure Python and slower."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE_FOLDER = Path("src/weakform")
"""The folder of the package, from which the paths of the sources are given."""
LIBRARY_FOLDER = Path("linalg")
"""Where the library is written, in the folder of the package."""
KERNEL_SOURCE = Path("linalg/kernels.c")
"""The kernels for single fits."""
ENGINE_SOURCE = Path("engine/engine.c")
"""The engine for many fits, which is compiled once for each instruction set."""
LIBRARY_SUFFIX = ".dll" if sys.platform == "win32" else ".so"
"""File name ending of a shared library on this platform."""
INSTRUCTION_SETS = {
    "avx2": ["-mavx2"],
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"],
}
"""Options of the compiler for the instruction sets that only some x86-64 processors have; the engine chooses one when
it is loaded. On other processors the compiler's default is used, which has vectors of two doubles on ARM."""
# -ffp-contract=off: with fused multiply-add the results would depend on the processor. The other two only say that
# nobody looks at errno and at floating-point exceptions; without them square roots and choices are not vectorised.
COMPILER_OPTIONS = ["-O3", "-std=c99", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]
"""Options for all sources."""
ENGINE_OPTIONS = ["-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
"""Options for the engine, which make choices between two values and square roots vectors, too."""


class CompiledKernels(BuildHookInterface):
    """A build hook for one shared library that does not use Python: one wheel for each platform, for all Pythons."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile the library, and tag the wheel with this platform; without a compiler the wheel stays pure Python."""
        del version
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        library = root / PACKAGE_FOLDER / LIBRARY_FOLDER / f"libkernels{LIBRARY_SUFFIX}"
        if not compile_kernels(root / PACKAGE_FOLDER, library):
            library.unlink(missing_ok=True)
            self.app.display_warning(
                "The kernels were not compiled (no C compiler?): the package uses NumPy instead, which is slower."
            )
            return
        build_data["pure_python"] = False
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{system}"
        build_data["artifacts"].append(library.relative_to(root).as_posix())


def compile_kernels(package: Path, library: Path) -> bool:
    """Compile the kernels, with `CC` or the first compiler in the path; return True if this succeeds."""
    names = [os.environ.get("CC"), "cc", "gcc", "clang"]
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        return False
    has_sets = platform.machine().lower() in ("x86_64", "amd64")
    variants = {"base": [], **(INSTRUCTION_SETS if has_sets else {})}
    jobs = [(KERNEL_SOURCE, "kernels", [])]
    for name, options in variants.items():
        flags = [*ENGINE_OPTIONS, f"-DSET={name}", *options]
        # One of the objects has the function that asks the processor what it can do.
        flags += ["-DDISPATCH", *(["-DHAS_SETS"] if has_sets else [])] if name == "base" else []
        jobs.append((ENGINE_SOURCE, name, flags))
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder) / f"{name}.o" for _, name, _ in jobs]
        processes = [
            subprocess.Popen(
                [compiler, *COMPILER_OPTIONS, *flags, "-c", "-o", str(target), str(package / source)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for (source, _, flags), target in zip(jobs, objects, strict=True)
        ]
        if any(process.wait() for process in processes):
            return False
        new = library.with_name(f".{os.getpid()}-{library.name}")
        command = [compiler, "-shared", "-s", "-o", str(new), *map(str, objects), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            new.unlink(missing_ok=True)
            return False
        new.replace(library)  # atomic: a program that is running uses the old library or the new one, never half of one
        return True
