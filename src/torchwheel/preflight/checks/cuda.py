"""Checks of the CUDA toolkit and of the architectures against target, toolkit and PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchwheel.hardware.arch import judge_code
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
    is_among,
    known_cuda,
    known_pytorch,
    read_traps,
    require_known,
)
from torchwheel.pytorch.releases import CudaSupport, nvcc_bug
from torchwheel.toolkit.cuda_releases import compiled_by, read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.versions import at_least

# The default folders of a C++ compiler for Linux; distributions package CUDA's headers into the first.
_SYSTEM_INCLUDES = ("/usr/include", "/usr/local/include")
_NAMES_CUDA = re.compile(r"cuda[-/\\]?v?(\d+\.\d+)", re.IGNORECASE)
# CMake's own list, which PyTorch's CMake files ignore, has no dots: 120 is 12.0.
_CMAKE_ARCHITECTURES = "CMAKE_CUDA_ARCHITECTURES"
_SHORT = re.compile(r"(\d+)(\d)")
_FORGIVEN = "let nvcc take them for system headers, where it forgives this (seen with CUDA 12.4, glibc 2.41)"


@checks_machine("toolkit-not-for-platform")
def for_platform(context: Context) -> Answer:
    release = known_cuda(context)
    platform = context.machine.platform_tag
    if platform in release.platforms:
        return Passed()
    able = [found.version for found in read_toolkits() if platform in found.platforms]
    values = {"version": release.version, "platform": platform, "platforms": ", ".join(release.platforms)}
    return Violation(values, able[-1] if able else "on another platform")


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
        return Unknown("the files of the CUDA toolkit") if context.plan.toolkit else None
    missing = [
        part
        for part in toolkit_parts()
        if part.name in facts.missing and (not part.mentioned or context.has_identifier(*part.mentioned))
    ]
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
    """torchwheel leaves the environment's search paths unchanged."""
    toolkit = context.plan.toolkit
    if toolkit is None:
        return None
    found = {
        name: match[0]
        # What compilers, linkers and CMake search in addition to torchwheel's own paths.
        for name in (*SEARCH_PATHS, "CMAKE_PREFIX_PATH")
        for match in _NAMES_CUDA.finditer(context.host.environment.get(name, ""))
        if match[1] != toolkit.version
    }
    shown = ", ".join(f"{name} leads to {text}" for name, text in found.items())
    values = {"root": toolkit.root, "variables": shown, "names": ", ".join(found)}
    return Violation(values) if found else Passed()


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
        nearest = "build on a system with glibc, or without CUDA: -C target=cpu"
        return Violation({**values, "has": f"musl {musl}"}, nearest)
    glibc = _known_glibc(context)
    if at_least(glibc, release.glibc_min):
        return Passed()
    able = [found.version for found in read_toolkits() if at_least(glibc, found.glibc_min)]
    nearest = f"use CUDA {able[-1]} or older, or a newer system" if able else "use a newer system"
    return Violation({**values, "has": f"glibc {glibc}"}, nearest)


@checks_machine("glibc-too-new-for-cuda")
def glibc_old_enough(context: Context) -> Answer:
    release, glibc = known_cuda(context), _known_glibc(context)
    pytorch, toolkit = context.pytorch, context.toolkit
    own = toolkit.glibc_conflict if toolkit else None
    conflict = release.glibc_conflict if own is None else own
    if not conflict or not at_least(glibc, conflict) or _taken_for_system_headers(context):
        return Passed()
    chosen = context.plan.toolkit
    # The folder of packages that are yet to be installed has another name.
    folder = next(iter(chosen.include_dirs), "") if chosen and chosen.origin != "PyPI" else ""
    values = {
        "version": release.version,
        "glibc": glibc,
        "conflict": conflict,
        "functions": "cospi, sinpi and others" if conflict == "2.41" else "rsqrt",
        "authority": "torchwheel's table of CUDA releases" if own is None else "the toolkit's own header",
        "headers": f'{_FORGIVEN}: -C env.NVCC_PREPEND_FLAGS="-isystem {folder}"' if folder else "",
    }
    refused = (CudaSupport.FAILS, CudaSupport.TOO_OLD)
    able = [
        found.version
        for found in context.compiling_cuda
        if found.goes_with_glibc(glibc)
        and (pytorch is None or pytorch.cuda_accepts(found.version) not in refused)
    ]
    nearest = f"use CUDA {able[0]} or later" if able else ""
    if able and pytorch and pytorch.cuda_accepts(able[0]) is CudaSupport.UNTRIED:
        nearest += f", newer than any that PyTorch {pytorch.minor_version} is known to have been built with"
    return Violation(values, nearest)


