"""Which programs a build starts: a path is one word, whatever is in it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from places import MINITORCH
from preflight.contexts import context, toolkit
from torchwheel.plan.make import make_plan
from torchwheel.preflight.facts import CUDA_COMPILERS, CUDA_HOST_COMPILERS, cuda_programs
from torchwheel.preflight.this_machine import read_facts
from torchwheel.survey import BuildRequest, survey
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit

WINDOWS_ROOT = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.0"
WINDOWS_NVCC = rf"{WINDOWS_ROOT}\bin\nvcc.exe"
NAMES = (*CUDA_COMPILERS, *CUDA_HOST_COMPILERS)


def programs(platform: str, root: str, **environment: str) -> dict[str, str]:
    """What a plan for a toolkit asks of programs that variables name: variable or option -> program."""
    installed = toolkit(toolkit=assumed_toolkit("13.0", platform, root))
    made = context({}, platform=platform, toolkits=(installed,), environment=environment)
    return {decided.name: program for decided, program in cuda_programs(made.plan, NAMES)}


@pytest.mark.parametrize(
    ("platform", "root"), [("linux_x86_64", "/home/me/my cuda/13.0"), ("win_amd64", WINDOWS_ROOT)]
)
def test_the_toolkits_own_nvcc_is_no_command_line(platform: str, root: str) -> None:
    assert programs(platform, root) == {}


def test_a_path_of_windows_is_one_program() -> None:
    other = WINDOWS_NVCC.replace("v13.0", "v12.9")
    asked = programs("win_amd64", WINDOWS_ROOT, CUDACXX=other, CUDAHOSTCXX=r"C:\VC 2022\cl.exe")
    assert set(asked.values()) == {other, r"C:\VC 2022\cl.exe"}


def test_a_command_line_of_windows_keeps_its_backslashes() -> None:
    asked = programs("win_amd64", WINDOWS_ROOT, CUDACXX=f'"{WINDOWS_NVCC}" -O3')
    assert asked == {"CUDACXX": WINDOWS_NVCC}


@pytest.mark.skipif(sys.platform == "win32", reason="an executable file of POSIX")
def test_what_a_user_names_is_a_path_where_a_file_is_there(tmp_path: Path) -> None:
    wrapper = tmp_path / "my wrappers" / "nvcc"
    absent = programs("linux_x86_64", "/usr/local/cuda-13.0", CUDACXX=str(wrapper))
    assert set(absent.values()) == {str(wrapper).split()[0]}
    wrapper.parent.mkdir()
    wrapper.touch(0o755)
    there = programs(
        "linux_x86_64", "/usr/local/cuda-13.0", CUDACXX=str(wrapper), NVCC_CCBIN=f"{wrapper} -m64"
    )
    assert set(there.values()) == {str(wrapper), str(wrapper).split()[0]}


def test_a_folder_that_a_removed_toolkit_left_is_not_examined(tmp_path: Path) -> None:
    (tmp_path / "cuda-13.0" / "bin").mkdir(parents=True)
    asked = BuildRequest(
        MINITORCH, {"target": "rtx5070", "cuda-from": "system"}, {"PATH": os.environ["PATH"]}
    )
    left = assumed_toolkit("13.0", "linux_x86_64", tmp_path / "cuda-13.0")
    plan = replace(make_plan(survey(asked)), toolkit=left)
    assert read_facts({"PATH": os.environ["PATH"]}, plan).toolkits == ()


def test_an_assumed_toolkit_is_not_asked() -> None:
    made = context({"cuda-from": "system"}, toolkits=())
    assert [finding.id for finding in made.plan.findings] == ["no-cuda-toolkit"]
    assert made.plan.toolkit is not None
    assert list(cuda_programs(made.plan, NAMES)) == []
