"""Wheels that nobody should have written."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.wheel.archive import open_wheel

INFO = "torch-2.0.dist-info"


def write_zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in ("METADATA", "WHEEL", "RECORD"):
            archive.writestr(f"{INFO}/{file}", b"")
        for name, data in members:
            archive.writestr(name, data)
    return path


def refusal(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(TorchwheelError) as caught, open_wheel(path):
        pass
    return caught.value.problems


def forbidden(what: str, path: Path) -> Problem:
    fault, _, names = what.partition(": ")
    return Problem.of("forbidden-member", origin=path, fault=fault, names=names)


def test_a_good_wheel(recipe: Any, tmp_path: Path) -> None:
    path = recipe(version="2.0", files={"torch/_C.so": b"data"}).write(tmp_path)
    with open_wheel(path) as archive:
        assert archive.path == path
        assert archive.dist_info == INFO
        assert list(archive.members) == [
            "torch/__init__.py",
            "torch/version.py",
            f"{INFO}/METADATA",
            f"{INFO}/WHEEL",
            "torch/_C.so",
            f"{INFO}/RECORD",
        ]
        assert archive.read("torch/_C.so", 4) == b"data"


def test_folders_are_no_members(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "w.whl", ("torch/", b""), ("torch/a.py", b""))
    with open_wheel(path) as archive:
        assert "torch/" not in archive.members
        assert "torch/a.py" in archive.members


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_everything_that_is_forbidden_at_once(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("torch/link.so")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = write_zip(
        tmp_path / "w.whl",
        ("torch/a.py", b"1"),
        ("torch/a.py", b"2"),
        (link, b"/etc/passwd"),
        ("torch/secret.py", b"3"),
        ("../outside.py", b""),
        ("/absolute.py", b""),
        ("torch//twice.py", b""),
        ("torch\\windows.py", b""),
        ("C:/drive.py", b""),
        ("torch/new\nline.py", b""),
    )
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2", 0, data.rindex(b"torch/secret.py"))
    data[entry + 8] |= 1  # encrypted
    path.write_bytes(data)
    assert refusal(path) == (
        forbidden("the same name more than once: torch/a.py", path),
        forbidden("symbolic links or other special files: torch/link.so", path),
        forbidden("encrypted or patched members: torch/secret.py", path),
        forbidden(
            "names that are not plain relative paths: ../outside.py, /absolute.py, torch//twice.py, "
            "torch\\windows.py, C:/drive.py and 1 more",
            path,
        ),
    )


@pytest.mark.parametrize(
    "members",
    [
        [],
        [f"{INFO}/METADATA", f"{INFO}/WHEEL"],
        [f"{INFO}/METADATA", f"{INFO}/RECORD"],
        [f"{folder}.dist-info/{file}" for folder in "ab" for file in ("METADATA", "WHEEL", "RECORD")],
    ],
    ids=["empty", "no RECORD", "no WHEEL", "two"],
)
def test_zip_archives_that_are_no_wheels(tmp_path: Path, members: list[str]) -> None:
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in members:
            archive.writestr(name, b"")
    assert refusal(path) == (Problem.of("not-a-wheel", origin=path),)


def test_no_zip_archive_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    assert refusal(path) == (Problem.of("unreadable-file", origin=path, reason="No such file or directory"),)
    path.write_bytes(b"<html>404</html>")
    assert refusal(path) == (
        Problem.of(
            "damaged-wheel", origin=path, member="its table of contents", reason="File is not a zip file"
        ),
    )


def test_an_oversized_and_a_damaged_member(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "w.whl", ("torch/a.py", b"0123456789"))
    path.write_bytes(path.read_bytes().replace(b"0123456789", b"012345678x"))
    with open_wheel(path) as archive:
        with pytest.raises(TorchwheelError) as caught:
            archive.read("torch/a.py", 9)
        assert caught.value.problems == (
            Problem.of(
                "oversized-member", origin=path, what="torch/a.py has 10 bytes; no honest one has more than 9"
            ),
        )
        with pytest.raises(TorchwheelError, match=r"torch/a\.py cannot be read: Bad CRC-32"):
            archive.read("torch/a.py", 10)
