"""What the loader of Linux does with the libraries of a wheel when Python imports its modules.

The loader looks for a name in the folders that a library carries (DT_RUNPATH, DT_RPATH) and in the system's, unless a
library of that name is loaded already.
Source: https://man7.org/linux/man-pages/man8/ld.so.8.html
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.system.paths import exists
from torchwheel.wheel.archive import open_package
from torchwheel.wheel.bounded_file import Allowance, BoundedFile
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.objfile import IDENTITY, LibraryFormat, Linkage, find_linkage

MODULE = re.compile(
    r"(?P<name>[^/.]+)(?P<tag>\.(?:cpython-|cp)(?P<python>\d+t?)-(?P<platform>[\w-]+)|\.abi3|)\.(?P<kind>so|pyd)"
)
"""The file name of a module: https://docs.python.org/3/library/importlib.html#importlib.machinery.EXTENSION_SUFFIXES."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class LoadedFile:
    """A library or module of a wheel.

    Attributes:
        linkage: what it takes from others; with a fault where the loader refuses it.
        is_module: whether it has a module's name and the function that Python calls.
        folders: where it has libraries looked for, from the folder that the wheel is installed into; absolute ones are
            of a machine.
    """

    member: str
    path: str
    linkage: Linkage
    is_module: bool
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Lookup:
    """A library that another one names.

    Attributes:
        found: the path of the file that is loaded; empty for none of the wheel.
        is_led: whether the search path leads there; else something must have loaded it before.
    """

    library: LoadedFile
    name: str
    found: str
    is_led: bool


def read_files(contents: WheelContents) -> dict[str, LoadedFile]:
    """Return the ELF and PE files of a wheel, or of an installed package, by path."""
    allowance, found = Allowance(), {}
    with open_package(contents.path) as archive:
        for library in contents.libraries:
            start = next(iter(archive.chunks(library.path)), b"")
            if start.startswith((IDENTITY, b"MZ")) or MODULE.fullmatch(posixpath.basename(library.path)):
                with archive.unpacked(library.path) as stream:
                    if file := _read_file(stream, library.path, contents, allowance):
                        found[file.path] = file
    return found


def _read_file(
    stream: BinaryIO, member: str, contents: WheelContents, allowance: Allowance
) -> LoadedFile | None:
    file = BoundedFile.of(stream, f"{contents.path}: {member}", allowance)
    path = installed_path(member)
    match = MODULE.fullmatch(posixpath.basename(path))
    # The function of a module whose name has other letters starts with PyInitU_ (PEP 489).
    init = f"\0PyInit_{match['name']}\0".encode() if match else b""
    is_module = match is not None and (not match["name"].isascii() or _has_bytes(stream, init))
    linkage = find_linkage(file, symbols=False)
    if linkage is None:
        if not is_module:
            return None
        linkage = Linkage(
            LibraryFormat.ELF, (), (), fault="it is neither a 64-bit little-endian ELF file nor PE"
        )
    here = posixpath.dirname(path)
    folders = (_resolve_entry(entry, here) for entry in linkage.search_path)
    return LoadedFile(member, path, linkage, is_module, tuple(dict.fromkeys(folders)))


def _has_bytes(stream: BinaryIO, wanted: bytes) -> bool:
    stream.seek(0)
    before = b""
    while chunk := stream.read(_CHUNK):
        if wanted in before + chunk:
            return True
        before = chunk[-len(wanted) :]
    return False


def installed_path(path: str) -> str:
    """Where a member of a wheel lies once it is installed: ``NAME.data/purelib`` and ``platlib`` are not there then."""
    parts = path.split("/")
    in_data = len(parts) > 2 and parts[0].endswith(".data") and parts[1] in ("purelib", "platlib")
    return "/".join(parts[2:]) if in_data else path


def _resolve_entry(entry: str, here: str) -> str:
    # The loader accepts both spellings.
    entry = entry.replace("${ORIGIN}", "$ORIGIN")
    if not entry.startswith("$ORIGIN"):
        return entry
    folder = posixpath.normpath(posixpath.join(here, entry.removeprefix("$ORIGIN").lstrip("/") or "."))
    return "" if folder == "." else folder


def find_lookups(
    files: Mapping[str, LoadedFile], roots: Sequence[LoadedFile], site: Path | None
) -> tuple[Lookup, ...]:
    """Return every name that is looked for when the roots are loaded, as the loader finds it."""
    by_name: dict[str, LoadedFile] = {}
    for file in files.values():
        by_name.setdefault(posixpath.basename(file.path), file)
    found: dict[tuple[str, str], Lookup] = {}
    for root in roots:
        # Those that were loaded before, with the search paths that the ones above pass on.
        queue: deque[tuple[LoadedFile, tuple[str, ...]]] = deque([(root, ())])
        loaded = {posixpath.basename(root.path)}
        while queue:
            library, above = queue.popleft()
            passed = (*library.folders, *above) if library.linkage.passes_on else above
            folders = passed if library.linkage.passes_on or not library.folders else library.folders
            for name in library.linkage.libraries:
                if name in loaded:
                    continue
                path, is_led = _look_for(name, folders, files, by_name, site)
                one = Lookup(library, name, path, is_led)
                known = found.setdefault((library.path, name), one)
                if is_led and not known.is_led:
                    found[library.path, name] = one
                loaded.add(name)
                if path in files:
                    queue.append((files[path], passed))
    return tuple(found.values())


def _look_for(
    name: str,
    folders: Sequence[str],
    files: Mapping[str, LoadedFile],
    by_name: Mapping[str, LoadedFile],
    site: Path | None,
) -> tuple[str, bool]:
    """The path of a library, and whether the folders lead there."""
    for folder in folders:
        path = posixpath.join(folder, name)
        if path in files or (site is not None and not folder.startswith("/") and exists(site / path)):
            return path, True
    return (by_name[name].path, False) if name in by_name else ("", False)
