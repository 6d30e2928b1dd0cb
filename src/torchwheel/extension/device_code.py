"""The device code of an extension: nvcc's flags for architectures, and the choice from these and the target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, HowItRuns, judge_code, parse_architectures
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, refusal, warning
from torchwheel.settings import Settings

_PAIR = re.compile(r"arch=compute_(?P<arch>\w+),code=(?P<codes>\[[^][]*\]|[\w,]+|\"[^\"]*\")")
_GENERATE = ("-gencode", "--generate-code")
_ARCHITECTURE = ("-arch", "--gpu-architecture")
_CODE = ("-code", "--gpu-code")
ARCHITECTURE_OPTIONS = (*_GENERATE, *_ARCHITECTURE, *_CODE)
_NATIVE = (HowItRuns.NATIVE, HowItRuns.FAMILY)

MISSED = "architecture-flags-miss-target"
"""The finding of an extension whose kernels run on other hardware only."""


def shared_front_end(architectures: ArchitectureList) -> tuple[str, ...]:
    """Return nvcc's ``-gencode`` options with a single front-end pass for all machine code without suffix.

    The front end parses every header once for each virtual architecture. Here it runs once, for the oldest, and all
    machine code is assembled from its PTX, without instructions and code paths of newer architectures.
    """
    shared = [t for t in architectures.targets if t.sass and not t.architecture.suffix]
    if len(shared) < 2:
        return architectures.for_nvcc()
    images = ",".join(t.architecture.sm for t in shared)
    rest = [CodeTarget(t.architecture, sass=False, ptx=True) for t in shared if t.ptx]
    rest += [t for t in architectures.targets if t not in shared]
    one_pass = f"-gencode=arch={shared[0].architecture.compute},code=[{images}]"
    return (one_pass, *(ArchitectureList.of(rest).for_nvcc() if rest else ()))


@dataclass(frozen=True)
class OwnArchitectures:
    """The architectures in a project's nvcc flags; the options are the flags, each as one word."""

    flags: tuple[str, ...]
    others: tuple[str, ...]
    architectures: ArchitectureList | None
    options: tuple[str, ...] = ()


def own_architectures(flags: Sequence[str], origin: str) -> OwnArchitectures:
    """Split nvcc flags into its own options for architectures and the others.

    Raises:
        TorchwheelError: the options cannot be read.
    """
    own: list[str] = []
    others: list[str] = []
    options: list[tuple[str, str]] = []
    words = iter(flags)
    for flag in words:
        option, _, value = flag.partition("=")
        if option in ARCHITECTURE_OPTIONS:
            own.append(flag)
            if not value:
                value = next(words, "")
                own.append(value)
        elif flag.startswith("arch=compute_"):
            own.append(flag)
            option, value = _GENERATE[0], flag
        else:
            others.append(flag)
            continue
        options.append((_GENERATE[0] if option in _GENERATE else option, value))
    spelled = tuple(f"{option}={value}" for option, value in options)
    for option, value in options:
        readable = option not in _GENERATE or _PAIR.fullmatch(value.strip())
        if not readable or (option in _ARCHITECTURE and value in ("all", "all-major", "native")):
            raise refusal("unreadable-architecture-flag", origin=origin, flag=f"{option}={value}")
    pairs = [
        code
        for option, value in options
        if option in _GENERATE and (pair := _PAIR.fullmatch(value.strip()))
        for code in _split_codes(pair["codes"])
    ]
    codes = [code for one, value in options if one in _CODE for code in _split_codes(value)]
    # With -code, -arch names the virtual architecture and is not an image.
    images = codes or [_images_of(value) for one, value in options if one in _ARCHITECTURE]
    architectures = parse_architectures([*pairs, *images], origin) if pairs or images else None
    return OwnArchitectures(tuple(own), tuple(others), architectures, spelled)


def _images_of(architecture: str) -> str:
    """The images of ``-arch=sm_90``, which means ``-gencode=arch=compute_90,code=[sm_90,compute_90]``."""
    return f"{architecture.removeprefix('sm_')}+PTX" if architecture.startswith("sm_") else architecture


def _split_codes(text: str) -> list[str]:
    return [code.strip() for code in text.strip('[]"').split(",") if code.strip()]


@dataclass(frozen=True)
class TargetChoice:
    """The device code of one extension; the options are the project's own for nvcc, where they are used as they are."""

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
    values = {"origin": extension.origin, "extension": extension.name, "origin_of_request": entry.origin}
    say = partial(Problem.of, **values)
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
        wanted = target.architecture
        codes = () if wanted.suffix else (CodeTarget(form, sass=True, ptx=False) for form in forms)
        serving = [code.architecture for code in codes if judge_code((code,), wanted).how in _NATIVE]
        chosen += [replace(target, architecture=form) for form in serving]
        if not serving or wanted in plain:
            chosen.append(target)
        if not serving and wanted not in forms:
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
            if chosen := choose_targets(extension, settings).architectures:
                yield chosen
        yield from extension.source_architectures.values()
