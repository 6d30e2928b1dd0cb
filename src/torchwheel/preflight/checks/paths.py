"""Paths on Windows: how long, and of what characters."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine

_LIMIT = 260
_LONGEST_BELOW = 150
"""Characters of the longest path below the folder of one build: 117 for an object file of PyTorch 2.6.0 below
its build folder, ``source/build/`` before that, and some for newer releases."""
_SHORT = r"C:\tw"


@checks_machine("path-too-long")
def short_enough(scene: Scene) -> Answer:
    """Where builds lie decides, with the name of this one."""
    folder = _build_folder(scene)
    if scene.host.host.system != "Windows" or not folder:
        return None
    length = len(folder) + _LONGEST_BELOW
    allowed = scene.host.long_paths is not False
    values = {
        "folder": folder,
        "length": str(length),
        "limit": str(_LIMIT),
        "windows": ", even where Windows itself does"
        if allowed
        else ", nor does this Windows: LongPathsEnabled is 0",
    }
    return Fine(values) if length <= _LIMIT else Broken(values, _SHORT)


@checks_machine("path-with-spaces")
def plain(scene: Scene) -> Answer:
    """User names have spaces and letters beyond ASCII more often than programs expect."""
    folder = _build_folder(scene)
    if scene.host.host.system != "Windows" or not folder:
        return None
    kinds = {"a space": " " in folder, "letters beyond ASCII": not folder.isascii()}
    found = [kind for kind, there in kinds.items() if there]
    if not found:
        return Fine()
    return Broken({"folder": folder, "kind": " and ".join(found)}, _SHORT)


def _build_folder(scene: Scene) -> str:
    """The folder of this build as the examined machine spells it."""
    if not scene.host.build_folder:
        return ""
    separator = "\\" if scene.host.host.system == "Windows" else "/"
    return scene.host.build_folder.rstrip("\\/") + separator + scene.plan.folders.root.name
