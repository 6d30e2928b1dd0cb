"""The options of extensions, with one reader for all spellings, and the extensions that they describe.

They are keys of ``[[tool.torchwheel.extension]]``, keywords of ``torchwheel_add_extension`` in CMake, and arguments of
``CUDAExtension`` in a setup.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.extension.extension_plan import WITH_CUDA, Extension, ExtensionProject, Language, language_of
from torchwheel.extension.sources import (
    ends_of_flag,
    find_sources,
    has_cuda_source,
    is_source_file,
    unmatched_architectures,
)
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import command_words
from torchwheel.reporting.errors import (
    Problem,
    collect_problems,
    error,
    find_nearest,
    refusal,
    stop_on,
    stop_on_errors,
)
from torchwheel.settings.known_keys import EXTENSION_KEYS, Key
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project
from torchwheel.settings.resolve import architectures_of
from torchwheel.settings.value_types import Location, raw_text

ARRAY = "[[tool.torchwheel.extension]]"

_FLAGS = {"c-flags": Language.C, "cxx-flags": Language.CXX, "nvcc-flags": Language.CUDA}
_COPIED = (
    "include-dirs", "library-dirs", "libraries", "device-link", "device-link-libraries", "stable-abi", "limited-api",
    "unity", "front-end", "depends",
)  # fmt: skip


@dataclass(frozen=True)
class Spelling:
    """The spelling of options in one place.

    Attributes:
        noun: the term for an option there: ``a setting of an extension``.
    """

    noun: str
    option: Callable[[str], str]
    example: Callable[[Key], str]
    textual: bool = False

    def unknown_option(self, name: str, known: Iterable[str], origin: str) -> Problem:
        names = tuple(known)
        meant = find_nearest(name, names)
        return Problem.of(
            "unknown-setting/extension-near" if meant else "unknown-setting/extension",
            origin=origin,
            name=name,
            noun=self.noun,
            meant=meant,
            settings=", ".join(names),
        )


TOML = Spelling("a setting of an extension", str, Key.toml_example)


@dataclass(frozen=True)
class ExtensionOptions:
    """The options of one extension, with patterns not yet expanded."""

    values: Mapping[str, Any]
    origin: str
    spelling: Spelling = TOML

    @property
    def name(self) -> str:
        return str(self.values["name"])

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of its sources, including CUDA's."""
        return (*self.values.get("sources", ()), *self.values.get("cuda-sources", ()))


def has_extension_tables(project: Project) -> bool:
    """Whether a project describes extensions in its pyproject.toml."""
    return bool(_raw_tables(project))


def read_extension_tables(project: Project) -> tuple[ExtensionOptions, ...]:
    """Read the extension tables of a pyproject.toml, in order."""
    problems: list[Problem] = []
    raw = _raw_tables(project)
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        raise refusal(
            "ill-typed-value/extensions", origin="pyproject.toml [tool.torchwheel]", value=raw_text(raw)
        )
    tables: list[ExtensionOptions] = []
    for number, content in enumerate(raw, 1):
        name = content.get("name")
        named = name if isinstance(name, str) and name else f"number {number}"
        with collect_problems(problems):
            tables.append(read_options(content, f"pyproject.toml {ARRAY} {named}"))
    names = [content["name"] for content in raw if "name" in content]
    problems += repeated_names(names, f"pyproject.toml {ARRAY}")
    stop_on(problems)
    return tuple(tables)


def repeated_names(names: Sequence[Any], origin: str) -> Iterator[Problem]:
    """Report each name that several extensions have."""
    for number, name in enumerate(names):
        if names.count(name) > 1 and name not in names[:number]:
            yield Problem.of("repeated-setting/extension", origin=origin, count=names.count(name), name=name)


def _raw_tables(project: Project) -> Any:
    return project.table("tool", "torchwheel").get("extension", [])


