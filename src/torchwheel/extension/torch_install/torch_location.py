"""Locate the ``torch`` package that an import would load, with importlib and without importing it.

The finders of setuptools' and scikit-build-core's editable installs work too. In scikit-build-core's redirect mode the
Python files stay in the source tree and the build outputs (libraries, headers, ``version.py``) are in
``site-packages``; of a package's folders the one with ``version.py`` is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path

from torchwheel.system.paths import is_dir, is_file

_SITE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class TorchDistribution:
    """The metadata of an installed distribution called ``torch``.

    Attributes:
        installer: the content of INSTALLER: ``pip``, ``uv``, ``conda``, ``rpm``, ``debian``; None without it.
        recorded: whether there is a list of its files, as for an installed wheel.
    """

    folder: Path
    version: str | None
    installer: str | None
    recorded: bool
    editable: bool


@dataclass(frozen=True)
class TorchLocation:
    """The location of PyTorch.

    Attributes:
        distributions: its metadata; more than one after a broken upgrade.
    """

    root: Path
    site_packages: Path
    editable: bool
    distributions: tuple[TorchDistribution, ...] = ()


def locate_torch(search_path: Sequence[str] | None = None) -> TorchLocation | None:
    """Locate the ``torch`` that an import would load; None if there is none."""
    spec = _find_spec(search_path)
    if spec is None or spec.origin is None:
        return None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    root = next((folder for folder in folders if is_file(folder / "version.py")), Path(spec.origin).parent)
    entries = sys.path if search_path is None else list(search_path)
    found = [_describe_distribution(one) for one in distributions(name="torch", path=entries)]
    beside = tuple(one for one in found if one.folder.parent == root.parent)
    if beside and not is_source_tree(root):
        return TorchLocation(root, root.parent, any(one.editable for one in beside), beside)
    elsewhere = tuple(one for one in found if one.editable)
    if elsewhere:
        return TorchLocation(root, elsewhere[0].folder.parent, editable=True, distributions=elsewhere)
    # `setup.py develop` leaves its metadata in the source tree.
    sites = [one for one in map(Path, entries) if one.name in _SITE_FOLDERS and is_dir(one)]
    site = sites[0] if sites and is_source_tree(root) else root.parent
    return TorchLocation(root, site, editable=bool(beside), distributions=beside)


def torch_leftovers(search_path: Sequence[str] | None = None) -> tuple[Path, ...]:
    """Find folders named ``torch`` without an ``__init__.py``, which an import treats as an empty package."""
    spec = _find_spec(search_path)
    if spec is None or spec.origin is not None:
        return ()
    return tuple(Path(folder) for folder in spec.submodule_search_locations or ())


def is_source_tree(root: Path) -> bool:
    """Whether the package is in PyTorch's source tree, built in place."""
    return is_file(root.parent / "CMakeLists.txt")


def _find_spec(search_path: Sequence[str] | None) -> ModuleSpec | None:
    # The finders remember what a folder contains, and packages may have been installed there since.
    importlib.invalidate_caches()
    if search_path is not None:
        return PathFinder.find_spec("torch", list(search_path))
    try:
        return importlib.util.find_spec("torch")
    except ValueError:  # some tests put a module of that name without a spec into sys.modules
        return None


def _describe_distribution(distribution: Distribution) -> TorchDistribution:
    # importlib.metadata has no public attribute for the folder.
    folder = Path(str(distribution._path))  # type: ignore[attr-defined]
    installer = (distribution.read_text("INSTALLER") or "").strip()
    return TorchDistribution(
        folder=folder,
        version=_distribution_version(distribution),
        installer=installer or None,
        recorded=is_file(folder / "RECORD"),
        editable=_is_editable(distribution.read_text("direct_url.json")),
    )


def _distribution_version(distribution: Distribution) -> str | None:
    try:
        metadata = distribution.metadata
        return str(metadata["Version"]) if "Version" in metadata else None
    except (TypeError, ValueError):  # no METADATA, or it is not text
        return None


def _is_editable(direct_url: str | None) -> bool:
    """Source: https://packaging.python.org/specifications/direct-url/"""
    try:
        return bool(json.loads(direct_url or "{}").get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError, RecursionError):
        return False
