"""CUDA toolkits in folders of torchwheel's own: assembled from PyPI's packages, or of links to another toolkit.

The folder ``nvidia/cu13`` of NVIDIA's packages lacks three things that nvcc, CMake and PyTorch need: ``lib64``, which
nvcc's own profile, PyTorch's FindCUDA and ``cpp_extension`` name; libraries without a version in their names, for
linkers; and a library to link for the driver. It also belongs to an environment that a frontend may delete after the
build and whose path changes every time. The assembled toolkit therefore has its own files, hard links if possible, in
a folder named by the packages' versions: the same packages give the same paths, and so hits in compiler caches.

conda has ``PREFIX/bin/nvcc`` and ``PREFIX/targets/x86_64-linux/include``, while ``PREFIX/include`` belongs to the whole
environment; PyTorch's FindCUDA looks for ``include`` and ``lib64`` in the toolkit's own folder. Tools may also misread
a character of a path. Such a toolkit gets a folder of links in NVIDIA's usual layout, which do not change nvcc: it
finds itself in the real folder (https://github.com/conda-forge/cuda-nvcc-feedstock/tree/main/recipe).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from torchwheel.host.this import odd_characters
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.files import file_sha256, replace_path, short_digest
from torchwheel.system.locks import file_lock, lock_beside
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.toolkit.cuda_toolkit import Toolkit, path_of
from torchwheel.toolkit.pypi import (
    InstalledPackages,
    RecordedPackage,
    compiler_packages,
    installed_packages,
    toolkits_folder,
)
from torchwheel.versions import parse_numbers

_COMPLETE = "version.json"
"""Written last, and read by torchwheel and CMake for the version."""
_VERSIONED_LIBRARY = re.compile(r"(?P<name>lib.+\.so)\.(?P<version>\d+(?:\.\d+)*)")
# The headers that declare functions of the driver's library.
_DRIVER_HEADERS = ("cuda.h", "cudaEGL.h", "cudaGL.h", "cudaProfiler.h", "cudaVDPAU.h")
_LINKED = ("bin", "nvvm", "targets")


def assemble_toolkit(site_packages: Path, cache: Path) -> Toolkit:
    """Assemble the toolkit of the packages in a folder, unless it exists.

    Any number of processes may do so at once; the folder gets its name when it is complete, and is never changed or
    removed afterwards. It has the files in RECORD, and each is compared with its hash there.
    """
    installed = installed_packages(site_packages)
    if installed is None:
        raise refusal("no-nvcc-in-packages", folder=site_packages)
    _require_single_release(installed)
    toolkit = installed.toolkit(cache)
    root = Path(toolkit.root)
    try:
        if not is_assembled(root):
            _assemble_folder(installed, root)
    except OSError as error:
        raise _not_assembled(root, error) from error
    return toolkit


def is_assembled(root: Path) -> bool:
    return is_file(root / _COMPLETE)


def _not_assembled(folder: Path, error: OSError) -> TorchwheelError:
    return refusal("toolkit-not-assembled", folder=folder, reason=error.strerror or error)


def _require_single_release(installed: InstalledPackages) -> None:
    """Refuse a compiler whose parts are of different CUDA releases."""
    # Only of those; most of NVIDIA's libraries count in numbers of their own.
    versions = installed.versions
    parts = {name: versions[name] for name in sorted(compiler_packages()) if name in versions}
    if not all(version.startswith(f"{installed.release}.") for version in parts.values()):
        listed = ", ".join(f"{name} {version}" for name, version in parts.items())
        folder, release = installed.site_packages, installed.release
        raise refusal("toolkit-packages-mixed", folder=folder, packages=listed, release=release)


def _assemble_folder(installed: InstalledPackages, root: Path) -> None:
    with file_lock(lock_beside(root)):
        if is_assembled(root):
            return
        # Under the lock, either can only be left from a killed process or half deleted by a user.
        part = root.with_name(root.name + ".part")
        for leftover in (part, root):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            _link_files(installed, part)
            if sys.platform != "win32":
                _add_library_names(part)
                _add_driver_stub(part)
            _write_versions(installed, part)
            replace_path(part, root)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _link_files(installed: InstalledPackages, root: Path) -> None:
    """Link the files in RECORD, each compared with it; other files do not belong to the packages."""
    for package in installed.packages:
        for path, recorded in package.files.items():
            source, place = installed.site_packages / path, root / path.split("/", 2)[2]
            _check_file(package, source, recorded)
            place.parent.mkdir(parents=True, exist_ok=True)
            # Two packages may contain the same file.
            if exists(place):
                continue
            # 2 GB of links take no space and 0.1 s, but the environment may be on another file system.
            try:
                os.link(source, place)
            except OSError:
                shutil.copy2(source, place)


def _check_file(package: RecordedPackage, file: Path, recorded: str) -> None:
    why = "it is missing"
    with suppress(FileNotFoundError):
        found = "sha256=" + base64.urlsafe_b64encode(file_sha256(file)).decode().rstrip("=")
        if found == recorded:
            return
        why = f"its hash is {found}, and RECORD says {recorded or 'none'}"
    raise refusal("toolkit-file-changed", file=file, package=package.name, version=package.version, why=why)


def _add_library_names(root: Path) -> None:
    """Add ``lib64``, and for each ``libX.so.13`` a link ``libX.so``."""
    if not exists(root / "lib64"):
        # Relative, because the folder is renamed when it is complete.
        (root / "lib64").symlink_to("lib")
    versions: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in sorted(path.name for path in (root / "lib").iterdir()):
        if match := _VERSIONED_LIBRARY.fullmatch(file):
            # As texts, 10 would come before 9.
            number = parse_numbers(match["version"])
            versions[match["name"]] = max(versions.get(match["name"], ((), "")), (number, file))
    for name, (_, newest) in versions.items():
        if not exists(root / "lib" / name):
            (root / "lib" / name).symlink_to(newest)


def _add_driver_stub(root: Path) -> None:
    """Add ``lib64/stubs/libcuda.so``, the path of NVIDIA's installers."""
    machine = os.uname().machine
    stub = root / "lib" / "stubs" / "libcuda.so"
    if machine not in MACHINES or exists(stub):
        return
    headers = [root / "include" / name for name in _DRIVER_HEADERS]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in headers if is_file(path)]
    stub.parent.mkdir()
    stub.write_bytes(stub_library(driver_functions("\n".join(texts)), machine))