def read_options(content: Mapping[str, object], origin: str, spelling: Spelling = TOML) -> ExtensionOptions:
    """Read the options of one extension from key -> raw value."""
    problems: list[Problem] = []
    values = read_values(content, origin, spelling, problems)
    problems += [
        Problem.of(
            "incomplete-extension",
            origin=origin,
            key=needed[0],
            assignment=spelling.example(EXTENSION_KEYS[needed[0]]),
        )
        for needed in (("name",), ("sources", "cuda-sources"))
        if not content.keys() & set(needed)
    ]
    stop_on(problems)
    return ExtensionOptions(values, origin, spelling)


def read_values(
    content: Mapping[str, object], origin: str, spelling: Spelling, problems: list[Problem]
) -> dict[str, Any]:
    """Read the values of options, each of its key's type: key -> value."""
    values: dict[str, Any] = {}
    keys = EXTENSION_KEYS
    for name, raw in content.items():
        if name not in keys:
            problems.append(spelling.unknown_option(name, keys, origin))
            continue
        key = keys[name]
        example = spelling.example(key)
        whole = Location(spelling.option(name), origin, example, textual=spelling.textual)
        with collect_problems(problems):
            if not key.table:
                values[name] = key.type.read(raw, whole)
            elif isinstance(raw, Mapping):
                values[name] = {}
                for entry, value in raw.items():
                    place = f"{whole.key}.{entry}"
                    location = replace(whole, key=place, origin=f"{origin} {place}")
                    values[name][entry] = key.type.read(value, location)
            else:
                problems += whole.refuse(raw, "a table").problems
    return values


def project_extensions(
    project: ExtensionProject, described: Sequence[ExtensionOptions] | None = None
) -> tuple[Extension, ...]:
    """Return the described extensions, for the installed PyTorch and the requested target.

    Args:
        described: the options; None for the tables of its pyproject.toml.
    """
    found = read_extension_tables(project.pyproject) if described is None else described
    cuda = project.builds_cuda
    defaults: dict[str, ArchitectureList | None] = {}
    if cuda and project.settings.arch is None:
        for one in found:
            if targets := one.values.get("targets"):
                defaults[one.name] = architectures_of(targets, f"{one.origin} targets", project.settings)
    refuse_to_leave_out(found, project)
    extensions = described_extensions(found, project.folder, cuda=cuda, defaults=defaults)
    if described is not None:
        return extensions
    # PyTorch's own command does not read it, and CMake does.
    own = command_words(project.settings.env.get("CXXFLAGS", ""), project.host.system)
    return tuple(
        replace(one, flags={**one.flags, Language.CXX: (*one.flags.get(Language.CXX, ()), *own)})
        for one in extensions
    )


def refuse_to_leave_out(described: Iterable[ExtensionOptions], project: ExtensionProject) -> None:
    """Refuse to turn a build requested for a GPU silently into one for the CPU.

    A setup.py or a CMakeLists.txt may check PyTorch itself and describe no CUDA sources, so any in the project count.
    """
    options = list(described)
    named = [one.name for one in options if "cuda-sources" in one.values]
    # The plan refuses sources that are always compiled, by name.
    sources = (source for one in options for source in one.values.get("sources", ()))
    has_cuda_sources = any(language_of(source) is Language.CUDA for source in sources)
    if named or not has_cuda_sources:
        stop_on_errors(map(error, cuda_left_out(project, named)), project.settings.skip_check)


def cuda_left_out(project: ExtensionProject, named: Sequence[str] = ()) -> Iterator[Problem]:
    """Report a requested GPU with a PyTorch without CUDA.

    Args:
        named: the extensions with CUDA sources for a PyTorch with CUDA; without any, the project's CUDA sources count.
    """
    asked, torch = requested_hardware(project), project.torch
    if not asked or project.settings.is_cpu or torch.cuda is not None or torch.hip is not None:
        return
    if named or has_cuda_source(project.folder):
        yield Problem.of(
            "torch-without-cuda/left-out",
            origin=asked[0].origin,
            key=asked[0].key,
            value=asked[0].text,
            torch=torch.version,
            extensions=", ".join(named) or "the project",
        )


