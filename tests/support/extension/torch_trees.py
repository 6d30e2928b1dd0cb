"""Installed PyTorches in little: the files of real ones, by name and form, without their megabytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from put import put

SASS, PTX = 2, 1
PLAIN, ONLY_THIS, FAMILY = 0, 0x100000, 0x200000

CPU_LIBRARIES = ("c10", "shm", "torch", "torch_cpu", "torch_global_deps", "torch_python")
CUDA_LIBRARIES = (*CPU_LIBRARIES, "c10_cuda", "caffe2_nvrtc", "torch_cuda", "torch_cuda_linalg")
_TABLE_OF_STRINGS, _DATA = 3, 1


def elf(*sections: tuple[str, int, bytes, int, int]) -> bytes:
    """A 64-bit little-endian shared object of sections (name, type, content, link, info), numbered from 1."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    body, headers = bytearray(64), [bytes(64)]
    for name, kind, content, link, info in (*sections, (".shstrtab", _TABLE_OF_STRINGS, names, 0, 0)):
        body += bytes(-len(body) % 8)
        place = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(
            struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, len(body), len(content), link, info, 8, 0)
        )
        body += content
    body += bytes(-len(body) % 8)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQI", 3, 62, 1, 0, 0, len(body), 0)
    header += struct.pack("<HHHHHH", 64, 0, 0, 64, len(headers), len(headers) - 1)
    return header + bytes(body[64:]) + b"".join(headers)


def libtorch_cuda(*images: tuple[int, int, int, int]) -> bytes:
    """A ``libtorch_cuda.so`` with device code of (form, number, flags, how many)."""
    code = b""
    for form, number, flags, count in images:
        entry = struct.pack("<HHIQ", form, 0x0101, 64, 8) + struct.pack("<IIHHI", 0, 0, 1, 8, number)
        entry += struct.pack("<IIQQQ", 0, 0, flags | 0x11, 0, 0) + b"\x7fELF\0\0\0\0"
        code += (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry) * count
    return elf((".nv_fatbin", _DATA, code, 0, 0))


@dataclass(frozen=True, kw_only=True)
class TorchTree:
    """What a PyTorch is to be like; `write` makes it."""

    version: str = "2.14.1+cpu"
    cuda: str | None = None
    hip: str | None = None
    debug: bool = False
    git_version: str = "5c4886908584029761b579af026dcfb627c84070"
    libraries: tuple[str, ...] = CPU_LIBRARIES
    code: bytes = b""
    config: str = 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n'

    def write(self, root: Path) -> Path:
        """Write the package into ``root``, without metadata."""
        self.write_python(root)
        self.write_version(root)
        for header in ("c10/macros/Macros.h", "ATen/ATen.h", "torch/csrc/api/include/torch/all.h"):
            put(root / "include" / header, "#pragma once\n")
        for name in self.libraries:
            library = root / "lib" / f"lib{name}.so"
            library.parent.mkdir(exist_ok=True)
            # Those that nothing is read of are empty.
            library.write_bytes(self.code if name == "torch_cuda" else b"")
        put(root / "share/cmake/Torch/TorchConfig.cmake", self.config)
        return root

    def write_python(self, root: Path) -> None:
        """What an import loads first."""
        put(root / "__init__.py", "")

    def write_version(self, root: Path) -> None:
        """``version.py`` as tools/generate_torch_version.py of 2.14 writes it."""
        lines = [
            "from typing import Optional",
            "",
            "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']",
        ]
        lines += [
            f"__version__ = {self.version!r}",
            f"debug = {self.debug}",
            f"cuda: Optional[str] = {self.cuda!r}",
        ]
        lines += [f"git_version = {self.git_version!r}", f"hip: Optional[str] = {self.hip!r}", ""]
        put(root / "version.py", "\n".join(lines))


def write_metadata(site_packages: Path, version: str) -> None:
    """The ``.dist-info`` that installing a wheel leaves."""
    folder = site_packages / f"torch-{version}.dist-info"
    put(folder / "METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n\nTensors\n")
    put(folder / "INSTALLER", "pip\n")
    put(folder / "RECORD", "torch/__init__.py,,\n")


def install(site_packages: Path, tree: TorchTree | None = None, metadata: str | None = None) -> Path:
    """A PyTorch as a wheel installs it; the package's folder."""
    tree = tree or TorchTree()
    write_metadata(site_packages, metadata or tree.version)
    return tree.write(site_packages / "torch")
