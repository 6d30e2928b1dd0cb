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
from torchwheel.reporting.errors import (
    Problem,
    collect_problems,
    find_nearest,
    refusal,
    stop_on,
)
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
        yield Problem.of(
            "torch-without-cuda/left-out",
            origin=asked[0].origin,
            key=asked[0].key,
            value=asked[0].text,
            torch=torch.version,
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
    sources = find_sources(values.get("sources", ()), project, option("sources"), origin, problems)
    # Without CUDA they are not compiled, but a pattern that matches nothing is still a mistake.
    cuda_sources = find_sources(
        values.get("cuda-sources", ()), project, option("cuda-sources"), origin, problems
    )
    architectures = values.get("architectures", {})
    everything = [*sources, *cuda_sources]
    problems += unmatched_architectures(architectures, everything, option("architectures"), origin)
    problems += [
        Problem.of(
            "unknown-source-language",
            origin=origin,
            source=source,
            extension=described.name,
            suffix=PurePath(source).suffix or "it",
            languages=", ".join(LANGUAGES),
        )
        for source in everything
        if language_of(source) is None
    ]
    define: Mapping[str, bool | int | str] = values.get("define", {})
    macros = [
        (name, None if value is True else str(value)) for name, value in define.items() if value is not False
    ]
    arguments: dict[str, Any] = {
        key.replace("-", "_"): list(values[key]) for key in _PASSED_ON if key in values
    }
    arguments |= {
        "define_macros": macros + ([(WITH_CUDA, None)] if cuda and cuda_sources else []),
        "undef_macros": [name for name, value in define.items() if value is False],
        "extra_link_args": list(values.get("link-flags", ())),
    }
    if linked := values.get("device-link-libraries", ()) or values.get("device-link"):
        arguments |= {"dlink": True, "dlink_libraries": [] if linked is True else list(linked)}
    extension = Extension(
        name=described.name,
        sources=tuple(dict.fromkeys(everything if cuda else sources)),
        arguments=arguments,
        flags={language: tuple(values[key]) for key, language in _FLAGS.items() if key in values},
        source_architectures=architectures,
        origin=origin,
    )
    return replace(extension, **{key.replace("-", "_"): values[key] for key in _COPIED if key in values})
