"""Choose the device code of an extension from the requested architectures and the project's own flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torchwheel.extension.compile.flags import OwnArchitectures, own_architectures
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.hardware.arch import ArchitectureList, CodeTarget
from torchwheel.hardware.runs_on import HowItRuns, judge_code
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, warning
from torchwheel.reporting.terminal import join_items
from torchwheel.settings import Settings

_NATIVE = (HowItRuns.NATIVE, HowItRuns.FAMILY)


@dataclass(frozen=True)
class SharedWarning:
    """A warning about an extension, which others may get with the same values."""

    id: str
    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, id: str, **values: object) -> SharedWarning:
        return cls(id, tuple((name, str(value)) for name, value in values.items()))

    def about(self, extensions: Sequence[Extension]) -> Finding:
        """Create the one finding for all of them."""
        origins = {extension.origin for extension in extensions}
        origin = origins.pop() if len(origins) == 1 else extensions[0].origin.partition(", extension ")[0]
        names = join_items([extension.name for extension in extensions])
        return warning(Problem.of(self.id, origin=origin, extension=names, **dict(self.values)))


@dataclass(frozen=True)
class TargetChoice:
    """The device code of one extension, from settings and the project's flags.

    Attributes:
        options: nvcc's options for them, where the project's own are used as they are; else empty.
        missed: where its kernels run on other hardware only, the values of the message about that; else None.
    """

    architectures: ArchitectureList | None
    options: tuple[str, ...] = ()
    other_flags: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    warnings: tuple[SharedWarning, ...] = ()
    missed: Mapping[str, object] | None = None


def choose_targets(extension: Extension, settings: Settings) -> TargetChoice:
    """Combine the requested architectures with those of the project's nvcc flags.

    As in torch.utils.cpp_extension, the project's flags win over TORCH_CUDA_ARCH_LIST. A target or ``arch`` replaces
    them, but a form with ``a`` or ``f`` that runs on it stays, because kernels are written for its instructions.
    """
    try:
        own = own_architectures(extension.flags.get(Language.CUDA, ()), extension.origin)
    except TorchwheelError as failure:
        return TargetChoice(None, findings=tuple(map(error, failure.problems)))
    requested = settings.arch
    if own.architectures is None:
        return TargetChoice(requested, other_flags=own.others)
    if requested is None or requested == own.architectures:
        return TargetChoice(own.architectures, own.options, own.others)
    entry = settings.entries["arch"]
    if entry.ambient:
        overruled = SharedWarning.of(
            "architecture-variable-overruled",
            own=own.architectures,
            requested=requested,
            origin_of_request=entry.origin,
        )
        return TargetChoice(own.architectures, own.options, own.others, warnings=(overruled,))
    chosen, missing = _specific_forms(own.architectures, requested)
    merges = settings.flag_architectures == "merge"
    if missing and not merges and all(one.suffix for one in own.architectures.architectures):
        missed = _values_of_miss(extension, own, missing, entry.origin)
        return TargetChoice(own.architectures, own.options, own.others, missed=missed)
    if merges:
        chosen = ArchitectureList.of([*chosen.targets, *own.architectures.targets])
    dropped = [label for label in own.architectures.labels if label not in chosen.labels]
    if not dropped:
        return TargetChoice(chosen, other_flags=own.others)
    overruled = SharedWarning.of(
        "architecture-flags-overruled",
        dropped=", ".join(dropped),
        flags=" ".join(own.flags),
        chosen=chosen,
        origin_of_request=entry.origin,
    )
    return TargetChoice(chosen, other_flags=own.others, warnings=(overruled,))


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
        choice = choose_targets(extension, settings)
        if choice.architectures is not None:
            yield choice.architectures
        yield from extension.source_architectures.values()


def _values_of_miss(
    extension: Extension, own: OwnArchitectures, missing: Iterable[CodeTarget], origin: str
) -> dict[str, object]:
    return {
        "origin": extension.origin,
        "extension": extension.name,
        "own": own.architectures,
        "flags": " ".join(own.flags),
        "requested": ", ".join(target.architecture.dotted for target in missing),
        "origin_of_request": origin,
    }
