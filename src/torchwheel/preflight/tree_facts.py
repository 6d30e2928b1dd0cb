"""Facts about a source tree beyond its plan."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from torchwheel.plan.build_plan import Plan
from torchwheel.progress.build_record import read_build_record
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_file
from torchwheel.system.toml import shipped_toml
from torchwheel.tree.git import WrongCommit, wrong_commits
from torchwheel.tree.source_files import is_build_output, source_files
from torchwheel.tree.source_tree import Generation
from torchwheel.versions import parse_numbers

# The folders of PyTorch's own sources; third-party code is a small part of a build.
_SOURCE_FOLDERS = ("aten", "c10", "caffe2", "torch")
_PACKAGES = ("torch", "torchgen", "functorch")
_CXX = (".c", ".cc", ".cpp")
_CUDA = (".cu",)
_UNREADABLE = "it cannot be read"
# The libraries that torch/CMakeLists.txt and caffe2/CMakeLists.txt install only with CUDA.
_CUDA_LIBRARIES = ("*cuda*", "*nvrtc*")
# Characters that contain the includes of a source, and a build script; PyTorch's have 5,000.
_INCLUDES, _SCRIPT = 1 << 14, 1 << 16

NATIVE_AOT = Path(__file__).with_name("native_aot.toml")
"""The facts about native-AOT stage 2."""
_NVSHMEM = re.compile(r"^NVSHMEM_VERSION=(\d[\d.]*)$", re.MULTILINE)


@dataclass(frozen=True)
class TreeFacts:
    """A source tree.

    Attributes:
        nccl: the version that the tree is built with upstream, empty if it does not state one; also of NVSHMEM.
        native_aot: the architectures for which a script of the tree exports further kernels, ``sm_100a``; empty if it
            does not name them, None without such a script.
        unpackable: unreadable sources, and files of Python packages that no wheel can contain -> why.
        built_share: how much of this build earlier ones in its folder have done, by steps, 0 to 1.
        needs_cutlass: a CUDA source that includes CUTLASS's headers if the tree has none; else empty.
    """

    wrong_commits: tuple[WrongCommit, ...] = ()
    nccl: str = ""
    native_aot: tuple[str, ...] | None = None
    cxx_bytes: int = 0
    cuda_bytes: int = 0
    unpackable: Mapping[str, str] = field(default_factory=dict)
    foreign_libraries: tuple[str, ...] = ()
    built_share: float = 0.0
    needs_cutlass: str = ""
    nvshmem: str = ""


def read_tree_facts(plan: Plan) -> TreeFacts:
    root = plan.tree.root
    cxx_bytes, cuda_bytes = source_sizes(root)
    return TreeFacts(
        wrong_commits=wrong_commits(root),
        nccl=_read_nccl(plan),
        native_aot=_native_aot(root),
        cxx_bytes=cxx_bytes,
        cuda_bytes=cuda_bytes,
        unpackable=_find_unpackable(root),
        foreign_libraries=tuple(str(path.relative_to(root)) for path in foreign_libraries(plan)),
        built_share=_built_share(plan),
        needs_cutlass=_needs_cutlass(root),
        nvshmem=_read_nvshmem(root),
    )


def _read_nvshmem(root: Path) -> str:
    """The NVSHMEM that install_cuda.sh of PyTorch's own images fetches: https://github.com/pytorch/pytorch/pull/154538"""
    match = _NVSHMEM.search(read_beginning(root / ".ci/docker/common/install_cuda.sh", _SCRIPT))
    return match[1] if match else ""


def source_sizes(root: Path) -> tuple[int, int]:
    """Bytes of a tree's own C and C++ sources, and of its CUDA sources."""
    sizes = dict.fromkeys((*_CXX, *_CUDA), 0)
    for folder, _, names in (found for top in _SOURCE_FOLDERS for found in os.walk(root / top)):
        for name in names:
            suffix = os.path.splitext(name)[1]  # noqa: PTH122 - a Path of each would take most of the time
            if suffix in sizes:
                with suppress(OSError):
                    sizes[suffix] += (Path(folder) / name).lstat().st_size
    return sum(sizes[suffix] for suffix in _CXX), sum(sizes[suffix] for suffix in _CUDA)


