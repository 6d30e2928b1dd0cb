"""Checks of the architectures against target, CUDA toolkit and PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchwheel.hardware.runs_on import judge_code
from torchwheel.preflight.registry import (
    CMAKE_ARCHITECTURES,
    Answer,
    Context,
    Passed,
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
from torchwheel.versions import at_least

_DIGITS = re.compile(r"\d+")


@checks_machine("gpu-not-on-platform")
def in_such_machines(context: Context) -> Answer:
    if not context.target_gpus:
        return None
    gpu = context.gpu_elsewhere
    if gpu is None:
        return Passed()
    values = {
        "gpu": gpu.title,
        "platform": context.machine.platform_tag,
        "platforms": " and ".join(gpu.platforms),
    }
    return Violation(values, gpu.platforms[0])


@checks_machine("cmake-architectures-unread")
def read_by_pytorch(context: Context) -> Answer:
    code, option = context.plan.architectures, context.options.get(CMAKE_ARCHITECTURES)
    value = option.text if option else context.host.environment.get(CMAKE_ARCHITECTURES, "")
    if code is None or not value:
        return None
    # CMake's list has no dots: 120 is 12.0.
    named = [digits for digits in _DIGITS.findall(value) if len(digits) > 1]
    nearest = ";".join(f"{digits[:-1]}.{digits[-1]}" for digits in named) or "native"
    values = {"value": value, "architectures": str(code)}
    return Violation(values, nearest, option.origin if option else "the environment")


@checks_machine("toolkit-lacks-target")
def compiles_for_targets(context: Context) -> Answer:
    code, release = require_known(context.plan.architectures), known_cuda(context)
    for gpu in context.target_gpus:
        own = gpu.compute_capability
        idle = own not in code.architectures and not judge_code(code.targets, own).how.runs
        if idle and not release.can_compile(own):
            values = {
                "version": release.version,
                "gpu": gpu.title,
                "lacking": f"{own.sm} ({own.dotted})",
                "span": compiled_by(own),
                "architectures": str(code),
            }
            fitting = [found.version for found in read_toolkits().compiling_all([own])]
            return Violation(
                values,
                _nearest_release(release.version, fitting),
                context.plan.settings.entries["arch"].origin,
            )
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
