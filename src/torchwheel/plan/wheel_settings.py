"""What is set for scikit-build-core's wheel: its tags, and where CMake installs to. Judged before the compile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from torchwheel.errors import Problem
from torchwheel.host.model import Host, Python, is_free_threaded
from torchwheel.settings import Settings
from torchwheel.settings.config_settings import argument_words, passthrough
from torchwheel.settings.value_types import truth
from torchwheel.tree.model import Generation, Tree
from torchwheel.versions import numbers

_TABLE = ("tool", "scikit-build", "wheel")
_KINDS = ("Python", "ABI", "platform")
_ANY = "any"


def wheel_problems(settings: Settings, tree: Tree, host: Host) -> Iterator[Problem]:
    """Errors where a tree's wheel would fail its proof because of scikit-build-core's settings."""
    if tree.generation is not Generation.SCIKIT_BUILD_CORE:
        return
    python = host.python
    yield from tag_problems(
        settings, python, (python.interpreter_tag, python.abi_tag, host.platform_tag), "leave it out"
    )
    own = _written(settings).get("install-dir", "")
    for folder, origin in install_folders(settings):
        if folder != own:
            yield Problem.of("wheel-empty/planned", origin=origin, folder=folder, name=tree.name)


def tag_problems(
    settings: Settings, python: Python, planned: Sequence[str | None], remedy: str
) -> Iterator[Problem]:
    """Report tags set for scikit-build-core that differ from the planned ones, or that name no platform.

    Args:
        planned: the tags of Python, its ABI and the platform; None for any, but a wheel with code is of some platform.
    """
    read = _read_tags(settings, python)
    if read is None:
        return
    tags, origin = read
    wrong = [
        f"the {kind} tag {'.'.join(dict.fromkeys(found))}" + (f" instead of {own}" if own else "")
        for kind, found, own in zip(_KINDS, tags, planned, strict=True)
        if found and (_ANY in found or (own is not None and {*found} != {own}))
    ]
    if wrong:
        yield Problem.of("wheel-tag/planned", origin=origin, tags=", ".join(wrong), fix=remedy)


def install_folders(settings: Settings) -> Iterator[tuple[str, str]]:
    """The folder of the wheel that CMake is to install into, and where that is said; nothing for the wheel itself."""
    folder, origin = _read_option(settings, "install-dir")
    if isinstance(folder, str) and PurePosixPath(folder) != PurePosixPath():
        yield folder, origin


def _read_tags(settings: Settings, python: Python) -> tuple[tuple[Sequence[str], ...], str] | None:
    """The tags of Python, ABI and platform, empty where they stay, as scikit-build-core 1.1 makes them, and why.

    Source: get_wheel_tag in build/common_wheel_helpers.py, WheelTag.compute_best in builder/wheel_tag.py.
    """
    named, origin = _read_option(settings, "tags")
    parts = [str(tag).split("-") for tag in argument_words(named) if tag]
    if parts:
        # Others it refuses before it runs CMake.
        return (tuple(zip(*parts, strict=True)), origin) if {*map(len, parts)} == {len(_KINDS)} else None
    pure, origin = _read_option(settings, "platlib")
    if truth(pure) is False:
        return (("py3",), ("none",), (_ANY,)), origin
    api, origin = _read_option(settings, "py-api")
    interpreters = str(api or "").split(".")
    if all(re.fullmatch(r"py\d+", one) for one in interpreters):
        return (interpreters, ("none",), ()), origin
    threaded = "t" if is_free_threaded(python.abi_tag) else ""
    for one in interpreters:
        stable = re.fullmatch(rf"(cp3(\d+)){threaded}", one)
        # One that is newer than this Python it passes over.
        if stable and python.implementation == "cpython" and int(stable[2]) <= numbers(python.version)[1]:
            return ((stable[1],), (f"abi3{threaded}",), ()), origin
    return None


def _read_option(settings: Settings, name: str) -> tuple[Any, str]:
    """What is said of the wheel, and where; None where nothing is."""
    for key, value in settings.passthrough.items():
        if passthrough().strip_prefix(key) == f"wheel.{name}":
            return value, f"-C {key}"
    return _written(settings).get(name), "pyproject.toml [tool.scikit-build]"


def _written(settings: Settings) -> dict[str, Any]:
    """What pyproject.toml says of the wheel; that of a project around a tree nobody reads."""
    project = None if settings.source is not None else settings.project
    return dict(project.table(*_TABLE)) if project else {}
