"""nvcc's options for architectures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of
from torchwheel.extension.device_code import OwnArchitectures, own_architectures, shared_front_end
from torchwheel.hardware.arch import parse_architectures
from torchwheel.reporting.errors import Problem

NUMBERS = st.lists(
    st.sampled_from(["8.0", "8.6", "9.0", "9.0a", "10.0", "12.0", "12.0+PTX"]), min_size=1, unique=True
)


def _images(flags: tuple[str, ...]) -> set[str]:
    """What nvcc writes for these flags: the names behind ``code=``."""
    codes = (flag.rpartition("code=")[2].strip("[]").split(",") for flag in flags)
    return {code for names in codes for code in names}


@given(NUMBERS)
def test_a_shared_front_end_makes_the_same_images(names: list[str]) -> None:
    architectures = parse_architectures([n for n in names if n != "12.0" or "12.0+PTX" not in names])
    assert _images(shared_front_end(architectures)) == _images(architectures.for_nvcc())


@pytest.mark.parametrize(
    ("flags", "architectures", "others"),
    [
        (["-gencode=arch=compute_80,code=sm_80"], "8.0", ()),
        (["-gencode", "arch=compute_80,code=sm_80", "-O2"], "8.0", ("-O2",)),
        (["--generate-code=arch=compute_90a,code=[sm_90a,compute_90a]"], "9.0a+PTX", ()),
        (["-gencode", 'arch=compute_75,code="compute_75,sm_75"'], "7.5+PTX", ()),
        # The word after a -gencode that a tool left out as a repetition.
        (["arch=compute_90,code=sm_90", "-lineinfo"], "9.0", ("-lineinfo",)),
        (["-arch=sm_86"], "8.6+PTX", ()),
        (["--gpu-architecture", "compute_80", "--gpu-code=sm_80,sm_86"], "8.0;8.6", ()),
        (["-arch=compute_80", "-code=compute_80,sm_80"], "8.0+PTX", ()),
        (["-arch=compute_80"], "compute_80", ()),
        (["-code=sm_80", "-arch=compute_80", "-gencode=arch=compute_90,code=sm_90"], "8.0;9.0", ()),
        (["-arch=compute_90", "-gencode=arch=compute_120,code=sm_120"], "compute_90;12.0", ()),
        (["-DARCH=1", "-march=x", "--no-search"], None, ("-DARCH=1", "-march=x", "--no-search")),
    ],
)
def test_a_projects_own_flags(flags: list[str], architectures: str | None, others: tuple[str, ...]) -> None:
    own = own_architectures(flags, "setup.py")
    expected = None if architectures is None else parse_architectures(architectures)
    assert replace(own, options=()) == OwnArchitectures(
        tuple(f for f in flags if f not in others), others, expected
    )


def test_options_keep_what_each_image_is_compiled_from() -> None:
    flags = [
        "-gencode",
        "arch=compute_80,code=sm_86",
        "-O2",
        "--gpu-architecture",
        "compute_80",
        "-code=sm_80",
    ]
    own = own_architectures(flags, "setup.py")
    assert own.options == (
        "-gencode=arch=compute_80,code=sm_86",
        "--gpu-architecture=compute_80",
        "-code=sm_80",
    )


@pytest.mark.parametrize("flag", ["-arch=native", "-arch=all-major", "-gencode=arch=sm_80"])
def test_a_flag_that_names_no_architecture_is_refused(flag: str) -> None:
    assert error_of(own_architectures, [flag], "setup.py, extension k").render() == (
        Problem.of("unreadable-architecture-flag", origin="setup.py, extension k", flag=flag).render()
    )
