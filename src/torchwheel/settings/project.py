"""A project's pyproject.toml, and the project layer of settings in its ``[tool.torchwheel]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem, TorchwheelError, find_nearest
from torchwheel.settings.known_keys import Where
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.overlays import Definition, canonical_name, read_definition
from torchwheel.settings.raw_values import Source, Table, read_table
from torchwheel.settings.sdist_record import SdistRecord, read_sdist_record
from torchwheel.settings.value_types import raw_text
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_file
from torchwheel.system.toml import read_toml

TOOL = "torchwheel"
"""The name of torchwheel's table."""
BACKEND = "torchwheel.backend"
EXTENSION_BACKEND = "torchwheel.extension.backend"
ORIGIN = "pyproject.toml [tool.torchwheel]"

_PROJECT_RANK = 10
_TARGET_TABLE_RANK = 20
"""A target's own table beats the project's general one."""

_OTHERS = ("default-target", "extension", "adopted")


@dataclass(frozen=True)
class Project:
    """A project's folder with its pyproject.toml.

    Attributes:
        sdist: the record in the sdist that the folder was unpacked from; None if it is not from an sdist.
    """

    folder: Path
    pyproject: Mapping[str, Any] = field(default_factory=dict)
    sdist: SdistRecord | None = None

    @property
    def torchwheel(self) -> Any:
        """The raw ``[tool.torchwheel]``; empty if there is none."""
        tools = self.pyproject.get("tool", {})
        return tools.get("torchwheel", {}) if isinstance(tools, Mapping) else tools

    @property
    def describes_extensions(self) -> bool:
        """Whether it says that it has extensions of PyTorch: in tables, by its build backend, or in its setup.py."""
        backend = self.table("build-system").get("build-backend")
        setup_py = read_beginning(self.folder / "setup.py")
        return (
            "extension" in self.table("tool", TOOL)
            or backend == EXTENSION_BACKEND
            or any(word in setup_py for word in ("cpp_extension", "import torchwheel", "from torchwheel"))
        )

    @property
    def is_wrapper(self) -> bool:
        """Whether torchwheel builds it although it is no source tree: by its build backend, or by its settings."""
        return self.table("build-system").get("build-backend") == BACKEND or bool(self.torchwheel)

    def table(self, *names: str) -> Mapping[str, Any]:
        """The table at these names, such as ``"tool", "scikit-build"``; empty if there is no such table."""
        found: Any = self.pyproject
        for name in names:
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True)
class ProjectSettings:
    """The content of ``[tool.torchwheel]``."""

    settings: tuple[Setting, ...] = ()
    targets: Mapping[str, Definition] = field(default_factory=dict)
    adopted: bool = False


def read_project(folder: Path) -> Project:
    """Read the pyproject.toml of a folder, which need not have one."""
    folder = folder.absolute()
    file = folder / "pyproject.toml"
    if not is_file(file):
        return Project(folder, sdist=read_sdist_record(folder))
    try:
        return Project(folder, read_toml(file), read_sdist_record(folder))
    except TorchwheelError as error:
        raise TorchwheelError(_explain_target_clash(problem, file) for problem in error.problems) from None


def read_project_settings(project: Project | None, host: Host, problems: list[Problem]) -> ProjectSettings:
    """The settings of ``[tool.torchwheel]``, with conditions evaluated for ``host``."""
    content = project.torchwheel if project is not None else {}
    if project is not None and (misspelt := misspelt_table(project)):
        problems.append(misspelt)
    if project is None or not isinstance(content, dict):
        problems += [_no_table("[tool.torchwheel]", content)] if project is not None else []
        return ProjectSettings()
    return ProjectSettings(
        settings=_general_settings(content, project.folder, host, problems),
        targets=_target_tables(content, project.folder, host, problems),
        adopted=_is_adopted(content.get("adopted"), problems),
    )


def misspelt_table(project: Project) -> Problem | None:
    """Report a ``[tool.NAME]`` that looks like a misspelt ``[tool.torchwheel]``; None if there is none."""
    wrong = next(
        (
            f"tool.{_toml_key(name)}"
            for name in project.table("tool")
            if name != TOOL and find_nearest(name, [TOOL])
        ),
        None,
    )
    if wrong is None and TOOL in project.pyproject:
        wrong = TOOL
    if wrong is None:
        return None
    return Problem.of("misspelt-table", origin=project.folder / "pyproject.toml", table=wrong)


def named_source(project: Project, host: Host) -> Path | None:
    """The PyTorch tree that the project's ``source`` names, even if other settings are wrong."""
    settings = read_project_settings(project, host, []).settings
    return next((Path(setting.value) for setting in settings if setting.key == "source"), None)


def _general_settings(
    content: Mapping[str, object], folder: Path, host: Host, problems: list[Problem]
) -> tuple[Setting, ...]:
    body = {key: raw for key, raw in content.items() if key not in _OTHERS and key != "target"}
    extensions = content.get("extension", [])
    if not isinstance(extensions, list) or not all(isinstance(item, dict) for item in extensions):
        problems.append(Problem.of("ill-typed-value/extensions", origin=ORIGIN, value=raw_text(extensions)))
    target = content.get("target")
    if target is not None and not isinstance(target, dict):
        body["target"] = target
    if "default-target" in content:
        if "target" in body:
            problems.append(Problem.of("contradiction/default-target", origin=ORIGIN))
        body["target"] = content["default-target"]
    table = Table(body, ORIGIN, Where.PROJECT, folder, _OTHERS)
    return read_table(table, Source(Layer.PROJECT, rank=_PROJECT_RANK), host, problems)


def _target_tables(
    content: Mapping[str, object], folder: Path, host: Host, problems: list[Problem]
) -> dict[str, Definition]:
    tables = content.get("target")
    definitions: dict[str, Definition] = {}
    for spelled, body in tables.items() if isinstance(tables, dict) else ():
        origin = f"pyproject.toml [tool.torchwheel.target.{_toml_key(spelled)}]"
        if not isinstance(body, dict):
            problems.append(_no_table(origin.removeprefix("pyproject.toml "), body))
            continue
        name = canonical_name(spelled)
        if name in definitions:
            problems.append(
                Problem.of(
                    "repeated-setting",
                    origin=f"{definitions[name].origin} and {origin.removeprefix('pyproject.toml ')}",
                    name=name,
                )
            )
            continue
        source = Source(Layer.PROJECT, rank=_TARGET_TABLE_RANK)
        table = Table(body, origin, Where.TARGET, folder)
        definitions[name] = read_definition(name, "target", table, source, host, problems)
    return definitions


def _is_adopted(table: object, problems: list[Problem]) -> bool:
    if table is None:
        return False
    backend = table.get("build-backend") if isinstance(table, dict) else None
    path = table.get("backend-path", []) if isinstance(table, dict) else None
    if isinstance(backend, str) and isinstance(path, list) and all(isinstance(item, str) for item in path):
        return True
    problems.append(Problem.of("malformed-adoption", origin="pyproject.toml"))
    return False


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else raw_text(name)


def _explain_target_clash(problem: Problem, file: Path) -> Problem:
    """Replace a parser's error if its cause is that ``target`` is both a key and a table."""
    text = read_beginning(file)
    if not (re.search(r"(?m)^[ \t]*target[ \t]*=", text) and "[tool.torchwheel.target." in text):
        return problem
    return Problem.of("malformed-toml/target-table", origin=problem.origin, what=problem.what)


def _no_table(name: str, raw: object) -> Problem:
    return Problem.of("ill-typed-value/table", origin="pyproject.toml", key=name, value=raw_text(raw))
