"""Lists of CUDA architectures to compile device code for, in every common spelling; and how that code runs on a GPU.

An item is a number with or without a dot (``12.0a``, ``120a``), nvcc's name (``sm_120a``, ``compute_90``),
CMake's (``90-real``, ``90-virtual``), part of a version label (``sm120``, ``ptx90``) or a family, ``Ampere``.
Machine code (SASS) is meant unless the spelling says PTX: ``+PTX`` adds it, and ``compute_``, ``ptx`` and
``-virtual`` mean it alone. So a bare ``120`` is ``12.0``, though CMAKE_CUDA_ARCHITECTURES would add PTX.

Machine code runs on later minor revisions of its major revision, except between Tegra's GPUs and others; PTX runs on
everything later, compiled by the driver. The suffixes narrow both: ``a`` to one capability, ``f`` to one family.
Sources: "Binary Compatibility" and "PTX Compatibility" in
https://docs.nvidia.com/cuda/archive/12.9.1/cuda-c-programming-guide/index.html; for families the table in
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import cast

from torchwheel.hardware.architecture import (
    Architecture,
    KnownArchitecture,
    Suffix,
    is_tegra,
    known_architectures,
)
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.reporting.errors import (
    Problem,
    TorchwheelError,
    collect_problems,
    find_nearest,
    refusal,
    stop_on,
)

_SEPARATORS = re.compile(r"[,;\s]+")
_ITEM = re.compile(
    r"(?P<prefix>sm_?|compute_?|ptx)?"
    r"(?P<major>\d{1,18})(?P<dot>\.)?(?P<minor>\d)(?P<suffix>[af])?"
    r"(?P<form>\+ptx|-real|-virtual)?",
    re.IGNORECASE,
)
_MAJOR_ALONE = re.compile(r"(?:sm_?|compute_?)?(\d{1,18})", re.IGNORECASE)

_GENERATIONS_TO_COME = 4
"""A new one comes every two years, so larger numbers are mistakes."""

_MOST_ITEMS = 200

# The code that prefix and ending of an item mean, as (SASS, PTX). Combinations not listed are contradictory.
_CODE = {
    ("", ""): (True, False),
    ("", "+ptx"): (True, True),
    ("", "-real"): (True, False),
    ("", "-virtual"): (False, True),
    ("sm", ""): (True, False),
    ("sm", "+ptx"): (True, True),
    ("compute", ""): (False, True),
    ("ptx", ""): (False, True),
}


@dataclass(frozen=True, order=True)
class CodeTarget:
    """The device code for one architecture: machine code (SASS), PTX, or both."""

    architecture: Architecture
    sass: bool
    ptx: bool

    @property
    def text(self) -> str:
        """The spelling that `parse_architectures` reads back: ``9.0``, ``9.0+PTX`` or ``compute_90``."""
        if not self.sass:
            return self.architecture.compute
        return f"{self.architecture.dotted}+PTX" if self.ptx else self.architecture.dotted


@dataclass(frozen=True)
class ArchitectureList:
    """What to compile for: at least one architecture, sorted, each once; ``str()`` of it is parsed back."""

    targets: tuple[CodeTarget, ...]

    @classmethod
    def of(cls, targets: Iterable[CodeTarget]) -> ArchitectureList:
        """The list of these targets; those for one architecture are merged."""
        merged: dict[Architecture, CodeTarget] = {}
        for one in targets:
            known = merged.setdefault(one.architecture, one)
            merged[one.architecture] = replace(one, sass=known.sass or one.sass, ptx=known.ptx or one.ptx)
        return cls(tuple(sorted(merged.values())))

    @classmethod
    def union(cls, lists: Iterable[ArchitectureList | None]) -> ArchitectureList | None:
        targets = [target for one in lists if one is not None for target in one.targets]
        return cls.of(targets) if targets else None

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        return tuple(target.architecture for target in self.targets)

    @property
    def labels(self) -> tuple[str, ...]:
        """The parts of a local version label, by number: ``("sm90", "ptx90")``."""
        sass = tuple(target.architecture.label for target in self.targets if target.sass)
        return sass + tuple(target.architecture.ptx_label for target in self.targets if target.ptx)

    def without_suffix(self, suffix: str) -> ArchitectureList:
        return ArchitectureList.of(
            replace(target, architecture=target.architecture.capability)
            if target.architecture.suffix == suffix
            else target
            for target in self.targets
        )

    def for_torch(self) -> str:
        """``TORCH_CUDA_ARCH_LIST`` for PyTorch's own CMake build: ``9.0;12.0+PTX``, without commas."""
        stop_on(
            Problem.of("ptx-without-sass", dotted=target.architecture.dotted, item=target.text)
            for target in self.targets
            if not target.sass
        )
        return str(self)

    def for_nvcc(self) -> tuple[str, ...]:
        return tuple(
            f"-gencode=arch={one.architecture.compute},code={code}"
            for one in self.targets
            for code, wanted in ((one.architecture.sm, one.sass), (one.architecture.compute, one.ptx))
            if wanted
        )

    def __str__(self) -> str:
        return ";".join(target.text for target in self.targets)


