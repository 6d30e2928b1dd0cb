"""All changes to a tree's files happen, or none."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchwheel.adopt.adopting import change_files
from torchwheel.reporting.errors import Problem, TorchwheelError


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
def test_the_file_mode_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    path.chmod(0o640)
    change_files(tmp_path, {path: b"2"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
def test_a_link_is_followed_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    target, link = tmp_path / "place" / "target", tmp_path / "link"
    target.write_bytes(b"1")
    link.symlink_to(target)
    change_files(tmp_path, {link: b"2"})
    assert link.is_symlink()
    assert contents(tmp_path / "place") == {"target": b"2"}


def test_a_step_that_fails_takes_the_others_back(tmp_path: Path) -> None:
    """The last file's place is taken by a folder, which no file can replace."""
    edited, created, deleted = tmp_path / "edited", tmp_path / "new" / "created", tmp_path / "deleted"
    edited.write_bytes(b"1")
    deleted.write_bytes(b"1")
    (tmp_path / "taken" / "inside").mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(TorchwheelError) as caught:
        change_files(tmp_path, {created: b"2", edited: b"2", deleted: None, tmp_path / "taken": b"2"})
    assert [problem.id for problem in caught.value.problems] == ["tree-not-writable"]
    assert contents(tmp_path) == before


@pytest.fixture
def as_ordinary_user() -> Iterator[None]:
    """Root may write everywhere, so a test that runs as root becomes somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """Not below pytest's own folder, which other users cannot enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        yield Path(name)
        Path(name).chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
def test_a_read_only_tree_is_one_clear_error(read_only_folder: Path, as_ordinary_user: None) -> None:
    with pytest.raises(TorchwheelError) as caught:
        change_files(read_only_folder, {read_only_folder / "backend" / "created": b"2"})
    folder = read_only_folder / "backend"
    assert caught.value.problems == (
        Problem.of(
            "tree-not-writable",
            origin=read_only_folder,
            file=folder,
            reason="Permission denied",
            root=read_only_folder,
        ),
    )
    assert contents(read_only_folder) == {}
