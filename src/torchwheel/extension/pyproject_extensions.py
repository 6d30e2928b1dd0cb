"""``[[tool.torchwheel.extension]]`` of a project's pyproject.toml, and the extensions that it describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.model import WITH_CUDA, Extension, Language, SourceArchitectures
from torchwheel.extension.sources import find_sources, unmatched_architectures
from torchwheel.extension.survey import ExtensionProject
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.settings.model import Key, extension_keys
from torchwheel.settings.project import Project
from torchwheel.settings.resolve import architectures_of
from torchwheel.settings.value_types import Location, raw_text
from torchwheel.spelling import nearest

ARRAY = "[[tool.torchwheel.extension]]"

_FLAGS = {"c-flags": Language.C, "cxx-flags": Language.CXX, "nvcc-flags": Language.CUDA}
_COPIED = (
    "include-dirs",
    "library-dirs",
    "libraries",
    "link-flags",
    "device-link",
    "device-link-libraries",
    "stable-abi",
    "limited-api",
    "unity",
    "front-end",
    "depends",
)


@dataclass(frozen=True)
class ExtensionTable:
    """One table, its values typed but its patterns not yet looked up.

    Attributes:
        values: key -> value of the key's kind; without those that the table leaves out.
        origin: the file and table in words.
    """

    values: Mapping[str, Any]
    origin: str

    @property
    def name(self) -> str:
        return str(self.values["name"])

    @property
    def targets(self) -> tuple[str, ...]:
        """What device code is compiled for when nobody asks for a target."""
        return tuple(self.values.get("targets", ()))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Where its sources are, CUDA's among them."""
        return (*self.values.get("sources", ()), *self.values.get("cuda-sources", ()))


def has_extension_tables(project: Project) -> bool:
    """Whether a project describes extensions in its pyproject.toml."""
    return bool(_raw_tables(project))


def read_extension_tables(project: Project) -> tuple[ExtensionTable, ...]:
    """The extension tables of a pyproject.toml, in its order.

    Raises:
        TorchwheelError: they are malformed; everything that is wrong is in it.
    """
    problems: list[Problem] = []
    raw = _raw_tables(project)
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        raise TorchwheelError(
            Problem(
                id="ill-typed-value",
                what=f"extension is {raw_text(raw)}, which is not an array of tables",
                remedy=f"head each extension with {ARRAY}",
                origin="pyproject.toml [tool.torchwheel]",
            )
        )
    tables = [_read_numbered(content, number, problems) for number, content in enumerate(raw, 1)]
    problems += _twice_named(tables)
    if problems:
        raise TorchwheelError(problems)
    return tuple(tables)


def project_extensions(
    project: ExtensionProject, tables: Sequence[ExtensionTable] | None = None
) -> tuple[Extension, ...]:
    """The extensions that tables describe, for the installed PyTorch and the requested target.

    Args:
        tables: the tables; None for those of its pyproject.toml.

    Raises:
        TorchwheelError: a table is malformed, PyTorch is not installed, or a pattern or target is unknown.
    """
    found = read_extension_tables(project.pyproject) if tables is None else tables
    cuda = project.builds_cuda
    defaults: dict[str, ArchitectureList] = {}
    for table in found:
        if cuda and project.settings.arch is None and table.targets:
            own = architectures_of(table.targets, f"{table.origin} targets", project.settings)
            defaults |= {table.name: own} if own is not None else {}
    return described_extensions(found, project.folder, cuda=cuda, defaults=defaults)


def described_extensions(
    tables: Iterable[ExtensionTable],
    project: Path,
    *,
    cuda: bool,
    defaults: Mapping[str, ArchitectureList],
) -> tuple[Extension, ...]:
    """The extensions that tables describe, with the source files that are there now.

    Args:
        cuda: whether ``cuda-sources`` are compiled.
        defaults: name -> what to compile for when nobody asks for a target.

    Raises:
        TorchwheelError: patterns match nothing; all of them are in it.
    """
    problems: list[Problem] = []
    extensions = [
        _described(table, project, defaults.get(table.name), problems, cuda=cuda) for table in tables
    ]
    if problems:
        raise TorchwheelError(problems)
    return tuple(
        extension
        for extension, table in zip(extensions, tables, strict=True)
        # One of CUDA sources alone is left out without CUDA.
        if extension.sources or "sources" in table.values
    )


