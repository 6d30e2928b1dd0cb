"""The PEP 517 and PEP 660 hooks: thin doors, without logic of their own.

A hook that exists is a promise. ``prepare_metadata_for_build_*`` therefore exists only where metadata can be
had without building, which is never the case for a setup.py tree; frontends look for it with ``hasattr``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchwheel.survey import Request

ConfigSettings = Mapping[str, "str | list[str] | bool"]


def _request(config_settings: ConfigSettings | None, *, in_place: bool = False) -> Request:
    from torchwheel.survey import Request

    return Request(
        project=Path.cwd(),
        config_settings=config_settings or {},
        environment=dict(os.environ),
        in_place=in_place,
    )


@contextmanager
def _hook(config_settings: ConfigSettings | None) -> Iterator[None]:
    """What every hook runs in; front ends give each a process of its own (PEP 517, "Build environment")."""
    from torchwheel._garbage import garbage_left_alone
    from torchwheel.cli.report import told_to_user

    with garbage_left_alone(), told_to_user(config_settings):
        yield


def _start_inner_interpreter() -> None:
    """Have it ready when the plan is made; an isolated environment's is not the one that builds."""
    from torchwheel.engine.environment import is_short_lived

    if not is_short_lived():
        from torchwheel.engine.waiting import start_waiting

        start_waiting()


def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_wheel``."""
    with _hook(config_settings):
        _start_inner_interpreter()
        from torchwheel.engine.questions import required_packages

        return required_packages(_request(config_settings), "get_requires_for_build_wheel")


def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """What the frontend must install before ``build_editable``."""
    with _hook(config_settings):
        _start_inner_interpreter()
        from torchwheel.engine.questions import required_packages

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
        _start_inner_interpreter()
        from torchwheel.engine.build import build_wheel as build

        prepared = Path(metadata_directory) if metadata_directory else None
        return build(_request(config_settings), Path(wheel_directory), prepared).wheel.name


def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build an editable wheel in the tree itself; returns its file name in ``wheel_directory``."""
    with _hook(config_settings):
        _start_inner_interpreter()
        from torchwheel.engine.build import build_wheel as build

        prepared = Path(metadata_directory) if metadata_directory else None
        request = _request(config_settings, in_place=True)
        return build(request, Path(wheel_directory), prepared, editable=True).wheel.name


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Write the source distribution; returns its file name in ``sdist_directory``."""
    with _hook(config_settings):
        from torchwheel.engine.sdist import build_sdist as build

        return build(_request(config_settings), Path(sdist_directory))


def _prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the wheel's metadata; returns the name of the ``.dist-info`` folder."""
    with _hook(config_settings):
        _start_inner_interpreter()
        from torchwheel.engine.questions import prepare_metadata

        return prepare_metadata(_request(config_settings), Path(metadata_directory), editable=False)


def _prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the editable wheel's metadata; returns the name of the ``.dist-info`` folder."""
    with _hook(config_settings):
        _start_inner_interpreter()
        from torchwheel.engine.questions import prepare_metadata

        request = _request(config_settings, in_place=True)
        return prepare_metadata(request, Path(metadata_directory), editable=True)


_OPTIONAL: dict[str, Callable[..., str]] = {
    "prepare_metadata_for_build_wheel": _prepare_metadata_for_build_wheel,
    "prepare_metadata_for_build_editable": _prepare_metadata_for_build_editable,
}


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL:
        from torchwheel.survey import metadata_is_cheap

        if metadata_is_cheap(Path.cwd()):
            return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
