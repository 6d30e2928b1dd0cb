"""Checks of the host compiler: it exists, and nvcc and PyTorch accept it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from torchwheel.host.compilers import CUDA_FLAGS, program_words
from torchwheel.host.machine import Compiler, CompilerKind
from torchwheel.host.programs import printed_nothing, program_stem
from torchwheel.preflight.facts import CUDA_HOST_COMPILERS, cuda_programs
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_machine,
    is_among,
    known_cuda,
    known_pytorch,
    read_traps,
)
from torchwheel.system.paths import is_closed
from torchwheel.toolkit.host_compiler import can_be_silenced, msvc_toolset, nvcc_limit, refusing_library
from torchwheel.tree.source_tree import Generation
from torchwheel.versions import at_least

_INSTALL = {
    "Linux": "sudo apt-get install g++, or sudo dnf install gcc-c++",
    "Windows": "the Visual Studio Build Tools, and build in their x64 Native Tools Command Prompt",
    "Darwin": "xcode-select --install",
}
# The flag, without hyphens, and the macro with which nvcc and MSVC's standard library accept each other in any version.
_SILENCER, _LIBRARY_SILENCER = "allow-unsupported-compiler", "_ALLOW_COMPILER_AND_STL_VERSION_MISMATCH"
CUDA_FLAG_OPTIONS = (*CUDA_FLAGS, "TORCH_NVCC_FLAGS", "CMAKE_CUDA_FLAGS")
"""The variables and options whose flags reach nvcc in a build of PyTorch."""

_VERSION, _KIND = Unknown("the version of the C++ compiler"), Unknown("this kind of C++ compiler")
_NAME_WITH_VERSION = re.compile(r"(?:^|-)(g\+\+|gcc|clang\+\+|clang)-(\d{1,3}(?:\.\d{1,3}){0,2})$")


def check_presence(compiler: Compiler | None, system: str) -> Violation | Passed:
    """Check ``no-host-compiler``: the compiler that CC or CXX names or that was found, on a system (``Linux``)."""
    if compiler is None:
        install = _INSTALL.get(system, "your system's package")
        nearest = f"install one: {install}; or name one that is installed with CXX"
        return Violation({"language": "C++", "asked": ""}, nearest)
    absent = compiler.absent_launcher or ("" if compiler.found else compiler.path)
    if not absent:
        return Passed()
    language, variable = ("C", "CC") if compiler.language == "c" else ("C++", "CXX")
    which = "which this user may not read" if is_closed(absent) else "which does not exist"
    values = {"language": language, "asked": f": {variable} names {absent}, {which}"}
    if compiler.absent_launcher:
        return Violation(values, f"install {absent}, or {variable}={compiler.path}")
    return Violation(values, f"correct {variable}, or unset it to use the compiler on PATH")


@checks_machine("no-host-compiler")
def there_is_one(context: Context) -> Answer:
    compiler, c_compiler = context.machine.find_compiler("cxx"), context.machine.find_compiler("c")
    # PyTorch's setup.py finds Visual Studio by itself: tools/build_pytorch_libs.py.
    if context.windows and context.plan.tree.generation is Generation.SETUP_PY:
        return None
    if not (compiler or context.host.compilers_known):
        return Unknown("the C++ compiler")
    system = context.machine.system
    answer, c_answer = check_presence(compiler, system), c_compiler and check_presence(c_compiler, system)
    return c_answer if isinstance(answer, Passed) and isinstance(c_answer, Violation) else answer


@checks_machine("host-compiler-does-not-work")
def host_compiler_works(context: Context) -> Answer:
    unanswered = context.host.unanswered
    for decided, program in cuda_programs(context.plan, CUDA_HOST_COMPILERS):
        if reason := unanswered.get(program):
            return Violation({"compiler": program, "reason": reason}, decided.name, decided.origin)
    return check_responses(context.machine.compilers, unanswered)


def check_responses(compilers: Iterable[Compiler], unanswered: Mapping[str, str]) -> Violation | Passed:
    """Check ``host-compiler-does-not-work``; ``unanswered`` says why compilers did not print their version."""
    # One of an unknown kind may have another option for that, but it would complain of the one it does not know.
    for compiler in compilers:
        reason = unanswered.get(compiler.path) if compiler.found else None
        if reason and (compiler.kind != "unknown" or printed_nothing(reason)):
            variable = "CC" if compiler.language == "c" else "CXX"
            return Violation({"compiler": compiler.title, "reason": reason}, variable)
    return Passed()


@checks_machine("host-compiler-too-old")
def taken_by_pytorch(context: Context) -> Answer:
    compiler = context.machine.find_compiler("cxx")
    if compiler is None or not compiler.version:
        return _VERSION
    pytorch = known_pytorch(context)
    need = pytorch.compilers.minimum_version(compiler.kind)
    if need is None:
        return _KIND
    if at_least(compiler.version, need.version):
        return Passed()
    reason = "its sources or its README ask for that"
    if need.cxx_standard is not None:
        reason = f"its sources are C++{need.cxx_standard}, which {compiler.kind} knows from {need.version} on"
    values = {
        "compiler": compiler.title,
        "pytorch": pytorch.version,
        "needed": f"{need.version} or later",
        "reason": reason,
    }
    others = (c for c in context.host.other_compilers if c.kind == compiler.kind)
    able = next((c for c in others if at_least(c.version, need.version)), None)
    install = f"install {compiler.kind} {need.version} or later"
    return Violation(values, f"-C env.CXX={able.path}" if able else install)


@checks_machine("msvc-library-needs-newer-cuda")
def library_taken_by_nvcc(context: Context) -> Answer:
    release, compiler = known_cuda(context), _nvcc_host_compiler(context)
    if compiler is None:
        return _VERSION if context.windows else None
    if compiler.kind != "msvc":
        return None
    library = refusing_library(compiler.version, release.version)
    if library is None or _has_flag(context, _LIBRARY_SILENCER):
        return Passed()
    needed, toolset = library["cuda"], msvc_toolset(library["msvc"])
    nearest = f"use CUDA {needed} or newer, or install an MSVC toolset older than {toolset}"
    values = {"compiler": compiler.title, "version": release.version, "needed": needed}
    return Violation(values, f"{nearest} in the Visual Studio Installer")


def _taken_by_nvcc(context: Context, *, silenced: bool) -> Answer:
    """nvcc refuses host compilers newer than those it was tested with, unless a flag silences the check."""
    release, compiler = known_cuda(context), _nvcc_host_compiler(context)
    if compiler is None:
        return None if silenced else _VERSION
    if (_has_flag(context, _SILENCER) and can_be_silenced(compiler)) is not silenced:
        return None
    limit = nvcc_limit(compiler.kind, release, context.toolkit.limits if context.toolkit else None)
    taken = limit and limit.accepts(compiler.version)
    if limit is None or taken is None:
        return _KIND if limit is None else _VERSION
    if taken:
        return Passed()
    # Only releases that PyTorch accepts; for an unknown PyTorch any.
    newer = [
        one.version
        for one in (context.accepted_cuda if context.pytorch else context.compiling_cuda)
        if not at_least(release.version, one.version)
        and one.goes_with_glibc(context.machine.glibc)
        and (other := nvcc_limit(compiler.kind, one, None)) is not None
        and other.accepts(compiler.version)
    ]
    values = {
        "version": release.version,
        "compiler": compiler.title,
        "limit": limit.sentence,
        "authority": limit.authority,
    }
    return Violation(values, limit.suggest_fix(context.host.other_compilers, newer))


checks_machine("host-compiler-refused-by-cuda")(partial(_taken_by_nvcc, silenced=False))
checks_machine("host-compiler-check-silenced")(partial(_taken_by_nvcc, silenced=True))


def _nvcc_host_compiler(context: Context) -> Compiler | None:
    """The compiler that nvcc will call, if its version is known."""
    named = next((value for name in CUDA_HOST_COMPILERS if (value := _asked_for(context, name))), None)
    own = context.machine.find_compiler("cxx")
    if named is not None:
        named, *_ = program_words(named, None, context.machine.system) or [named]
        known = (*context.machine.compilers, *context.host.other_compilers)
        same = (c for c in known if c.path == named or program_stem(c.path) == program_stem(named))
        own = next(same, None if context.machine.here else _compiler_of_name(named))
    return own if own is not None and own.version and own.found else None


def _compiler_of_name(program: str) -> Compiler | None:
    """The compiler of a described machine by its name in Debian and others: ``g++-12``."""
    match = _NAME_WITH_VERSION.search(program_stem(program))
    if match is None:
        return None
    kind: CompilerKind = "clang" if match[1].startswith("clang") else "gcc"
    return Compiler("cxx", kind, program, match[2], program)


def _asked_for(context: Context, name: str) -> str:
    option = context.options.get(name)
    variable = context.plan.settings.variables.get(name)
    return option.text if option else str(variable.value) if variable else ""


def _has_flag(context: Context, flag: str) -> bool:
    return any(flag in _asked_for(context, name) for name in CUDA_FLAG_OPTIONS)


def _check_compiler(context: Context, *, certain: bool) -> Answer:
    """Compiler releases may refuse sources, some only under unknown further conditions (``certain`` is false)."""
    compiler = context.machine.find_compiler("cxx")
    if compiler is None or not compiler.version:
        return _VERSION
    for trap in _relevant_traps(context, compiler):
        if trap["certain"] is certain:
            pytorch = context.plan.tree.version_text
            values = {"compiler": compiler.title, "pytorch": pytorch, "reason": trap["why"]}
            return Violation(values, trap["instead"])
    return Passed()


checks_machine("host-compiler-fails")(partial(_check_compiler, certain=True))
checks_machine("host-compiler-suspect")(partial(_check_compiler, certain=False))


def _relevant_traps(context: Context, compiler: Compiler) -> Iterator[Mapping[str, Any]]:
    pytorch, cuda = context.pytorch, context.cuda
    for trap in read_traps("compiler"):
        if (
            compiler.kind == trap["kind"]
            and is_among(compiler.version, trap["versions"])
            and context.machine.machine in trap.get("machines", [context.machine.machine])
            and ("pytorch" not in trap or (pytorch and is_among(pytorch.version, trap["pytorch"])))
            and ("cuda" not in trap or (cuda and is_among(cuda.version, trap["cuda"])))
            and not any(context.is_off(option) for option in trap.get("without", ()))
            and not ("flags" in trap and trap["flags"] in _asked_for(context, "CXXFLAGS"))
        ):
            yield trap
