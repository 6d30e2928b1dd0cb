"""Adding files to wheels: everything else stays as it is, down to the compressed bytes."""

from __future__ import annotations

import io
import random
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from refusals import error_of
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.wheel.archive import RecordRow, open_wheel, render_record, row_for
from torchwheel.wheel.rewrite import EARLIEST, RawMember, add_member, copy_members, raw_members
from wheel_samples import add_members, compressed, is_sound

MEMBERS = {"torchwheel.json": b'{"schema": 1}\n', "sboms/größe.json": b"{}" * 1000}


def dist_info(path: Path) -> str:
    with open_wheel(path) as archive:
        return archive.dist_info


def test_wheels_of_every_backend(foreign_wheel: Path, tmp_path: Path) -> None:
    out = tmp_path / "ausgabe ü"
    out.mkdir()
    target = out / foreign_wheel.name
    add_members(foreign_wheel, target, MEMBERS, environment={})

    assert [path.name for path in out.iterdir()] == [target.name]
    assert is_sound(target)
    info = dist_info(foreign_wheel)
    before, after = compressed(foreign_wheel), compressed(target)
    record = f"{info}/RECORD"
    kept = [name for name in before if name != record]
    assert list(after) == [*kept, *(f"{info}/{name}" for name in MEMBERS), record]
    assert [after[name] for name in kept] == [before[name] for name in kept]
    with zipfile.ZipFile(target) as archive:
        for name, data in MEMBERS.items():
            added = archive.getinfo(f"{info}/{name}")
            assert archive.read(added) == data
            assert added.date_time == (1980, 1, 1, 0, 0, 0)
            assert added.external_attr >> 16 == stat.S_IFREG | 0o644


def test_it_is_reproducible_and_takes_its_time_from_the_environment(
    foreign_wheel: Path, tmp_path: Path
) -> None:
    results = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        target = tmp_path / folder / foreign_wheel.name
        add_members(foreign_wheel, target, MEMBERS, environment={"SOURCE_DATE_EPOCH": "1719837015"})
        results.append(target.read_bytes())
    assert results[0] == results[1]
    stored = compressed(tmp_path / "one" / foreign_wheel.name)
    info = dist_info(foreign_wheel)
    # A zip archive counts every other second.
    assert {stored[f"{info}/{name}"][3] for name in (*MEMBERS, "RECORD")} == {(2024, 7, 1, 12, 30, 14)}


@pytest.mark.parametrize(("epoch", "year"), [("0", 1980), ("99999999999", 2107)])
def test_times_that_a_zip_archive_cannot_express(recipe: Any, tmp_path: Path, epoch: str, year: int) -> None:
    path = recipe().write(tmp_path)
    add_members(path, path, {"x": b""}, environment={"SOURCE_DATE_EPOCH": epoch})
    assert compressed(path)[f"{dist_info(path)}/x"][3][0] == year