def requested_hardware(project: ExtensionProject) -> list[Setting]:
    """The settings of the command, of variables of torchwheel's or of an sdist that name GPUs or architectures."""
    sdist = project.pyproject.sdist
    given = filter(None, map(project.settings.get, ("target", "arch")))
    return [
        one
        for one in given
        if one.text and not one.ambient
        if one.layer >= Layer.ENVIRONMENT or (sdist is not None and one.key in sdist.settings)
    ]


def target_without_code(project: ExtensionProject, extensions: Iterable[Extension]) -> Iterator[Problem]:
    """Report a requested GPU that no extension has code for, although the project has CUDA sources or uses CUDA.

    A setup.py may choose by what it finds, and a wheel for the CPU would be named like one that was asked for.
    """
    asked, given = requested_hardware(project), list(extensions)
    if not asked or not project.builds_cuda or any(one.cuda_sources for one in given):
        return
    if any(one.uses_cuda for one in given) or has_cuda_source(project.folder):
        yield Problem.of("target-without-code", origin=asked[0].origin, key=asked[0].key, value=asked[0].text)


def described_extensions(
    described: Iterable[ExtensionOptions],
    project: Path,
    *,
    cuda: bool,
    defaults: Mapping[str, ArchitectureList | None],
) -> tuple[Extension, ...]:
    """Return the described extensions, with the source files that exist now.

    Args:
        defaults: name -> the architectures without a requested target.
    """
    problems: list[Problem] = []
    extensions = [
        _make_extension(one, project, defaults.get(one.name), problems, cuda=cuda) for one in described
    ]
    stop_on(problems)
    # An extension with only CUDA sources is left out without CUDA.
    return tuple(
        extension
        for extension, one in zip(extensions, described, strict=True)
        if extension.sources or "sources" in one.values
    )


def _make_extension(
    described: ExtensionOptions,
    project: Path,
    default: ArchitectureList | None,
    problems: list[Problem],
    *,
    cuda: bool,
) -> Extension:
    values, origin, option = described.values, described.origin, described.spelling.option
    sources = find_sources(values.get("sources", ()), project, option("sources"), origin, problems)
    # Without CUDA they are not compiled, but a pattern that matches nothing is still a mistake.
    cuda_sources = find_sources(
        values.get("cuda-sources", ()), project, option("cuda-sources"), origin, problems
    )
    architectures = values.get("architectures", {})
    everything = [*sources, *cuda_sources]
    problems += unmatched_architectures(architectures, everything, option("architectures"), origin)
    define: Mapping[str, bool | int | str] = values.get("define", {})
    macros = [
        (name, None if value is True else str(value)) for name, value in define.items() if value is not False
    ]
    macros += [(WITH_CUDA, None)] if cuda and cuda_sources else []
    extension = Extension(
        name=described.name,
        sources=tuple(dict.fromkeys(everything if cuda else sources)),
        define_macros=tuple(macros),
        undef_macros=tuple(name for name, value in define.items() if value is False),
        flags={language: tuple(values[key]) for key, language in _FLAGS.items() if key in values},
        source_architectures=architectures,
        default_architectures=default,
        origin=origin,
    )
    copied = {key.replace("-", "_"): values[key] for key in _COPIED if key in values}
    flags = tuple(_with_whole_paths(flag, project) for flag in values.get("link-flags", ()))
    return replace(extension, **{**copied, "link_flags": flags})


def _with_whole_paths(flag: str, project: Path) -> str:
    """Make paths in a linker flag absolute, because the linker does not run in the project."""
    # A name may be too long for a file system.
    if flag.startswith("-L") and flag[2:] and os.path.isdir(project / flag[2:]):  # noqa: PTH112
        return f"-L{project / flag[2:]}"
    return ",".join(_with_whole_path(part, project) for part in flag.split(","))


def _with_whole_path(part: str, project: Path) -> str:
    """Make the path in a part of a flag absolute; ``=`` and ``@`` may precede a path or be in it."""
    path = next((tail for tail in ends_of_flag(part) if is_source_file(tail, project)), None)
    return part if path is None else f"{part.removesuffix(path)}{project / path}"
