"""``cuda-from`` and ``cuda-path`` made one: both can name the CUDA toolkit, and one of them counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchwheel.errors import Problem
from torchwheel.settings.layers import Setting
from torchwheel.settings.values import same

FROM, PATH = "cuda-from", "cuda-path"
AUTO, SYSTEM = "auto", "system"
_WORDS = frozenset({AUTO, SYSTEM, "pypi"})


def settle_cuda_source(entries: Mapping[str, Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Of two that name different toolkits, the one of higher precedence; of the same precedence, a problem.

    A path under ``cuda-from`` stands under ``cuda-path`` afterwards, and what lost is remembered by what won.
    """
    source, path = entries.get(FROM), entries.get(PATH)
    if source is None or source.value == AUTO:
        return dict(entries)
    named = replace(source, key=PATH) if source.value not in _WORDS else None
    installed = {**entries, FROM: replace(source, value=SYSTEM)}
    if path is None or same(path.value, source.value):
        return {**installed, PATH: path or named} if named else dict(entries)
    if source.value == SYSTEM:
        return dict(entries)
    if path.precedence == source.precedence:
        problems.append(_contradiction(source, path))
        return dict(entries)
    if path.precedence > source.precedence:
        return {**installed, PATH: path.over([replace(source, replaced=())])}
    if named:
        return {**installed, PATH: named.over([path])}
    return {**{key: setting for key, setting in entries.items() if key != PATH}, FROM: source.over([path])}


def _contradiction(source: Setting, path: Setting) -> Problem:
    return Problem(
        id="cuda-from-contradicts-path",
        what=f"cuda-from is {source.text}, but cuda-path is {path.text} ({path.origin})",
        remedy="leave one of them out",
        why="both say which CUDA toolkit to use",
        origin=source.origin,
    )