def _raw_tables(project: Project) -> Any:
    return project.table("tool", "torchwheel").get("extension", [])


def _read_numbered(content: Mapping[str, object], number: int, problems: list[Problem]) -> ExtensionTable:
    name = content.get("name")
    origin = f"pyproject.toml {ARRAY} {name if isinstance(name, str) and name else f'number {number}'}"
    try:
        return read_table(content, origin)
    except TorchwheelError as error:
        problems += error.problems
        return ExtensionTable({"name": name}, origin)


def read_table(content: Mapping[str, object], origin: str) -> ExtensionTable:
    """Read one table.

    Raises:
        TorchwheelError: it is malformed; everything that is wrong is in it.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key_name, raw in content.items():
        key = extension_keys().get(key_name)
        if key is None:
            problems.append(_unknown(key_name, origin))
            continue
        try:
            location = Location(key.name, origin, key.toml_example())
            values[key_name] = (
                _read_table_of(key, raw, location) if key.table else key.type.read(raw, location)
            )
        except TorchwheelError as error:
            problems += error.problems
    if "name" not in content:
        problems.append(_missing("name", origin))
    if not {"sources", "cuda-sources"} & content.keys():
        problems.append(_missing("sources", origin))
    if problems:
        raise TorchwheelError(problems)
    return ExtensionTable(values, origin)


def _read_table_of(key: Key, raw: object, table: Location) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise table.refuse(raw, "a table")
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for entry, value in raw.items():
        location = Location(f"{key.name}.{entry}", f"{table.origin} {key.name}.{entry}", table.example)
        try:
            values[entry] = key.type.read(value, location)
        except TorchwheelError as error:
            problems += error.problems
    if problems:
        raise TorchwheelError(problems)
    return values


def _described(
    table: ExtensionTable,
    project: Path,
    default: ArchitectureList | None,
    problems: list[Problem],
    *,
    cuda: bool,
) -> Extension:
    values = table.values
    sources = find_sources(values.get("sources", ()), project, "sources", table.origin, problems)
    cuda_patterns = values.get("cuda-sources", ())
    # Without CUDA they are not compiled, but a pattern that matches nothing is a mistake all the same.
    cuda_sources = find_sources(cuda_patterns, project, "cuda-sources", table.origin, problems)
    patterns = values.get("architectures", {})
    problems += unmatched_architectures(patterns, [*sources, *cuda_sources], "architectures", table.origin)
    define: Mapping[str, bool | int | str] = values.get("define", {})
    macros = [
        (name, None if value is True else str(value)) for name, value in define.items() if value is not False
    ]
    macros += [(WITH_CUDA, None)] if cuda and cuda_sources else []
    extension = Extension(
        name=table.name,
        sources=tuple(dict.fromkeys([*sources, *(cuda_sources if cuda else ())])),
        define_macros=tuple(macros),
        undef_macros=tuple(name for name, value in define.items() if value is False),
        flags={language: tuple(values[key]) for key, language in _FLAGS.items() if key in values},
        source_architectures=tuple(
            SourceArchitectures(pattern, architectures, f"{table.origin} architectures")
            for pattern, architectures in patterns.items()
        ),
        default_architectures=default,
        origin=table.origin,
    )
    return replace(extension, **{key.replace("-", "_"): values[key] for key in _COPIED if key in values})


def _unknown(name: str, origin: str) -> Problem:
    meant = nearest(name, extension_keys())
    return Problem(
        id="unknown-setting",
        what=f'"{name}" is not a setting of an extension',
        remedy=f'write "{meant}"'
        if meant
        else f"remove it; the settings here are {', '.join(extension_keys())}",
        origin=origin,
    )


def _missing(name: str, origin: str) -> Problem:
    return Problem(
        id="incomplete-extension",
        what=f"the extension has no {name}",
        remedy=f"add it, for example {extension_keys()[name].toml_example()}",
        origin=origin,
    )


def _twice_named(tables: Sequence[ExtensionTable]) -> list[Problem]:
    names = [table.values.get("name") for table in tables]
    twice = dict.fromkeys(name for name in names if name is not None and names.count(name) > 1)
    return [
        Problem(
            id="repeated-setting",
            what=f"{names.count(name)} extensions are named {name}",
            remedy="put them into one, or give each a name of its own",
            origin=f"pyproject.toml {ARRAY}",
        )
        for name in twice
    ]
