"""Wheels, libraries and fat binaries to look into, made without the code under test."""

from __future__ import annotations

import csv
import io
import json
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wheel.wheelfile import WheelFile

from torchwheel.wheel import manifest
from torchwheel.wheel.rewrite import Changes, rewrite_wheel

PTX, CUBIN, LTO_IR = 1, 2, 8
A_FLAG, F_FLAG, LZ4_FLAG, ZSTD_FLAG = 0x100000, 0x200000, 0x2000, 0x8000


@dataclass(frozen=True)
class Entry:
    """One entry of a fat binary, in the terms of the file format."""

    kind: int
    number: int
    flags: int = 0
    payload: bytes = b"\x7fELF\0\0\0\0"
    compressed_size: int = 0
    uncompressed_size: int = 0
    header_extra: bytes = b""

    def packed(self) -> bytes:
        header_size = 64 + len(self.header_extra)
        head = struct.pack("<HHIQ", self.kind, 0x0101, header_size, len(self.payload))
        head += struct.pack("<IIHHI", self.compressed_size, 0, 1, 8, self.number)
        head += struct.pack("<IIQQQ", 0, 0, self.flags | 0x11, 0, self.uncompressed_size)
        return head + self.header_extra + self.payload


@dataclass(frozen=True)
class Samples:
    """Functions that make files of the formats in question."""

    Entry: type[Entry] = Entry

    @staticmethod
    def fat_binary(*entries: Entry) -> bytes:
        body = b"".join(entry.packed() for entry in entries)
        return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body

    @staticmethod
    def elf(sections: Mapping[str, bytes]) -> bytes:
        """A 64-bit little-endian shared object with these sections."""
        names = b"\0" + b"".join(f"{name}\0".encode() for name in sections) + b".shstrtab\0"
        body, headers = b"\0" * 64, [bytes(64)]
        for name, data in {**sections, ".shstrtab": names}.items():
            body += bytes(-len(body) % 8)
            position = names.index(b"\0" + name.encode() + b"\0") + 1
            headers.append(struct.pack("<IIQQQQIIQQ", position, 1, 0, 0, len(body), len(data), 0, 0, 8, 0))
            body += data
        body += bytes(-len(body) % 8)
        header = b"\x7fELF\x02\x01\x01" + bytes(9)
        header += struct.pack("<HHIQQQI", 3, 62, 1, 0, 0, len(body), 0)
        header += struct.pack("<HHHHHH", 64, 56, 0, 64, len(headers), len(headers) - 1)
        return header + body[64:] + b"".join(headers)

    @staticmethod
    def pe(sections: Mapping[str, bytes]) -> bytes:
        """A 64-bit DLL with these sections, padded to the usual file alignment of 512."""
        optional = bytes(240)
        table_size = 40 * len(sections)
        offset = -(-(64 + 24 + len(optional) + table_size) // 512) * 512
        table, body = b"", b""
        for name, data in sections.items():
            padded = data + bytes(-len(data) % 512)
            place = offset + len(body)
            sizes = struct.pack("<IIII", len(data), 0x1000, len(padded), place)
            table += name.encode()[:8].ljust(8, b"\0") + sizes + bytes(16)
            body += padded
        coff = struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, len(optional), 0x2022)
        head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + coff + optional + table
        return head.ljust(offset, b"\0") + body

    def library(self, *entries: Entry) -> bytes:
        """A Linux library with these entries as its device code; without entries, one without device code."""
        return self.elf(
            {".text": b"\x90" * 16, **({".nv_fatbin": self.fat_binary(*entries)} if entries else {})}
        )


TORCH_VERSION = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda!r}
git_version = '0123456789abcdef0123456789abcdef01234567'
hip: Optional[str] = None
"""


@dataclass
class WheelRecipe:
    """A wheel of PyTorch's shape; every part can be replaced or, with None, left out."""

    version: str = "2.14.1+cu130.sm120"
    tag: str = "cp311-cp311-linux_x86_64"
    name: str = "torch"
    cuda: str | None = "13.0"
    metadata: str = "Metadata-Version: 2.1\nName: torch\nVersion: {version}\nRequires-Python: >=3.10\n"
    wheel_tags: Sequence[str] | None = None
    files: Mapping[str, bytes | None] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}-{self.version}-{self.tag}.whl"
        tags = [self.tag] if self.wheel_tags is None else self.wheel_tags
        dist_info = f"{self.name}-{self.version}.dist-info"
        files: dict[str, bytes | None] = {
            "torch/__init__.py": b"from .version import __version__\n",
            "torch/version.py": TORCH_VERSION.format(version=self.version, cuda=self.cuda).encode(),
            f"{dist_info}/METADATA": self.metadata.format(version=self.version).encode(),
            f"{dist_info}/WHEEL": "".join(
                ["Wheel-Version: 1.0\nRoot-Is-Purelib: false\n", *(f"Tag: {tag}\n" for tag in tags)]
            ).encode(),
            **self.files,
        }
        with WheelFile(path, "w") as wheel:
            for name, data in files.items():
                if data is not None:
                    wheel.writestr(name, data)
        return path


def manifest_schema() -> dict[str, Any]:
    """The JSON schema of the build manifest."""
    schema: dict[str, Any] = json.loads(
        Path(manifest.__file__).with_name("manifest.schema.json").read_bytes()
    )
    return schema


def agrees_with_record(path: Path) -> bool:
    """Whether a wheel's files are those of its RECORD, with these hashes; ``wheel`` raises where a hash is another."""
    with WheelFile(path) as archive:
        names = [
            name
            for name in archive.namelist()
            if not name.endswith((".dist-info/RECORD.jws", ".dist-info/RECORD.p7s"))
        ]
        for name in names:
            archive.read(name)
        with archive.open(archive.record_path) as stream:
            rows = list(csv.reader(io.TextIOWrapper(stream, "utf-8", newline="")))
    return sorted(row[0] for row in rows) == sorted(names)


def compressed(path: Path) -> dict[str, tuple[bytes, int, int, tuple[int, ...], int]]:
    """What is stored for each member, read without the code under test."""
    data = path.read_bytes()
    stored = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name_length, extra_length = struct.unpack_from("<HH", data, info.header_offset + 26)
            start = info.header_offset + 30 + name_length + extra_length
            payload = data[start : start + info.compress_size]
            stored[info.filename] = (
                payload,
                info.compress_type,
                info.CRC,
                info.date_time,
                info.external_attr,
            )
    return stored


def is_sound(path: Path) -> bool:
    """Whether every reader at hand takes the archive."""
    with zipfile.ZipFile(path) as archive:
        sound = archive.testzip() is None
    unzip = shutil.which("unzip")
    if unzip is not None:
        done = subprocess.run([unzip, "-tqq", str(path)], capture_output=True, text=True, timeout=60)
        sound = sound and (done.returncode, done.stdout) == (0, "")
    return sound and agrees_with_record(path)


def add_members(
    source: Path, target: Path, members: Mapping[str, bytes], *, environment: Mapping[str, str]
) -> None:
    rewrite_wheel(source, target, lambda _: Changes(members), environment=environment)
