"""Objects of torchwheel and of torch.utils.cpp_extension's own BuildExtension: symbols and device code."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from torchwheel.wheel.bounded_file import Allowance
from torchwheel.wheel.fatbinary import FatBinaryReader

_FATBIN_HEADER, _ENTRY_SIZES = 16, struct.Struct("<4xIQ")
# nvcc makes the first number in a name of internal linkage from the source's path.
_FROM_PATH = re.compile(rb"(_GLOBAL__N_|_INTERNAL)_[0-9a-f]{8}_")
# In the mangled name of such a namespace it also makes the last one, with a process's number behind it or none.
_FROM_PROCESS = re.compile(rb"\d\d(_GLOBAL__N__\d+_\w+_cu)_[0-9a-f]{8}(?:_\d+)?(?=\d[a-z])")
# Its files for one compile, which a static initializer is named for.
_TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]+_[0-9a-f]+_\d+_")
# Texts such as the source's name in an assertion.
_PTX_TEXTS = re.compile(rb"^\.global .*\.b8 .*$", re.MULTILINE)


@dataclass(frozen=True)
class Object:
    """What an object file holds, without what follows from the path of its source.

    Attributes:
        symbols: kind and name of each, as ``nm`` prints them.
        code: section of machine code -> its bytes.
        images: label -> section of a cubin, or ``ptx`` -> its bytes.
    """

    symbols: frozenset[str]
    code: Mapping[str, bytes]
    images: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    @property
    def exported(self) -> frozenset[str]:
        """The symbols that other objects see."""
        return frozenset(symbol for symbol in self.symbols if symbol.startswith("T "))


def read_object(path: Path) -> Object:
    """Read an object file that was compiled with ``--no-compress``."""
    lines = subprocess.check_output(["nm", "--format=posix", path]).splitlines()
    content = path.read_bytes()
    sections = dict(_sections(content))
    return Object(
        symbols=frozenset(_general(b" ".join(reversed(line.split()[:2]))).decode() for line in lines),
        code={name: data for name, data in sections.items() if name.startswith(".text")},
        images=dict(_images(sections.get(".nv_fatbin", b""))),
    )


def _images(fatbin: bytes) -> Iterator[tuple[str, dict[str, bytes]]]:
    position = _FATBIN_HEADER
    for image in FatBinaryReader(BytesIO(fatbin), "", Allowance()).images(0, len(fatbin)):
        header, payload = _ENTRY_SIZES.unpack_from(fatbin, position)
        content = fatbin[position + header : position + header + payload]
        if content.startswith(b"\x7fELF"):
            code = {name: data for name, data in _sections(content) if name.startswith(".text")}
            yield image.architecture.label, code
        else:
            text = _PTX_TEXTS.sub(b"", content.rstrip(b"\0"))
            yield image.architecture.ptx_label, {"ptx": _general(text)}
        position += header + payload


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    names = headers[names_index][4]
    for name, kind, _, _, offset, length in headers:
        text = elf[names + name : elf.index(b"\0", names + name)]
        # SHT_NOBITS takes no bytes.
        yield _general(text).decode(), b"" if kind == 8 else elf[offset : offset + length]


def _general(text: bytes) -> bytes:
    return _FROM_PROCESS.sub(rb"\1_", _TEMPORARY.sub(b"", _FROM_PATH.sub(rb"\1_", text)))