def _write_versions(installed: InstalledPackages, root: Path) -> None:
    """Write version.json like NVIDIA's installers, with their names of the parts, and the list of packages."""
    content = {
        "cuda_nvcc": {"name": "CUDA NVCC", "version": installed.compiler_version},
        "packages": dict(sorted(installed.versions.items())),
    }
    (root / _COMPLETE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def linked_toolkit(toolkit: Toolkit, cache: Path) -> Toolkit:
    """Return the toolkit for builds: the same, or with a folder of links in its place."""
    root = path_of(toolkit.root)
    usual = not toolkit.include_dirs or root / "include" in map(path_of, toolkit.include_dirs)
    if isinstance(root, PureWindowsPath) or (usual and not odd_characters(root)):
        return toolkit
    folder = toolkits_folder(cache) / f"links-{short_digest(map('='.join, _links_of(toolkit).items()))}"
    return replace(
        toolkit,
        root=str(folder),
        nvcc=toolkit.nvcc and str(folder / "bin" / path_of(toolkit.nvcc).name),
        library_dir=toolkit.library_dir and str(folder / "lib64"),
    )


def make_linked_toolkit(toolkit: Toolkit, cache: Path) -> None:
    """Create a toolkit's folder of links, if it needs one and there is none."""
    linked = linked_toolkit(toolkit, cache)
    folder = Path(linked.root)
    # The toolkit is usable as it is.
    if linked is toolkit or is_dir(folder):
        return
    # Two builds may do this at once without a lock: each fills its own folder, and the first rename wins.
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, target in _links_of(toolkit).items():
            (part / name).symlink_to(target)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        # Another build may have created it meanwhile.
        if not is_dir(folder):
            raise _not_assembled(folder, error) from error


def _links_of(toolkit: Toolkit) -> dict[str, str]:
    root, libraries = path_of(toolkit.root), toolkit.library_dir
    links = {name: str(root / name) for name in _LINKED} | {"include": toolkit.include_dirs[0]}
    return links | (dict.fromkeys(("lib", "lib64"), libraries) if libraries else {})


_SONAME = "libcuda.so.1"
"""The driver's own library, which a program linked with the stub loads when it starts."""
MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF's machine numbers, ``e_machine``."""

_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
# cuda.h renames functions: '#define cuMemAlloc cuMemAlloc_v2', '__CUDA_API_PTSZ(cuMemcpyAsync)'.
_RENAMED = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+cu[A-Z]\w*[ \t]+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?[ \t]*$",
    re.MULTILINE,
)

