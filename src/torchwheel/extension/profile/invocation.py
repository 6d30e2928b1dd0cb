"""A compile command taken apart and put together again to measure something, and the compilers' timing reports."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from torchwheel._toml import read_toml
from torchwheel.extension.model import Language
from torchwheel.extension.profile.model import Compile, Phase, PhaseKind
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

# " phase parsing   :   4.35 ( 62%)   3.63 ( 78%)   8.15 ( 69%)   520M ( 75%)": user, system and elapsed time.
_GCC = re.compile(
    r"^ phase (?P<name>\S+(?: \S+)*) *: +(?P<user>[\d.]+) \( *\d+%\) +(?P<system>[\d.]+) \( *\d+%\) ",
    re.MULTILINE,
)
# "time(C:\...\bin\HostX64\x64\c1xx.dll)=1.25114s < 8140 - 8152 > BB [C:\...\a.cpp]"
_MSVC = re.compile(r"^time\((?:.*[\\/])?(?P<name>[^\\/()]+)\)=(?P<elapsed>[\d.]+)s", re.MULTILINE)

_NUMBER = re.compile(r"[\d.]+")

_MILLI, _MICRO = 1e-3, 1e-6

_KINDS = {
    "preprocess": PhaseKind.PREPROCESS,
    "front-end": PhaseKind.FRONT_END,
    "device": PhaseKind.DEVICE,
    "host": PhaseKind.HOST,
    "optimize": PhaseKind.GENERATE,
    "assemble": PhaseKind.ASSEMBLE,
}


@dataclass(frozen=True)
class Invocation:
    """A compile command without what it reads and writes.

    Attributes:
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
        options = {"gcc": "-ftime-report", "clang": "-ftime-trace", "msvc": "/Bt+", "nvcc": "--time"}
        table = (str(report),) if self.family == "nvcc" else ()
        return (*self.compiling(source, output), options[self.family], *table)

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


def gcc_phases(text: str) -> tuple[Phase, ...]:
    """What GCC writes to stderr with ``-ftime-report``: processor time.

    Its lines that begin with "phase" divide the whole time; the others divide it once more.
    """
    found = ((m["name"], float(m["user"]) + float(m["system"])) for m in _GCC.finditer(text))
    return _phases("gcc", found)


def msvc_phases(text: str) -> tuple[Phase, ...]:
    """What cl writes to stdout with ``/Bt+``: the elapsed time of each of its passes."""
    return _phases("msvc", ((m["name"], float(m["elapsed"])) for m in _MSVC.finditer(text)))


def _phases(compiler: str, times: Iterable[tuple[str, float]]) -> tuple[Phase, ...]:
    phases = ((_phase_kind(compiler, name), name, seconds) for name, seconds in times)
    return tuple(Phase(kind, name, seconds) for kind, name, seconds in phases if kind is not None)


def clang_phases(text: str) -> tuple[Phase, ...]:
    """The file that Clang writes with ``-ftime-trace``, its totals of elapsed time; nothing for another file."""
    try:
        events = json.loads(text)["traceEvents"]
        times = [(str(event["name"]), float(event.get("dur", 0)) * _MICRO) for event in events]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return _phases("clang", times)


def nvcc_phases(text: str) -> tuple[Phase, ...]:
    """The table that nvcc writes with ``--time``, a row for each phase.

    Its cells are not quoted, so those that may hold file names with commas are not counted on: a row's phase is the
    first cell that names one, and architecture and time are counted from its end.
    """
    phases = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        named = ((_phase_kind("nvcc", cell), cell) for cell in cells)
        kind, name = next((pair for pair in named if pair[0] is not None), (None, ""))
        if kind is not None and cells[-1] == "ms" and _NUMBER.fullmatch(cells[-2]):
            phases.append(Phase(kind, name, float(cells[-2]) * _MILLI, cells[-4]))
    return tuple(phases)


@cache
def _patterns() -> Mapping[str, tuple[tuple[re.Pattern[str], PhaseKind], ...]]:
    data = read_toml(Path(__file__).with_name("phases.toml"))
    return {
        compiler: tuple(
            (re.compile("|".join(patterns)), _KINDS[kind])
            for kind, patterns in table.items()
            if kind != "source"
        )
        for compiler, table in data.items()
    }


def _phase_kind(compiler: str, name: str) -> PhaseKind | None:
    """What a phase does by the compiler's own name of it; None for a name that is no phase."""
    return next((kind for pattern, kind in _patterns()[compiler] if pattern.fullmatch(name)), None)
