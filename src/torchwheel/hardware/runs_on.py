"""Decide whether compiled device code runs on a GPU, and how.

Machine code (SASS) runs on later minor revisions of its major revision, except between Tegra's GPUs and
others; PTX runs on everything later, compiled by the driver. The suffixes narrow both: ``a`` to one
capability, ``f`` to one family.

Sources: "Binary Compatibility" and "PTX Compatibility" in
https://docs.nvidia.com/cuda/archive/12.9.1/cuda-c-programming-guide/index.html; for families the table in
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from torchwheel.hardware.arch import CodeTarget
from torchwheel.hardware.architecture import Architecture, known_architectures


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


def is_tegra(capability: Architecture) -> bool:
    known = known_architectures().get(capability)
    return known is not None and known.tegra
