"""Check the backend's settings for the wheel before the compile: its tags, and the folder to install into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from torchwheel.host.machine import Host, Python, is_free_threaded
from torchwheel.reporting.errors import Problem
from torchwheel.settings import Settings
from torchwheel.settings.config_settings import argument_words, read_passthrough
from torchwheel.settings.value_types import parse_truth
from torchwheel.tree.source_tree import Generation, Tree
from torchwheel.versions import parse_numbers

_TABLE = ("tool", "scikit-build", "wheel")
_KINDS = ("Python", "ABI", "platform")
_ANY = "any"
# bdist_wheel's options, which may be abbreviated.
_NAMES_WHEEL = re.compile(r"(?<!\S)--(?:build-n|plat-n|python-t|py-l|univ)[\w-]*(?:[= ][\w.]+)?")


def wheel_problems(settings: Settings, tree: Tree, host: Host) -> Iterator[Problem]:
    """Report settings of a tree's own backend with which its wheel would fail verification."""
    if tree.generation is not Generation.SCIKIT_BUILD_CORE:
        for key, value in settings.passthrough.items():
            if names := _NAMES_WHEEL.findall(" ".join(value) if isinstance(value, list) else str(value)):
                tags = f"another name, by {' '.join(names)}"
                yield Problem.of("wheel-tag/planned", origin=f"-C {key}", tags=tags, fix="leave it out")
        return
    python = host.python
    yield from tag_problems(
        settings, python, (python.interpreter_tag, python.abi_tag, host.platform_tag), "leave it out"
    )
    own = _wheel_table(settings).get("install-dir", "")
    for folder, origin in install_folders(settings):
        if folder != own:
            yield Problem.of("wheel-empty/planned", origin=origin, folder=folder, name=tree.name)


def tag_problems(
    settings: Settings, python: Python, planned: Sequence[str | None], remedy: str
) -> Iterator[Problem]:
    """Report tags set for scikit-build-core that differ from the planned ones, or that name no platform.

    Args:
        planned: the tags of Python, its ABI and the platform; None for any, though a wheel with code needs a platform.
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
    """Yield the folder of the wheel that CMake installs into, with its origin; nothing for the wheel's top."""
    folder, origin = _read_option(settings, "install-dir")
    if isinstance(folder, str) and PurePosixPath(folder) != PurePosixPath():
        yield folder, origin


def _read_tags(settings: Settings, python: Python) -> tuple[tuple[Sequence[str], ...], str] | None:
    """Return the tags of Python, ABI and platform as scikit-build-core 1.1 computes them, and their origin.

    An unchanged tag is empty.

    Source: get_wheel_tag in build/common_wheel_helpers.py, WheelTag.compute_best in builder/wheel_tag.py.
    """
    named, origin = _read_option(settings, "tags")
    parts = [str(tag).split("-") for tag in argument_words(named) if tag]
    if parts:
        # scikit-build-core refuses others before it runs CMake.
        return (tuple(zip(*parts, strict=True)), origin) if {*map(len, parts)} == {len(_KINDS)} else None
    pure, origin = _read_option(settings, "platlib")
    if parse_truth(pure) is False:
        return (("py3",), ("none",), (_ANY,)), origin
    api, origin = _read_option(settings, "py-api")
    interpreters = str(api or "").split(".")
    if all(re.fullmatch(r"py\d+", one) for one in interpreters):
        return (interpreters, ("none",), ()), origin
    threaded = "t" if is_free_threaded(python.abi_tag) else ""
    for one in interpreters:
        stable = re.fullmatch(rf"(cp3(\d+)){threaded}", one)
        # scikit-build-core ignores one that is newer than this Python.
        if (
            stable
            and python.implementation == "cpython"
            and int(stable[2]) <= parse_numbers(python.version)[1]
        ):
            return ((stable[1],), (f"abi3{threaded}",), ()), origin
    return None


def _read_option(settings: Settings, name: str) -> tuple[Any, str]:
    """Read an option of the wheel, with its origin; None without one."""
    for key, value in settings.passthrough.items():
        if read_passthrough().strip_prefix(key) == f"wheel.{name}":
            return value, f"-C {key}"
    return _wheel_table(settings).get(name), "pyproject.toml [tool.scikit-build]"


def _wheel_table(settings: Settings) -> dict[str, Any]:
    """The wheel's table in pyproject.toml; a wrapper project's is not read."""
    project = None if settings.source is not None else settings.project
    return dict(project.table(*_TABLE)) if project else {}
