"""A Debian system with the real PyTorch 2.6.0 source and its build dependencies.

Debian's source package is upstream's v2.6.0 with the vendored libraries replaced by Debian's own, so it
compiles offline with ``USE_SYSTEM_LIBS=ON``. There is no ``.git``, and version.txt says 2.6.0a0. Needs root,
debootstrap and about 4 GB; made once (two minutes) and used again. As a script, it makes the system beforehand.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from debian_system import DebianSystem, reason_to_skip, run
from torchwheel.host.this import expand_home

SYSTEM = DebianSystem(expand_home("~/.cache/torchwheel-real-tree"))
TREE = "/src/pytorch"
"""The tree's place as seen from inside."""


def prepare(system: DebianSystem = SYSTEM) -> None:
    """Make the system with the tree, unless it is there."""
    ready = system.root / "src" / ".ready"
    if ready.exists():
        return
    system.make()
    system.install("ccache", "mold")
    system.install_build_dependencies("pytorch")
    _unpack_source(system)
    ready.touch()


def prepare_cuda() -> None:
    """Install Debian's CUDA 12.4 in the system, unless it is there: 1.9 GB to fetch, 5 GB on disk.

    It takes host compilers up to GCC 13, and the system's is 14. There is no cuDNN and no NCCL. CUTLASS is
    Debian's, because its source package of PyTorch has none.
    """
    prepare()
    if not all((SYSTEM.root / file).exists() for file in ("usr/bin/nvcc", "usr/include/cutlass/cutlass.h")):
        SYSTEM.add_components("contrib", "non-free")
        SYSTEM.install("nvidia-cuda-toolkit", "libcutlass-dev")


def listed_code(file: Path) -> set[tuple[str, str]]:
    """The code in a file of the system by architecture and kind, such as ``("sm_90", "cubin")``: CUDA's own reader."""
    listed = SYSTEM.enter(["cuobjdump", "--list-elf", "--list-ptx", SYSTEM.inside(file)])
    return set(re.findall(r"\.(sm_\w+)\.(cubin|ptx)", listed))


def _unpack_source(system: DebianSystem) -> None:
    outside = system.root / "src"
    outside.mkdir(exist_ok=True)
    for leftover in outside.glob("pytorch*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    system.enter(["apt-get", "source", "-q", "pytorch=2.6.0+dfsg-7"], folder="/src")
    unpacked = next(path for path in outside.glob("pytorch-2.6.0*") if path.is_dir())
    tree = unpacked.rename(outside / "pytorch")
    shutil.copytree(system.root / "usr/src/googletest", tree / "third_party/googletest", dirs_exist_ok=True)
    system.enter(
        ["flatc", "--cpp", "--gen-mutable", "--scoped-enums", "mobile_bytecode.fbs"],
        folder=f"{TREE}/torch/csrc/jit/serialization",
    )
    _undo_what_only_debian_packages_need(tree)


_EDITS = (
    ("CMakeLists.txt", r"(option\(HAVE_SOVERSION .*) ON\)", r"\1 OFF)"),
    (
        "cmake/Dependencies.cmake",
        r'set\(CMAKE_INSTALL_RPATH ""\)',
        r'set(CMAKE_INSTALL_RPATH "${_rpath_portable_origin}")',
    ),
    (
        "cmake/Dependencies.cmake",
        r"set\(CMAKE_INSTALL_RPATH_USE_LINK_PATH FALSE\)",
        r"set(CMAKE_INSTALL_RPATH_USE_LINK_PATH TRUE)",
    ),
)
"""File, pattern, replacement: sonames and missing run paths suit Debian's packages, not wheels."""


def _undo_what_only_debian_packages_need(tree: Path) -> None:
    run(["patch", "-R", "-s", "-p1", "-d", str(tree), "-i", str(tree / "debian/patches/2000-version.patch")])
    for file, pattern, replacement in _EDITS:
        path = tree / file
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
        assert count == 1, f"{file}: {pattern} matched {count} times"
        path.write_text(text, encoding="utf-8")
    shutil.rmtree(tree / ".pc", ignore_errors=True)


if __name__ == "__main__" and not reason_to_skip():
    prepare()
