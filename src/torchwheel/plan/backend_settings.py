"""The config settings that the tree's own backend is given."""

from __future__ import annotations

from collections.abc import Iterable

from torchwheel.plan.forwarding import Forwarding
from torchwheel.plan.model import BuildFolders, Define
from torchwheel.settings import Settings

BackendSettings = dict[str, "str | list[str]"]

_OPTIONAL_PREFIX = "skbuild."
_ARGUMENTS = "cmake.args"


def asked_settings(settings: Settings) -> BackendSettings:
    """What the user gave for the tree's own backend, with what CMAKE_ARGS holds beside options.

    ``-C cmake.args`` stands behind it, since of contradicting arguments CMake takes the last.
    """
    asked: BackendSettings = {
        key.removeprefix(_OPTIONAL_PREFIX): str(value).lower() if isinstance(value, bool) else value
        for key, value in settings.passthrough.items()
    }
    if settings.cmake_args:
        asked[_ARGUMENTS] = [*settings.cmake_args, *_words(asked.get(_ARGUMENTS, []))]
    return asked


def backend_settings(
    asked: BackendSettings,
    build_type: str,
    ways: Forwarding,
    defines: Iterable[Define],
    folders: BuildFolders,
) -> BackendSettings:
    """All config settings for the tree's own backend: the user's own, then the plan's.

    Args:
        asked: from :func:`asked_settings`.
        build_type: CMake's build type.
        ways: how the generation's build takes options.
        defines: the options that reach CMake as config settings.
        folders: where it builds.
    """
    if not ways.defines:
        return {key: value for key, value in asked.items() if key != _ARGUMENTS}
    return {
        **asked,
        "build-dir": str(folders.build),
        "cmake.build-type": build_type,
        **{f"cmake.define.{define.name}": define.value for define in defines},
    }


def _words(value: str | list[str]) -> list[str]:
    """scikit-build-core splits a list that comes as text at semicolons."""
    return value.split(";") if isinstance(value, str) else value
