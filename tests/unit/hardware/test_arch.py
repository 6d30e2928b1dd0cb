"""How lists of architectures are read and written, and what runs on which GPU."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of, ids_of
from torchwheel.hardware.arch import CodeTarget, HowItRuns, judge_code, parse_architectures
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError


def problems(text: str, origin: str = "") -> list[Problem]:
    return list(error_of(parse_architectures, text, origin).problems)


@pytest.mark.parametrize(
    ("spelling", "read"),
    [
        ("12.0", "12.0"),
        ("120", "12.0"),
        ("sm_120", "12.0"),
        ("SM120", "12.0"),
        ("120-real", "12.0"),
        ("12.0a", "12.0a"),
        ("120a", "12.0a"),
        ("sm_120a", "12.0a"),
        ("sm120A", "12.0a"),
        ("12.0f", "12.0f"),
        ("120f-real", "12.0f"),
        ("compute_90", "compute_90"),
        ("compute_90a", "compute_90a"),
        ("90-virtual", "compute_90"),
        ("ptx90", "compute_90"),
        ("9.0+PTX", "9.0+PTX"),
        ("sm_90+PTX", "9.0+PTX"),
        ("90a+ptx", "9.0a+PTX"),
        ("Maxwell", "5.0;5.2"),
        ("maxwell+tegra", "5.3"),
        ("Pascal", "6.0;6.1"),
        ("Volta", "7.0"),
        ("TURING", "7.5"),
        ("Ampere", "8.0;8.6"),
        ("Ampere+PTX", "8.0;8.6+PTX"),
        ("Ampere+Tegra", "8.7"),
        ("Ampere+Tegra+PTX", "8.7+PTX"),
        ("Ada", "8.9"),
        ("lovelace", "8.9"),
        ("Hopper", "9.0"),
        ("Blackwell", "10.0;12.0"),
        ("Blackwell+PTX", "10.0;12.0+PTX"),
        ("Blackwell+Tegra", "11.0"),
        ("Rubin", "10.7"),
    ],
)
def test_spellings(spelling: str, read: str) -> None:
    assert str(parse_architectures(spelling)) == read


@pytest.mark.parametrize(
    "text",
    [
        "7.5,8.0,9.0+PTX",
        "7.5;8.0;9.0+PTX",
        "7.5 8.0 9.0+PTX",
        "  9.0+PTX ,; 8.0\n7.5;",
        ["8.0", "9.0+PTX;7.5"],
        ("sm_75", "sm_80", "sm_90", "compute_90"),
        "7.5;8.0;9.0;9.0;9.0+PTX;8.0",
    ],
)
def test_lists(text: str | list[str]) -> None:
    assert str(parse_architectures(text)) == "7.5;8.0;9.0+PTX"


def test_every_dialect_of_one_list() -> None:
    read = parse_architectures("12.0a+PTX 90 9.0a compute_100f 8.6+PTX")

    assert read.targets == (
        CodeTarget(Architecture(8, 6), sass=True, ptx=True),
        CodeTarget(Architecture(9, 0), sass=True, ptx=False),
        CodeTarget(Architecture(9, 0, "a"), sass=True, ptx=False),
        CodeTarget(Architecture(10, 0, "f"), sass=False, ptx=True),
        CodeTarget(Architecture(12, 0, "a"), sass=True, ptx=True),
    )
    assert [architecture.dotted for architecture in read.architectures] == [
        "8.6", "9.0", "9.0a", "10.0f", "12.0a",
    ]  # fmt: skip
    assert read.for_nvcc() == (
        "-gencode=arch=compute_86,code=sm_86",
        "-gencode=arch=compute_86,code=compute_86",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_100f,code=compute_100f",
        "-gencode=arch=compute_120a,code=sm_120a",
        "-gencode=arch=compute_120a,code=compute_120a",
    )
    assert read.labels == ("sm86", "sm90", "sm90a", "sm120a", "ptx86", "ptx100f", "ptx120a")
    assert str(read) == "8.6+PTX;9.0;9.0a;compute_100f;12.0a+PTX"


def test_torch_gets_semicolons_and_every_suffix() -> None:
    assert parse_architectures("9.0a, 12.0f+PTX, 8.0").for_torch() == "8.0;9.0a;12.0f+PTX"


def test_torch_has_no_way_to_say_ptx_alone() -> None:
    assert ids_of(parse_architectures("8.0;compute_90;compute_120").for_torch) == ["ptx-without-sass"] * 2


def test_everything_bad_is_reported_at_once() -> None:
    text = "12.7, 8.9a; 9.0f amper 90-real sm_90-virtual compute_90+PTX"
    assert [(problem.id, problem.origin) for problem in problems(text, "-C arch")] == [
        ("unknown-architecture", "-C arch"),
        ("unknown-architecture", "-C arch"),
        ("unknown-architecture", "-C arch"),
        ("unknown-architecture", "-C arch"),
        ("contradictory-architecture", "-C arch"),
        ("contradictory-architecture", "-C arch"),
    ]


def test_what_no_list_of_architectures_is() -> None:
    digits = "1" * 5_000
    (problem,) = problems(digits)
    assert problem.id == "unknown-architecture"
    many = ";".join(f"a{number}" for number in range(201))
    assert [problem.id for problem in problems(many)] == ["unknown-architecture"]
    assert str(parse_architectures("9.0;" * 300)) == "9.0"


def test_nvcc_cannot_make_family_code_beside_plain_code() -> None:
    (problem,) = problems("12.0f 12.0 10.0f 9.0+PTX", "-C arch")
    assert problem.id == "colliding-architectures" and "compute_120" in problem.remedy
    assert str(parse_architectures("12.0f 12.0a compute_120")) == "compute_120;12.0a;12.0f"


@pytest.mark.parametrize(
    ("item", "remedy"),
    [
        ("12", "did you mean '12.0'?"),
        ("13", "did you mean '12.1'?"),
        ("99.9", "a later torchwheel may know"),
        ("9", "did you mean '9.0'?"),
        ("sm_9", "did you mean '9.0'?"),
        ("35", "did you mean '5.0'?"),
        ("sm_125", "a later torchwheel may know"),
        ("8.1", "did you mean '8.0'?"),
        ("native", "ask for the GPU of this machine with -C target=native"),
        ("All-Major", "name the architectures, such as '8.0;9.0;12.0+PTX'"),
        ("rtx5070", "GeForce RTX 5070 is a GPU: use -C target=rtx5070, or its architecture '12.0'"),
        ("gfx1100", "ROCm"),
        ("blackwel+PTX", "did you mean 'blackwell'?"),
        ("7.5(7.0)", "write a number such as '12.0', or one of maxwell, maxwell+tegra, pascal"),
    ],
)
def test_remedies(item: str, remedy: str) -> None:
    (problem,) = problems(item)
    assert remedy in problem.remedy


@pytest.mark.parametrize("text", ["", " ; , ", []])
def test_an_empty_list(text: str | list[str]) -> None:
    assert ids_of(parse_architectures, text) == ["no-architecture"]


def test_architectures_sort_by_number_not_as_text() -> None:
    spelled = ["12.0", "9.0a", "9.0", "10.0f", "10.0a", "10.0", "8.9"]
    ordered = sorted(Architecture.of(text) for text in spelled)
    assert [architecture.dotted for architecture in ordered] == [
        "8.9", "9.0", "9.0a", "10.0", "10.0a", "10.0f", "12.0",
    ]  # fmt: skip


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_with_a_remedy(text: str) -> None:
    try:
        read = parse_architectures(text)
    except TorchwheelError as error:
        assert all(problem.what and problem.remedy for problem in error.problems)
    else:
        assert parse_architectures(str(read)) == read


def test_a_generation_may_come_and_four_at_most() -> None:
    assert str(parse_architectures("16.0")) == "16.0"
    assert [problem.id for problem in problems("17.0")] == ["unknown-architecture"]


def test_they_are_in_order_and_what_they_name_is_known() -> None:
    known = known_architectures()
    capabilities = list(known.by_capability)
    assert all(one < next_one for one, next_one in pairwise(capabilities))
    assert {e.renamed_to for e in known if e.renamed_to} <= set(capabilities)
    assert all(members and set(members) <= set(capabilities) for members in known.names.values())
    assert all(list(members) == sorted(members) for members in known.names.values())


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
