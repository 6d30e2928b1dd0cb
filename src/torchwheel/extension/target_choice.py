"""Choose the device code of an extension from the requested architectures and the project's own flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from torchwheel.extension.compile.flags import own_architectures
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, HowItRuns, judge_code
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, warning
from torchwheel.settings import Settings

_NATIVE = (HowItRuns.NATIVE, HowItRuns.FAMILY)


MISSED = "architecture-flags-miss-target"
"""The finding of an extension whose kernels run on other hardware only."""


@dataclass(frozen=True)
class TargetChoice:
    """The device code of one extension, from settings and the project's flags.

    Attributes:
        options: nvcc's options for them, where the project's own are used as they are; else empty.
    """

    architectures: ArchitectureList | None
    options: tuple[str, ...] = ()
    finding: Finding | None = None


def choose_targets(extension: Extension, settings: Settings) -> TargetChoice:
    """Combine the requested architectures with those of the project's nvcc flags.

    As in torch.utils.cpp_extension, the project's flags win over TORCH_CUDA_ARCH_LIST. A target or ``arch`` replaces
    them, but a form with ``a`` or ``f`` that runs on it stays, because kernels are written for its instructions.

    Raises:
        TorchwheelError: the flags cannot be read.
    """
    own = own_architectures(extension.flags.get(Language.CUDA, ()), extension.origin)
    requested, flags = settings.arch, " ".join(own.flags)
    if own.architectures is None:
        return TargetChoice(requested)
    if requested is None or requested == own.architectures:
        return TargetChoice(own.architectures, own.options)
    entry = settings.entries["arch"]
    say = partial(
        Problem.of, origin=extension.origin, extension=extension.name, origin_of_request=entry.origin
    )
    if entry.ambient:
        overruled = say("architecture-variable-overruled", own=own.architectures, requested=requested)
        return TargetChoice(own.architectures, own.options, warning(overruled))
    chosen, missing = _specific_forms(own.architectures, requested)
    if missing and all(one.suffix for one in own.architectures.architectures):
        others = ", ".join(target.architecture.dotted for target in missing)
        missed = say(MISSED, own=own.architectures, flags=flags, requested=others)
        return TargetChoice(own.architectures, own.options, error(missed))
    dropped = [label for label in own.architectures.labels if label not in chosen.labels]
    if not dropped:
        return TargetChoice(chosen)
    overruled = say("architecture-flags-overruled", dropped=", ".join(dropped), flags=flags, chosen=chosen)
    return TargetChoice(chosen, finding=warning(overruled))


def _specific_forms(
    own: ArchitectureList, requested: ArchitectureList
) -> tuple[ArchitectureList, list[CodeTarget]]:
    """Return the requested architectures in the project's own ``a`` and ``f`` forms, and those without such a form."""
    forms = [target.architecture for target in own.targets if target.architecture.suffix]
    plain = {target.architecture for target in own.targets if target.sass}
    chosen: list[CodeTarget] = []
    missing: list[CodeTarget] = []
    for target in requested.targets:
        serving = [
            form
            for form in forms
            if not target.architecture.suffix
            and judge_code((CodeTarget(form, sass=True, ptx=False),), target.architecture).how in _NATIVE
        ]
        chosen += [replace(target, architecture=form) for form in serving]
        if not serving or target.architecture in plain:
            chosen.append(target)
        if not serving and target.architecture not in forms:
            missing.append(target)
    return ArchitectureList.of(chosen), missing


def requested_architectures(
    extensions: Sequence[Extension], settings: Settings
) -> Iterator[ArchitectureList]:
    """Return every list of architectures that a toolkit must compile; without extensions, the requested one."""
    if not extensions and settings.arch is not None:
        yield settings.arch
    for extension in extensions:
        # The plan reports flags that cannot be read.
        with suppress(TorchwheelError):
            choice = choose_targets(extension, settings)
            if choice.architectures is not None:
                yield choice.architectures
        yield from extension.source_architectures.values()
