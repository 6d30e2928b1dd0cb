"""The C and C++ compilers that a build would use, found without running them; only ``ask_version`` does."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from torchwheel.host.machine import Compiler, CompilerKind, Language
from torchwheel.host.programs import (
    VERSION,
    NoAnswer,
    ask_program,
    find_in_answer,
    find_program,
    program_stem,
)

SEARCH_PATHS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
"""Folders of headers and libraries for GCC and Clang: https://gcc.gnu.org/onlinedocs/gcc/Environment-Variables.html"""
NVCC_FLAGS = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
"""nvcc's own variables: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-environment-variables"""
CUDA_FLAGS = (*NVCC_FLAGS, "CUDAFLAGS")
"""Those, and the variable that CMake passes to nvcc: https://cmake.org/cmake/help/latest/envvar/CUDAFLAGS.html"""

# In the order in which CMake tries them: Modules/CMakeDetermineCCompiler.cmake and ...CXXCompiler.cmake.
_NAMES: dict[Language, tuple[str, ...]] = {"c": ("cc", "gcc", "clang"), "cxx": ("c++", "g++", "clang++")}

# Programs written before a compiler, or installed under its name early on PATH.
LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc", "buildcache"})

# x86_64-linux-gnu-g++-12, clang++-18, clang-cl, cl: the family is one word of the name.
_KINDS: tuple[tuple[re.Pattern[str], CompilerKind], ...] = (
    (re.compile(r"(^|-)clang(\+\+|-cl|-\d|$)"), "clang"),
    (re.compile(r"(^|-)(gcc|g\+\+)(-\d|$)"), "gcc"),
    (re.compile(r"^cl$"), "msvc"),
)
_VERSION_IN_NAME = re.compile(r"-(\d+(?:\.\d+)*)$")
_WINDOWS_PROGRAM = re.compile(r'[A-Za-z]:[\\/][^":]*\.exe', re.IGNORECASE)
# ...\VC\Tools\MSVC\14.38.33130\bin\Hostx64\x64\cl.exe is compiler version 19.38.33130:
# https://learn.microsoft.com/cpp/overview/compiler-versions
_MSVC_FOLDER = re.compile(r"[\\/]MSVC[\\/]14\.(\d+\.\d+)[\\/]", re.IGNORECASE)

# Since GCC 7, -dumpversion may print the major version alone.
_QUESTIONS: dict[CompilerKind, tuple[str, ...]] = {
    "gcc": ("-dumpfullversion", "-dumpversion"),
    "clang": ("-dumpversion",),
    "unknown": ("-dumpversion",),
    "msvc": (),
}
_LARGEST_SCRIPT = 1 << 16
_MAX_SCRIPTS = 100
_NAME_IN_SCRIPT = re.compile(r"[\w./+-]+")
_QUOTED_IN_SCRIPT = re.compile(r"""["']([^"'\n]+)["']""")
_VERSION_IN_ANSWER = re.compile(rf"{VERSION.pattern}|^\d{{1,9}}$", re.MULTILINE)


def find_compilers(environment: Mapping[str, str], system: str) -> tuple[Compiler, ...]:
    """The C and the C++ compiler on a ``platform.system()``, each if there is one.

    ``CC`` and ``CXX`` come first and may hold a launcher and arguments (``ccache gcc -m64``); a missing program
    named there is returned with ``found`` false. Without them it is the first usual name on ``PATH``.
    """
    # For C++ one beside the C compiler comes first, as in CMake: Modules/CMakeDetermineCompiler.cmake.
    c = _find_compiler("c", "CC", environment, system)
    cxx = _find_compiler("cxx", "CXX", environment, system, str(Path(c.path).parent) if c and c.found else "")
    return tuple(compiler for compiler in (c, cxx) if compiler is not None)


def _find_compiler(
    language: Language, variable: str, environment: Mapping[str, str], system: str, beside: str = ""
) -> Compiler | None:
    search = environment.get("PATH", "")
    if words := program_words(environment.get(variable, ""), search, system):
        launcher = leading_launchers(words)
        name, *arguments = words[len(launcher) :]
        return _describe_compiler(language, name, search, system, launcher, tuple(arguments))
    names = ("cl",) if system == "Windows" else _NAMES[language]
    if beside and (there := tuple(name for name in names if find_program(name, beside))):
        names, search = there, f"{beside}{os.pathsep}{search}"
    candidates = (_describe_compiler(language, name, search, system) for name in names)
    return next((compiler for compiler in candidates if compiler.found), None)


def holds_flags(name: str) -> bool:
    _, flags, configuration = name.rpartition("FLAGS")
    return flags != "" and (configuration == "" or configuration.startswith("_"))


def program_words(text: str, search: str | None, system: str) -> list[str]:
    """Split the value of a variable such as ``CXX`` or ``CUDACXX`` into the program and its arguments.

    ``search`` are folders like ``PATH``; those of this process if None.
    """
    # As in CMake: PROGRAM in cmGetFilenameComponentCommand.cxx. A described machine may have the path on Windows.
    if find_program(text, search) or (system == "Windows" and _WINDOWS_PROGRAM.fullmatch(text)):
        return [text]
    return command_words(text, system)


