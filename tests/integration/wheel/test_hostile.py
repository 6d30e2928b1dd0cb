"""Small wheels that were made to exhaust time or memory: each is read or refused, and either costs little."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from limits import within_limits
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.inspection import inspect
from torchwheel.wheel.objfile import read_linkage, read_sections
from wheel_samples import Entry, Samples, add_members

NAME = "torch-2.14.1-cp311-cp311-linux_x86_64.whl"
INFO = "torch-2.14.1.dist-info"
HONEST = {
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n",
    f"{INFO}/RECORD": b"",
}
MEGABYTE = 1 << 20


def write(folder: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / NAME
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {**HONEST, **members}.items():
            archive.writestr(name, data)
    assert path.stat().st_size < MEGABYTE
    return path


def refusal(call: Callable[..., object], *arguments: object) -> str:
    """What is said of a wheel; nothing where all is well."""
    try:
        call(*arguments)
    except TorchwheelError as error:
        return error.problems[0].id
    return ""


def rewrite(path: Path) -> None:
    add_members(path, path.with_name("copy.whl"), {"note": b""}, environment={})


def metadata(text: str) -> dict[str, bytes]:
    return {f"{INFO}/METADATA": text.encode()}


def sections(count: int) -> bytes:
    """A library whose sections all are one byte of fat binary."""
    names = b"\0.nv_fatbin\0"
    head = struct.pack("<16xHHIQQQIHHHHHH", 3, 62, 1, 0, 0, 80, 0, 64, 0, 0, 64, count, 1)
    table = [bytes(64), struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 0, 0)]
    table += [struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, 1, 0, 0, 0, 0)] * (count - 2)
    return b"\x7fELF\x02\x01" + head[6:] + names.ljust(16, b"\0") + b"".join(table)


def linked(*rows: tuple[int, int, int, int], body: bytes = b"\0.name\0") -> bytes:
    """A library with sections of these types, sizes, links and counts, each of the same bytes."""
    table = 64 + len(body)
    head = struct.pack("<16xHHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, len(rows) + 2, 1)
    entries = [(0, 0, 0, 0), (3, len(body), 0, 0), *rows]
    return (
        b"\x7fELF\x02\x01"
        + head[6:]
        + body
        + b"".join(
            struct.pack("<IIQQQQIIQQ", 1, kind, 0, 0, 64, size, link, info, 8, 24)
            for kind, size, link, info in entries
        )
    )


LONG = b"a" * 900_000
DYNAMIC, HASH, SYMBOLS, GNU_HASH, NEEDED = 6, 5, 11, 0x6FFFFFF6, 0x6FFFFFFE
LIBRARIES = {
    "names without end": (linked(*[(1, 1, 0, 0)] * 500, body=LONG), "damaged-library"),
    "long names": (linked(*[(1, 1, 0, 0)] * 500, body=LONG + b"\0"), "damaged-library"),
    "a table that has itself as strings": (linked((SYMBOLS, 48, 2, 0)), "damaged-library"),
    "symbols without end": (linked((SYMBOLS, 1 << 40, 1, 0)), "damaged-library"),
    "tags without end": (linked((DYNAMIC, 1 << 40, 1, 0), body=b"\1" * 800_000), "damaged-library"),
    "versions without end": (linked((NEEDED, 16, 1, 1 << 31), body=bytes(64)), "damaged-library"),
    "versions that lead back": (
        linked((NEEDED, 16, 1, 1 << 31), body=struct.pack("<HHIII", 1, 0xFFFF, 0, 0, 0)),
        "damaged-library",
    ),
    "buckets without end": (linked((GNU_HASH, 16, 1, 0), body=b"\xff" * 64), "damaged-library"),
    "hashes without end": (linked((HASH, 16, 1, 0), body=b"\xff" * 64), "damaged-library"),
}


def empty_binaries(count: int) -> bytes:
    return Samples.elf({".nv_fatbin": Samples.fat_binary() * count})


CASES: dict[str, tuple[Callable[[], Mapping[str, bytes]], str]] = {
    "version.py": (lambda: {"torch/version.py": b"a=1\n" * (4 << 20)}, "oversized-member"),
    "version.py within limits": (lambda: {"torch/version.py": b"a=1\n" * (1 << 14)}, ""),
    "nested version.py": (lambda: {"torch/version.py": b"(" * 60_000}, "malformed-version-file"),
    "operators": (lambda: {"torch/version.py": b"a=" + b"-" * 60_000 + b"1"}, "malformed-version-file"),
    "versions": (lambda: metadata("Version: 1\n" * 90_000), "oversized-member"),
    "versions within limits": (lambda: metadata("Version: 1\n" * 19_000), ""),
    "names": (lambda: metadata("".join(f"a{n}: b\n" for n in range(19_000))), ""),
    "fields": (lambda: metadata("a:\n" * 5_000_000), "oversized-member"),
    "folded": (lambda: metadata("Name: a\n" + " b\n" * 300_000), "oversized-member"),
    "requirements": (lambda: metadata("Requires-Dist: a\n" * 19_000), ""),
    "description": (lambda: metadata("Name: a\n\n" + "\n" * 1_000_000), ""),
    "tags": (lambda: {f"{INFO}/WHEEL": b"Tag: py3-none-any\n" * 50_000}, "oversized-member"),
    "manifest": (lambda: {f"{INFO}/torchwheel.json": b"[" * (4 << 20)}, "malformed-manifest"),
    "number": (
        lambda: {f"{INFO}/torchwheel.json": b'{"schema": ' + b"1" * 5_000 + b"}"},
        "malformed-manifest",
    ),
    "zeros": (lambda: {"torch/lib/a.so": bytes(300 << 20)}, "oversized-member"),
    "zeros within limits": (lambda: {"torch/lib/a.so": Samples.elf({".nv_fatbin": bytes(60 << 20)})}, ""),
    "empty fat binaries": (lambda: {"torch/lib/a.so": empty_binaries(2_000_000)}, "damaged-fat-binary"),
    "many of them": (
        lambda: {f"torch/lib/{n}.so": empty_binaries(90_000) for n in range(30)},
        "damaged-fat-binary",
    ),
    "images": (
        lambda: {"torch/lib/a.so": Samples().library(*[Entry(2, 75, payload=b"")] * 500_000)},
        "damaged-fat-binary",
    ),
    "manifest of another shape": (
        lambda: {f"{INFO}/torchwheel.json": b'{"schema": 1}'},
        "malformed-manifest",
    ),
    "plan of another shape": (
        lambda: {f"{INFO}/torchwheel.json": b'{"schema": 1, "torchwheel": "1", "plan": [{"target": 1}]}'},
        "malformed-manifest",
    ),
    "sections": (lambda: {f"torch/lib/{n}.so": sections(60_000) for n in range(12)}, "damaged-library"),
    "members": (lambda: {f"torch/{n}": b"" for n in range(8_000)}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wheel_is_inspected_or_refused_within_limits(tmp_path: Path, case: str) -> None:
    members, expected = CASES[case]
    path = write(tmp_path, members())

    def check() -> None:
        assert refusal(inspect, path) == expected

    within_limits(check)


@pytest.mark.parametrize("case", LIBRARIES)
def test_a_library_is_read_or_refused_within_limits(case: str) -> None:
    data, expected = LIBRARIES[case]
    assert len(data) < MEGABYTE

    def check() -> None:
        found = {refusal(read, io.BytesIO(data), "lib") for read in (read_sections, read_linkage)}
        assert expected in found <= {expected, ""}

    within_limits(check)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b"\n" * (100 << 20), "oversized-member"),
        (b"\n" * (15 << 20), "oversized-member"),
        (b"a,,\n" * 4_000_000, "oversized-member"),
        (b"a" * (15 << 20), "malformed-record"),
        (b'"' * (15 << 20), "malformed-record"),
        (b"," * 100_000, "malformed-record"),
    ],
    ids=["100 MB of lines", "lines", "rows", "field", "quotes", "fields"],
)
def test_a_record_is_read_or_refused_within_limits(tmp_path: Path, record: bytes, expected: str) -> None:
    path = write(tmp_path, {f"{INFO}/RECORD": record})

    def check() -> None:
        assert refusal(rewrite, path) == expected

    within_limits(check)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2], ids=["lzma", "bzip2"])
def test_no_compression_but_deflate(tmp_path: Path, method: int) -> None:
    assert refusal(inspect, write(tmp_path, {}, method)) == "forbidden-member"


def test_what_is_a_reason_to_look_closer_is_said(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w") as archive:
        for name in (
            *HONEST,
            "torch/A.py",
            "torch/a.py",
            "torch/\u00e9.py",
            "torch/e\u0301.py",
            "torch/CON.h",
            "torch/x.",
        ):
            archive.writestr(name, HONEST.get(name, b""))
        archive.writestr("torch-2.14.1.data/scripts/ls", b"")
        archive.writestr("numpy-1.0.data/purelib/a", b"")
        setuid = zipfile.ZipInfo("torch/bin/su")
        setuid.external_attr = 0o104755 << 16
        archive.writestr(setuid, b"")
    inspected = inspect(path)
    assert not inspected.is_intact
    # The first says that its RECORD is empty.
    said = inspected.remarks[1:]
    named = (
        "torch/A.py, torch/a.py",
        "torch/CON.h, torch/x.",
        "torch/bin/su",
        "numpy-1.0.data/purelib/a",
        "scripts/ls",
    )
    assert [name in remark for name, remark in zip(named, said, strict=True)] == [True] * 5
