"""What is at a path, and that no module asks pathlib for it."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import torchwheel
from torchwheel.system.paths import PathKind, exists, find_below, is_dir, is_file, probe

PACKAGE = Path(torchwheel.__file__).parent
ALONE = {"engine/memory_launcher.py", "system/supervisor.py"}
"""Modules that run where torchwheel's others cannot be imported, or ask for its own files."""
NOT_PATHS = {"entry", "info"}
"""Names of entries of os.scandir and of archives, which read nothing."""
LISTING = {"glob", "rglob", "iterdir", "scandir", "listdir"}
OWN = {
    "cli/schema.py", "diagnosis/failures.py", "diagnosis/packages.py", "engine/cache.py", "engine/configuring.py",
    "engine/ready_wheels.py", "engine/tree_wheel.py", "engine/venv.py", "extension/cmake/configure.py",
    "extension/extension_build.py", "progress/build_record.py", "reporting/messages.py", "system/files.py",
    "system/paths.py", "toolkit/assemble.py", "verification/trial.py", "wheel/inspection.py",
}  # fmt: skip
"""Modules that list torchwheel's own folders alone: packages, builds, caches and environments that it made."""
ASKED_FOR = {
    "cli/adopt.py", "engine/packing.py", "engine/sdist.py", "engine/staging.py", "extension/sources.py",
    "fleet/site.py", "host/this.py", "preflight/tree_facts.py", "tree/cmake_options.py", "tree/git.py",
    "tree/source_files.py", "tree/source_tree.py",
}  # fmt: skip
"""Modules that list what the user asks to build or to make: a folder of it that may not be read is an error."""


def test_what_is_at_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    found = [
        probe(tmp_path / name) for name in (".", "file", "pipe", "link", "file/below", "x" * 300, "a\0b")
    ]
    assert found == [
        PathKind.DIRECTORY,
        PathKind.FILE,
        PathKind.OTHER,
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.ABSENT,
    ]
    assert (is_dir(tmp_path), is_file(tmp_path / "file"), exists(tmp_path / "pipe")) == (True, True, True)
    assert find_below(tmp_path, "f*", "p*") == [tmp_path / "file", tmp_path / "pipe"]
    assert find_below(tmp_path / "absent", "*") == []


def test_below_a_folder_that_may_not_be_entered_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("stat", "scandir", "listdir"):
        monkeypatch.setattr(os, name, refuse)
    assert probe(tmp_path) is PathKind.UNREADABLE
    assert not (is_dir(tmp_path) or is_file(tmp_path) or exists(tmp_path))
    assert find_below(tmp_path, "*") == []


def asked_of_pathlib(text: str, *, lists: bool = False) -> list[str]:
    """The calls of a module that raise below such a folder before Python 3.14, and those that list a folder."""
    names = {"is_dir", "is_file", "exists"} | (LISTING if lists else set())
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in names and not node.keywords
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in NOT_PATHS)
    ]


def test_no_module_asks_pathlib() -> None:
    files = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}
    assert files.keys() >= ALONE | OWN | ASKED_FOR
    found = {
        name: calls
        for name, file in files.items()
        for lists in [name not in OWN | ASKED_FOR]
        if name not in ALONE and (calls := asked_of_pathlib(file.read_text(encoding="utf-8"), lists=lists))
    }
    assert found == {}
    assert asked_of_pathlib("if path.is_dir() and entry.is_file(): Path(x, y).exists()") == [
        "path.is_dir()",
        "Path(x, y).exists()",
    ]
    assert asked_of_pathlib("os.scandir(x); x.glob('*')", lists=True) == ["os.scandir(x)", "x.glob('*')"]