def command_words(text: str, system: str) -> list[str]:
    """Split a command into words; if a quote is not closed, quotes are ordinary characters."""
    with suppress(ValueError):
        return split_words(text, windows=system == "Windows")
    return text.split()


def split_words(text: str, *, windows: bool) -> list[str]:
    """Split as a shell does, or raise ValueError; on Windows a backslash separates folders and never escapes."""
    lexer = shlex.shlex(text, posix=True)
    # By default shlex ignores everything after a #, which may be part of a flag.
    lexer.whitespace_split, lexer.commenters = True, ""
    if windows:
        lexer.escape, lexer.quotes = "", '"'
    return list(lexer)


def join_words(words: Sequence[str], *, windows: bool) -> str:
    """Quote words for the system's shell, and for variables such as ``CXX``."""
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


def leading_launchers(words: list[str]) -> tuple[str, ...]:
    count = 0
    while count < len(words) - 1 and program_stem(words[count]) in LAUNCHERS:
        count += 1
    return tuple(words[:count])


def _describe_compiler(
    language: Language,
    name: str,
    search: str,
    system: str,
    launcher: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
) -> Compiler:
    path = find_program(name, search)
    # Absolute, because commands run in other folders.
    path = path and str(Path(path).absolute())
    absent = next((word for word in launcher if find_program(word, search) is None), "")
    real = _behind_launchers(name, path, search) if path else None
    return Compiler(
        language=language,
        kind=_compiler_kind((program_stem(real or ""), program_stem(name)), path or "", system),
        path=path or name,
        version=_version_in_path(real or ""),
        identity=_program_identity(real, search) if real else "",
        launcher=launcher,
        arguments=arguments,
        absent_launcher=absent,
    )


def _behind_launchers(name: str, path: str, search: str) -> str:
    """The real file of a program on ``PATH``, past ``/usr/lib/ccache``, whose links do not change with the compiler."""
    folders = search.split(os.pathsep)
    candidate: str | None = path
    while candidate:
        real = os.path.realpath(candidate)
        if program_stem(real) not in LAUNCHERS:
            return real
        places = [Path(folder) for folder in folders]
        used = Path(candidate).parent
        folders = folders[places.index(used) + 1 :] if used in places else []
        candidate = find_program(Path(name).name, os.pathsep.join(folders)) if folders else None
    return os.path.realpath(path)


def _compiler_kind(names: tuple[str, ...], path: str, system: str) -> CompilerKind:
    # Apple ships Clang under every usual name: https://developer.apple.com/xcode/
    if system == "Darwin" and path.startswith("/usr/bin/"):
        return "clang"
    found = (kind for name in names for pattern, kind in _KINDS if pattern.search(name))
    return next(found, "unknown")


def _version_in_path(path: str) -> str:
    if toolset := _MSVC_FOLDER.search(path):
        return f"19.{toolset[1]}"
    suffix = _VERSION_IN_NAME.search(program_stem(path))
    return suffix[1] if suffix else ""


def _program_identity(path: str, search: str) -> str:
    """Return a mark that changes with the program; for a script, also with the scripts and compilers it calls."""
    own = content = _content_mark(path)
    pending, known = [path], {path}
    while pending and len(known) < _MAX_SCRIPTS:
        for called in sorted(_called_by(Path(pending.pop()), search) - known):
            known.add(called)
            pending.append(called)
            content = hashlib.sha256(f"{content} {_content_mark(called)}".encode()).hexdigest()[:16]
    return own and f"{program_stem(path)}:{content}"


def _content_mark(path: str) -> str:
    """Size and time of a program; of a script the content, because images and packages set arbitrary times."""
    with suppress(OSError):
        status = Path(path).stat()
        small = status.st_size <= _LARGEST_SCRIPT
        script = small and hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        return f"{status.st_size}:{script or status.st_mtime_ns}"
    return ""


def _called_by(script: Path, search: str) -> set[str]:
    """Find the compilers that a script names, and the scripts that it names by path or that lie beside it."""
    content, found = b"", set[str]()
    with suppress(OSError), script.open("rb") as stream:
        content = stream.read(_LARGEST_SCRIPT) if stream.read(2) == b"#!" else b""
    # Without the first line: the interpreter changes with the system.
    text = os.fsdecode(content.partition(b"\n")[2])
    for word in {*_NAME_IN_SCRIPT.findall(text), *_QUOTED_IN_SCRIPT.findall(text)}:
        if _compiler_kind((program_stem(word),), "", "") != "unknown":
            found.add(find_program(word, search) or "")
        beside = (script.parent / word, script.parent / word.lstrip("/"))
        found |= {str(file) for file in beside if is_script(file)}
    return found - {""}


def is_script(file: Path) -> bool:
    with suppress(OSError, ValueError), file.open("rb") as stream:
        return stream.read(2) == b"#!"
    return False


@cache
def ask_version(compiler: Compiler) -> str:
    """Return the full version, ``"12.2.0"``, by running the compiler; NoAnswer if it does not print it in time."""
    if not compiler.found:
        raise NoAnswer(f"there is no {compiler.path}")
    # cl has no such option; it writes its version to stderr on every run.
    answer = ask_program([compiler.path, *_QUESTIONS[compiler.kind]])
    return find_in_answer(_VERSION_IN_ANSWER, answer, in_errors=compiler.kind == "msvc")[0]
