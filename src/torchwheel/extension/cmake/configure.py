"""The program that ``TorchWheelConfig.cmake`` runs: plan extensions and write a CMakeLists.txt for them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.engine.cache_session import write_compiler_launcher
from torchwheel.extension.cmake.text import cmake_text, target_text
from torchwheel.extension.compile.ninja_build import provide_toolkit
from torchwheel.extension.compile.units import write_links
from torchwheel.extension.extension_plan import ExtensionPlan
from torchwheel.extension.extension_project import CMAKE_FUNCTION, NINJA, described_plan
from torchwheel.extension.extension_survey import plan_extensions, read_extension_project
from torchwheel.extension.handover import read_handover, record_plan, record_problems
from torchwheel.extension.options import ExtensionOptions, Spelling, project_extensions, read_options
from torchwheel.extension.sources import pattern_folders
from torchwheel.host.compilers import join_words
from torchwheel.plan.build_plan import hash_facts
from torchwheel.reporting.errors import (
    Problem,
    TorchwheelError,
    collect_problems,
    find_nearest,
    refusal,
    stop_on,
)
from torchwheel.reporting.terminal import terminal_width
from torchwheel.settings.known_keys import EXTENSION_KEYS, Key
from torchwheel.settings.value_types import FLAG
from torchwheel.survey import BuildRequest
from torchwheel.system.files import write_if_changed
from torchwheel.system.paths import exists, is_file

_FOLDER = "tw"
"""torchwheel's folder in CMake's build folder.

Its name is short because of the link to the project in it: CMake uses a source's absolute path, and ccache the shortest
relative one, which should go through the link wherever the build folder is.
"""

_PATHS = ("sources", "cuda-sources", "include-dirs", "library-dirs", "depends")


@dataclass(frozen=True)
class Call:
    """One call of ``torchwheel_add_extension``, with CMake's own values, as TorchWheelConfig.cmake names them."""

    options: Mapping[str, str]
    arguments: tuple[str, ...]

    @property
    def project(self) -> Path:
        """The named folder, else the nearest one with a pyproject.toml, starting at the top."""
        named = self.options.get("project")
        return Path(named) if named else self._nearest

    @property
    def _nearest(self) -> Path:
        top = Path(self.options["top"])
        return next((p for p in (top, *top.parents) if is_file(p / "pyproject.toml")), top)

    @property
    def folder(self) -> str:
        """This project's own folder in the build folder, with the link to the project."""
        other = os.path.relpath(self.project.resolve(), self._nearest.resolve())
        return _FOLDER if other == "." else f"{_FOLDER}/{hash_facts([other])}"

    def request(self, environment: Mapping[str, str]) -> BuildRequest:
        """The request, with the target, build type and compilers that CMake has chosen."""
        given: dict[str, Any] = json.loads(self.options.get("config") or "{}")
        if target := self.options.get("target"):
            given.setdefault("target", target)
        if build_type := self.options.get("build-type"):
            given["build-type"] = build_type
        chosen = {"CC": self.options.get("c"), "CXX": self.options.get("cxx")}
        windows = os.name == "nt"
        compilers = {name: join_words([path], windows=windows) for name, path in chosen.items() if path}
        return BuildRequest(self.project, given, {**environment, **compilers}, working_folder=self.project)


def main(arguments: Sequence[str] | None = None) -> int:
    """Handle one call, ``--build=… --source=… -- NAME pkg._C …``; prints the folder with the CMakeLists.txt.

    Returns:
        0, or 1 after an error, which is printed to stderr.
    """
    words = sys.argv[1:] if arguments is None else arguments
    end = words.index("--")
    options = dict(word.removeprefix("--").split("=", 1) for word in words[:end])
    call = Call(options, tuple(words[end + 1 :]))
    try:
        folder = answer_call(call, dict(os.environ))
    except TorchwheelError as error:
        record_problems(error, os.environ)
        print(error.render(terminal_width(), "torchwheel: "), file=sys.stderr)
        return 1
    print(folder.as_posix())
    return 0