def _taken_for_system_headers(context: Context) -> bool:
    """Whether compilers treat the folder of CUDA's headers as a system folder, so that the conflict is tolerated.

    Seen with nvcc 12.4 and glibc 2.41: the headers fail with ``-I``, and compile in /usr/include, where Debian's
    package has them, or with ``-isystem`` for their folder, which outranks nvcc's own ``-I``.
    """
    flags = " ".join(context.variables.get(name, "") for name in NVCC_FLAGS)
    folders = context.toolkit.toolkit.include_dirs if context.toolkit else ()
    return any(
        ("-isystem" in flags and folder in flags) or Path(folder).resolve() in map(Path, _SYSTEM_INCLUDES)
        for folder in folders
    )


@checks_machine("gpu-not-on-platform")
def in_such_machines(context: Context) -> Answer:
    gpu = context.gpu_elsewhere
    if gpu is None:
        return Passed() if context.target_gpus else None
    platform, platforms = context.machine.platform_tag, " and ".join(gpu.platforms)
    return Violation({"gpu": gpu.title, "platform": platform, "platforms": platforms}, gpu.platforms[0])


@checks_machine("cmake-architectures-unread")
def read_by_pytorch(context: Context) -> Answer:
    code, option = context.plan.architectures, context.options.get(_CMAKE_ARCHITECTURES)
    value = option.text if option else context.host.environment.get(_CMAKE_ARCHITECTURES, "")
    if code is None or not value:
        return None
    nearest = ";".join(map(".".join, _SHORT.findall(value))) or "native"
    values = {"value": value, "architectures": str(code)}
    return Violation(values, nearest, option.origin if option else "the environment")


@checks_machine("toolkit-lacks-target")
def compiles_for_targets(context: Context) -> Answer:
    code, release = require_known(context.plan.architectures), known_cuda(context)
    for gpu in context.target_gpus:
        own = gpu.compute_capability
        idle = own not in code.architectures and not judge_code(code.targets, own).how.runs
        if idle and own not in release.architectures:
            values = {
                "version": release.version,
                "gpu": gpu.title,
                "lacking": f"{own.sm} ({own.dotted})",
                "span": compiled_by(own),
                "architectures": str(code),
            }
            fitting = [found.version for found in read_toolkits().compiling_all([own])]
            nearest = _nearest_release(release.version, fitting)
            return Violation(values, nearest, context.plan.settings.entries["arch"].origin)
    return Passed()


@checks_machine("nvcc-bug")
def has_no_nvcc_bug(context: Context) -> Answer:
    release, pytorch = known_cuda(context), known_pytorch(context)
    bug = nvcc_bug(release.version, context.machine.system)
    if bug is None:
        return Passed()
    guarded = at_least(pytorch.version, bug["guarded-from"])
    working = [one for one in context.compiling_cuda if nvcc_bug(one.version, context.machine.system) is None]
    # Untried releases are better than none.
    by_support = (
        [one.version for one in working if pytorch.cuda_accepts(one.version) is support]
        for support in (CudaSupport.ACCEPTED, CudaSupport.UNTRIED)
    )
    able = next(filter(None, by_support), [])
    values = {
        "version": release.version,
        "system": context.machine.system,
        "file": bug["file"],
        "effect": f"the wheel goes without {bug['left-out']}" if guarded else "the build fails there",
        "consequence": f"PyTorch {bug['guarded-from']} and later leave it out there"
        if guarded
        else f"PyTorch leaves out what it crashes on from {bug['guarded-from']} on, and this is {pytorch.version}",
    }
    near = _nearest_release(release.version, able)
    return Violation(values, f"CUDA {near}" if near else "another PyTorch")


def _nearest_release(version: str, versions: Sequence[str]) -> str:
    return min(versions, key=lambda found: abs(_release_index(found) - _release_index(version)), default="")


def _release_index(version: str) -> int:
    order = [release.version for release in read_toolkits()]
    return order.index(version) if version in order else len(order)


@checks_machine("nvcc-architecture-suspect")
def compiles_right(context: Context) -> Answer:
    code, release = require_known(context.plan.architectures), known_cuda(context)
    for trap in read_traps("nvcc"):
        among = [one.dotted for one in code.architectures if one.capability.dotted in trap["architectures"]]
        if among and is_among(release.version, trap["cuda"]):
            values = {"version": release.version, "architectures": ", ".join(among), "reason": trap["why"]}
            return Violation(values, trap["instead"], context.plan.settings.entries["arch"].origin)
    return Passed()
