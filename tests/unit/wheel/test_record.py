"""RECORD, read, written and compared with the files."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def sha256(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def with_record(recipe: Any, folder: Path, record: str, files: dict[str, bytes]) -> Path:
    """A wheel whose RECORD is written by hand."""
    import zipfile

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


def test_files_that_one_names_and_the_other_has_not(recipe: Any, tmp_path: Path) -> None:
    record = (
        f"a.py,{sha256(b'a')},1\ngone.py,{sha256(b'')},0\n{INFO}/METADATA,{sha256(b'')},0\n{INFO}/RECORD,,\n"
    )
    path = with_record(recipe, tmp_path, record, {"a.py": b"a", "new.py": b"", f"{INFO}/RECORD.jws": b"{}"})
    with open_wheel(path) as archive:
        problems = tuple(missing_and_stale(archive, read_record(archive)))
    assert problems == (
        Problem.of("record-mismatch", origin=path, names=f"new.py, {INFO}/WHEEL"),
        Problem.of("record-mismatch/missing", origin=path, names="gone.py"),
    )


@pytest.mark.parametrize("record", ["a.py,sha256=x\n", "a" * 200_000], ids=["two fields", "huge field"])
def test_a_malformed_record(recipe: Any, tmp_path: Path, record: str) -> None:
    path = with_record(recipe, tmp_path, record, {})
    with open_wheel(path) as archive, pytest.raises(TorchwheelError) as caught:
        read_record(archive)
    assert [problem.id for problem in caught.value.problems] == ["malformed-record"]


def test_what_was_altered_after_record_was_written(recipe: Any, tmp_path: Path) -> None:
    names = {f"{INFO}/METADATA": b"", f"{INFO}/WHEEL": b"", "a.py": b"1", "b.py": b"2"}
    rows = [f"{name},{sha256(data)},{len(data)}" for name, data in names.items()]
    record = "\n".join([*rows, f"{INFO}/RECORD,,"])
    with open_wheel(
        with_record(recipe, tmp_path, record, {"a.py": b"1", "b.py": b"3", "c.py": b""})
    ) as archive:
        said = [problem.what for problem in find_altered(archive)]
    assert said == [
        "in the wheel and not in RECORD: c.py",
        "with another content than RECORD says: b.py",
    ]
    with open_wheel(with_record(recipe, tmp_path, record, {"a.py": b"1", "b.py": b"2"})) as archive:
        assert list(find_altered(archive)) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.py,,1", "without a hash of the SHA-2 family in RECORD: a.py"),
        ("a.py,md5=DMF1ucDxtqgxw5niaXcmYQ,1", "without a hash of the SHA-2 family in RECORD: a.py"),
        (f"a.py,{sha256(b'b')},1\na.py,{sha256(b'a')},1", "with another content than RECORD says: a.py"),
        (f"a.py,{sha256(b'a')}=,1", "with another content than RECORD says: a.py"),
        (
            "a.py,sha512="
            + base64.urlsafe_b64encode(hashlib.sha512(b"a").digest()).decode().rstrip("=")
            + ",1",
            "",
        ),
        (f"a.py,{sha256(b'a')},1", ""),
    ],
)
def test_a_file_is_proved_by_a_hash_alone(line: str, what: str, recipe: Any, tmp_path: Path) -> None:
    empty = sha256(b"")
    record = f"{line}\n{INFO}/METADATA,{empty},0\n{INFO}/WHEEL,{empty},0\n{INFO}/RECORD,,\n"
    with open_wheel(with_record(recipe, tmp_path, record, {"a.py": b"a"})) as archive:
        assert [problem.what for problem in find_altered(archive)] == ([what] if what else [])
