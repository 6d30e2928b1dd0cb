"""Reading what a source tree tells beyond its description."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from torchwheel.engine.cmake_cache import differences, read_cmake_cache
from torchwheel.plan.model import Plan
from torchwheel.preflight.context import TreeFacts
from torchwheel.tree.submodules import wrong_commits

# Where PyTorch keeps its own sources; third-party code is a small part of a build.
_SOURCE_FOLDERS = ("aten", "c10", "caffe2", "torch")
_CXX = (".c", ".cc", ".cpp")
_CUDA = (".cu",)


def read_tree_facts(plan: Plan, *, quick: bool = False) -> TreeFacts:
    """Read the tree of a plan.

    Args:
        plan: the plan.
        quick: leave out what runs git.
    """
    root = plan.tree.root
    cxx, cuda = _source_sizes(root)
    return TreeFacts(
        wrong_commits=() if quick else wrong_commits(root),
        fetches_nccl=_fetches_nccl(root),
        stale_options=_stale_options(plan),
        cxx_bytes=cxx,
        cuda_bytes=cuda,
    )


def _fetches_nccl(root: Path) -> bool:
    """Since 2.7 NCCL's revision is a pin in a file, and its source comes from the network."""
    pinned = any((root / ".ci" / "docker" / "ci_commit_pins").glob("nccl*.txt"))
    # A submodule up to 2.6, or a clone that somebody made beforehand.
    return pinned and not any((root / "third_party" / "nccl").glob("**/Makefile"))


def _stale_options(plan: Plan) -> tuple[str, ...]:
    path = plan.tree.root / "build" / "CMakeCache.txt"
    try:
        found = differences(plan.defines, read_cmake_cache(path))
    except OSError:
        return ()
    return tuple(
        f"{difference.define.name} is {difference.effective}, not {difference.define.value}"
        for difference in found
        if difference.effective is not None
    )


def _source_sizes(root: Path) -> tuple[int, int]:
    cxx = cuda = 0
    for name, size in _files(str(root / folder) for folder in _SOURCE_FOLDERS):
        if name.endswith(_CXX):
            cxx += size
        elif name.endswith(_CUDA):
            cuda += size
    return cxx, cuda


def _files(folders: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Names and sizes of the C++ and CUDA files below folders; links to folders are not followed."""
    waiting = list(folders)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.name.endswith((*_CXX, *_CUDA)):
                        yield entry.name, entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
