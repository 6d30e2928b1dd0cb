"""Checks of the CUDA toolkit: it is for this platform, complete, and the only one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torchwheel.host.compilers import NVCC_FLAGS, SEARCH_PATHS
from torchwheel.preflight.facts import CUDA_COMPILERS, cuda_programs, toolkit_parts
from torchwheel.preflight.registry import (
    Answer,
    Context,
    NotJudged,
    Passed,
    Unknown,
    Violation,
    checks_machine,
    known_cuda,
    require_known,
)
from torchwheel.pytorch.releases import CudaSupport
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.versions import at_least

# Variables that compilers, linkers and CMake search in addition to torchwheel's own paths.
_SEARCH_PATHS = (*SEARCH_PATHS, "CMAKE_PREFIX_PATH")
# The default folders of a C++ compiler for Linux; distributions package CUDA's headers into the first.
_SYSTEM_INCLUDES = ("/usr/include", "/usr/local/include")
_FILES = Unknown("the files of the CUDA toolkit")
_NAMES_CUDA = re.compile(r"cuda[-/\\]?v?(\d+\.\d+)", re.IGNORECASE)


@checks_machine("toolkit-not-for-platform")
def for_platform(context: Context) -> Answer:
    release = known_cuda(context)
    if context.machine.platform_tag in release.platforms:
        return Passed()
    able = [found.version for found in read_toolkits() if context.machine.platform_tag in found.platforms]
    nearest = able[-1] if able else "on another platform"
    platforms = {"platform": context.machine.platform_tag, "platforms": ", ".join(release.platforms)}
    return Violation({"version": release.version, **platforms}, nearest)


@checks_machine("toolkit-fetched-offline")
def toolkit_fetched(context: Context) -> Answer:
    """An index of one's own may be reached where the internet is not."""
    toolkit = context.plan.toolkit
    if toolkit is None or toolkit.origin != "PyPI":
        return None
    if context.host.own_index or require_known(context.host.online, "whether there is a network"):
        return Passed()
    return Violation({"version": toolkit.version})


@checks_machine("toolkit-incomplete")
def has_all_parts(context: Context) -> Answer:
    facts = context.toolkit
    if facts is None:
        return _FILES if context.plan.toolkit else None
    wanted = [
        part for part in toolkit_parts() if not part.mentioned or context.has_identifier(*part.mentioned)
    ]
    missing = [part for part in wanted if part.name in facts.missing]
    if not missing:
        return Passed()
    system = context.machine.system
    values = {
        "root": facts.toolkit.root,
        "version": f"CUDA {facts.toolkit.version}",
        "missing": "; ".join(f"{part.name} ({part.describe_files(system)})" for part in missing),
    }
    return Violation(values, f"cuda-toolkit-{facts.toolkit.version.replace('.', '-')}", facts.toolkit.origin)


@checks_machine("nvcc-does-not-work")
def nvcc_works(context: Context) -> Answer:
    toolkit = context.plan.toolkit
    for decided, program in cuda_programs(context.plan, CUDA_COMPILERS):
        if reason := context.host.unanswered.get(program):
            return Violation({"nvcc": program, "reason": reason}, origin=decided.origin)
    return nvcc_answering(toolkit, context.host.unanswered) if toolkit else None


def nvcc_answering(toolkit: Toolkit, unanswered: Mapping[str, str]) -> Answer:
    """Check ``nvcc-does-not-work``; ``unanswered`` says why programs did not print their version."""
    if not toolkit.nvcc:
        return None
    reason = unanswered.get(toolkit.nvcc)
    return Violation({"nvcc": toolkit.nvcc, "reason": reason}, origin=toolkit.origin) if reason else Passed()


@checks_machine("second-toolkit-in-search-path")
def no_second(context: Context) -> Answer:
    """torchwheel sets its toolkit everywhere but leaves the environment's search paths unchanged."""
    toolkit = context.plan.toolkit
    if toolkit is None:
        return None
    found = {
        name: match[0]
        for name in _SEARCH_PATHS
        for match in _NAMES_CUDA.finditer(context.host.environment.get(name, ""))
        if match[1] != toolkit.version
    }
    if not found:
        return Passed()
    shown = ", ".join(f"{name} leads to {text}" for name, text in found.items())
    return Violation({"root": toolkit.root, "variables": shown, "names": ", ".join(found)})


def _known_glibc(context: Context) -> str:
    if (glibc := context.machine.glibc) is None:
        other = context.machine.system != "Linux" or context.machine.musl
        raise NotJudged(None if other else Unknown("the C library"))
    return glibc


@checks_machine("toolkit-needs-newer-glibc")
def glibc_new_enough(context: Context) -> Answer:
    release = known_cuda(context)
    values = {"version": release.version, "needed": release.glibc_min}
    if musl := context.machine.musl:
        return Violation(
            {**values, "has": f"musl {musl}"}, "build on a system with glibc, or without CUDA: -C target=cpu"
        )
    glibc = _known_glibc(context)
    if at_least(glibc, release.glibc_min):
        return Passed()
    able = [found.version for found in read_toolkits() if at_least(glibc, found.glibc_min)]
    nearest = f"use CUDA {able[-1]} or older, or a newer system" if able else "use a newer system"
    return Violation({**values, "has": f"glibc {glibc}"}, nearest)


@checks_machine("glibc-too-new-for-cuda")
def glibc_old_enough(context: Context) -> Answer:
    pytorch = context.pytorch
    release, glibc = known_cuda(context), _known_glibc(context)
    own = context.toolkit.glibc_conflict if context.toolkit else None
    conflict = release.glibc_conflict if own is None else own
    if not conflict or not at_least(glibc, conflict) or _taken_for_system_headers(context):
        return Passed()
    values = {
        "version": release.version,
        "glibc": glibc,
        "conflict": conflict,
        "functions": "cospi, sinpi and others" if conflict == "2.41" else "rsqrt",
        "authority": "torchwheel's table of CUDA releases" if own is None else "the toolkit's own header",
        "include": context.toolkit.toolkit.include_dirs[0]
        if context.toolkit
        else "the toolkit's include folder",
    }
    code = context.plan.architectures
    refused = (CudaSupport.FAILS, CudaSupport.TOO_OLD)
    able = [
        found.version
        for found in read_toolkits().compiling_all(code.architectures if code else ())
        if (found.glibc_conflict is None or not at_least(glibc, found.glibc_conflict))
        and (pytorch is None or pytorch.cuda_accepts(found.version) not in refused)
    ]
    return Violation(values, f"use CUDA {able[0]} or later, or " if able else "")


def _taken_for_system_headers(context: Context) -> bool:
    """Whether compilers treat the folder of CUDA's headers as a system folder, so that the conflict is tolerated.

    Seen with nvcc 12.4 and glibc 2.41: the headers fail with ``-I``, and compile in /usr/include, the folder of
    Debian's package, or with ``-isystem`` for their folder, which outranks nvcc's own ``-I``.
    """
    flags = " ".join(context.variables.get(name, "") for name in NVCC_FLAGS)
    folders = context.toolkit.toolkit.include_dirs if context.toolkit else ()
    return any(
        ("-isystem" in flags and folder in flags) or Path(folder).resolve() in map(Path, _SYSTEM_INCLUDES)
        for folder in folders
    )