_HEADER_SIZE = _SECTION_SIZE = 64
_SYMBOL_SIZE = 24
_HEADER = "<16sHHIQQQIHHHHHH"
_IDENTITY = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian."""
_SHARED_OBJECT = 3
_GLOBAL_FUNCTION = 0x12
# A symbol in section 0 would be undefined.
_TEXT_INDEX, _STRINGS_INDEX = 1, 3
_DT_NULL, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 5, 6, 10, 11, 14
_PROGBITS, _STRTAB, _DYNAMIC, _DYNSYM = 1, 3, 6, 11
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4


def driver_functions(header: str) -> frozenset[str]:
    """The functions of the driver's library that programs call through a header such as ``cuda.h``."""
    names = set(_DECLARED.findall(header))
    for stream, name in _RENAMED.findall(header):
        names.add(name)
        if stream:
            names.add(f"{name}_{stream.lower()}")
    return frozenset(names)


def stub_library(functions: Iterable[str], machine: str) -> bytes:
    """Build a library to link: header, the sections' data, then the section table, which begins with an empty entry.

    A linker reads only a shared library's name and symbols, so it needs no code (System V ABI, chapters 4 and 5).
    """
    names = sorted(set(functions))
    strings, offsets = bytearray(1), {}
    # One table holds the names of symbols and of sections.
    for text in (_SONAME, ".text", ".dynsym", ".dynstr", ".dynamic", *names):
        offsets[text] = len(strings)
        strings += text.encode() + b"\0"
    symbols = bytes(_SYMBOL_SIZE) + b"".join(
        struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, _TEXT_INDEX, 0, 0) for name in names
    )
    # Linkers find tables by section; a library that is never loaded has addresses 0.
    tags = {_DT_SONAME: offsets[_SONAME], _DT_STRSZ: len(strings), _DT_SYMENT: _SYMBOL_SIZE}
    tags |= dict.fromkeys((_DT_STRTAB, _DT_SYMTAB, _DT_NULL), 0)
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in tags.items())
    # Name, type, flags, data, and the table's links: section, first global symbol, size of an entry.
    sections = (
        (".text", _PROGBITS, _ALLOC | _EXECUTE, bytes(16), 0, 0, 0),
        (".dynsym", _DYNSYM, _ALLOC, symbols, _STRINGS_INDEX, 1, _SYMBOL_SIZE),
        (".dynstr", _STRTAB, _ALLOC, bytes(strings), 0, 0, 0),
        (".dynamic", _DYNAMIC, _ALLOC | _WRITE, dynamic, _STRINGS_INDEX, 0, 16),
    )
    body, table = b"", bytes(_SECTION_SIZE)
    for name, kind, flags, data, link, info, size in sections:
        place = _HEADER_SIZE + len(body)
        entry = (offsets[name], kind, flags, place, place, len(data), link, info, 8, size)
        table += struct.pack("<IIQQQQIIQQ", *entry)
        body += data + bytes(-len(data) % 8)
    sizes = (_HEADER_SIZE, 0, 0, _SECTION_SIZE, len(sections) + 1, _STRINGS_INDEX)
    kind_of_file = (_IDENTITY, _SHARED_OBJECT, MACHINES[machine], 1)
    header = struct.pack(_HEADER, *kind_of_file, 0, 0, _HEADER_SIZE + len(body), 0, *sizes)
    return header + body + table
