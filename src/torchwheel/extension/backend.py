"""The PEP 517 and PEP 660 hooks for projects that build on PyTorch: ``build-backend = "torchwheel.extension.backend"``.

``prepare_metadata_for_build_*`` exist only if metadata is available without building; frontends check with ``hasattr``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel.extension import extension_build, inner_backend
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.survey import hook_request


def _required_packages(config_settings: ConfigSettings | None = None, *, hook: str) -> list[str]:
    with hook_request(config_settings) as request:
        return inner_backend.required_packages(request, hook)


def _build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
    *,
    editable: bool,
) -> str:
    with hook_request(config_settings) as request:
        prepared = Path(metadata_directory) if metadata_directory else None
        return extension_build.build_wheel(request, Path(wheel_directory), prepared, editable=editable)


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Write the source distribution; returns its file name in ``sdist_directory``."""
    with hook_request(config_settings) as request:
        return extension_build.build_sdist(request, Path(sdist_directory))


def _prepare_metadata(
    metadata_directory: str, config_settings: ConfigSettings | None = None, *, editable: bool
) -> str:
    with hook_request(config_settings) as request:
        return extension_build.prepare_metadata(request, Path(metadata_directory), editable=editable)


get_requires_for_build_wheel = partial(_required_packages, hook="get_requires_for_build_wheel")
get_requires_for_build_editable = partial(_required_packages, hook="get_requires_for_build_editable")
get_requires_for_build_sdist = partial(_required_packages, hook="get_requires_for_build_sdist")
build_wheel = partial(_build_wheel, editable=False)
build_editable = partial(_build_wheel, editable=True)

_OPTIONAL: dict[str, Callable[..., str]] = {
    "prepare_metadata_for_build_wheel": partial(_prepare_metadata, editable=False),
    "prepare_metadata_for_build_editable": partial(_prepare_metadata, editable=True),
}


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL and extension_build.metadata_is_cheap(Path.cwd()):
        return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
