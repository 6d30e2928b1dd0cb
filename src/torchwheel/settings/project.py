"""A project's pyproject.toml with the settings in its ``[tool.torchwheel]``, and the record in an sdist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem, TorchwheelError, find_nearest, refusal
from torchwheel.settings.components import read_components
from torchwheel.settings.config_settings import read_config_settings
from torchwheel.settings.known_keys import Where
from torchwheel.settings.layers import Layer, Setting, Source, Table, read_table
from torchwheel.settings.overlays import Definition, canonical_name, read_definition
from torchwheel.settings.value_types import raw_text
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_file
from torchwheel.system.toml import get_subtable, read_toml

TOOL = "torchwheel"
"""The name of torchwheel's table."""
BACKEND = "torchwheel.backend"
EXTENSION_BACKEND = "torchwheel.extension.backend"
ORIGIN = "pyproject.toml [tool.torchwheel]"

_PROJECT_RANK = 10
# A target's own table beats the project's general one.
_TARGET_TABLE_RANK = 20

_OTHERS = ("default-target", "extension", "adopted")


@dataclass(frozen=True)
class Project:
    """A project's folder with its pyproject.toml, and the record of the sdist that it was unpacked from, if any."""

    folder: Path
    pyproject: Mapping[str, Any] = field(default_factory=dict)
    sdist: SdistRecord | None = None

    @property
    def torchwheel(self) -> Any:
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
        return self.table("build-system").get("build-backend") == BACKEND or bool(self.torchwheel)

    def table(self, *names: str) -> Mapping[str, Any]:
        return get_subtable(self.pyproject, *names)


def read_project(folder: Path) -> Project:
    folder = folder.absolute()
    file = folder / "pyproject.toml"
    if not is_file(file):
        return Project(folder, sdist=read_sdist_record(folder))
    try:
        return Project(folder, read_toml(file), read_sdist_record(folder))
    except TorchwheelError as error:
        raise TorchwheelError(_explain_target_clash(problem, file) for problem in error.problems) from None


def read_project_settings(
    project: Project, host: Host, problems: list[Problem]
) -> tuple[tuple[Setting, ...], Mapping[str, Definition]]:
    """The settings of ``[tool.torchwheel]``, and the targets in tables of their own."""
    content = project.torchwheel
    if misspelt := misspelt_table(project):
        problems.append(misspelt)
    if not isinstance(content, dict):
        problems.append(_no_table("[tool.torchwheel]", content))
        return (), {}
    if not _is_build_system(content.get("adopted", {})):
        problems.append(Problem.of("malformed-adoption", origin="pyproject.toml"))
    general = _general_settings(content, project.folder, host, problems)
    return general, _target_tables(content, project.folder, host, problems)


def misspelt_table(project: Project) -> Problem | None:
    """Report a ``[tool.NAME]`` that looks like a misspelt ``[tool.torchwheel]``; None if there is none."""
    alike = (name for name in project.table("tool") if name != TOOL and find_nearest(name, [TOOL]))
    wrong = [*(f"tool.{_toml_key(name)}" for name in alike), *({TOOL} & project.pyproject.keys())]
    origin = project.folder / "pyproject.toml"
    return Problem.of("misspelt-table", origin=origin, table=wrong[0]) if wrong else None


def named_source(project: Project, host: Host) -> Path | None:
    """The PyTorch tree that the project's ``source`` names, even if other settings are wrong."""
    settings, _ = read_project_settings(project, host, [])
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
    table = Table(body, ORIGIN, Where.PROJECT, _OTHERS)
    return read_table(table, Source(Layer.PROJECT, problems, folder, rank=_PROJECT_RANK), host)


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
            both = f"{definitions[name].origin} and {origin.removeprefix('pyproject.toml ')}"
            problems.append(Problem.of("repeated-setting", origin=both, name=name))
            continue
        source = Source(Layer.PROJECT, problems, folder, rank=_TARGET_TABLE_RANK)
        definitions[name] = read_definition(name, "target", Table(body, origin, Where.TARGET), source, host)
    return definitions


def _is_build_system(table: object) -> bool:
    if not isinstance(table, dict) or table.keys() - {"build-backend", "backend-path"}:
        return False
    path = table.get("backend-path", [])
    texts = [table.get("build-backend", ""), *(path if isinstance(path, list) else [None])]
    return all(isinstance(text, str) for text in texts)


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


SDIST_FILE = ".torchwheel-sdist.json"
"""The record's path in an sdist."""

NAME_VARIABLE = "TORCH_PACKAGE_NAME"
"""Sets the distribution's name in PyTorch's setup.py: https://github.com/pytorch/pytorch/blob/v2.6.0/setup.py."""

_KEYS = frozenset(
    {
        "arch", "build-type", "cuda", "flag-architectures", "local-version", "package-version", "profile", "target",
        f"env.{NAME_VARIABLE}",
    }
)  # fmt: skip
_RANK = 30  # above all of the project's pyproject.toml, below variables and -C
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SdistRecord:
    """The content of ``.torchwheel-sdist.json``; ``label`` is torchwheel's addition to an extension's own version."""

    version: str
    settings: Mapping[str, str]
    label: str = ""

    def to_json(self) -> bytes:
        label = {"label": self.label} if self.label else {}
        document = {"version": self.version, **label, "settings": dict(sorted(self.settings.items()))}
        return (json.dumps(document, indent=2) + "\n").encode()

    def read(self, problems: list[Problem]) -> tuple[Setting, ...]:
        """The settings, of the project's layer."""
        found, _ = read_config_settings(self.settings, problems)
        return tuple(
            replace(one, layer=Layer.PROJECT, rank=_RANK, origin=f"the sdist's {one.key}") for one in found
        )


def settings_to_record(settings: Iterable[Setting], cuda: str | None) -> dict[str, str]:
    """Collect CUDA's version and the settings from outside the project that determine name and version.

    Those come from the environment, from ``-C``, and from the sdist that the project itself was unpacked from.
    """
    given = {
        s.key: ",".join(s.value) if isinstance(s.value, tuple) else s.text
        for s in settings
        if s.precedence >= (Layer.PROJECT, _RANK) and _affects_name(s.key)
    }
    return given if cuda is None else {**given, "cuda": cuda}


def read_sdist_record(folder: Path) -> SdistRecord | None:
    """The record of the sdist that a folder was unpacked from; None if torchwheel did not write one."""
    file = folder / SDIST_FILE
    if not is_file(file):
        return None
    try:
        with file.open("rb") as stream:
            document: Any = json.loads(stream.read(_MOST_BYTES))
        version, settings = document["version"], document["settings"]
        label = document.get("label", "")
        texts = [version, label, *settings, *settings.values()]
        if not all(isinstance(text, str) for text in texts) or not all(map(_affects_name, settings)):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise refusal("malformed-sdist-record", origin=file) from None
    return SdistRecord(version, settings, label)


def _affects_name(key: str) -> bool:
    table, _, name = key.partition(".")
    # The target decides USE_CUDA.
    return key in _KEYS or (
        table == "define" and name != "USE_CUDA" and read_components().of_option(name) is not None
    )
