"""Joining sources into unity files, so that headers are parsed once for many of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from pathlib import PurePosixPath

from torchwheel.extension.compile.commands import Unit
from torchwheel.extension.model import Language


def unity_file_count(sources: int) -> int:
    """How many files the sources of one kind are joined into: their square root, so that several compilers have work.

    It depends on the sources alone: with other ``jobs`` nothing is compiled again, and compiler caches know the text.
    """
    return max(1, isqrt(sources))


def join_units(units: Sequence[Unit], folder: str) -> tuple[list[Unit], dict[str, str]]:
    """Join units that are compiled with the same options; C is left alone, where names of different files would clash.

    Returns:
        What to compile, and the unity files: path in the build folder -> content.
    """
    joined: list[Unit] = []
    generated: dict[str, str] = {}
    kinds: dict[tuple[object, ...], list[Unit]] = {}
    for unit in units:
        if unit.language is Language.C:
            joined.append(unit)
        else:
            kinds.setdefault((unit.language, unit.architectures), []).append(unit)
    for group in kinds.values():
        count = unity_file_count(len(group))
        for index in range(count):
            members = group[index::count]
            if len(members) == 1:
                joined.append(members[0])
                continue
            unity, text = _unity_file(members, folder, len(generated))
            generated[unity.path] = text
            joined.append(unity)
    return joined, generated


def _unity_file(members: Sequence[Unit], folder: str, number: int) -> tuple[Unit, str]:
    suffix = ".cu" if members[0].language is Language.CUDA else ".cpp"
    name = f"unity-{number}"
    path = f"{folder}/{name}{suffix}"
    up = "/".join([".."] * len(PurePosixPath(folder).parts))
    absolute = re.compile("/|.:")
    paths = (unit.path if absolute.match(unit.path) else f"{up}/{unit.path}" for unit in members)
    text = "".join(f'#include "{path}"\n' for path in paths)
    sources = tuple(source for unit in members for source in unit.sources)
    return replace(members[0], path=path, name=name, sources=sources), text