def parse_architectures(text: str | Iterable[str], origin: str = "") -> ArchitectureList:
    """Read a list of items separated by commas, semicolons or white space, or several such strings."""
    texts = (text,) if isinstance(text, str) else tuple(text)
    items = dict.fromkeys(item for part in texts for item in _SEPARATORS.split(part) if item)
    if len(items) > _MOST_ITEMS:
        raise refusal("unknown-architecture/too-many", origin=origin, count=len(items))
    problems = [] if items else [Problem.of("no-architecture", origin=origin)]
    targets: list[CodeTarget] = []
    for item in items:
        with collect_problems(problems):
            targets += _read_item(item, origin)
    stop_on([*problems, *_find_collisions(targets, origin)])
    return ArchitectureList.of(targets)


def capabilities_in(text: str) -> tuple[Architecture, ...]:
    """The compute capabilities that a text names: several for a family, none for most texts."""
    try:
        return tuple(architecture.capability for architecture in parse_architectures(text).architectures)
    except TorchwheelError:
        return ()


def _find_collisions(targets: Iterable[CodeTarget], origin: str) -> Iterator[Problem]:
    # nvcc would make the same machine code twice, and stops.
    machine_code = {target.architecture for target in targets if target.sass}
    for family in sorted(machine_code):
        own = family.capability
        if family.suffix == "f" and own in machine_code:
            yield Problem.of(
                "colliding-architectures",
                origin=origin,
                family=family.dotted,
                capability=own.dotted,
                compute=own.compute,
            )


def _read_item(item: str, origin: str) -> tuple[CodeTarget, ...]:
    match = _ITEM.fullmatch(item)
    if match is None:
        return _read_name(item, origin)
    suffix = cast(Suffix, (match["suffix"] or "").lower())
    architecture = Architecture(int(match["major"]), int(match["minor"]), suffix)
    known = known_architectures().get(architecture)
    newest = max(entry.capability for entry in known_architectures()).major
    if known is None and not newest < architecture.major <= newest + _GENERATIONS_TO_COME:
        raise _unknown_number(item, architecture, dotted=match["dot"] is not None, origin=origin)
    if known is not None and suffix not in ("", *known.suffixes):
        raise _no_such_form(item, architecture, known, origin)
    prefix = (match["prefix"] or "").lower().rstrip("_")
    code = _CODE.get((prefix, (match["form"] or "").lower()))
    if code is None:
        dotted, compute = architecture.dotted, architecture.compute
        raise refusal("contradictory-architecture", origin=origin, item=item, dotted=dotted, compute=compute)
    return (CodeTarget(architecture, *code),)


def _read_name(item: str, origin: str) -> tuple[CodeTarget, ...]:
    names = known_architectures().names
    name = item.lower()
    members, ptx = names.get(name), False
    if members is None and name.endswith("+ptx"):
        members, ptx = names.get(name.removesuffix("+ptx")), True
    if members is None:
        raise refusal("unknown-architecture", origin=origin, item=item, advice=_remedy_for_name(item))
    return tuple(CodeTarget(member, sass=True, ptx=ptx and member == members[-1]) for member in members)


def _unknown_number(item: str, architecture: Architecture, *, dotted: bool, origin: str) -> TorchwheelError:
    known = known_architectures()
    # Without a dot, "12" may be a major revision; use the reading that is nearer to a known architecture.
    readings = (architecture,) if dotted else (architecture, Architecture(architecture.number, 0))
    nearest = known.nearest(*readings).capability
    newest = max(entry.capability for entry in known)
    return refusal(
        "unknown-architecture/number" if architecture <= newest else "unknown-architecture/too-new",
        origin=origin,
        item=item,
        known=", ".join(entry.capability.dotted for entry in known),
        meant=nearest.dotted,
        newest=newest.dotted,
    )


def _no_such_form(
    item: str, architecture: Architecture, known: KnownArchitecture, origin: str
) -> TorchwheelError:
    with_suffix = [k.capability.dotted for k in known_architectures() if architecture.suffix in k.suffixes]
    return refusal(
        "unknown-architecture/form",
        origin=origin,
        architecture=architecture.dotted,
        item=item,
        suffix=architecture.suffix,
        capabilities=", ".join(with_suffix),
        spellings=" or ".join(repr(spelling) for spelling in known.spellings),
    )


