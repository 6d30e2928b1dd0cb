"""What ``TorchWheelConfig.cmake`` runs when CMake configures: it plans extensions and writes a CMakeLists.txt for them.

A call is also kept in the build folder, so that the backend knows afterwards what has been built.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel._files import write_if_changed
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.cmake.arguments import read_arguments
from torchwheel.extension.cmake.text import cmake_text
from torchwheel.extension.compile.ninja import provide_toolkit
from torchwheel.extension.compile.paths import write_links
from torchwheel.extension.model import Extension, ExtensionPlan, Language
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.project_extensions import extensions_of_tables
from torchwheel.extension.source_patterns import pattern_folders
from torchwheel.extension.sources import language_of
from torchwheel.extension.survey import survey_extensions
from torchwheel.extension.tables import read_extension_tables
from torchwheel.findings import stop_on_errors

FOLDER = "torchwheel"
"""What everything of torchwheel's lies in, in CMake's build folder."""

CMAKE_PACKAGE = Path(__file__).parent
"""The folder of TorchWheelConfig.cmake, for ``TorchWheel_ROOT``."""

_REQUESTS = "requests"
_PROJECT = "project"
_GENERATOR = "Ninja"


@dataclass(frozen=True)
class Call:
    """One call of a function of TorchWheelConfig.cmake.

    Attributes:
        what: ``extension`` or ``project``.
        options: CMake's side of it: ``build``, ``source``, ``top``, ``project``, ``generator``, ``build-type``,
            ``target``, ``config``, ``c``, ``cxx``.
        arguments: what stands between the parentheses.
    """

    what: str
    options: Mapping[str, str]
    arguments: tuple[str, ...]

    @property
    def build(self) -> Path:
        """CMake's top build folder."""
        return Path(self.options["build"])

    @property
    def project(self) -> Path:
        """The project's folder: the one that was named, else the nearest with a pyproject.toml from the top on."""
        if named := self.options.get("project"):
            return Path(named)
        top = Path(self.options["top"])
        return next((p for p in (top, *top.parents) if (p / "pyproject.toml").is_file()), top)

    @property
    def config_settings(self) -> dict[str, str | list[str] | bool]:
        """torchwheel's own settings, as ``-C`` would give them."""
        given: dict[str, Any] = json.loads(self.options.get("config") or "{}")
        if target := self.options.get("target"):
            given.setdefault("target", target)
        if build_type := self.options.get("build-type"):
            given["build-type"] = build_type
        return given

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment with the compilers that CMake has chosen."""
        chosen = {"CC": self.options.get("c"), "CXX": self.options.get("cxx")}
        return {**environment, **{name: _quoted(path) for name, path in chosen.items() if path}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one call; prints the folder with the CMakeLists.txt.

    Returns:
        0, or 1 after an error, which is printed to stderr.
    """
    call = _read_call(sys.argv[1:] if arguments is None else arguments)
    try:
        folder = answer(call, dict(os.environ))
    except TorchwheelError as error:
        print(f"torchwheel: {error.render()}", file=sys.stderr)
        return 1
    print(folder.as_posix())
    return 0


def answer(call: Call, environment: Mapping[str, str]) -> Path:
    """Plan a call's extensions and write the folder for ``add_subdirectory``.

    Raises:
        TorchwheelError: the call or the plan has errors.
    """

    if call.options["generator"] != _GENERATOR:
        raise TorchwheelError(_other_generator(call.options["generator"]))
    planned = _plan_call(call, environment)
    plan = planned.plan
    stop_on_errors(plan.findings, plan.settings.skip_check)
    provide_toolkit(plan, environment)
    _tell(plan)
    folder = call.build / planned.below
    folder.mkdir(parents=True, exist_ok=True)
    write_links(call.build, plan.links)
    for path, text in plan.generated.items():
        write_if_changed(call.build / path, text)
    write_if_changed(folder / "CMakeLists.txt", cmake_text(plan, planned.watched, planned.uninstalled))
    request = {"what": call.what, "options": dict(call.options), "arguments": call.arguments}
    write_if_changed(call.build / FOLDER / _REQUESTS / f"{folder.name}.json", json.dumps(request))
    return folder


