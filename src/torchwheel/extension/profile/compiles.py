"""The compile commands that are measured: those of a plan, or those of a build folder that ninja builds."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from torchwheel.errors import Problem, TorchwheelError, nearest, refusal
from torchwheel.extension.model import COMPILING, ExtensionPlan, language_of
from torchwheel.extension.profile.model import Compile, Compiles
from torchwheel.host.ninja import NotReadable, commands, find_ninja

_COMPILES = frozenset({"-c", "-dc", "/c", "--compile"})
_LAUNCHERS = frozenset({"ccache", "sccache"})
# Where CMake puts a target's objects: CMakeFiles/TARGET.dir/source.cpp.o
_TARGET = re.compile(r"CMakeFiles/([^/]+)\.dir/")


def plan_compiles(plan: ExtensionPlan) -> Compiles:
    """What a plan compiles; it is measured in a folder of its own, and the plan's build folder stays as it is."""
    return Compiles(
        project=plan.project.folder,
        folder=None,
        compiles=tuple(
            Compile(
                extension=planned.extension.name,
                sources=step.sources,
                language=COMPILING[step.kind],
                path=step.inputs[0],
                command=step.command,
            )
            for planned in plan.extensions
            for step in planned.steps
            if step.cacheable
        ),
        links=plan.links,
        generated=plan.generated,
        jobs=plan.jobs.max_jobs,
    )


def selected(compiles: Compiles, patterns: Iterable[str]) -> Compiles:
    """The compiles with sources that a pattern matches; all of them without patterns.

    Raises:
        TorchwheelError: patterns that match nothing; all of them are in it.
    """
    wanted = tuple(patterns)
    useless = [p for p in wanted if not any(_matches(compile, p) for compile in compiles.compiles)]
    if useless:
        raise TorchwheelError([_unmatched(pattern, compiles) for pattern in useless])
    kept = tuple(c for c in compiles.compiles if not wanted or any(_matches(c, p) for p in wanted))
    return replace(compiles, compiles=kept)


def _matches(compile: Compile, pattern: str) -> bool:
    return any(
        fnmatchcase(name, pattern)
        for source in compile.sources
        for name in (source, source.rpartition("/")[2])
    )


def _unmatched(pattern: str, compiles: Compiles) -> Problem:
    names = [source for compile in compiles.compiles for source in compile.sources]
    meant = nearest(pattern, names)
    return Problem(
        id="no-such-source",
        what=f"no source of the project matches '{pattern}'",
        why=f"its sources are {', '.join(names)}",
        remedy=f"did you mean '{meant}'?" if meant else "name one of them, or a pattern such as '*.cu'",
        origin="--source",
    )


def build_folder_compiles(
    project: Path,
    folder: Path,
    environment: Mapping[str, str],
    *,
    jobs: int,
) -> Compiles:
    """Everything that a build folder compiles, as its build.ninja says.

    Raises:
        TorchwheelError: it is no build folder of ninja's, or compiles nothing.
    """
    entries = _commands(folder, environment)
    compiles = tuple(
        compile
        for entry in entries
        for compile in _compiles(entry["command"], entry["output"], project, folder)
    )
    if not compiles:
        what = f"nothing in {folder / 'build.ninja'} compiles C, C++ or CUDA"
        raise refusal(
            "no-compiles", what, "name the folder of the project's own build", origin="--build-folder"
        )
    return Compiles(project=project, folder=folder, compiles=compiles, jobs=jobs)


def _commands(folder: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    if not (folder / "build.ninja").is_file():
        remedy = "name the folder that CMake configured with -G Ninja"
        raise refusal("no-build-folder", f"{folder} holds no build.ninja", remedy, origin="--build-folder")
    ninja = find_ninja(environment)
    if ninja is None:
        what = "there is no ninja, which lists the commands of a build folder"
        raise refusal("no-ninja", what, "pip install ninja", origin="--build-folder")
    try:
        return commands(ninja, folder)
    except NotReadable as failure:
        what = f"ninja cannot read {folder / 'build.ninja'}: {failure}"
        raise refusal(
            "no-build-folder", what, "configure the project again", origin="--build-folder"
        ) from failure


def _compiles(line: str, output: str, project: Path, folder: Path) -> Iterator[Compile]:
    for words, place in _single_commands(line, folder):
        while len(words) > 1 and PurePath(words[0]).stem in _LAUNCHERS:
            words = words[1:]
        sources = ((word, language_of(word)) for word in words[1:] if not word.startswith("-"))
        path, language = next((one for one in sources if one[1] is not None), ("", None))
        if language is None or not _COMPILES & set(words):
            continue
        target = _TARGET.search(output)
        whole, root = (place / path).resolve(), project.resolve()
        yield Compile(
            extension=target[1] if target else "",
            sources=(whole.relative_to(root).as_posix() if whole.is_relative_to(root) else path,),
            language=language,
            path=path,
            command=tuple(words),
            folder=os.path.relpath(place, folder),
        )


def _single_commands(line: str, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """The commands of a line as CMake writes it, ``cd FOLDER && COMMAND && COMMAND``, and where they run."""
    posix = sys.platform != "win32"
    words = shlex.split(line) if posix else [word.strip('"') for word in shlex.split(line, posix=False)]
    place = folder
    current: list[str] = []
    for word in [*words, "&&"]:
        if word != "&&":
            current.append(word)
            continue
        if current[:1] == ["cd"]:
            place = folder / current[-1]
        elif current:
            yield current, place
        current = []
