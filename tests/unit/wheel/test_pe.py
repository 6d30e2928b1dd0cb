"""What PE files take from others: a real one compared with objdump, and ones made here."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of, ids_of
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.objfile import LibraryFormat, Linkage, read_linkage

ADDRESS, OFFSET = 0x1000, 0x400


def dll(
    imports: Mapping[str, Sequence[str | int]],
    delayed: Mapping[str, Sequence[str | int]] | None = None,
    *,
    magic: int = 0x20B,
    without_lists: bool = False,
) -> bytes:
    """A 64-bit DLL that imports names and numbers, with all tables in one section."""
    body = bytearray()

    def place(data: bytes) -> int:
        address = ADDRESS + len(body)
        body.extend(data)
        return address

    def symbols(names: Sequence[str | int]) -> int:
        thunks = [
            1 << 63 | name if isinstance(name, int) else place(b"\0\0" + name.encode() + b"\0")
            for name in names
        ]
        return place(struct.pack(f"<{len(thunks) + 1}Q", *thunks, 0))

    table = b""
    for library, names in imports.items():
        name, listed = place(library.encode() + b"\0"), symbols(names)
        table += struct.pack("<IIIII", 0 if without_lists else listed, 0, 0, name, listed)
    late = b""
    for library, names in (delayed or {}).items():
        name = place(library.encode() + b"\0")
        late += struct.pack("<IIIIIIII", 1, name, 0, 0, symbols(names), 0, 0, 0)
    directories = [(0, 0)] * 16
    directories[1] = (place(table + bytes(20)), len(table) + 20)
    directories[13] = (place(late + bytes(32)), len(late) + 32) if delayed else (0, 0)
    optional = struct.pack("<H", magic) + bytes(106) + struct.pack("<I", 16)
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    header = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"
    header += struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x2022) + optional
    header += b".rdata\0\0" + struct.pack("<IIII", len(body), ADDRESS, len(body), OFFSET) + bytes(16)
    return header.ljust(OFFSET, b"\0") + bytes(body)


IMPORTS: dict[str, Sequence[str | int]] = {
    "c10.dll": ["?validate@Device@c10@@QEBAXXZ"],
    "python3.dll": ["PyErr_Clear", 7],
}
DELAYED: dict[str, Sequence[str | int]] = {"nvcuda.dll": ["cuInit"]}


def read(data: bytes) -> Linkage:
    return read_linkage(io.BytesIO(data), "lib")


@pytest.mark.parametrize("without_lists", [False, True])
def test_ordinary_and_delayed_imports(without_lists: bool) -> None:
    assert read(dll(IMPORTS, DELAYED, without_lists=without_lists)) == Linkage(
        LibraryFormat.PE,
        ("c10.dll", "python3.dll", "nvcuda.dll"),
        ("?validate@Device@c10@@QEBAXXZ", "PyErr_Clear", "#7", "cuInit"),
        machine=0x8664,
    )


def test_32_bits() -> None:
    assert ids_of(read, dll(IMPORTS, magic=0x10B)) == ["unknown-library-format"]


def damage(data: bytes) -> str:
    (problem,) = error_of(read, data).problems
    assert (problem.id, problem.origin) == ("damaged-library", "lib")
    return problem.what.removeprefix("this is not a complete library: ")


def test_damage() -> None:
    good = dll(IMPORTS)
    table = 64 + 24 + 112 + 8  # where the address of the import table stands

    def patched(position: int, value: int) -> bytes:
        return good[:position] + struct.pack("<I", value) + good[position + 4 :]

    assert damage(patched(table, 0x9000)) == (
        "there is nothing at the address 0x9000, which its import table names"
    )
    assert damage(patched(table, ADDRESS + len(good) - OFFSET - 4)) == (
        "its import table reaches past its section"
    )
    assert damage(good[:-30]).startswith("it ends before byte ")
    many = good[: 64 + 6] + struct.pack("<H", 97) + good[64 + 8 :] + bytes(97 * 40)
    assert damage(many) == "it has 97 sections"


def test_a_name_without_end() -> None:
    data = bytearray(dll({"a" * 20_000: []}))
    assert damage(bytes(data)) == "a name in its import table does not end"


def test_a_table_without_end() -> None:
    name, no_symbols, table = 0, 8, 16
    entry = struct.pack("<IIIII", ADDRESS + no_symbols, 0, 0, ADDRESS + name, ADDRESS + no_symbols)
    body = b"a".ljust(table, b"\0") + entry * 5_000
    head = bytearray(dll({})[:OFFSET])
    struct.pack_into("<II", head, 64 + 24 + 112 + 8, ADDRESS + table, len(body) - table)
    struct.pack_into("<IIII", head, 64 + 24 + 112 + 128 + 8, len(body), ADDRESS, len(body), OFFSET)
    assert damage(bytes(head) + body) == "it names more than 4096 libraries"


@given(st.data())
def test_mutations_raise_nothing_else(data: st.DataObject) -> None:
    mutated = bytearray(dll(IMPORTS, DELAYED))
    for position in data.draw(st.lists(st.integers(0, len(mutated) - 1), max_size=6)):
        mutated[position] = data.draw(st.integers(0, 255))
    del mutated[data.draw(st.integers(OFFSET, len(mutated))) :]
    try:
        read(bytes(mutated))
    except TorchwheelError as error:
        assert {problem.id for problem in error.problems} <= {"damaged-library", "unknown-library-format"}
