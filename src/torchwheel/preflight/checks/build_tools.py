"""CMake and ninja: there, and of versions that the tree takes."""

from __future__ import annotations

import re

from torchwheel.preflight.context import Scene
from torchwheel.preflight.facts import Installed
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine
from torchwheel.tree.model import Generation
from torchwheel.versions import at_least

_CMAKE_4_SINCE = "2.7"
"""2.6 does not configure with CMake 4: https://github.com/pytorch/pytorch/issues/150328"""
_OPT_OUT = "CMAKE_POLICY_VERSION_MINIMUM"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _brings(scene: Scene, tool: str) -> bool:
    """Whether the build installs a tool: the tree requires it, or scikit-build-core fetches what is missing."""
    if not scene.managed_environment:
        return False
    names = {match[0].lower() for text in scene.plan.build_requires if (match := _NAME.match(text))}
    return tool in names or scene.plan.tree.generation is Generation.SCIKIT_BUILD_CORE


def _used(scene: Scene, tool: str) -> Installed | None:
    """The machine's own tool if the build will use it; None if it is not known, or another one is installed."""
    names = {match[0].lower() for text in scene.plan.build_requires if (match := _NAME.match(text))}
    if scene.managed_environment and tool in names:
        return None
    return scene.host.tools.get(tool)


@checks_machine("no-cmake")
def cmake(scene: Scene) -> Answer:
    """From PATH, from the tree's requirements, or from scikit-build-core."""
    found = _used(scene, "cmake")
    if found is None or (not found.there and _brings(scene, "cmake")):
        return None
    return Fine({"version": found.version}) if found.there else Broken()


@checks_machine("cmake-too-old")
def cmake_new_enough(scene: Scene) -> Answer:
    """What the tree's first line asks for; scikit-build-core installs a newer one by itself."""
    found, pytorch = _used(scene, "cmake"), scene.combination.pytorch
    needed = scene.plan.tree.minimum_cmake or (pytorch.cmake_minimum if pytorch else None)
    if found is None or not found.there or needed is None:
        return None
    if at_least(found.version, needed):
        return Fine({"version": found.version})
    if _brings(scene, "cmake"):
        return None
    return Broken({"version": found.version, "needed": f"{needed} or later"}, needed)


@checks_machine("cmake-too-new")
def cmake_not_too_new(scene: Scene) -> Answer:
    """CMake 4 refuses what asks for a CMake that is very old."""
    found, pytorch = _used(scene, "cmake"), scene.combination.pytorch
    if found is None or not found.there or pytorch is None:
        return None
    old = not at_least(pytorch.version, _CMAKE_4_SINCE)
    if not old or not at_least(found.version, "4") or _OPT_OUT in scene.plan.settings.variables:
        return Fine()
    values = {"version": found.version, "pytorch": pytorch.version, "since": _CMAKE_4_SINCE}
    return Broken(values, "<4")


@checks_machine("no-ninja")
def ninja(scene: Scene) -> Answer:
    """Only ninja knows the job pools that keep heavy kernels apart."""
    found = _used(scene, "ninja")
    if found is None or (not found.there and _brings(scene, "ninja")):
        return None
    return Fine({"version": found.version}) if found.there else Broken()
