"""Architectures against target, CUDA toolkit and PyTorch: whether they go together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from torchwheel.hardware.runs_on import judge_code
from torchwheel.plan.request_checks import refused_architectures
from torchwheel.preflight.build_matrix import CMAKE_ARCHITECTURES, Combination, gpu_elsewhere
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Violation,
    checks_combination,
    checks_machine,
    known,
    known_cuda,
    known_pytorch,
)
from torchwheel.pytorch.published import published_cuda_versions
from torchwheel.pytorch.releases import CudaSupport, nvcc_bug
from torchwheel.terminal import listed
from torchwheel.toolkit.catalogue import compiled_by, toolkits
from torchwheel.versions import at_least

_DIGITS = re.compile(r"\d+")


@checks_combination("target-cannot-run")
def runs_on_targets(combination: Combination) -> Answer:
    """An ``arch`` that was set beside the target may be for quite another GPU."""
    code, gpus = known(combination.architectures), combination.target_gpus
    if not gpus:
        return None
    for gpu in gpus:
        answer = judge_code(code.targets, gpu.compute_capability)
        if not answer.how.runs:
            values = {
                "architectures": str(code),
                "gpu": gpu.title,
                "capability": gpu.compute_capability.dotted,
                "reason": answer.sentence,
            }
            return Violation(values, gpu.compute_capability.dotted, combination.arch_origin)
    return Passed({"architectures": str(code), "gpus": ", ".join(gpu.title for gpu in gpus)})


@checks_combination("gpu-not-on-platform")
def in_such_machines(combination: Combination) -> Answer:
    """Some GPUs are part of a board with one kind of processor."""
    if not combination.target_gpus:
        return None
    gpu = gpu_elsewhere(combination)
    if gpu is None:
        titles = ", ".join(gpu.title for gpu in combination.target_gpus)
        return Passed({"gpus": titles, "platform": combination.platform_tag})
    values = {
        "gpu": gpu.title,
        "platform": combination.platform_tag,
        "platforms": " and ".join(gpu.platforms),
    }
    return Violation(values, gpu.platforms[0])


@checks_machine("cmake-architectures-unread")
def read_by_pytorch(context: Context) -> Answer:
    """Whoever knows CMake names architectures so; PyTorch has a variable of its own."""
    code, option = context.plan.architectures, context.combination.options.get(CMAKE_ARCHITECTURES)
    value = option.text if option else context.environment.get(CMAKE_ARCHITECTURES, "")
    if code is None or not value:
        return None
    named = [digits for digits in _DIGITS.findall(value) if len(digits) > 1]
    nearest = ";".join(f"{digits[:-1]}.{digits[-1]}" for digits in named) or "native"
    values = {"value": value, "architectures": str(code)}
    return Violation(values, nearest, option.origin if option else "the environment")


@checks_combination("toolkit-lacks-architecture")
def compiles_all(combination: Combination) -> Answer:
    """nvcc stops at an architecture that it does not know."""
    code, release = known(combination.architectures), known_cuda(combination)
    lacking = [architecture for architecture in code.architectures if not release.can_compile(architecture)]
    if not lacking:
        return Passed({"version": release.version, "architectures": str(code)})
    values = {
        "version": release.version,
        "lacking": ", ".join(f"{architecture.sm} ({architecture.dotted})" for architecture in lacking),
        "span": "; ".join(map(compiled_by, lacking)),
    }
    # Where no release compiles all of them, one for the first that is lacking, to be built on its own.
    fitting = toolkits().compiling_all(code.architectures) or toolkits().compiling_all(lacking[:1])
    nearest = _nearest(release.version, [found.version for found in fitting])
    return Violation(values, nearest, combination.arch_origin)


@checks_combination("toolkit-lacks-target")
def compiles_for_targets(combination: Combination) -> Answer:
    """Architectures that the toolkit does compile, but that are for quite another GPU than the target."""
    code, release = known(combination.architectures), known_cuda(combination)
    for gpu in combination.target_gpus:
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
            fitting = [found.version for found in toolkits().compiling_all([own])]
            return Violation(values, _nearest(release.version, fitting), combination.arch_origin)
    return Passed()


def _judged_by_pytorch(combination: Combination, refusal: CudaSupport) -> Answer:
    release, pytorch = known_cuda(combination), known_pytorch(combination)
    values = {
        "pytorch": pytorch.version,
        "version": release.version,
        "least": pytorch.cuda.minimum or "",
        "failing": pytorch.cuda.fails_from or "",
        "newest": pytorch.cuda.newest,
    }
    if pytorch.cuda_accepts(release.version) is not refusal:
        return Passed(values)
    accepted = [found.version for found in combination.accepted_cuda]
    return Violation(values, f"CUDA {_nearest(release.version, accepted)}" if accepted else "another PyTorch")


for _rule, _refusal in (
    ("toolkit-too-old", CudaSupport.TOO_OLD),  # the release's CMake files refuse it
    ("toolkit-too-new", CudaSupport.FAILS),  # it is known not to compile the release
    ("toolkit-untried", CudaSupport.UNTRIED),  # it came after the release
):
    checks_combination(_rule)(partial(_judged_by_pytorch, refusal=_refusal))


@checks_combination("nvcc-bug")
def sound(combination: Combination) -> Answer:
    """A toolkit whose nvcc is known to fail on a source of PyTorch."""
    release, pytorch = known_cuda(combination), known_pytorch(combination)
    bug = nvcc_bug(release.version, combination.system)
    if bug is None:
        return Passed()
    guarded = at_least(pytorch.version, bug.guarded_from)
    working = [one for one in combination.compiling_cuda if nvcc_bug(one.version, combination.system) is None]
    # What nobody is known to have tried is better than nothing.
    by_support = (
        [one.version for one in working if pytorch.cuda_accepts(one.version) is support]
        for support in (CudaSupport.ACCEPTED, CudaSupport.UNTRIED)
    )
    able = next(filter(None, by_support), [])
    values = {
        "version": release.version,
        "system": combination.system,
        "file": bug.file,
        "effect": f"the wheel goes without {bug.left_out}" if guarded else "the build fails there",
        "consequence": f"PyTorch {bug.guarded_from} and later leave it out there"
        if guarded
        else f"PyTorch leaves out what it crashes on from {bug.guarded_from} on, and this is {pytorch.version}",
    }
    # The ones on either side, since a card may be too new for the older one.
    near = sorted(able, key=lambda version: abs(_place(version) - _place(release.version)))[:2]
    return Violation(values, f"CUDA {' or '.join(sorted(near, key=_place))}" if near else "another PyTorch")


@checks_combination("toolkit-never-published")
def pytorch_publishes(combination: Combination) -> Answer:
    """A toolkit that fits, but that no official build was made with."""
    release, pytorch = known_cuda(combination), known_pytorch(combination)
    published = published_cuda_versions(pytorch)
    if not published or pytorch.cuda_accepts(release.version) is not CudaSupport.ACCEPTED:
        return None
    values = {"pytorch": pytorch.version, "version": release.version}
    if release.version in published:
        return Passed(values)
    able = [found.version for found in combination.compiling_cuda if found.version in published]
    if not able:
        return None
    return Violation({**values, "published": f"CUDA {listed(published)}"}, _nearest(release.version, able))


@checks_combination("tree-lacks-architecture")
def read_by_tree(combination: Combination) -> Answer:
    """PyTorch's own parser of architectures learnt numbers and suffixes later than nvcc did."""
    code, pytorch = known(combination.architectures), known_pytorch(combination)
    for refused in refused_architectures(pytorch.version, code):
        values = {
            "pytorch": pytorch.version,
            "architectures": ", ".join(refused.architectures),
            "form": refused.form,
            "since": refused.since,
        }
        return Violation(values, refused.instead, combination.arch_origin)
    return Passed({"pytorch": pytorch.version, "architectures": str(code)})


def _nearest(version: str, versions: Sequence[str]) -> str:
    """The version of a list that lies nearest in the order of releases; empty when there is none."""
    return min(versions, key=lambda found: abs(_place(found) - _place(version)), default="")


def _place(version: str) -> int:
    order = [release.version for release in toolkits()]
    return order.index(version) if version in order else len(order)
