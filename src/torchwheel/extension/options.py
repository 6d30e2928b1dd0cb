"""The options of extensions, with one reader for all spellings, and the extensions that they describe.

They are keys of ``[[tool.torchwheel.extension]]``, keywords of ``torchwheel_add_extension`` in CMake, and arguments of
``CUDAExtension`` in a setup.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from torchwheel.extension.extension_plan import (
    LANGUAGES,
    WITH_CUDA,
    Extension,
    ExtensionProject,
    Language,
    language_of,
)
from torchwheel.extension.sources import find_sources, has_cuda_source, unmatched_architectures
from torchwheel.host.compilers import command_words
from torchwheel.reporting.errors import Problem, collect_problems, find_nearest, refusal, stop_on
from torchwheel.settings.known_keys import EXTENSION_KEYS, Key
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project
from torchwheel.settings.value_types import Location, raw_text

ARRAY = "[[tool.torchwheel.extension]]"

_FLAGS = {"cxx-flags": Language.CXX, "nvcc-flags": Language.CUDA}
_COPIED = ("stable-abi", "limited-api", "unity", "front-end", "depends")
_PASSED_ON = ("include-dirs", "library-dirs", "libraries")


@dataclass(frozen=True)
class Spelling:
    """The spelling of options in one place, where the noun is the term for one."""

    noun: str
    option: Callable[[str], str]
    example: Callable[[Key], str]
    textual: bool = False

    def unknown_option(self, name: str, known: Iterable[str], origin: str) -> Problem:
        names = tuple(known)
        meant = find_nearest(name, names)
        key = "unknown-setting/extension-near" if meant else "unknown-setting/extension"
        values = {"noun": self.noun, "meant": meant, "settings": ", ".join(names)}
        return Problem.of(key, origin=origin, name=name, **values)


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


def has_extension_tables(project: Project) -> bool:
    return bool(_raw_tables(project))


def read_extension_tables(project: Project) -> tuple[ExtensionOptions, ...]:
    problems: list[Problem] = []
    raw = _raw_tables(project)
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        origin = "pyproject.toml [tool.torchwheel]"
        raise refusal("ill-typed-value/extensions", origin=origin, value=raw_text(raw))
    tables: list[ExtensionOptions] = []
    for number, content in enumerate(raw, 1):
        name = content.get("name")
        named = name if isinstance(name, str) and name else f"number {number}"
        with collect_problems(problems):
            tables.append(read_options(content, f"pyproject.toml {ARRAY} {named}"))
    names = [content["name"] for content in raw if "name" in content]
    for number, name in enumerate(names):
        if (count := names.count(name)) > 1 and name not in names[:number]:
            origin = f"pyproject.toml {ARRAY}"
            problems.append(Problem.of("repeated-setting/extension", origin=origin, count=count, name=name))
    stop_on(problems)
    return tuple(tables)


def _raw_tables(project: Project) -> Any:
    return project.table("tool", "torchwheel").get("extension", [])


def read_options(content: Mapping[str, object], origin: str, spelling: Spelling = TOML) -> ExtensionOptions:
    """Read the options of one extension from key -> raw value."""
    problems: list[Problem] = []
    values = read_values(content, origin, spelling, problems)
    for needed in (("name",), ("sources", "cuda-sources")):
        if content.keys().isdisjoint(needed):
            key, example = needed[0], spelling.example(EXTENSION_KEYS[needed[0]])
            problems.append(Problem.of("incomplete-extension", origin=origin, key=key, assignment=example))
    stop_on(problems)
    return ExtensionOptions(values, origin, spelling)


def read_values(
    content: Mapping[str, object], origin: str, spelling: Spelling, problems: list[Problem]
) -> dict[str, Any]:
    """Read the values of options, each of its key's type: key -> value."""
    values: dict[str, Any] = {}
    for name, raw in content.items():
        if (key := EXTENSION_KEYS.get(name)) is None:
            problems.append(spelling.unknown_option(name, EXTENSION_KEYS, origin))
            continue
        whole = Location(spelling.option(name), origin, spelling.example(key), textual=spelling.textual)
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
    """Return the extensions, of the tables by default, for the installed PyTorch and the requested target."""
    found = read_extension_tables(project.pyproject) if described is None else described
    extensions = described_extensions(found, project.folder, cuda=project.builds_cuda)
    if described is not None:
        return extensions
    # PyTorch's own command does not read it, and CMake does.
    own = command_words(project.settings.env.get("CXXFLAGS", ""), project.host.system)
    return tuple(
        replace(one, flags={**one.flags, Language.CXX: (*one.flags.get(Language.CXX, ()), *own)})
        for one in extensions
    )


