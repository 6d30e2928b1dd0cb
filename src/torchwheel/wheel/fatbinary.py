"""Device code: NVIDIA's fat binaries in libraries and as files, cubins, and PTX.

The layout is not documented by NVIDIA. It was read off objects compiled with nvcc 13.0 and the libraries of
PyTorch 2.14, and agrees with what ``cuobjdump`` lists. All numbers are little endian.

A fat binary is a header of 16 bytes (magic, u16 version, u16 header size, u64 size of all entries) and
entries. An entry is a header of at least 64 bytes, with its true size in it, and a payload padded to 8 bytes.
Fat binaries follow each other, aligned to 8 bytes or more.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from torchwheel.hardware.architecture import Architecture, Suffix
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import fields_of
from torchwheel.wheel.bounded_file import HEADERS, Allowance
from torchwheel.wheel.objfile import read_sections

# Not with cuobjdump: that needs a toolkit, and 4 s and 5.6 GB of memory for PyTorch 2.14.1's libtorch_cuda.so.
# Reading the headers alone takes 0.03 s.
MAGIC = 0xBA55ED50
_MAGIC_BYTES = MAGIC.to_bytes(4, "little")
_VERSION = 1

_HEADER = struct.Struct("<IHHQ")  # magic, version, header size, size of all entries

# kind, entry version, header size, padded payload size, compressed size, (offset of options), minor and major
# version of the code format, number of the architecture, offset and length of the source's name, flags,
# (zero), uncompressed size
_ENTRY = struct.Struct("<HHIQI4xHHIIIQ8xQ")

# Only these bits tell `a` from `f`: a cubin's own ELF flags do not, and cuobjdump lists cubins without the `f`.
_FLAG_ARCHITECTURE_SPECIFIC, _FLAG_FAMILY_SPECIFIC = 0x100000, 0x200000
# Two digits at least (sm_10 was the first), and room for the majors to come.
_LOWEST_ARCHITECTURE, _HIGHEST_ARCHITECTURE = 10, 999
_PADDING_CHUNK = 1 << 12

# Section names of ELF files, and as PE cuts them to 8 characters; the value tells relocatable device code.
# Source: fatbinary_section.h of the CUDA toolkit.
_FAT_BINARY_SECTIONS = {".nv_fatbin": False, ".nv_fatb": False, "__nv_relfatbin": True, "__nv_rel": True}

# Sections of code for AMD's GPUs, and how files of it start that are no ELF file.
_AMD_SECTIONS = frozenset({".hip_fatbin", ".hip_fat"})
_AMD_BUNDLES = (b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")

# A cubin is an ELF file of this machine; its flags name the architecture.
# Source: EM_CUDA, EM_AMDGPU, EF_CUDA_SM and ELFABIVERSION_CUDA_V2 of LLVM's llvm/BinaryFormat/ELF.h.
_EM_CUDA, _EM_AMDGPU = 190, 224
_CUBIN = struct.Struct("<8xB9xH28xI")
_CUBIN_ABI_2 = 8
_SPECIFIC_1, _SPECIFIC_2 = 0x800, 0x8

# Source: https://docs.nvidia.com/cuda/parallel-thread-execution (Version and Target directives)
_PTX_VERSION = re.compile(rb"^\.version[ \t]\d{1,2}\.\d{1,2}$", re.MULTILINE)
_PTX_TARGET = re.compile(rb"^\.target[ \t]sm_(\d{2,3})([af]?)\b", re.MULTILINE)
START_BYTES = 4096  # has the directives of a PTX file: they stand behind comments of a few lines


class ImageKind(enum.Enum):
    SASS = "sass"
    PTX = "ptx"
    LTO_IR = "lto-ir"


_KINDS = {1: ImageKind.PTX, 2: ImageKind.SASS, 8: ImageKind.LTO_IR}


@dataclass(frozen=True)
class CodeImage:
    """All images of one architecture and kind in a file.

    Attributes:
        relocatable: the device linker's input, made by ``nvcc -rdc=true``, which stays in a library beside its output.
    """

    architecture: Architecture
    kind: ImageKind
    relocatable: bool
    count: int
    stored_size: int

    @property
    def label(self) -> str:
        if self.kind is ImageKind.SASS:
            return self.architecture.label
        if self.kind is ImageKind.PTX:
            return self.architecture.ptx_label
        return f"lto{self.architecture.number}{self.architecture.suffix}"

    @property
    def runs(self) -> bool:
        """Whether a driver can load it by itself: linked SASS, or PTX."""
        # A driver links relocatable PTX only where every object of the library has some; the CUDA toolkit's libraries
        # bring such PTX along for architectures nobody asked for.
        # Source: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#jit-linking
        return self.kind is not ImageKind.LTO_IR and not self.relocatable

    def document(self) -> dict[str, Any]:
        return fields_of(self, "label", "kind", "relocatable", "count", "stored_size")


@dataclass(frozen=True)
class FatBinaryReader:
    """Reads headers only: time is proportional to the number of images, memory is constant."""

    stream: BinaryIO
    origin: str
    allowance: Allowance

    def images(self, position: int, end: int) -> Iterator[CodeImage]:
        """Every image of the fat binaries in one range of the stream, each by itself.

        A kind that is unknown here (a later toolkit's) is passed over: only SASS and PTX decide on which GPU code runs.
        """
        position = self._skip_zeros(position, end)
        while position < end:
            entry, position = self._read_header(position, end)
            while entry < position:
                image, entry = self._read_entry(entry, position)
                if image is not None:
                    yield image
            position = self._skip_zeros(position, end)

    def take(self, position: int, count: int = 1) -> None:
        if self.allowance.headers < count:
            raise self.damaged(position, f"there are more than {HEADERS:,} sections, fat binaries and images")
        self.allowance.headers -= count

    def damaged(self, position: int, detail: str) -> TorchwheelError:
        return refusal("damaged-fat-binary", origin=self.origin, position=position, detail=detail)

    def architecture(self, number: int, flags: int, position: int = 0) -> Architecture:
        if not _LOWEST_ARCHITECTURE <= number <= _HIGHEST_ARCHITECTURE:
            raise self.damaged(position, f"{number} is no number of an architecture")
        specific, family = flags & _FLAG_ARCHITECTURE_SPECIFIC, flags & _FLAG_FAMILY_SPECIFIC
        if specific and family:
            raise self.damaged(position, f"sm_{number} is marked as both `a` and `f`")
        return Architecture(*divmod(number, 10), "a" if specific else "f" if family else "")

    def _read_header(self, position: int, end: int) -> tuple[int, int]:
        """Where the entries of the fat binary at ``position`` start and end."""
        magic, version, header_size, entries_size = self._read(_HEADER, position, end)
        first = position + header_size
        if magic != MAGIC:
            raise self.damaged(position, f"a fat binary starts with {MAGIC:#010x}, here is {magic:#010x}")
        if version != _VERSION:
            raise self.damaged(position, f"the fat binary has version {version}, known is version {_VERSION}")
        if header_size < _HEADER.size:
            raise self.damaged(position, f"a header of {header_size} bytes is too short")
        if first + entries_size > end:
            raise self.damaged(position, f"{entries_size} bytes of entries reach past the end of the section")
        return first, first + entries_size

    def _read_entry(self, position: int, end: int) -> tuple[CodeImage | None, int]:
        """The image at ``position``, or None if its kind is unknown, and where the next entry starts."""
        entry = self._read(_ENTRY, position, end)
        kind_number, _, header_size, payload_size, compressed_size, _, _, number, _, _, flags, _ = entry
        # The header is longer than its fixed part with a source's name, PTX options or the table of sm_100 and later.
        following = position + header_size + payload_size
        if header_size < _ENTRY.size or following > end:
            raise self.damaged(position, f"an entry of {header_size} + {payload_size} bytes does not fit")
        if compressed_size > payload_size:
            detail = f"{compressed_size} compressed bytes exceed {payload_size} stored ones"
            raise self.damaged(position, detail)
        if (kind := _KINDS.get(kind_number)) is None:
            return None, following
        architecture = self.architecture(number, flags, position)
        # Each entry by itself: nvcc leaves small cubins uncompressed beside compressed PTX.
        return CodeImage(architecture, kind, False, 1, compressed_size or payload_size), following

    def _read(self, form: struct.Struct, position: int, end: int) -> tuple[int, ...]:
        self.take(position)
        if position + form.size > end:
            raise self.damaged(position, "a header is cut off by the end of the section")
        self.stream.seek(position)
        data = self.stream.read(form.size)
        if len(data) != form.size:
            raise self.damaged(position, "the file ends here, inside a fat binary")
        return form.unpack(data)

    def _skip_zeros(self, position: int, end: int) -> int:
        """Where the padding that starts at ``position`` ends; linkers align sections as they like."""
        self.stream.seek(position)
        while position < end:
            chunk = self.stream.read(min(_PADDING_CHUNK, end - position))
            zeros = len(chunk) - len(chunk.lstrip(b"\0"))
            position += zeros
            if zeros < len(chunk) or not chunk:
                break
        return position


def read_code(
    stream: BinaryIO, origin: str = "", allowance: Allowance | None = None
) -> tuple[tuple[CodeImage, ...], int]:
    """The device code in a file, by architecture, kind and linkage, in that order; and bytes of code for AMD's GPUs.

    Source for AMD: https://clang.llvm.org/docs/ClangOffloadBundler.html, and clang's driver for the section's name.
    """
    reader, size = FatBinaryReader(stream, origin, allowance or Allowance()), stream.seek(0, 2)
    stream.seek(0)
    start = stream.read(START_BYTES)
    if start.startswith(_MAGIC_BYTES):
        return combine(reader.images(0, size)), 0
    if (architecture := _read_cubin(start, reader)) is not None:
        return (CodeImage(architecture, ImageKind.SASS, False, 1, size),), 0
    if (architecture := _ptx_target(start)) is not None:
        return (CodeImage(architecture, ImageKind.PTX, False, 1, size),), 0
    # After the cubin, because that is an ELF file, too, but has no section of fat binaries.
    sections = read_sections(stream, origin, reader.allowance)
    reader.take(0, len(sections))
    with_code = [section for section in sections if section.name in _FAT_BINARY_SECTIONS]
    # Sections that share bytes would multiply the work.
    if sum(section.size for section in with_code) > size:
        raise refusal("damaged-library", origin=origin, detail="its sections of device code overlap")
    images = combine(
        replace(image, relocatable=_FAT_BINARY_SECTIONS[section.name])
        for section in with_code
        for image in reader.images(section.offset, section.offset + section.size)
    )
    if start.startswith(_AMD_BUNDLES) or _elf_machine(start) == _EM_AMDGPU:
        return images, size
    return images, sum(one.size for one in sections if one.name in _AMD_SECTIONS)


def combine(parts: Iterable[CodeImage]) -> tuple[CodeImage, ...]:
    totals: dict[tuple[Architecture, ImageKind, bool], tuple[int, int]] = {}
    for part in parts:
        key = (part.architecture, part.kind, part.relocatable)
        count, stored_size = totals.get(key, (0, 0))
        totals[key] = (count + part.count, stored_size + part.stored_size)
    ordered = sorted(totals.items(), key=lambda item: (item[0][0], item[0][1].value, item[0][2]))
    return tuple(CodeImage(*key, *total) for key, total in ordered)


def is_code(start: bytes) -> bool:
    """Whether a file with these first bytes is a library, a program or device code, whatever its name is."""
    starts = (b"\x7fELF", b"MZ", _MAGIC_BYTES, *_AMD_BUNDLES)
    return start.startswith(starts) or _ptx_target(start) is not None


def compiled_files(code: Iterable[CodeImage]) -> int:
    """How many compiled files a library consists of, by the images that most architectures have: the upper quartile."""
    # A compiler makes as many of each, a library of kernels has many more for a few (cuSPARSELt 0.8.1 has 560 for 10.0
    # and about 50 for others), and single kernels have some more, mostly in the forms with `a` and `f`.
    loadable = [image for image in code if image.runs]
    plain = [one.count for one in loadable if one.kind is ImageKind.SASS and not one.architecture.suffix]
    counts = sorted(plain or [image.count for image in loadable])
    return counts[3 * len(counts) // 4] if counts else 0


def prevalent_images(code: Iterable[CodeImage]) -> tuple[CodeImage, ...]:
    """The images that are in at least half of a library's compiled files: these decide where the library runs."""
    loadable = [image for image in code if image.runs]
    files = compiled_files(loadable)
    # PyTorch 2.14.1's libtorch_cuda.so has 475 images of each of six architectures, and at most 59 of any other.
    return tuple(image for image in loadable if 2 * image.count >= files)


def _ptx_target(start: bytes) -> Architecture | None:
    if not _PTX_VERSION.search(start) or not (target := _PTX_TARGET.search(start)):
        return None
    return Architecture(*divmod(int(target[1]), 10), cast(Suffix, target[2].decode()))


def _read_cubin(start: bytes, reader: FatBinaryReader) -> Architecture | None:
    """The architecture of a cubin; None for other files. Not all compilers mark the ``a`` forms in it."""
    if _elf_machine(start) != _EM_CUDA:
        return None
    version, _, flags = _CUBIN.unpack_from(start)
    second = version >= _CUBIN_ABI_2
    number, specific = (flags >> 8 & 0xFF, _SPECIFIC_2) if second else (flags & 0xFF, _SPECIFIC_1)
    return reader.architecture(number, _FLAG_ARCHITECTURE_SPECIFIC if flags & specific else 0)


def _elf_machine(start: bytes) -> int | None:
    if len(start) < _CUBIN.size or not start.startswith(b"\x7fELF\x02\x01"):
        return None
    return int(_CUBIN.unpack_from(start)[1])
