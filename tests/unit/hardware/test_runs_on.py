from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.hardware.arch import CodeTarget, HowItRuns, judge_code, parse_architectures
from torchwheel.hardware.architecture import Architecture, known_architectures

CAPABILITIES = [known.capability for known in known_architectures()]
IMAGES = [
    f"{kind}_{form.replace('.', '')}"
    for known in known_architectures()
    for form in known.spellings
    for kind in ("sm", "compute")
]


def gpu(dotted: str) -> Architecture:
    read = Architecture.from_dotted(dotted)
    assert read is not None
    return read


def targets(images: Iterable[str]) -> list[CodeTarget]:
    """The code of a binary, which may hold what one run of nvcc cannot make together."""
    return [target for image in images for target in parse_architectures(image).targets]


def answer(code: str, capability: str) -> str:
    return judge_code(targets(code.split()), gpu(capability)).how.value


@pytest.mark.parametrize(
    ("code", "capability", "how"),
    [
        ("sm_120", "12.0", "native"),
        ("sm_120", "12.1", "minor-version"),
        ("sm_121", "12.0", "no"),
        ("sm_86", "8.9", "minor-version"),
        ("sm_89", "8.6", "no"),
        ("sm_90", "10.0", "no"),
        ("sm_90a", "9.0", "native"),
        ("sm_100a", "10.3", "no"),
        ("sm_100f", "10.0", "native"),
        ("sm_100f", "10.3", "family"),
        ("sm_100f", "10.7", "family"),
        ("sm_103f", "10.0", "no"),
        ("sm_100f", "12.0", "no"),
        ("sm_120f", "12.1", "family"),
        ("compute_80", "8.0", "ptx-jit"),
        ("compute_80", "12.1", "ptx-jit"),
        ("compute_90", "8.9", "no"),
        ("compute_90a", "9.0", "ptx-jit"),
        ("compute_90a", "10.0", "no"),
        ("compute_100f", "10.3", "ptx-jit"),
        ("compute_100f", "11.0", "no"),
        ("sm_101", "11.0", "native"),
        ("sm_110a", "10.1", "native"),
        ("sm_101f", "11.0", "native"),
        ("sm_100", "10.1", "no"),
        ("sm_101", "10.3", "no"),
        ("compute_101", "10.3", "ptx-jit"),
        ("compute_101a", "11.0", "ptx-jit"),
        ("compute_110", "10.3", "no"),
        ("sm_80", "8.7", "no"),
        ("sm_87", "8.9", "no"),
        ("sm_87", "8.7", "native"),
        ("compute_80", "8.7", "ptx-jit"),
        ("sm_52", "5.3", "no"),
    ],
)
def test_single_images(code: str, capability: str, how: str) -> None:
    assert answer(code, capability) == how


# Table "Family-Specific Compatibility" of the CUDA Programming Guide 13.4.
FAMILIES = {
    "100f": {"10.0", "10.3", "10.7"},
    "103f": {"10.3", "10.7"},
    "107f": {"10.7"},
    "110f": {"11.0"},
    "120f": {"12.0", "12.1"},
    "121f": {"12.1"},
}


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("kind", ["sm", "compute"])
def test_nvidias_table_of_families(target: str, kind: str) -> None:
    runs_on = {c.dotted for c in CAPABILITIES if answer(f"{kind}_{target}", c.dotted) != "no"}
    renamed = {"10.1"} if target == "110f" else set()
    assert runs_on == FAMILIES[target] | renamed


def test_a_gpu_needs_no_suffix() -> None:
    code = CodeTarget(Architecture(9, 0, "a"), sass=True, ptx=False)
    assert judge_code([code], Architecture(9, 0, "a")).how is HowItRuns.NATIVE
    assert judge_code((), Architecture(9, 0)).how is HowItRuns.NO


@pytest.mark.parametrize(
    ("code", "capability", "image"),
    [
        ("10.1", "11.0", "sm_101"),
        ("8.0 8.6", "8.9", "sm_86"),
        ("10.0f", "10.3", "sm_100f"),
        ("8.0+PTX 9.0+PTX", "12.0", "compute_90"),
        ("8.9 9.0a compute_100f compute_120", "8.6", None),
        ("7.5 8.6", "8.7", None),
    ],
)
def test_which_image_runs(code: str, capability: str, image: str | None) -> None:
    assert judge_code(parse_architectures(code).targets, gpu(capability)).image == image


def test_no_code_at_all() -> None:
    assert judge_code((), Architecture(12, 0)).sentence == "there is no device code for 12.0"


RANK = ["native", "family", "minor-version", "ptx-jit", "no"]


@given(st.sampled_from(IMAGES), st.sampled_from(CAPABILITIES), st.sampled_from(IMAGES))
def test_more_code_never_runs_worse(one: str, capability: Architecture, more: str) -> None:
    def rank(images: Iterable[str]) -> int:
        return RANK.index(judge_code(targets(images), capability).how.value)

    assert rank([one, more]) <= rank([one])
