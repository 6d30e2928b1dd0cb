"""Wheels that are what was planned, and wheels that are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchwheel.hardware.arch import parse_architectures
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.inspection import inspect, judge_suitability
from torchwheel.wheel.proof import Expectation, check_labels, is_documented_extra, verify_wheel

LIBRARY = "torch/lib/libtorch_cuda.so"
VERSION = "2.14.1+cu130.sm120"


def verify(contents: WheelContents, expected: Expectation) -> tuple[Problem, ...]:
    return tuple(verify_wheel(contents, expected))


def planned(architectures: str | None = "12.0", **changes: Any) -> Expectation:
    values: dict[str, Any] = {
        "name": "torch",
        "version": VERSION,
        "cuda": "13.0",
        "architectures": None if architectures is None else parse_architectures(architectures),
        "python_tag": "cp311",
        "abi_tag": "cp311",
        "platform_tag": "linux_x86_64",
    }
    return Expectation(**{**values, **changes})


def differs(path: Path, id_: str, what: str) -> Problem:
    """The problem that something of a wheel, ``WHERE says FOUND, planned is PLANNED``, or that it is missing."""
    where, _, values = what.partition(" says ")
    if not values:
        return Problem.of(f"{id_}/missing", origin=path, where=what.removesuffix(" is missing"))
    found, _, planned = values.partition(", planned is ")
    return Problem.of(id_, origin=path, where=where, found=found, planned=planned)


@pytest.fixture
def good(recipe: Any, samples: Any, tmp_path: Path) -> Path:
    written: Path = recipe(files={LIBRARY: samples.library(samples.Entry(2, 120))}).write(tmp_path)
    return written


def test_as_planned(good: Path) -> None:
    metadata = bytes(inspect_wheel(good).metadata)
    assert verify(inspect_wheel(good), planned()) == ()
    assert verify(inspect_wheel(good), planned(name="Torch", prepared_metadata=metadata)) == ()
    assert verify(inspect_wheel(good), planned(python_tag=None, abi_tag=None, platform_tag=None)) == ()


def test_another_wheel_altogether(good: Path) -> None:
    expected = planned(
        name="torch-fork",
        version="2.14.1+cpu",
        cuda=None,
        python_tag="cp312",
        abi_tag="abi3",
        platform_tag="win_amd64",
    )
    assert verify(inspect_wheel(good), expected) == (
        differs(good, "wheel-name", "its file name says torch, planned is torch-fork"),
        differs(good, "wheel-version", f"its file name says {VERSION}, planned is 2.14.1+cpu"),
        differs(good, "wheel-name", "METADATA's Name says torch, planned is torch-fork"),
        differs(good, "wheel-version", f"METADATA's Version says {VERSION}, planned is 2.14.1+cpu"),
        differs(
            good, "wheel-version", f"torch/version.py's __version__ says {VERSION}, planned is 2.14.1+cpu"
        ),
        differs(good, "wheel-tag", "its file name's Python tag says cp311, planned is cp312"),
        differs(good, "wheel-tag", "its file name's ABI tag says cp311, planned is abi3"),
        differs(good, "wheel-tag", "its file name's platform tag says linux_x86_64, planned is win_amd64"),
        differs(good, "wheel-cuda", "torch/version.py's cuda says 13.0, planned is None"),
    )


def test_a_wheel_of_code_is_for_a_platform_and_for_the_planned_python_alone(
    recipe: Any, samples: Any, tmp_path: Path
) -> None:
    code = {LIBRARY: samples.library(samples.Entry(2, 120))}
    tags = ["cp311-cp311-any", "cp312-cp311-any"]
    path = recipe(tag="cp311.cp312-cp311-any", wheel_tags=tags, files=code).write(tmp_path)
    assert tuple(check_labels(inspect_wheel(path), planned(platform_tag=None))) == (
        differs(path, "wheel-tag", "its file name's Python tag says cp311.cp312, planned is cp311"),
        differs(path, "wheel-tag", "its file name's platform tag says any, planned is that of a platform"),
    )
    pure = recipe(tag="py3-none-any").write(tmp_path)
    of_any = planned(python_tag="py3", abi_tag="none", platform_tag=None)
    assert not list(check_labels(inspect_wheel(pure), of_any))


def test_files_inside_that_disagree_with_the_file_name(recipe: Any, samples: Any, tmp_path: Path) -> None:
    path = recipe(
        metadata="Metadata-Version: 2.1\nName: other\nVersion: 2.14.1\n",
        wheel_tags=["cp311-cp311-linux_aarch64", "py3-none-any"],
        files={
            "torch/version.py": b"__version__ = '2.14.1+gitabc'\ncuda = None\n",
            LIBRARY: samples.library(samples.Entry(2, 120)),
        },
    ).write(tmp_path)
    assert verify(inspect_wheel(path), planned()) == (
        differs(path, "wheel-name", "METADATA's Name says other, planned is torch"),
        differs(path, "wheel-version", f"METADATA's Version says 2.14.1, planned is {VERSION}"),
        differs(
            path,
            "wheel-tag",
            "its WHEEL file says cp311-cp311-linux_aarch64 py3-none-any, planned is cp311-cp311-linux_x86_64",
        ),
        differs(
            path, "wheel-version", f"torch/version.py's __version__ says 2.14.1+gitabc, planned is {VERSION}"
        ),
        differs(path, "wheel-cuda", "torch/version.py's cuda says None, planned is 13.0"),
    )


def test_missing_pieces(recipe: Any, samples: Any, tmp_path: Path) -> None:
    path = recipe(
        metadata="Metadata-Version: 2.1\n",
        files={"torch/version.py": None, LIBRARY: samples.library(samples.Entry(2, 120))},
    ).write(tmp_path)
    assert verify(inspect_wheel(path), planned()) == (
        differs(path, "wheel-name", "METADATA's Name is missing"),
        differs(path, "wheel-version", "METADATA's Version is missing"),
        differs(path, "wheel-version", "torch/version.py is missing"),
    )


def test_an_editable_wheel(recipe: Any, tmp_path: Path) -> None:
    path = recipe(tag="py3-none-any", files={"torch/__init__.py": None, "torch/version.py": None}).write(
        tmp_path
    )
    assert verify(inspect_wheel(path), planned(editable=True)) == ()
    assert [problem.id for problem in verify(inspect_wheel(path), planned())] == [
        "wheel-tag",
        "wheel-tag",
        "wheel-tag",
        "wheel-empty",
        "no-device-code",
    ]


def test_metadata_that_a_hook_had_promised(good: Path) -> None:
    raw = bytes(inspect_wheel(good).metadata)
    assert verify(inspect_wheel(good), planned(prepared_metadata=raw + b"\n")) == (
        Problem.of("metadata-changed", origin=good),
    )


@pytest.mark.parametrize(("planned_debug", "ids"), [(False, []), (None, []), (True, ["wheel-build-type"])])
def test_the_build_type_that_the_wheel_says(planned_debug: bool | None, ids: list[str], good: Path) -> None:
    found = verify(inspect_wheel(good), planned(debug=planned_debug))
    assert [problem.id for problem in found] == ids


class TestDeviceCode:
    """What is in the libraries against what was requested."""

    @pytest.fixture
    def check(self, recipe: Any, samples: Any, tmp_path: Path) -> Callable[..., tuple[Problem, ...]]:
        def check(
            wanted: str | None, *entries: tuple[int, int, int], section: str = ".nv_fatbin"
        ) -> tuple[Problem, ...]:
            code = samples.fat_binary(*(samples.Entry(*entry) for entry in entries))
            path = recipe(files={LIBRARY: samples.elf({section: code})}).write(tmp_path)
            return verify(inspect_wheel(path), planned(wanted))

        return check

    def test_as_planned(self, check: Callable[..., tuple[Problem, ...]]) -> None:
        assert check("8.0;9.0;12.0+PTX", (2, 80, 0), (2, 90, 0), (2, 120, 0), (1, 120, 0)) == ()
        assert check("12.0a", (2, 120, 0x100000)) == ()
        assert check("10.0f", (2, 100, 0x200000)) == ()

    def test_missing_and_surplus(self, check: Callable[..., tuple[Problem, ...]], tmp_path: Path) -> None:
        (wheel,) = [f"{tmp_path}/torch-{VERSION}-cp311-cp311-linux_x86_64.whl"]
        assert check("9.0;12.0+PTX", (2, 75, 0), (2, 120, 0), (1, 75, 0)) == (
            Problem.of(
                "missing-device-code",
                origin=wheel,
                library=LIBRARY,
                missing="sm90, ptx120",
                planned="sm90, sm120, ptx120",
                present="ptx75, sm75, sm120",
            ),
            Problem.of(
                "unplanned-device-code",
                origin=wheel,
                found="ptx75, sm75",
                where=LIBRARY,
                planned="sm90, sm120, ptx120",
                option="-C arch=sm90,sm120,ptx120,ptx75,sm75",
            ),
        )

    def test_the_remedy_can_be_typed(self, check: Callable[..., tuple[Problem, ...]]) -> None:
        entries = [(2, 75, 0), (2, 120, 0), (1, 75, 0)]
        (problem,) = check("12.0", *entries)
        typed = re.search(r"-C arch=(\S+)", problem.remedy)[1]  # type: ignore[index]
        assert check(typed, *entries) == ()

    def test_none_at_all(self, check: Callable[..., tuple[Problem, ...]], tmp_path: Path) -> None:
        assert check("9.0;12.0+PTX") == (
            Problem.of(
                "no-device-code",
                origin=f"{tmp_path}/torch-{VERSION}-cp311-cp311-linux_x86_64.whl",
                planned="sm90, sm120, ptx120",
            ),
        )

    def test_some_where_none_was_planned(
        self, check: Callable[..., tuple[Problem, ...]], tmp_path: Path
    ) -> None:
        *_, problem = check(None, (2, 75, 0), (1, 90, 0))
        assert problem == Problem.of(
            "unplanned-device-code/cpu",
            origin=f"{tmp_path}/torch-{VERSION}-cp311-cp311-linux_x86_64.whl",
            found="sm75, ptx90",
            where=LIBRARY,
        )

    def test_other_forms_of_what_was_planned(self, check: Callable[..., tuple[Problem, ...]]) -> None:
        """As in the published 2.14.1: 90a, 100a, 103f, 120a, 121a for single kernels, and 89 beside 86."""
        base = [(2, number, 0) for number in (75, 80, 86, 90, 100, 120)]
        extra = [(2, 90, 0x100000), (2, 100, 0x100000), (2, 103, 0x200000), (2, 121, 0x100000), (2, 89, 0)]
        assert check("7.5;8.0;8.6;9.0;10.0;12.0", *base, *extra) == ()
        (problem,) = check("7.5;8.0;9.0;10.0;12.0", *(entry for entry in base if entry[1] != 86), *extra)
        assert problem.what == f"there is code for sm89, which was not planned: {LIBRARY}"

    def test_a_plain_form_is_not_replaced_by_a_specific_one(
        self, check: Callable[..., tuple[Problem, ...]]
    ) -> None:
        assert [problem.what for problem in check("12.0", (2, 120, 0x100000))] == [
            f"{LIBRARY} lacks code for sm120"
        ]
        assert [problem.what for problem in check("9.0", (2, 90, 0), (2, 120, 0x100000))] == [
            f"there is code for sm120a, which was not planned: {LIBRARY}"
        ]

    def test_code_before_device_linking(self, recipe: Any, samples: Any, tmp_path: Path) -> None:
        """The device runtime brings relocatable code for everything; only linked code and wanted PTX count."""
        linked = samples.fat_binary(samples.Entry(2, 120))
        relocatable = samples.fat_binary(*(samples.Entry(2, n) for n in (75, 90)), samples.Entry(1, 121))
        library = samples.elf({".nv_fatbin": linked, "__nv_relfatbin": relocatable})
        path = recipe(files={LIBRARY: library}).write(tmp_path)
        assert verify(inspect_wheel(path), planned("12.0")) == ()
        assert verify(inspect_wheel(path), planned("12.0;compute_121")) == ()
        assert [problem.what for problem in verify(inspect_wheel(path), planned("9.0;12.0"))] == [
            f"{LIBRARY} lacks code for sm90"
        ]

    def test_each_library_is_asked_by_itself(self, recipe: Any, samples: Any, tmp_path: Path) -> None:
        """Together they have all that was planned; ``inspect --gpu`` says no to both GPUs."""
        files = {
            LIBRARY: samples.library(samples.Entry(2, 80)),
            "torch/lib/libsmall.so": samples.library(samples.Entry(2, 75)),
            "torch/lib/libc10.so": samples.library(),
        }
        path = recipe(files=files).write(tmp_path)
        found = verify(inspect_wheel(path), planned("7.5;8.0"))
        assert [(problem.id, problem.what) for problem in found] == [
            ("missing-device-code", "torch/lib/libsmall.so lacks code for sm80"),
            ("missing-device-code", f"{LIBRARY} lacks code for sm75"),
        ]
        for gpu in ("7.5", "8.0"):
            assert not judge_suitability(inspect(path), NamedGpu(gpu, Architecture.of(gpu))).how.runs

    def test_what_single_kernels_have_is_not_what_the_library_has(
        self, check: Callable[..., tuple[Problem, ...]]
    ) -> None:
        (problem,) = check("7.5;8.0", (2, 75, 0), *[(2, 80, 0)] * 3)
        assert problem.id == "missing-device-code"
        assert "sm75 (in 1 of 3 files), sm80" in problem.why
        assert check("7.5;8.0", (2, 75, 0), *[(2, 80, 0)] * 2) == ()


CUBIN_SM75 = bytes.fromhex("7f454c460201014108000000000000000200be00") + bytes(28) + bytes.fromhex("044b0006")
"""The start of ``nvcc -cubin -arch=sm_75`` of CUDA 13.0."""
PTX = b"//\n// Generated by NVIDIA NVVM Compiler\n//\n\n.version 9.0\n.target sm_90a\n.address_size 64\n"


@pytest.mark.parametrize("name", ["torch/bin/tool", "torch/lib/code.fatbin", "torch/data"])
@pytest.mark.parametrize("kind", ["library", "fat binary", "cubin", "ptx"])
def test_device_code_is_found_by_content(
    kind: str, name: str, recipe: Any, samples: Any, tmp_path: Path
) -> None:
    content, label = {
        "library": (samples.library(samples.Entry(2, 86)), "sm86"),
        "fat binary": (samples.fat_binary(samples.Entry(2, 86)), "sm86"),
        "cubin": (CUBIN_SM75 + bytes(64), "sm75"),
        "ptx": (PTX, "ptx90a"),
    }[kind]
    path = recipe(files={name: content, "torch/a.txt": PTX}).write(tmp_path)
    *_, problem = verify(inspect_wheel(path), planned(None))
    assert (problem.id, f"{label}: {name}" in problem.what) == ("unplanned-device-code", True)


@pytest.mark.parametrize(
    ("found", "planned", "documented"),
    [
        ("8.9", ["8.6"], True),
        ("8.9", ["8.0", "8.6"], True),
        ("8.9", ["8.0"], False),
        ("8.6", ["8.9"], False),
        ("9.0a", ["9.0"], True),
        ("10.3f", ["10.0"], True),
        ("12.1a", ["12.0"], True),
        ("12.0a", ["9.0"], False),
        ("12.1", ["12.0"], False),
    ],
)
def test_is_documented_extra(found: str, planned: list[str], documented: bool) -> None:
    architectures = [Architecture.from_dotted(text) for text in [found, *planned]]
    code, *wanted = [architecture for architecture in architectures if architecture is not None]
    assert is_documented_extra(code, wanted) is documented


def test_a_wheel_without_what_the_plan_says_is_inside(recipe: Any, samples: Any, tmp_path: Path) -> None:
    """``wheel.exclude = ["**"]`` leaves nothing but the metadata."""
    nothing = {"torch/__init__.py": None, "torch/version.py": None}
    for files, lacking in (
        (nothing, "the package torch and any library or extension module"),
        ({}, "any library or extension module"),
        ({**nothing, "torch/_C.so": samples.library()}, "the package torch"),
    ):
        found = verify(inspect_wheel(recipe(files=files).write(tmp_path)), planned(None))
        assert [(p.id, p.what) for p in found] == [("wheel-empty", f"the wheel lacks {lacking}")]