def built_plan(build: Path, environment: Mapping[str, str]) -> ExtensionPlan | None:
    """The plan of everything that the latest run of CMake in a build folder asked for; None if it asked for nothing.

    Raises:
        TorchwheelError: what was asked for cannot be planned any more.
    """

    calls = [_read_request(file) for file in sorted((build / FOLDER / _REQUESTS).glob("*.json"))]
    if not calls:
        return None
    extensions = [extension for call in calls for extension in _extensions(call, environment).extensions]
    first = calls[0]
    inputs = survey_extensions(
        first.project, extensions, first.config_settings, first.environment(environment)
    )
    return make_extension_plan(inputs)


@dataclass(frozen=True)
class _Asked:
    """What a call asks for.

    Attributes:
        extensions: the extensions.
        patterns: of their sources, relative to the project.
        uninstalled: names of those that do not become part of the package.
    """

    extensions: tuple[Extension, ...]
    patterns: tuple[str, ...]
    uninstalled: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Planned:
    """A call's plan, and what its CMakeLists.txt needs besides."""

    plan: ExtensionPlan
    below: str
    watched: tuple[Path, ...]
    uninstalled: tuple[str, ...]


def _plan_call(call: Call, environment: Mapping[str, str]) -> _Planned:
    asked = _extensions(call, environment)
    inputs = survey_extensions(
        call.project,
        asked.extensions,
        call.config_settings,
        call.environment(environment),
        install_toolkit=True,
    )
    # Other tools or another PyTorch behind the same links must not pass for the same commands.
    identity = make_extension_plan(inputs).identity
    name = asked.extensions[0].name if call.what != _PROJECT else _PROJECT
    below = f"{FOLDER}/{name}-{identity}"
    plan = make_extension_plan(replace(inputs, below=below))
    return _Planned(plan, below, _watched(call.project, asked, plan), asked.uninstalled)


def _extensions(call: Call, environment: Mapping[str, str]) -> _Asked:
    uninstalled: tuple[str, ...] = ()
    if call.what == _PROJECT:
        tables = read_extension_tables(call.project)
    else:
        described = read_arguments(call.arguments, Path(call.options["source"]), call.project)
        tables = (described.table,)
        uninstalled = () if described.install else (described.table.name,)
    extensions = extensions_of_tables(
        tables, call.project, call.config_settings, call.environment(environment)
    )
    patterns = tuple(pattern for table in tables for pattern in table.patterns)
    return _Asked(extensions, patterns, uninstalled)


def _watched(project: Path, asked: _Asked, plan: ExtensionPlan) -> tuple[Path, ...]:
    """What the plan was made from: pyproject.toml, PyTorch's version, the folders of patterns, and CUDA sources."""

    cuda = (s for e in asked.extensions for s in e.sources if language_of(s) is Language.CUDA)
    files = [
        project / "pyproject.toml",
        plan.torch.root / "version.py",
        *(project / source for source in cuda),
    ]
    return tuple(path for path in [*files, *pattern_folders(asked.patterns, project)] if path.exists())


def _tell(plan: ExtensionPlan) -> None:
    """What CMake prints as its status."""
    where = ", ".join(plan.architectures.labels) if plan.architectures else "the CPU"
    names = ", ".join(extension.extension.name for extension in plan.extensions)
    print(f"torchwheel: {names} for {where}, PyTorch {plan.torch.version}", file=sys.stderr)
    for finding in plan.findings:
        print(f"torchwheel: {finding.render()}", file=sys.stderr)


def _read_call(words: Sequence[str]) -> Call:
    """``extension --build=… --source=… -- NAME pkg._C …``"""
    what, *rest = words
    end = rest.index("--")
    options = dict(word.removeprefix("--").split("=", 1) for word in rest[:end])
    return Call(what, options, tuple(rest[end + 1 :]))


def _read_request(file: Path) -> Call:
    kept = json.loads(file.read_text(encoding="utf-8"))
    return Call(kept["what"], kept["options"], tuple(kept["arguments"]))


def _quoted(path: str) -> str:
    return path if os.name == "nt" else shlex.quote(path)


def _other_generator(generator: str) -> Problem:
    return Problem(
        id="generator-not-ninja",
        what=f'CMake\'s generator is "{generator}", and extensions are built with Ninja alone',
        remedy="run CMake with -G Ninja, or set CMAKE_GENERATOR=Ninja; pip install ninja if there is none",
        why="the commands of an extension run in one folder and name files relative to it, so that compiler caches "
        "know them again",
    )


if __name__ == "__main__":
    raise SystemExit(main())