def _remedy_for_name(item: str) -> str:
    known = known_architectures()
    name = item.lower()
    if name in known.refused:
        return known.refused[name]
    if major := _MAJOR_ALONE.fullmatch(name):
        return f"did you mean {known.nearest(Architecture(int(major[1]), 0)).capability.dotted!r}?"
    if gpu := read_gpus().find(item):
        dotted = gpu.compute_capability.dotted
        return f"{gpu.title} is a GPU: use -C target={gpu.name}, or its architecture {dotted!r}"
    if answer := read_gpus().refusal(item):
        return answer
    if meant := find_nearest(name.removesuffix("+ptx"), known.names):
        return f"did you mean {meant!r}?"
    return f"write a number such as '12.0', or one of {', '.join(known.names)}"


class HowItRuns(Enum):
    NATIVE = "native"
    """Machine code for exactly this capability."""
    FAMILY = "family"
    """Family-specific machine code for an earlier member of the GPU's family."""
    MINOR_VERSION = "minor-version"
    """Machine code for an earlier minor revision of the same major revision."""
    PTX_JIT = "ptx-jit"
    """PTX, which the driver compiles when the program first runs."""
    NO = "no"
    """It does not: "no kernel image is available for execution on the device"."""

    @property
    def runs(self) -> bool:
        return self is not HowItRuns.NO

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(HowItRuns).index(self)


_FEATURES = {
    "": "",
    "a": ", with its architecture-specific features",
    "f": ", with its family-specific features",
}


@dataclass(frozen=True)
class Verdict:
    how: HowItRuns
    gpu: Architecture
    image: str | None
    sentence: str


def judge_code(code: Iterable[CodeTarget], gpu_capability: Architecture) -> Verdict:
    """Decide how the best of the code runs on a GPU of that compute capability, and why."""
    gpu = gpu_capability.capability
    answers: list[tuple[str, HowItRuns, str]] = []
    for target in sorted(code):
        own = target.architecture
        answers += [(own.sm, *_sass_on(own, gpu))] if target.sass else []
        answers += [(own.compute, *_ptx_on(own, gpu))] if target.ptx else []
    if not answers:
        return Verdict(HowItRuns.NO, gpu, None, f"there is no device code for {gpu}")
    # Of equals take the newest, which uses most of the GPU's features.
    image, how, reason = min(reversed(answers), key=lambda answer: answer[1].rank)
    if how.runs:
        return Verdict(how, gpu, image, f"{image} runs on {gpu}: {reason}")
    refused: dict[str, list[str]] = {}
    for image, _, reason in answers:
        refused.setdefault(reason, []).append(image)
    refusals = [
        f"{', '.join(names)} {'do' if names[1:] else 'does'} not run on {gpu}: {reason}"
        for reason, names in refused.items()
    ]
    return Verdict(how, gpu, None, "; ".join(refusals))


def _sass_on(code: Architecture, gpu: Architecture) -> tuple[HowItRuns, str]:
    known = known_architectures()
    # CUDA 13 renamed 10.1 to 11.0, so code with either number is for the same hardware.
    made_for, device = known.current_name(code.capability), known.current_name(gpu)
    if made_for == device:
        renamed = "" if code.capability == gpu else ", which was renamed"
        return HowItRuns.NATIVE, f"it is machine code for that architecture{renamed}{_FEATURES[code.suffix]}"
    if code.suffix == "a":
        return HowItRuns.NO, _only_on(code)
    if made_for.major != device.major:
        return HowItRuns.NO, "machine code is bound to its major revision"
    if made_for > device:
        return HowItRuns.NO, "machine code does not run on earlier minor revisions"
    if is_tegra(made_for) or is_tegra(device):
        return HowItRuns.NO, "machine code is not exchanged between Tegra's GPUs and others"
    if code.suffix == "f":
        return HowItRuns.FAMILY, "it is family-specific machine code for an earlier member of its family"
    return HowItRuns.MINOR_VERSION, "machine code runs on later minor revisions of its major revision"


def _ptx_on(code: Architecture, gpu: Architecture) -> tuple[HowItRuns, str]:
    known = known_architectures()
    made_for, device = known.current_name(code.capability), known.current_name(gpu)
    jit = HowItRuns.PTX_JIT, "the driver compiles its PTX at first use"
    if code.suffix == "a":
        return jit if made_for == device else (HowItRuns.NO, _only_on(code))
    if code.suffix == "f":
        if made_for.major == device.major and made_for <= device:
            return jit
        return HowItRuns.NO, "family-specific PTX is bound to its family's later members"
    # Compare its own number: a rename does not affect where older PTX runs.
    if code.capability <= device:
        return jit
    return HowItRuns.NO, "PTX does not run on earlier architectures"


def _only_on(code: Architecture) -> str:
    return f"architecture-specific code runs on {code.capability} only"
