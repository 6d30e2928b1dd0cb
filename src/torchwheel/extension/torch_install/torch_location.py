"""Where the ``torch`` package is that an import would find, without importing anything of it.

The folders of ``sys.path`` are looked through in their order, and what editable installs put beside them in a
``site-packages`` folder is read as text:

* a line of a ``.pth`` file that names a folder (``setup.py develop``, ``pip install -e`` in setuptools' other
  modes, scikit-build-core's in-place mode),
* the table in setuptools' ``__editable___torch_VERSION_finder.py``,
* the table in scikit-build-core's ``_editable_skbc_torch.py``. There the Python files stay in the source tree,
  and what was built (libraries, headers, ``version.py``) is in ``site-packages``: that is the folder to read.

Sources: https://docs.python.org/3/library/site.html,
https://setuptools.pypa.io/en/latest/userguide/development_mode.html and
https://scikit-build-core.readthedocs.io/en/latest/configuration/index.html#editable-installs
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.extension.torch_install.installed_files import names_in, read_text

_SITE_FOLDERS = ("site-packages", "dist-packages")

# A .pth file has a few lines; scikit-build-core's table has a line for every module and folder of PyTorch.
_PTH_LIMIT = 1 << 16
_FINDER_LIMIT = 1 << 24

_SETUPTOOLS_FINDER = re.compile(r"\b__editable___\w+_finder\b")
_SCIKIT_BUILD_FINDER = re.compile(r"\b(?:_editable_skbc_\w+|_\w+_editable)\b")

_LITERAL = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_PACKAGE_ENTRY = re.compile(rf"['\"]torch['\"]:\s*({_LITERAL})")
_VERSION_ENTRY = re.compile(rf"['\"]torch\.version['\"]:\s*({_LITERAL})")


@dataclass(frozen=True)
class TorchLocation:
    """Where PyTorch is installed.

    Attributes:
        root: the package's folder, the one with what was built.
        site_packages: the folder with its metadata and the packages it depends on.
        editable: whether an editable install leads to it.
    """

    root: Path
    site_packages: Path
    editable: bool


@dataclass(frozen=True)
class _Site:
    """What one ``site-packages`` folder adds to the search."""

    folder: Path
    paths: tuple[Path, ...]
    setuptools_finders: tuple[str, ...]
    scikit_build_finders: tuple[str, ...]


def find_torch(search_path: Sequence[str] | None = None) -> Path | None:
    """The folder of the ``torch`` package that an import would load; None if there is none.

    Args:
        search_path: folders in the form of ``sys.path``, which is the default.
    """
    location = locate_torch(search_path)
    return None if location is None else location.root


def locate_torch(search_path: Sequence[str] | None = None) -> TorchLocation | None:
    """Like `find_torch`, with how it was found."""
    entries = _entries(search_path)
    sites = [_read_site(entry) for entry in entries if entry.name in _SITE_FOLDERS and entry.is_dir()]
    # scikit-build-core puts its finder before Python's own, setuptools behind.
    return (
        _from_tables(sites, scikit_build=True)
        or _from_folders(entries, sites)
        or _from_tables(sites, scikit_build=False)
    )


def torch_leftovers(search_path: Sequence[str] | None = None) -> tuple[Path, ...]:
    """Folders called ``torch`` without an ``__init__.py``: an import takes them for an empty package."""
    folders = (entry / "torch" for entry in _entries(search_path))
    return tuple(folder for folder in folders if folder.is_dir() and not (folder / "__init__.py").is_file())


def _entries(search_path: Sequence[str] | None) -> list[Path]:
    entries = sys.path if search_path is None else search_path
    return list(dict.fromkeys(Path(entry) if entry else Path.cwd() for entry in entries))


def _from_tables(sites: Iterable[_Site], *, scikit_build: bool) -> TorchLocation | None:
    for site in sites:
        for module in site.scikit_build_finders if scikit_build else site.setuptools_finders:
            text = read_text(site.folder / f"{module}.py", _FINDER_LIMIT) or ""
            value = _last_value(_VERSION_ENTRY if scikit_build else _PACKAGE_ENTRY, text)
            if value is not None:
                place = site.folder / value
                return TorchLocation(place.parent if scikit_build else place, site.folder, editable=True)
    return None


def _from_folders(entries: Iterable[Path], sites: Sequence[_Site]) -> TorchLocation | None:
    named_by = {path: site.folder for site in reversed(sites) for path in site.paths}
    added = {site.folder: site.paths for site in sites}
    for entry in entries:
        for folder in (entry, *added.get(entry, ())):
            if (folder / "torch" / "__init__.py").is_file():
                site = named_by.get(folder)
                return TorchLocation(folder / "torch", site or folder, editable=site is not None)
    return None


def _read_site(folder: Path) -> _Site:
    names = [name for name in names_in(folder) if name.endswith((".pth", ".start"))]
    text = "\n".join(read_text(folder / name, _PTH_LIMIT) or "" for name in names)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    code = "\n".join(line for line in lines if line.startswith(("import ", "import\t")) or ":" in line)
    return _Site(
        folder=folder,
        paths=tuple(folder / line for line in lines if not line.startswith(("import ", "import\t"))),
        setuptools_finders=tuple(dict.fromkeys(_SETUPTOOLS_FINDER.findall(code))),
        scikit_build_finders=tuple(dict.fromkeys(_SCIKIT_BUILD_FINDER.findall(code))),
    )


def _last_value(entry: re.Pattern[str], text: str) -> str | None:
    """The string under a key; of several tables the last, which is the one that wins in scikit-build-core."""

    found = entry.findall(text)
    if not found:
        return None
    try:
        value = ast.literal_eval(found[-1])
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None
