"""Compare two recordings of one project's build: how every object and every module is made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from extension.compatibility.recording import Recorded
from torchwheel.extension.extension_plan import language_of

_WITH_VALUE = (
    "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-std", "--std", "-x", "-t",
    "--threads", "-ccbin", "--compiler-bindir", "-include", "-Xptxas", "--ptxas-options", "-Xcudafe", "-Xfatbin",
    "-Xlinker", "-Xnvlink", "-z", "-u", "-rpath", "-soname", "-maxrregcount", "--maxrregcount", "--default-stream",
)  # fmt: skip
_FOLDERS = ("-I", "-L")
_NAMES = ("-D", "-U", "-l")
_SYSTEM = "-isystem"
_DROPPED = frozenset({"-c", "-MMD", "-MD", "--generate-dependencies-with-compile"})
_OPTIMISATION = re.compile(r"-O\w*|--optimize=\w+")
_STANDARD = re.compile(r"--?std=(.*)")
_ARCHITECTURE = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code)=(.*)")


@dataclass(frozen=True)
class Compile:
    """How one object is made.

    Attributes:
        macros: name -> value when the source begins; None where it is undefined.
        include_dirs: in the order of searching, as the compiler sees them.
        others: all other words, in order.
    """

    compiler: str
    macros: Mapping[str, str | None]
    include_dirs: tuple[str, ...]
    standard: str
    optimisation: str
    architectures: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """How one module is linked.

    Attributes:
        program: ``c++`` for a compiler of C++, else the program's name.
        objects: sources of its objects, and other files, in order.
    """

    program: str
    objects: tuple[str, ...]
    libraries: tuple[str, ...]
    library_dirs: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Commands:
    """What a build of a project ran.

    Attributes:
        compiles: module and source -> how the object is made.
        links: module -> how it is linked.
    """

    compiles: Mapping[str, Compile]
    links: Mapping[str, Link]


def read_commands(commands: Iterable[Recorded], roots: Mapping[str, Path]) -> Commands:
    """Sort a recording; what a setup.py compiles outside of the project, to try a compiler, is left out.

    Args:
        roots: name -> folder, the inner ones first; a path in it begins with that name in what is returned. The
            project's own is ``project``.
    """
    places = {name: os.path.realpath(folder) for name, folder in roots.items()}
    compiles: dict[str, Compile] = {}
    links: dict[str, Link] = {}
    keys: dict[str, str] = {}
    for command in commands:
        reader = _Reader(command, places)
        if not reader.compiles:
            module = Path(reader.output).name.partition(".")[0]
            # torch.utils.cpp_extension and torchwheel call this object differently.
            key = "device code" if reader.links_device else module
            keys[reader.output] = key
            links[key] = reader.link(keys)
        else:
            compiled = reader.compile()
            if "TORCH_EXTENSION_NAME" not in compiled.macros and not reader.source.startswith("project/"):
                continue
            key = f"{compiled.macros.get('TORCH_EXTENSION_NAME', 'no module')}: {reader.source}"
            keys[reader.output] = key
            compiles[key] = compiled
    return Commands(compiles, links)


class _Reader:
    def __init__(self, command: Recorded, places: Mapping[str, str]) -> None:
        self._folder, self._places = command.folder, places
        self._program = command.program
        self.compiler = "nvcc" if command.program == "nvcc" else "gnu"
        self.compiles = "-c" in command.words
        self.links_device = not {"-dlink", "--device-link"}.isdisjoint(command.words)
        self.output = ""
        self._files: list[str] = []
        self._options: list[tuple[str, str]] = []
        words = iter(command.words)
        for word in words:
            if word == "-o":
                self.output = self._whole(next(words))
            elif word in ("-MF", "--dependency-output"):
                next(words)
            elif word in (*_FOLDERS, *_NAMES, _SYSTEM):
                self._options.append((word, next(words)))
            elif word[:2] in (*_FOLDERS, *_NAMES):
                self._options.append((word[:2], word[2:]))
            elif word in ("-Xcompiler", "--compiler-options"):
                self._options.append(("", f"-Xcompiler={next(words).strip(chr(39))}"))
            elif word in _WITH_VALUE:
                self._options.append(("", f"{word}={next(words)}"))
            elif not word.startswith("-") and (not self.compiles or language_of(word)):
                self._files.append(self._whole(word))
            elif not word.startswith("-"):
                # The value of an option that is not among those above.
                self._options.append(("", f"{self._options.pop()[1]}={word}"))
            elif word not in _DROPPED:
                self._options.append(("", word.replace("--compiler-options=", "-Xcompiler=", 1)))

    @property
    def source(self) -> str:
        return self._general(self._files[-1]) if self._files else ""

    def compile(self) -> Compile:
        macros: dict[str, str | None] = {}
        for option, value in self._options:
            if option == "-D":
                name, equals, text = value.partition("=")
                macros[name] = text if equals else "1"
            elif option == "-U":
                macros[value] = None
        system = self._folders(_SYSTEM)
        # GCC passes over -I of a folder that is a system folder, too.
        plain = [folder for folder in self._folders("-I") if folder not in system]
        words = self._words()
        levels = [word for word in words if _OPTIMISATION.fullmatch(word)]
        standards = [match[1] for match in map(_STANDARD.fullmatch, words) if match]
        architectures = [match[1] for match in map(_ARCHITECTURE.fullmatch, words) if match]
        taken = (_OPTIMISATION, _STANDARD, _ARCHITECTURE)
        return Compile(
            self.compiler,
            macros,
            tuple(dict.fromkeys([*plain, *system])),
            standards[-1] if standards else "",
            levels[-1] if levels else "",
            tuple(sorted(architectures)),
            tuple(word for word in words if not any(one.fullmatch(word) for one in taken)),
        )

    def link(self, keys: Mapping[str, str]) -> Link:
        return Link(
            "c++" if self._program == "g++" else self._program,
            tuple(keys.get(file) or self._general(file) for file in self._files),
            tuple(value for option, value in self._options if option == "-l"),
            tuple(dict.fromkeys(self._folders("-L"))),
            tuple(self._words()),
        )

    def _folders(self, wanted: str) -> list[str]:
        return [self._general(self._whole(value)) for option, value in self._options if option == wanted]

    def _words(self) -> list[str]:
        return [self._general(value) for option, value in self._options if not option]

    def _whole(self, path: str) -> str:
        return os.path.realpath(Path(self._folder, path))

    def _general(self, word: str) -> str:
        for name, folder in self._places.items():
            word = word.replace(folder, name)
        return word


@dataclass(frozen=True)
class Difference:
    """One difference between two builds.

    Attributes:
        of: the object or module; several that differ in the same way are one after the other.
        field: what of it; empty where only one build makes it.
    """

    of: str
    field: str
    only_torch: tuple[str, ...]
    only_own: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.of}: {self.field}: only torch {list(self.only_torch)}, only own {list(self.only_own)}"


def differences(theirs: Commands, own: Commands) -> Iterator[Difference]:
    """Every difference between two builds."""
    for kind in ("compiles", "links"):
        their_part, own_part = getattr(theirs, kind), getattr(own, kind)
        for key in sorted(their_part.keys() | own_part.keys()):
            if key not in their_part or key not in own_part:
                makes = ((key,), ()) if key in their_part else ((), (key,))
                yield Difference(key, "", *makes)
                continue
            for field in fields(their_part[key]):
                before, after = getattr(their_part[key], field.name), getattr(own_part[key], field.name)
                if before != after:
                    yield Difference(key, field.name, *_unequal(_texts(before), _texts(after)))


# What docs/extensions.md says that torchwheel passes, or does not; and an environment's folder of headers without any.
_SAID = {
    "others": re.compile(r"-g|-Xfatbin=-compress-all|--threads=\d"),
    "include_dirs": re.compile(r"environment/include|project/build/temp\S+"),
    "standard": re.compile(r"c\+\+(?:11|14|17)"),
}


def unsaid(difference: Difference) -> Difference | None:
    """What of a difference the documentation does not say; None for nothing."""
    said = _SAID.get(difference.field)
    if said is None:
        return difference
    if difference.of == "device code" and difference.field == "others":
        # Without effect in a device link, or given twice.
        said = re.compile(f"{said.pattern}|--expt-relaxed-constexpr|-dlto|-dlink")
    less = [word for word in difference.only_torch if not said.fullmatch(word)]
    more = [word for word in difference.only_own if not said.fullmatch(word)]
    if difference.field == "include_dirs":
        # torch.utils.cpp_extension with ninja looks for a relative folder in the build folder.
        more = [
            word for word in more if f"/{word.removeprefix('project/')}" not in "".join(difference.only_torch)
        ]
    if difference.field == "standard" and not less:
        # Raised.
        more = [word for word in more if word != "c++20"]
    return replace(difference, only_torch=tuple(less), only_own=tuple(more)) if less or more else None


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        return tuple(f"-U{name}" if text is None else f"-D{name}={text}" for name, text in value.items())
    return value if isinstance(value, tuple) else (str(value),)


def _unequal(theirs: tuple[str, ...], own: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What only one has; all of both where only the order differs."""
    less, more = list(theirs), list(own)
    for one in theirs:
        if one in more:
            more.remove(one)
            less.remove(one)
    return (tuple(less), tuple(more)) if less or more else (theirs, own)