def answer_call(call: Call, environment: Mapping[str, str]) -> Path:
    """Plan a call's extensions, record the wheel for the hook that runs CMake, and write the folder for it."""
    if (generator := call.options["generator"]) != NINJA:
        # It does not run an extension's commands unchanged.
        raise refusal("generator-not-ninja", generator=generator)
    project = read_extension_project(call.request(environment))
    options = read_arguments(call.arguments, Path(call.options["source"]), project.folder)
    extensions = project_extensions(project, (options,))
    below = f"{call.folder}/{options.name}"
    plan = plan_extensions(project, extensions, install=True, below=below)
    plan.stop_on_errors()
    build = Path(call.options["build"])
    folder = build / plan.below
    folder.mkdir(parents=True, exist_ok=True)
    provide_toolkit(plan)
    write_links(build, plan.layout.links)
    # For the user's own CMake, too.
    write_compiler_launcher(build, plan.inputs.compiler_cache)
    plan = described_plan(plan, build)
    for line in (plan.summary, *(finding.render(plan.skipped) for finding in plan.findings)):
        print(f"torchwheel: {line}", file=sys.stderr)
    patterns = (*options.values.get("sources", ()), *options.values.get("cuda-sources", ()))
    write_if_changed(folder / "CMakeLists.txt", cmake_text(plan, _watched_files(plan, patterns)))
    for planned in plan.extensions:
        write_if_changed(folder / planned.folder / "CMakeLists.txt", target_text(plan, planned))
    record_plan(plan, read_handover(environment))
    return folder


def keyword_of(key: str) -> str:
    """The function's keyword for an option: ``CUDA_SOURCES``."""
    return key.replace("-", "_").upper()


def _format_example(key: Key) -> str:
    keyword = keyword_of(key.name)
    if key.type is FLAG:
        return keyword
    plain = key.example.strip("[]").replace('", "', '" "')
    return f"{keyword} {plain}" if not key.table else f'{keyword} "{plain.replace(chr(34), "")}"'


CMAKE = Spelling(f"a keyword of {CMAKE_FUNCTION}", keyword_of, _format_example, textual=True)


def read_arguments(arguments: Sequence[str], folder: Path, project: Path) -> ExtensionOptions:
    """Read a call's arguments, whose paths are relative to ``folder``; then relative to the project, or absolute."""
    keys = {keyword_of(name): key for name, key in EXTENSION_KEYS.items()}
    file = Path(os.path.relpath(folder / "CMakeLists.txt", project)).as_posix()
    problems: list[Problem] = []
    groups = _group_arguments(arguments, list(keys), file, problems)
    origin = f"{file} {CMAKE_FUNCTION}({' '.join(groups.get('NAME', []))})"
    content = {
        keys[word].name: _option_value(keys[word], given, origin, problems) for word, given in groups.items()
    }
    with collect_problems(problems):
        options = read_options(content, origin, CMAKE)
    stop_on(problems)
    values = options.values
    moved = {key: _relative_to_project(values[key], folder, project) for key in _PATHS if key in values}
    return replace(options, values={**values, **moved})


def _group_arguments(
    arguments: Sequence[str], keywords: Sequence[str], file: str, problems: list[Problem]
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    current = ""
    for word in arguments:
        if word in keywords:
            current = word
            groups.setdefault(word, [])
        elif not current or (current != "DEFINE" and word.isupper() and find_nearest(word, keywords)):
            problems.append(CMAKE.unknown_option(word, keywords, file))
        else:
            groups[current].append(word)
    return groups


def _option_value(key: Key, words: Sequence[str], origin: str, problems: list[Problem]) -> object:
    if key.type is FLAG and not words:
        return True
    if key.table:
        return dict(_table_entries(key, words, origin, problems))
    return words[0] if len(words) == 1 else list(words)


def _table_entries(
    key: Key, words: Sequence[str], origin: str, problems: list[Problem]
) -> Iterator[tuple[str, str | bool]]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif key.name == "define":
            yield name, True
        else:
            values = {"key": keyword_of(key.name), "word": word, "assignment": _format_example(key)}
            problems.append(Problem.of("ill-typed-value/pattern-values", origin=origin, **values))


def _relative_to_project(paths: Sequence[str], folder: Path, project: Path) -> tuple[str, ...]:
    whole = [Path(os.path.normpath(folder / path)) for path in paths]
    return tuple(p.relative_to(project).as_posix() if p.is_relative_to(project) else str(p) for p in whole)


def _watched_files(plan: ExtensionPlan, patterns: Iterable[str]) -> Collection[Path]:
    """The inputs of the plan: pyproject.toml, PyTorch's version, the folders of patterns, and CUDA sources."""
    files = [
        plan.project.folder / "pyproject.toml",
        plan.inputs.torch.root / "version.py",
        *(plan.project.folder / source for one in plan.extensions for source in one.extension.cuda_sources),
    ]
    return [path for path in (*files, *pattern_folders(patterns, plan.project.folder)) if exists(path)]


if __name__ == "__main__":
    raise SystemExit(main())