def cuda_left_out(project: ExtensionProject) -> Iterator[Problem]:
    """Report a requested GPU with a PyTorch without CUDA for a project with CUDA sources.

    The build for a GPU would silently become one for the CPU. A setup.py or a CMakeLists.txt may check PyTorch itself
    and describe no CUDA sources, so any in the project count.
    """
    asked, torch = requested_hardware(project), project.torch
    if not asked or project.settings.is_cpu or torch.cuda is not None or torch.hip is not None:
        return
    if has_cuda_source(project.folder):
        values = {"origin": asked.origin, "key": asked.key, "value": asked.text}
        yield Problem.of("torch-without-cuda/left-out", torch=torch.version, **values)


def requested_hardware(project: ExtensionProject) -> Setting | None:
    """The setting of the command, of torchwheel's variables or of an sdist that names GPUs or architectures."""
    sdist = project.pyproject.sdist
    for one in filter(None, map(project.settings.entries.get, ("target", "arch"))):
        is_asked = one.layer >= Layer.ENVIRONMENT or (sdist is not None and one.key in sdist.settings)
        if one.text and not one.ambient and is_asked:
            return one
    return None


def target_without_code(project: ExtensionProject, extensions: Iterable[Extension]) -> Iterator[Problem]:
    """Report a requested GPU that no extension has code for, although the project has CUDA sources or uses CUDA.

    A setup.py may choose by what it finds, and a wheel for the CPU would be named like one that was asked for.
    """
    asked, given = requested_hardware(project), list(extensions)
    if not asked or not project.builds_cuda or any(one.cuda_sources for one in given):
        return
    if any(one.uses_cuda for one in given) or has_cuda_source(project.folder):
        yield Problem.of("target-without-code", origin=asked.origin, key=asked.key, value=asked.text)


def described_extensions(
    described: Iterable[ExtensionOptions], project: Path, *, cuda: bool
) -> tuple[Extension, ...]:
    """Return the described extensions, with the source files that exist now."""
    problems: list[Problem] = []
    extensions = [_make_extension(one, project, problems, cuda=cuda) for one in described]
    stop_on(problems)
    # An extension with only CUDA sources is left out without CUDA.
    return tuple(
        extension
        for extension, one in zip(extensions, described, strict=True)
        if extension.sources or "sources" in one.values
    )


def _make_extension(
    described: ExtensionOptions, project: Path, problems: list[Problem], *, cuda: bool
) -> Extension:
    values, origin, option = described.values, described.origin, described.spelling.option
    # Without CUDA some are not compiled, but a pattern that matches nothing is still a mistake.
    sources, cuda_sources = (
        find_sources(values.get(key, ()), project, option(key), origin, problems)
        for key in ("sources", "cuda-sources")
    )
    architectures, everything = values.get("architectures", {}), [*sources, *cuda_sources]
    problems += unmatched_architectures(architectures, everything, option("architectures"), origin)
    named = {"origin": origin, "extension": described.name, "languages": ", ".join(LANGUAGES)}
    problems += [
        Problem.of("unknown-source-language", source=one, suffix=PurePath(one).suffix or "it", **named)
        for one in everything
        if language_of(one) is None
    ]
    return Extension(
        name=described.name,
        sources=tuple(dict.fromkeys(everything if cuda else sources)),
        arguments=_torch_arguments(values, with_cuda=bool(cuda and cuda_sources)),
        flags={language: tuple(values[key]) for key, language in _FLAGS.items() if key in values},
        source_architectures=architectures,
        origin=origin,
        **{key.replace("-", "_"): values[key] for key in _COPIED if key in values},
    )


def _torch_arguments(values: Mapping[str, Any], *, with_cuda: bool) -> dict[str, Any]:
    """The arguments of PyTorch's function."""
    arguments: dict[str, Any] = {
        key.replace("-", "_"): list(values[key]) for key in _PASSED_ON if key in values
    }
    define: Mapping[str, bool | int | str] = values.get("define", {})
    macros = [
        (name, None if value is True else str(value)) for name, value in define.items() if value is not False
    ]
    arguments |= {
        "define_macros": macros + ([(WITH_CUDA, None)] if with_cuda else []),
        "undef_macros": [name for name, value in define.items() if value is False],
        "extra_link_args": list(values.get("link-flags", ())),
    }
    if linked := values.get("device-link-libraries", ()) or values.get("device-link"):
        arguments |= {"dlink": True, "dlink_libraries": [] if linked is True else list(linked)}
    return arguments