def test_in_place_and_twice(recipe: Any, tmp_path: Path) -> None:
    """A file that is there already is replaced, in RECORD too."""
    path = recipe().write(tmp_path)
    add_members(path, path, {"torchwheel.json": b"first"}, environment={})
    once = path.read_bytes()
    add_members(path, path, {"torchwheel.json": b"second"}, environment={})
    assert is_sound(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read(f"{dist_info(path)}/torchwheel.json") == b"second"
        assert archive.read(f"{dist_info(path)}/RECORD").count(b"torchwheel.json") == 1
    add_members(path, path, {"torchwheel.json": b"first"}, environment={})
    assert path.read_bytes() == once


def test_a_member_of_several_pieces_is_copied_whole(recipe: Any, tmp_path: Path) -> None:
    path = recipe().write(tmp_path)
    library = random.Random(path.name).randbytes(2_500_000)
    add_members(path, path, {"library.bin": library}, environment={})
    add_members(path, path, {"torchwheel.json": b"{}"}, environment={})
    assert is_sound(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read(f"{dist_info(path)}/library.bin") == library


def test_a_wheel_that_became_shorter_meanwhile_is_not_copied(recipe: Any, tmp_path: Path) -> None:
    path = recipe().write(tmp_path)
    add_members(path, path, {"library.bin": random.Random(1).randbytes(2_500_000)}, environment={})
    with path.open("rb") as stream, zipfile.ZipFile(path) as archive:
        members = raw_members(stream, archive, "x.whl")
    (library,) = (one for one in members if one.info.filename.endswith("library.bin"))
    cut = io.BytesIO(path.read_bytes()[: library.offset + library.info.compress_size - 1])
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as copy, pytest.raises(TorchwheelError) as caught:
        copy_members([library], cut, "x.whl", copy, target)
    assert [problem.id for problem in caught.value.problems] == ["damaged-wheel"]


def test_signatures_of_the_old_record_are_removed(recipe: Any, tmp_path: Path) -> None:
    path = recipe(version="2.0").write(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("RECORD.jws", "RECORD.p7s"):
            archive.writestr(f"torch-2.0.dist-info/{name}", b"signed")
    add_members(path, path, MEMBERS, environment={})
    assert is_sound(path)
    assert not [name for name in compressed(path) if "RECORD." in name]


class Unseekable(io.RawIOBase):
    """Makes zipfile put sizes behind the data, as data descriptors."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def rewritten_from(tmp_path: Path, stream_to: Any, **open_options: Any) -> Path:
    """A wheel written by zipfile in some particular way, and then rewritten."""
    info = "torch-2.0.dist-info"
    files = {"torch/a.py": b"a" * 5000, f"{info}/METADATA": b"", f"{info}/WHEEL": b""}
    record = render_record(
        [*(row_for(name, data) for name, data in files.items()), RecordRow(f"{info}/RECORD", "", "")]
    )
    with zipfile.ZipFile(stream_to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, f"{info}/RECORD": record}.items():
            with archive.open(zipfile.ZipInfo(name), "w", **open_options) as member:
                member.write(data)
    path = tmp_path / "torch-2.0-py3-none-any.whl"
    if isinstance(stream_to, Unseekable):
        path.write_bytes(stream_to.data)
    before = compressed(path)
    add_members(path, path, MEMBERS, environment={})
    assert is_sound(path)
    after = compressed(path)
    assert [after[name] for name in files] == [before[name] for name in files]
    return path


def test_data_descriptors(tmp_path: Path) -> None:
    path = rewritten_from(tmp_path, Unseekable())
    with zipfile.ZipFile(path) as archive:
        assert {info.flag_bits & 8 for info in archive.infolist()} == {0}


def test_zip64_members(tmp_path: Path) -> None:
    rewritten_from(tmp_path, tmp_path / "torch-2.0-py3-none-any.whl", force_zip64=True)


def test_an_archive_behind_other_data(recipe: Any, tmp_path: Path) -> None:
    path = recipe().write(tmp_path)
    expected = tmp_path / "expected.whl"
    add_members(path, expected, MEMBERS, environment={})
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    add_members(path, path, MEMBERS, environment={})
    assert path.read_bytes() == expected.read_bytes()


def test_a_wheel_that_disagrees_with_its_record(recipe: Any, tmp_path: Path) -> None:
    path, target = recipe(version="2.0").write(tmp_path), tmp_path / "out" / "torch-2.0-py3-none-any.whl"
    target.parent.mkdir()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("torch/smuggled.py", b"")
    assert error_of(add_members, path, target, MEMBERS, environment={}).problems == (
        Problem.of("record-mismatch", origin=path, names="torch/smuggled.py"),
    )
    assert list(target.parent.iterdir()) == []


def test_headers_that_contradict_the_table_of_contents(recipe: Any, tmp_path: Path) -> None:
    path = recipe(version="2.0").write(tmp_path)
    good = path.read_bytes()
    first = "torch/__init__.py"

    def message(data: bytes) -> str:
        path.write_bytes(data)
        (problem,) = error_of(add_members, path, tmp_path / "out.whl", MEMBERS, environment={}).problems
        assert problem.id == "damaged-wheel"
        return problem.what

    assert message(good.replace(b"torch/__init__.py", b"torch/__evil__.py", 1)) == (
        f"{first} cannot be copied: its header and the table of contents differ"
    )
    assert message(b"XX" + good[2:]) == (
        f"{first} cannot be copied: there is no header where the table of contents says"
    )
    table = good.index(b"PK\1\2")
    longer = good[: table + 20] + struct.pack("<I", 10_000_000) + good[table + 24 :]
    assert message(longer) == f"{first} cannot be copied: its data reaches into what follows"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_neither_the_umask_nor_the_clock_of_the_build_stays_where_a_moment_is_stated(
    recipe: Any, tmp_path: Path
) -> None:
    wheels = []
    for folder, bits, year in (("one", 0o600, 2023), ("two", 0o664, 2026)):
        files: dict[Any, bytes] = {}
        for name, mode in (("torch/a.py", bits), ("torch/run", bits | 0o100)):
            info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            info.external_attr = (stat.S_IFREG | mode) << 16
            files[info] = b""
        (tmp_path / folder).mkdir()
        path = recipe(files=files).write(tmp_path / folder)
        add_members(path, path, MEMBERS, environment={"SOURCE_DATE_EPOCH": "1719837015"})
        wheels.append(path)
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        modes = [archive.getinfo(f"torch/{name}").external_attr >> 16 for name in ("a.py", "run")]
        assert modes == [stat.S_IFREG | 0o644, stat.S_IFREG | 0o755]
        assert {info.date_time for info in archive.infolist()} == {(2024, 7, 1, 12, 30, 14)}


GIB = 1 << 30
ZEROS = bytes(1 << 20)


class Zeros(io.RawIOBase):
    """As many zeros as one reads."""

    def seek(self, offset: int, whence: int = 0) -> int:
        return offset

    def read(self, size: int = -1) -> bytes:
        return ZEROS[:size]


class SparseFile(io.BufferedRandom):
    """A file that does not store the zeros written to it."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if data != ZEROS[: len(data)]:
            return super().write(data)
        self.seek(len(data), io.SEEK_CUR)
        return len(data)


def test_more_than_four_gibibytes(tmp_path: Path) -> None:
    """A member of 5 GiB, and one that starts behind it."""
    target = tmp_path / "large.zip"
    info = zipfile.ZipInfo("large.bin", EARLIEST)
    info.file_size = info.compress_size = 5 * GIB
    info.CRC = 0
    with SparseFile(io.FileIO(target, "w+")) as stream, zipfile.ZipFile(stream, "w") as archive:
        copy_members([RawMember(info, 0)], Zeros(), "source", archive, stream)
        add_member(archive, "behind.txt", b"here", EARLIEST)
    with zipfile.ZipFile(target) as archive:
        large_info, behind = archive.infolist()
        assert (large_info.file_size, large_info.compress_size) == (5 * GIB, 5 * GIB)
        assert behind.header_offset > 5 * GIB
        assert archive.read(behind) == b"here"
        with archive.open(large_info) as member:
            assert member.read(100) == bytes(100)


@pytest.mark.parametrize("number", [0, 1])
def test_members_that_share_a_byte_with_what_follows_are_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first", b"one")
        archive.writestr("second", b"two")
    with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        assert [member.offset for member in raw_members(stream, archive, "source")] == [35, 74]
        info = archive.infolist()[number]
        info.compress_size += 1
        with pytest.raises(TorchwheelError, match=f"{info.filename} cannot be copied: its data reaches into"):
            raw_members(stream, archive, "source")
