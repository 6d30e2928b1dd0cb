"""The PEP 517 and PEP 660 hooks for PyTorch trees: each makes a BuildRequest and calls one function.

``prepare_metadata_for_build_*`` exists only if metadata is available without building, which is never so for a setup.py
tree; frontends check with ``hasattr``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel.engine import build, hooks, sdist
from torchwheel.reporting.terminal import say
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.survey import hook_request, metadata_is_cheap


def _required_packages(config_settings: ConfigSettings | None = None, *, kind: str) -> list[str]:
    """Return the requirements that the frontend must install first."""
    with hook_request(config_settings, in_place=kind == "editable") as request:
        return hooks.required_packages(request, kind)


def _build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
    *,
    kind: str,
) -> str:
    """Build the wheel, an editable one in the tree itself; returns its file name in ``wheel_directory``."""
    with hook_request(config_settings, in_place=kind == "editable") as request:
        prepared = Path(metadata_directory) if metadata_directory else None
        built = build.build_wheel(request, Path(wheel_directory), prepared, kind)
        say(f"{built.wheel.name} took {built.took}")
        return built.wheel.name


def _prepare_metadata(
    metadata_directory: str, config_settings: ConfigSettings | None = None, *, kind: str
) -> str:
    """Write the metadata; returns the name of the ``.dist-info`` folder."""
    with hook_request(config_settings, in_place=kind == "editable") as request:
        return hooks.prepare_metadata(request, Path(metadata_directory), kind=kind)


def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return the requirements for ``build_sdist``: none."""
    return []


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Write the source distribution; returns its file name in ``sdist_directory``."""
    with hook_request(config_settings) as request:
        return sdist.build_sdist(request, Path(sdist_directory))


get_requires_for_build_wheel = partial(_required_packages, kind="wheel")
get_requires_for_build_editable = partial(_required_packages, kind="editable")
build_wheel = partial(_build_wheel, kind="wheel")
build_editable = partial(_build_wheel, kind="editable")

_OPTIONAL: dict[str, Callable[..., str]] = {
    "prepare_metadata_for_build_wheel": partial(_prepare_metadata, kind="wheel"),
    "prepare_metadata_for_build_editable": partial(_prepare_metadata, kind="editable"),
}


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL and metadata_is_cheap(Path.cwd()):
        return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
