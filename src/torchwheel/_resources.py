"""Where the data folders are that lie beside ``src`` in the repository and inside the package once installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _data_folder(installed: str, in_repository: str) -> Path:
    folder = _PACKAGE / installed
    if folder.is_dir():
        return folder
    return _PACKAGE.parents[1] / in_repository


def overlays_folder() -> Path:
    """The folder of the built-in overlays and profiles."""
    return _data_folder("overlays", "overlays")


def shim_folder() -> Path:
    """The folder of the in-tree backend shim that ``torchwheel adopt`` copies."""
    return _data_folder("shim", "backend")