def _needs_cutlass(root: Path) -> str:
    if exists(root / "third_party/cutlass/include/cutlass/cutlass.h"):
        return ""
    sources = sorted((root / "aten/src/ATen/native/cuda").glob("*.cu"))
    using = (source for source in sources if "#include <cutlass/" in read_beginning(source, _INCLUDES))
    return next((source.relative_to(root).as_posix() for source in using), "")


def _built_share(plan: Plan) -> float:
    record = read_build_record(plan.folders.record)
    if record is None or not record.steps:
        return 0.0
    left = 0 if record.state == "done" else record.total - record.finished
    return len(record.steps) / (len(record.steps) + max(left, 0))


def _find_unpackable(root: Path) -> dict[str, str]:
    """Find unreadable sources, and files of the packages with names that a wheel cannot contain.

    An unreadable folder of the packages counts whether or not it is source, because git does not list it.
    """
    found: dict[str, str] = {}
    closed: set[str] = set()

    def cannot_be_listed(error: OSError) -> None:
        place = os.path.relpath(os.fsdecode(error.filename), root)
        found[place] = _UNREADABLE
        if place.partition(os.sep)[0] in _PACKAGES and not is_build_output(place.replace(os.sep, "/")):
            closed.add(place)

    for folder, folders, names in os.walk(root, onerror=cannot_be_listed):
        inside = os.path.relpath(folder, root)
        if inside == os.curdir:
            # The folders of a tree that are never copied.
            folders[:] = [name for name in folders if name not in {".git", "build"}]
        packed = inside.partition(os.sep)[0] in _PACKAGES
        for name in (*names, *folders) if packed else names:
            place = f"{inside}{os.sep}{name}"
            if why := _why_unpackable(f"{root}{os.sep}{place}", place, packed=packed):
                found[os.path.normpath(place)] = why
    if not found:
        return {}
    try:
        sources = set(source_files(root).files)
    except OSError as error:
        return {os.path.relpath(os.fsdecode(error.filename), root): _UNREADABLE}
    return {
        name: why for name, why in found.items() if name in closed or name.replace(os.sep, "/") in sources
    }


def _why_unpackable(path: str, place: str, *, packed: bool) -> str:
    if packed and not place.isascii() and place != place.encode("utf-8", "replace").decode("utf-8"):
        return "its name is not UTF-8, as names in wheels are"
    # A Path for each would take most of the time.
    if os.path.islink(path) and not exists(path):  # noqa: PTH114
        return f"it is a link to {os.readlink(path)}, which does not exist" if packed else ""
    return "" if os.access(path, os.R_OK) else _UNREADABLE


def foreign_libraries(plan: Plan) -> tuple[Path, ...]:
    """Find CUDA libraries from a GPU build in a tree that is now built in place for the CPU.

    setup.py installs into the tree and packs whatever is there. Files that git tracks do not count.
    """
    in_place = plan.tree.generation is Generation.SETUP_PY and not plan.folders.staged
    if not in_place or plan.architectures is not None:
        return ()
    root = plan.tree.root
    found = [path for pattern in _CUDA_LIBRARIES for path in sorted((root / "torch" / "lib").glob(pattern))]
    known = set(source_files(root).files) if found else set()
    return tuple(p for p in found if is_file(p) and p.relative_to(root).as_posix() not in known)


def _read_nccl(plan: Plan) -> str:
    """The version in the tag of NCCL's source, which a file has since 2.7: by CUDA's major version before 2.9."""
    folder = plan.tree.root / ".ci/docker/ci_commit_pins"
    release = parse_numbers(plan.toolkit.version, 2) if plan.toolkit else ()
    names = (f"nccl-cu{''.join(map(str, release[:count]))}.txt" for count in (2, 1))
    texts = (read_beginning(folder / name, _SCRIPT) for name in (*names, "nccl.txt"))
    return next(filter(None, texts), "").strip().removeprefix("v").partition("-")[0]


def _native_aot(root: Path) -> tuple[str, ...] | None:
    table = shipped_toml(NATIVE_AOT)
    if not is_file(root / table["script"]):
        return None
    assigned = re.compile(rf"^{table['constant']}\b[^=\n]*=\s*\(([^()]*)\)", re.MULTILINE)
    texts = (read_beginning(root / name, _SCRIPT) for name in table["declarations"])
    found = next((match for text in texts if (match := assigned.search(text))), None)
    return tuple(re.findall(r"\bsm_\d+[af]?\b", found[1])) if found else ()
