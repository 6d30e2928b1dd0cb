"""The PEP 517 and PEP 660 hooks for PyTorch trees: each makes a BuildRequest and calls one function.

A hook that exists is a promise. ``prepare_metadata_for_build_*`` therefore exists only where metadata can be
had without building, which is never the case for a setup.py tree; frontends look for it with ``hasattr``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchwheel.engine import build, hooks, sdist
from torchwheel.reporting import report_errors
from torchwheel.survey import BuildRequest, ConfigSettings, metadata_is_cheap


def _request(config_settings: ConfigSettings | None, kind: str = "wheel") -> BuildRequest:
    return BuildRequest(
        project=Path.cwd(),
        config_settings=config_settings or {},
        environment=dict(os.environ),
        in_place=kind == "editable",
    )


def _required(config_settings: ConfigSettings | None, kind: str) -> list[str]:
    with report_errors(config_settings):
        return hooks.required_packages(_request(config_settings, kind), kind)


def _build(
    wheel_directory: str, config_settings: ConfigSettings | None, metadata_directory: str | None, kind: str
) -> str:
    with report_errors(config_settings):
        prepared = Path(metadata_directory) if metadata_directory else None
        request = _request(config_settings, kind)
        return build.build_wheel(
            request, Path(wheel_directory), prepared, editable=kind == "editable"
        ).wheel.name


def _prepare_metadata(metadata_directory: str, config_settings: ConfigSettings | None, kind: str) -> str:
    with report_errors(config_settings):
        return hooks.prepare_metadata(_request(config_settings, kind), Path(metadata_directory), kind=kind)


def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_wheel``."""
    return _required(config_settings, "wheel")


def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_editable``."""
    return _required(config_settings, "editable")


def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_sdist``: nothing."""
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel; returns its file name in ``wheel_directory``."""
    return _build(wheel_directory, config_settings, metadata_directory, "wheel")


def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build an editable wheel in the tree itself; returns its file name in ``wheel_directory``."""
    return _build(wheel_directory, config_settings, metadata_directory, "editable")


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Write the source distribution; returns its file name in ``sdist_directory``."""
    with report_errors(config_settings):
        return sdist.build_sdist(_request(config_settings), Path(sdist_directory))


def _prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the wheel's metadata; returns the name of the ``.dist-info`` folder."""
    return _prepare_metadata(metadata_directory, config_settings, "wheel")


def _prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the editable wheel's metadata; returns the name of the ``.dist-info`` folder."""
    return _prepare_metadata(metadata_directory, config_settings, "editable")


_OPTIONAL: dict[str, Callable[..., str]] = {
    "prepare_metadata_for_build_wheel": _prepare_metadata_for_build_wheel,
    "prepare_metadata_for_build_editable": _prepare_metadata_for_build_editable,
}


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL and metadata_is_cheap(Path.cwd()):
        return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
