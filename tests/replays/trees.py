"""Small source trees of recorded PyTorch releases: what torchwheel reads of a tree, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from replays.replay import FOLDER
from torchwheel.system.toml import read_toml


def write_tree(name: str, root: Path, cmake_cache: Mapping[str, str]) -> Path:
    """Write the tree that ``trees/NAME.toml`` records.

    Args:
        name: the record.
        root: a folder that does not exist yet.
        cmake_cache: what an earlier ``cmake ..`` left in the tree's build folder; empty for no such folder.
    """
    record = read_toml(FOLDER / "trees" / f"{name}.toml")
    requires = json.dumps(record["requires"])
    files = {
        "version.txt": f"{record['version']}\n",
        "pyproject.toml": f'[build-system]\nrequires = {requires}\nbuild-backend = "{record["backend"]}"\n',
        "CMakeLists.txt": _cmake_lists(record["minimum-cmake"], record["options"], record["mentions"]),
        # What an sdist of torchwheel has instead of a git repository.
        ".torchwheel-source.json": json.dumps({"release_tag": record.get("release-tag")}),
        "torch/__init__.py": "",
    }
    if cmake_cache:
        lines = [f"{option}:UNINITIALIZED={value}\n" for option, value in cmake_cache.items()]
        files["build/CMakeCache.txt"] = "".join(lines)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    _write_sparse(root / "aten" / "sources.cpp", record["cxx-bytes"])
    _write_sparse(root / "aten" / "sources.cu", record["cuda-bytes"])
    return root


def _cmake_lists(minimum: str, options: Mapping[str, str], mentions: list[str]) -> str:
    lines = [f"cmake_minimum_required(VERSION {minimum})"]
    lines += [f'option({name} "" {default})' for name, default in options.items()]
    lines += [f"mark_as_advanced({name})" for name in mentions]
    return "\n".join(lines) + "\n"


def _write_sparse(path: Path, size: int) -> None:
    """A file of the size of all the release's sources, which takes no disk where files may have holes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)
