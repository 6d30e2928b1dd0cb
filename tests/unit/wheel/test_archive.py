"""Wheels that nobody should have written."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.wheel.archive import (
    RecordRow,
    find_altered,
    missing_and_stale,
    open_wheel,
    read_record,
    render_record,
    row_for,
)

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
        assert error_of(archive.read, "torch/a.py", 9).problems == (
            Problem.of(
                "oversized-member", origin=path, what="torch/a.py has 10 bytes; no honest one has more than 9"
            ),
        )
        with pytest.raises(TorchwheelError, match=r"torch/a\.py cannot be read: Bad CRC-32"):
            archive.read("torch/a.py", 10)


def digest(data: bytes, kind: str = "sha256") -> str:
    return f"{kind}=" + base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).decode().rstrip("=")


def with_record(folder: Path, record: str, files: dict[str, bytes]) -> Path:
    """A wheel whose RECORD is written by hand."""
    path = folder / "torch-2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {f"{INFO}/METADATA": b"", f"{INFO}/WHEEL": b"", **files}.items():
            archive.writestr(name, data)
        archive.writestr(f"{INFO}/RECORD", record)
    return path


def test_row_for() -> None:
    assert row_for("a/b.py", b"abc") == RecordRow(
        "a/b.py", "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0", "3"
    )


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.text('ab,"\n'))
    )
)
def test_render_is_csv(rows: list[tuple[str, str]]) -> None:
    data = render_record(RecordRow(path, digest, "1") for path, digest in rows)
    read = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    assert read == [[path, digest, "1"] for path, digest in rows]


def test_files_that_one_names_and_the_other_has_not(tmp_path: Path) -> None:
    record = (
        f"a.py,{digest(b'a')},1\ngone.py,{digest(b'')},0\n{INFO}/METADATA,{digest(b'')},0\n{INFO}/RECORD,,\n"
    )
    path = with_record(tmp_path, record, {"a.py": b"a", "new.py": b"", f"{INFO}/RECORD.jws": b"{}"})
    with open_wheel(path) as archive:
        problems = tuple(missing_and_stale(archive, read_record(archive)))
    assert problems == (
        Problem.of("record-mismatch", origin=path, names=f"new.py, {INFO}/WHEEL"),
        Problem.of("record-mismatch/missing", origin=path, names="gone.py"),
    )


@pytest.mark.parametrize("record", ["a.py,sha256=x\n", "a" * 200_000], ids=["two fields", "huge field"])
def test_a_malformed_record(tmp_path: Path, record: str) -> None:
    path = with_record(tmp_path, record, {})
    with open_wheel(path) as archive, pytest.raises(TorchwheelError) as caught:
        read_record(archive)
    assert [problem.id for problem in caught.value.problems] == ["malformed-record"]


def test_what_was_altered_after_record_was_written(tmp_path: Path) -> None:
    names = {f"{INFO}/METADATA": b"", f"{INFO}/WHEEL": b"", "a.py": b"1", "b.py": b"2"}
    rows = [f"{name},{digest(data)},{len(data)}" for name, data in names.items()]
    record = "\n".join([*rows, f"{INFO}/RECORD,,"])
    altered = with_record(tmp_path, record, {"a.py": b"1", "b.py": b"3", "c.py": b""})
    with open_wheel(altered) as archive:
        said = [problem.what for problem in find_altered(archive)]
    assert said == ["in the wheel and not in RECORD: c.py", "with another content than RECORD says: b.py"]
    with open_wheel(with_record(tmp_path, record, {"a.py": b"1", "b.py": b"2"})) as archive:
        assert list(find_altered(archive)) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.py,,1", "without a hash of the SHA-2 family in RECORD: a.py"),
        ("a.py,md5=DMF1ucDxtqgxw5niaXcmYQ,1", "without a hash of the SHA-2 family in RECORD: a.py"),
        (f"a.py,{digest(b'b')},1\na.py,{digest(b'a')},1", "with another content than RECORD says: a.py"),
        (f"a.py,{digest(b'a')}=,1", "with another content than RECORD says: a.py"),
        (f"a.py,{digest(b'a', 'sha512')},1", ""),
        (f"a.py,{digest(b'a')},1", ""),
    ],
)
def test_a_file_is_proved_by_a_hash_alone(line: str, what: str, tmp_path: Path) -> None:
    empty = digest(b"")
    record = f"{line}\n{INFO}/METADATA,{empty},0\n{INFO}/WHEEL,{empty},0\n{INFO}/RECORD,,\n"
    with open_wheel(with_record(tmp_path, record, {"a.py": b"a"})) as archive:
        assert [problem.what for problem in find_altered(archive)] == ([what] if what else [])
