"""From the names of targets and profiles to what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.hardware.catalogue import gpus
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.settings.layers import Setting
from torchwheel.settings.overlays import CPU, NATIVE, Overlays, canonical_name, gpu_of

Detect = Callable[[], Sequence[DetectedGpu]]


@dataclass(frozen=True)
class Target:
    """A target, resolved.

    Attributes:
        name: canonical name.
        title: what it is, in a few words; may be empty.
        architectures: what it is compiled for; None for ``cpu`` and for a ``native`` not looked up.
        arch_origin: where the architectures come from.
        settings: what overlays and the project's table say, without ``arch``.
    """

    name: str
    title: str
    architectures: ArchitectureList | None
    arch_origin: str
    settings: tuple[Setting, ...]


def resolve_targets(
    asked: Setting, overlays: Overlays, detect: Detect | None, problems: list[Problem]
) -> tuple[Target, ...]:
    """The targets that a ``target`` setting names; problems instead of those that cannot be found."""
    found: dict[str, Target] = {}
    for name in asked.value:
        try:
            for target in _resolve(name, asked.origin, overlays, detect):
                found.setdefault(target.name, target)
        except TorchwheelError as error:
            problems += error.problems
    if CPU in found and len(found) > 1:
        problems.append(_cpu_and_others(asked))
        return ()
    return tuple(found.values())


def resolve_profiles(
    asked: Setting, overlays: Overlays, problems: list[Problem]
) -> Iterator[tuple[Setting, ...]]:
    """The settings of each profile that a ``profile`` setting names, in that order."""
    for spelled in asked.value:
        name = canonical_name(spelled)
        if not overlays.definitions(name, "profile"):
            problems.append(_unknown_profile(spelled, overlays, asked.origin))
            continue
        try:
            yield overlays.settings(overlays.chain(name, "profile"), "profile")
        except TorchwheelError as error:
            problems += error.problems


def _resolve(name: str, origin: str, overlays: Overlays, detect: Detect | None) -> Iterator[Target]:
    canonical = canonical_name(name)
    if canonical != NATIVE:
        yield _named(name, canonical, origin, overlays)
    elif detect is None:
        yield Target(NATIVE, "the GPUs of this machine", None, "", ())
    else:
        detected = detect()
        if not detected:
            raise TorchwheelError(_no_gpu_found(origin))
        for gpu in detected:
            yield _detected(gpu, overlays)


def _detected(gpu: DetectedGpu, overlays: Overlays) -> Target:
    name = canonical_name(gpu.name)
    if overlays.knows(name, "target"):
        return _named(gpu.name, name, NATIVE, overlays)
    architectures = ArchitectureList.of([CodeTarget(gpu.compute_capability, sass=True, ptx=False)])
    return Target(name, gpu.name, architectures, f"compute capability of {gpu.name}", ())


def _named(spelled: str, name: str, origin: str, overlays: Overlays) -> Target:
    if not overlays.knows(name, "target"):
        raise TorchwheelError(_unknown_target(spelled, overlays, origin))
    gpu = gpu_of(name)
    definitions = overlays.definitions(name, "target")
    chain = overlays.chain(name, "target")
    settings = tuple(item for item in overlays.settings(chain, "target") if item.key != "arch")
    title = next((item.title for item in reversed(definitions) if item.title), gpu.title if gpu else "")
    if CPU in chain:
        return Target(name, title, None, "", settings)
    architectures, arch_origin = _architectures(chain, overlays)
    return Target(name, title, architectures, arch_origin, settings)


def _architectures(chain: tuple[str, ...], overlays: Overlays) -> tuple[ArchitectureList, str]:
    for name in reversed(chain):
        for definition in reversed(overlays.definitions(name, "target")):
            if arch := definition.setting("arch"):
                return arch.value, arch.origin
        if gpu := gpu_of(name):
            capability = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            return ArchitectureList.of([capability]), f"compute capability of {name}"
    raise TorchwheelError(_no_architecture(chain[-1], overlays))


def _unknown_target(name: str, overlays: Overlays, origin: str) -> Problem:
    what = f'there is no target "{name}"'
    if candidates := gpus().candidates(name):
        what = f'"{name}" may be any of several GPUs'
        remedy = f"choose from: {', '.join(f'{gpu.name} ({gpu.title})' for gpu in candidates)}"
    else:
        remedy = overlays.remedy(name, "target")
        with suppress(TorchwheelError):
            parse_architectures(name)
            remedy = f"it is an architecture: write -C arch={name}"
    return Problem(id="unknown-target", what=what, remedy=remedy, origin=origin)


def _unknown_profile(name: str, overlays: Overlays, origin: str) -> Problem:
    return Problem(
        id="unknown-profile",
        what=f'there is no profile "{name}"',
        remedy=overlays.remedy(name, "profile"),
        origin=origin,
    )


def _no_architecture(name: str, overlays: Overlays) -> Problem:
    return Problem(
        id="target-without-architecture",
        what=f"the target {name} is no known GPU and does not say what to compile for",
        remedy='give it arch = "12.0", or inherits = "rtx5070"',
        origin=overlays.definitions(name, "target")[-1].origin,
    )


def _cpu_and_others(asked: Setting) -> Problem:
    return Problem(
        id="cpu-among-gpus",
        what=f"target names cpu beside GPUs: {asked.text}",
        remedy="leave cpu out: a wheel for GPUs runs on the CPU too",
        origin=asked.origin,
    )


def _no_gpu_found(origin: str) -> Problem:
    return Problem(
        id="no-gpu-found",
        what="the target is native, but this machine shows no NVIDIA GPU",
        remedy="name the GPU to build for, for example -C target=rtx5070, or build without: -C target=cpu",
        why="nvidia-smi is missing, or lists none",
        origin=origin,
    )
