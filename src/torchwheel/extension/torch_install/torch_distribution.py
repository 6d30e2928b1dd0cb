"""What the metadata of an installed PyTorch says: its version, who installed it, whether it is editable.

Sources: https://packaging.python.org/specifications/recording-installed-packages/ and, for the folders that
setuptools writes, https://setuptools.pypa.io/en/latest/deprecated/python_eggs.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchwheel.extension.torch_install.installed_files import names_in, read_text

# ``Version`` is the third line; the description, which is long, comes last.
_METADATA_LIMIT = 1 << 16
_SMALL_FILE_LIMIT = 1 << 12

_FOLDER = re.compile(r"torch(?:-[^-]+)?(?:-py\d[\d.]*)?\.(?:dist|egg)-info", re.IGNORECASE)
_VERSION = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)
_EDITABLE = re.compile(r'"editable"\s*:\s*true')


@dataclass(frozen=True)
class TorchDistribution:
    """The metadata of one installed distribution.

    Attributes:
        folder: its ``.dist-info`` or ``.egg-info``.
        version: the Version field; None if it cannot be read.
        installer: who installed it: ``pip``, ``uv``, ``conda``, ``rpm``, ``debian``; None if it is not said.
        recorded: whether there is a list of its files, as there is after the installation of a wheel.
        editable: whether it was installed as editable.
    """

    folder: Path
    version: str | None
    installer: str | None
    recorded: bool
    editable: bool


def torch_distributions(site_packages: Path) -> tuple[TorchDistribution, ...]:
    """Everything in a folder that says that ``torch`` is installed there; more than one is a broken upgrade."""
    names = [name for name in names_in(site_packages) if _FOLDER.fullmatch(name)]
    return tuple(_read(site_packages / name) for name in names)


def _read(folder: Path) -> TorchDistribution:
    metadata = read_text(folder / "METADATA", _METADATA_LIMIT) or read_text(
        folder / "PKG-INFO", _METADATA_LIMIT
    )
    version = _VERSION.search(metadata or "")
    installer = (read_text(folder / "INSTALLER", _SMALL_FILE_LIMIT) or "").strip()
    return TorchDistribution(
        folder=folder,
        version=version[1] if version else None,
        installer=installer or None,
        recorded=(folder / "RECORD").is_file(),
        editable=_EDITABLE.search(read_text(folder / "direct_url.json", _SMALL_FILE_LIMIT) or "") is not None,
    )
