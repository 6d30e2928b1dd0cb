"""The device code in one object file, shared library or program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.wheel.bounded_file import opened
from torchwheel.wheel.fatbinary import ImageKind, read_fat_binaries
from torchwheel.wheel.sections import read_sections

# Section names of ELF files, and as PE cuts them to 8 characters; the value tells relocatable device code.
# Source: fatbinary_section.h of the CUDA toolkit.
_FAT_BINARY_SECTIONS = {".nv_fatbin": False, ".nv_fatb": False, "__nv_relfatbin": True, "__nv_rel": True}


@dataclass(frozen=True)
class CodeImage:
    """All images of one architecture and kind in a file.

    Attributes:
        architecture: what they were compiled for.
        kind: SASS, PTX or LTO IR.
        relocatable: made by ``nvcc -rdc=true``, before device linking: the device linker's input, which stays
            in a library beside its output.
        count: how many images.
        stored_size: bytes they take in the file, compressed where the compiler did.
    """

    architecture: Architecture
    kind: ImageKind
    relocatable: bool
    count: int
    stored_size: int

    @property
    def label(self) -> str:
        """``sm120a``, ``ptx90`` or ``lto90``."""
        if self.kind is ImageKind.SASS:
            return self.architecture.label
        if self.kind is ImageKind.PTX:
            return self.architecture.ptx_label
        return f"lto{self.architecture.number}{self.architecture.suffix}"

    @property
    def runs(self) -> bool:
        """Whether a driver can load it by itself: linked SASS, or PTX.

        Relocatable PTX can be linked by the driver as it compiles it (JIT linking), but only where every
        object of the library has some; the CUDA toolkit's own libraries bring such PTX along for
        architectures nobody asked for.
        Source: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#jit-linking
        """
        return self.kind is not ImageKind.LTO_IR and not self.relocatable


def images(source: Path | BinaryIO, origin: str = "") -> tuple[CodeImage, ...]:
    """The device code in a file, by architecture, kind and linkage, in that order.

    Args:
        source: a path, or a seekable binary stream whose position is changed.
        origin: name for errors; a path names itself.

    Returns:
        Empty for a file without device code, which includes one that is neither ELF nor PE.

    Raises:
        TorchwheelError: the file cannot be read, or it is damaged.
    """
    with opened(source, origin) as (stream, name):
        return _images(stream, name)


def combine(parts: Iterable[CodeImage]) -> tuple[CodeImage, ...]:
    """The images of several files as those of one."""
    totals: dict[tuple[Architecture, ImageKind, bool], tuple[int, int]] = {}
    for part in parts:
        key = (part.architecture, part.kind, part.relocatable)
        count, stored_size = totals.get(key, (0, 0))
        totals[key] = (count + part.count, stored_size + part.stored_size)
    ordered = sorted(totals.items(), key=lambda item: (item[0][0], item[0][1].value, item[0][2]))
    return tuple(CodeImage(*key, *total) for key, total in ordered)


def _images(stream: BinaryIO, origin: str) -> tuple[CodeImage, ...]:
    sections = [section for section in read_sections(stream, origin) if section.name in _FAT_BINARY_SECTIONS]
    # Sections that share bytes would multiply the work.
    if sum(section.size for section in sections) > stream.seek(0, 2):
        raise TorchwheelError(
            Problem(
                id="damaged-library",
                what="this is not a complete library: its sections of device code overlap",
                remedy="build or download the file again",
                origin=origin,
            )
        )
    return combine(
        CodeImage(image.architecture, image.kind, _FAT_BINARY_SECTIONS[section.name], 1, image.stored_size)
        for section in sections
        for image in read_fat_binaries(stream, section.offset, section.size, origin)
    )
