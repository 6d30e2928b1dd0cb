"""The PEP 517 and PEP 660 hooks: thin doors, without logic of their own.

A hook that exists is a promise. ``prepare_metadata_for_build_*`` therefore exists only where metadata can be
had without building, which is never the case for a setup.py tree; frontends look for it with ``hasattr``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchwheel.engine import build as wheel
from torchwheel.engine import sdist
from torchwheel.engine.questions import prepare_metadata, required_packages
from torchwheel.reporting import report_errors
from torchwheel.survey import BuildRequest, metadata_is_cheap

ConfigSettings = Mapping[str, "str | list[str] | bool"]


def _request(config_settings: ConfigSettings | None, *, in_place: bool = False) -> BuildRequest:
    return BuildRequest(
        project=Path.cwd(),
        config_settings=config_settings or {},
        environment=dict(os.environ),
        in_place=in_place,
    )


@contextmanager
def _hook(config_settings: ConfigSettings | None) -> Iterator[None]:
    """What every hook runs in; front ends give each a process of its own (PEP 517, "Build environment")."""

    with report_errors(config_settings):
        yield


def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_wheel``."""
    with _hook(config_settings):
        return required_packages(_request(config_settings), "get_requires_for_build_wheel")


def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_editable``."""
    with _hook(config_settings):
        request = _request(config_settings, in_place=True)
        return required_packages(request, "get_requires_for_build_editable")


def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_sdist``: nothing."""
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel; returns its file name in ``wheel_directory``."""
    with _hook(config_settings):
        prepared = Path(metadata_directory) if metadata_directory else None
        return wheel.build_wheel(_request(config_settings), Path(wheel_directory), prepared).wheel.name


def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build an editable wheel in the tree itself; returns its file name in ``wheel_directory``."""
    with _hook(config_settings):
        prepared = Path(metadata_directory) if metadata_directory else None
        request = _request(config_settings, in_place=True)
        return wheel.build_wheel(request, Path(wheel_directory), prepared, editable=True).wheel.name


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Write the source distribution; returns its file name in ``sdist_directory``."""
    with _hook(config_settings):
        return sdist.build_sdist(_request(config_settings), Path(sdist_directory))


def _prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the wheel's metadata; returns the name of the ``.dist-info`` folder."""
    with _hook(config_settings):
        return prepare_metadata(_request(config_settings), Path(metadata_directory), editable=False)


def _prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the editable wheel's metadata; returns the name of the ``.dist-info`` folder."""
    with _hook(config_settings):
        request = _request(config_settings, in_place=True)
        return prepare_metadata(request, Path(metadata_directory), editable=True)


_OPTIONAL: dict[str, Callable[..., str]] = {
    "prepare_metadata_for_build_wheel": _prepare_metadata_for_build_wheel,
    "prepare_metadata_for_build_editable": _prepare_metadata_for_build_editable,
}


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL and metadata_is_cheap(Path.cwd()):
        return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
