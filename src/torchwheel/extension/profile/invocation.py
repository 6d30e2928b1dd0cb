"""A compile command taken apart, and put together again to measure something."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from torchwheel.extension.model import Language
from torchwheel.extension.profile.model import Compile
from torchwheel.host.compilers import find_compilers

CompilerFamily = Literal["gcc", "clang", "msvc", "nvcc"]

# Options that name outputs; the first ones have their value in the next word.
_OUTPUT_WITH_VALUE = frozenset({"-o", "-MF", "-MT", "-MQ", "--output-file", "--dependency-output"})
_OUTPUT = frozenset({"-c", "--compile", "-dc", "-dw", "-MD", "-MMD", "/c", "/showIncludes", "/nologo"})
_OUTPUT_PREFIXES = ("/Fo", "/Fd", "--output-file=", "-MF=")

_INCLUDE_DIRS = (
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "/I",
    "/external:I",
    "--include-path",
    "--system-include",
)
_LANGUAGE_OF_MSVC = ("/Tp", "/Tc")


@dataclass(frozen=True)
class Invocation:
    """A compile command without what it reads and writes.

    Attributes:
        family: whose options it takes.
        program: the compiler.
        flags: everything else.
        language: what it compiles.
        relocatable: whether nvcc makes relocatable device code (``-dc``).
        folder: where it runs, relative to the build folder.
    """

    family: CompilerFamily
    program: str
    flags: tuple[str, ...]
    language: Language
    relocatable: bool = False
    folder: str = "."

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """The folders of headers, as the command spells them."""
        return tuple(_values(self.flags, _INCLUDE_DIRS))

    def without(self, flags: Sequence[str]) -> Invocation:
        """The same command without some flags."""
        return replace(self, flags=tuple(flag for flag in self.flags if flag not in flags))

    def compiling(self, source: str, output: Path) -> tuple[str, ...]:
        """The command that compiles a file."""
        if self.family == "msvc":
            return (*self._head, "/c", self._msvc_input(source), f"/Fo{output}")
        return (*self._head, "-dc" if self.relocatable else "-c", source, "-o", str(output))

    def timed(self, source: str, output: Path, report: Path) -> tuple[str, ...]:
        """The command that compiles a file and reports its times: nvcc to ``report``, Clang beside ``output``."""
        options = {
            "gcc": ("-ftime-report",),
            "clang": ("-ftime-trace",),
            "msvc": ("/Bt+",),
            "nvcc": ("--time", str(report)),
        }
        return (*self.compiling(source, output), *options[self.family])

    def reading(self, source: str, output: Path) -> tuple[str, ...]:
        """The command that does the least which takes a front end through a whole file."""
        if self.family == "nvcc":
            return self.compiling(source, output)
        if self.family == "msvc":
            return (*self._head, "/Zs", self._msvc_input(source))
        return (*self._head, "-fsyntax-only", source)

    def preprocessing(self, source: str, output: Path) -> tuple[str, ...] | None:
        """The command that preprocesses a file; None for cl, whose line markers do not nest."""
        if self.family == "msvc" or (self.family == "nvcc" and self.program.lower().endswith(".exe")):
            return None
        return (*self._head, "-E", source, "-o", str(output))

    def _msvc_input(self, source: str) -> str:
        return f"{'/Tc' if self.language is Language.C else '/Tp'}{source}"

    @property
    def _head(self) -> tuple[str, ...]:
        return (self.program, *self.flags)


def invocation_of(compile: Compile) -> Invocation:
    """Take a compile command apart."""
    program, *arguments = compile.command
    inputs = {compile.path, *(f"{prefix}{compile.path}" for prefix in _LANGUAGE_OF_MSVC)}
    return Invocation(
        family=_family(program, compile.language),
        program=program,
        flags=tuple(_flags(arguments, inputs)),
        language=compile.language,
        relocatable="-dc" in arguments,
        folder=compile.folder,
    )


def _flags(arguments: Sequence[str], inputs: set[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word in _OUTPUT_WITH_VALUE:
            next(words, None)
        elif word not in _OUTPUT and word not in inputs and not word.startswith(_OUTPUT_PREFIXES):
            yield word


def _values(flags: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The values of options, which stand in the same word or in the next."""
    for index, flag in enumerate(flags):
        name = next((name for name in names if flag.startswith(name)), None)
        if name is None:
            continue
        value = flag.removeprefix(name).removeprefix("=")
        if value:
            yield value
        elif index + 1 < len(flags):
            yield flags[index + 1]


def _family(program: str, language: Language) -> CompilerFamily:
    """Whose options a compiler takes; what is not known for another takes GCC's."""
    stem = PurePosixPath(program.replace("\\", "/")).name.lower().removesuffix(".exe")
    if language is Language.CUDA and "nvcc" in stem:
        return "nvcc"
    found = find_compilers({"CXX": f'"{program}"', "PATH": os.environ.get("PATH", "")}, platform.system())
    kinds = {compiler.language: compiler.kind for compiler in found}
    kind = kinds.get("cxx", "unknown")
    return "gcc" if kind == "unknown" else kind
