"""Resolve the names of targets and profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.reporting.errors import Problem, TorchwheelError, collect_problems
from torchwheel.settings.layers import Setting
from torchwheel.settings.overlays import (
    CPU,
    NATIVE,
    Overlays,
    canonical_name,
    gpu_of,
)

Detect = Callable[[], Sequence[DetectedGpu]]


@dataclass(frozen=True)
class Target:
    """A target, resolved.

    Attributes:
        architectures: what it is compiled for; None for ``cpu`` and for an unresolved ``native``.
        settings: the settings of overlays and the project's table, without ``arch``.
    """

    name: str
    title: str
    architectures: ArchitectureList | None
    arch_origin: str
    settings: tuple[Setting, ...]


def resolve_targets(
    named: Setting, overlays: Overlays, detect: Detect | None, problems: list[Problem]
) -> tuple[Target, ...]:
    """Resolve the targets that a ``target`` setting names; unknown ones are added to ``problems``."""
    found: dict[str, Target] = {}
    for name in named.value:
        with collect_problems(problems):
            for target in _resolve_name(name, named.origin, overlays, detect):
                found.setdefault(target.name, target)
    if CPU in found and len(found) > 1:
        problems.append(Problem.of("cpu-among-gpus", origin=named.origin, targets=named.text))
        return ()
    return tuple(found.values())


def resolve_profiles(
    named: Setting, overlays: Overlays, problems: list[Problem]
) -> Iterator[tuple[Setting, ...]]:
    """The settings of each profile that a ``profile`` setting names, in that order."""
    for spelled in named.value:
        name = canonical_name(spelled)
        if not overlays.definitions(name, "profile"):
            problems.append(
                Problem.of(
                    "unknown-profile",
                    origin=named.origin,
                    name=spelled,
                    advice=overlays.suggest_name(spelled, "profile"),
                )
            )
            continue
        with collect_problems(problems):
            yield overlays.settings(overlays.inheritance_chain(name, "profile"), "profile")


def _resolve_name(name: str, origin: str, overlays: Overlays, detect: Detect | None) -> Iterator[Target]:
    canonical = canonical_name(name)
    if canonical != NATIVE:
        yield _target_of_name(name, canonical, origin, overlays)
    elif detect is None:
        yield Target(NATIVE, "the GPUs of this machine", None, "", ())
    else:
        try:
            detected = detect()
        except NoAnswer as failure:
            raise TorchwheelError(_no_gpu_found(origin, str(failure))) from None
        if not detected:
            raise TorchwheelError(_no_gpu_found(origin))
        for gpu in detected:
            yield _target_of_gpu(gpu, overlays)


def _target_of_gpu(gpu: DetectedGpu, overlays: Overlays) -> Target:
    name = canonical_name(gpu.name)
    if overlays.has_name(name, "target"):
        return _target_of_name(gpu.name, name, NATIVE, overlays)
    architectures = ArchitectureList.of([CodeTarget(gpu.compute_capability, sass=True, ptx=False)])
    return Target(name, gpu.name, architectures, f"compute capability of {gpu.name}", ())


def _target_of_name(spelled: str, name: str, origin: str, overlays: Overlays) -> Target:
    if not overlays.has_name(name, "target"):
        raise TorchwheelError(_unknown_target(spelled, overlays, origin))
    gpu = gpu_of(name)
    definitions = overlays.definitions(name, "target")
    chain = overlays.inheritance_chain(name, "target")
    settings = tuple(item for item in overlays.settings(chain, "target") if item.key != "arch")
    title = next((item.title for item in reversed(definitions) if item.title), gpu.title if gpu else "")
    if CPU in chain:
        return Target(name, title, None, "", settings)
    architectures, arch_origin = _find_architectures(chain, overlays)
    return Target(name, title, architectures, arch_origin, settings)


def _find_architectures(chain: tuple[str, ...], overlays: Overlays) -> tuple[ArchitectureList, str]:
    for name in reversed(chain):
        for definition in reversed(overlays.definitions(name, "target")):
            if arch := definition.get_setting("arch"):
                return arch.value, arch.origin
        if gpu := gpu_of(name):
            capability = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            return ArchitectureList.of([capability]), f"compute capability of {name}"
    raise TorchwheelError(_no_architecture(chain[-1], overlays))


def _unknown_target(name: str, overlays: Overlays, origin: str) -> Problem:
    if candidates := read_gpus().find_candidates(name):
        listed = ", ".join(gpu.described for gpu in candidates)
        return Problem.of("unknown-target/ambiguous", origin=origin, name=name, candidates=listed)
    if answer := read_gpus().refusal(name):
        return Problem.of("unknown-target", origin=origin, name=name, advice=answer)
    words = name.split()
    if len(words) > 1 and all(overlays.has_name(canonical_name(word), "target") for word in words):
        return Problem.of(
            "unknown-target",
            origin=origin,
            name=name,
            advice=f'write "{",".join(words)}": commas separate targets',
        )
    with suppress(TorchwheelError):
        parse_architectures(name)
        return Problem.of("unknown-target/architecture", origin=origin, name=name)
    return Problem.of(
        "unknown-target", origin=origin, name=name, advice=overlays.suggest_name(name, "target")
    )


def _no_architecture(name: str, overlays: Overlays) -> Problem:
    return Problem.of(
        "target-without-architecture", origin=overlays.definitions(name, "target")[-1].origin, name=name
    )


def _no_gpu_found(origin: str, why: str = "nvidia-smi is missing, or lists none") -> Problem:
    return Problem.of("no-gpu-found/target", origin=origin, why=why)
