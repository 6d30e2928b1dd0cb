"""The libraries vendored in a tree: its submodules, and folders copied into ``third_party``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torchwheel.system.files import read_beginning
from torchwheel.tree.cmake_options import TOP_FILE, project_version
from torchwheel.tree.git import is_empty, is_inside, read_submodules
from torchwheel.tree.source_tree import SubmoduleState, submodule_states

_THIRD_PARTY = "third_party"
# PyTorch's build_bundled.py writes it, a paragraph for each library: Name, License, Files (folders, after commas).
_LICENCES = f"{_THIRD_PARTY}/LICENSES_BUNDLED.txt"
_LICENCE_FIELD = re.compile(r"^License: (?P<licence>.+)\nFiles: (?P<folders>.+(?:\n {5}.+)*)", re.M)
_LICENCE_FILES = ("LICEN[CS]E*", "COPYING*")
_VERSION = re.compile(r"\A\d+\.\d[A-Za-z\d.-]*\Z", re.ASCII)
# The end of a tag (v1.2.3, release-1.2.3) or of a folder's name (miniz-3.0.2).
_AT_END = re.compile(r"(?:^|[-_])v?(?P<version>\d+\.\d[A-Za-z\d.]*)$", re.ASCII)
_VERSION_FILES = ("VERSION", "VERSION_NUMBER", "VERSION.txt", "version.txt")


@dataclass(frozen=True)
class VendoredLibrary:
    """A library whose source lies in a tree; its licence as in the tree's list of licences."""

    path: str
    name: str
    version: str | None
    commit: str | None
    url: str
    licence: str | None


def vendored_libraries(root: Path) -> tuple[VendoredLibrary, ...]:
    """Return the libraries vendored in a tree, by path, without those whose folder is empty."""
    states, licences = submodule_states(root), dict(_read_licences(root))
    urls = {submodule.path: submodule.url for submodule in read_submodules(root)}
    paths = sorted({*urls, *licences, *_find_copied_folders(root)})
    return tuple(
        _describe_library(
            root, path, states.get(path, SubmoduleState()), urls.get(path, ""), licences.get(path)
        )
        for path in paths
        if not is_empty(root / path)
    )


def _describe_library(
    root: Path, path: str, state: SubmoduleState, url: str, licence: str | None
) -> VendoredLibrary:
    folder = PurePosixPath(path).name
    tagged, named = _AT_END.search(state.tag or ""), _AT_END.search(folder)
    release = tagged or named
    version = release["version"] if release else _stated_version(root / path)
    name = folder[: named.start()] if named and named.start() else folder
    return VendoredLibrary(path, name, version, state.commit, url, licence)


def _stated_version(folder: Path) -> str | None:
    texts = (read_beginning(folder / name).strip() for name in _VERSION_FILES)
    stated = next((text for text in texts if _VERSION.match(text)), None)
    return stated or project_version(read_beginning(folder / TOP_FILE))


def _read_licences(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (folder, licence) of PyTorch's own list."""
    for entry in _LICENCE_FIELD.finditer(read_beginning(root / _LICENCES)):
        for folder in entry["folders"].split(","):
            path = PurePosixPath(folder.strip())
            if is_inside(path):
                yield str(path), entry["licence"].strip()


def _find_copied_folders(root: Path) -> Iterator[str]:
    """Yield the folders in ``third_party`` that have a licence file."""
    for pattern in _LICENCE_FILES:
        for file in (root / _THIRD_PARTY).glob(f"*/{pattern}"):
            yield f"{_THIRD_PARTY}/{file.parent.name}"
