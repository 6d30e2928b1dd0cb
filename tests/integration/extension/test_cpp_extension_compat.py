"""CUDA_HOME and its kin, as a setup.py imports them beside the extension classes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extension.projects import CPU, CUDA, Built
from extension.torch_trees import TorchTree
from toolkit.site_packages import site_packages
from toolkit.trees import linux_installation

PROGRAM = """
import json
import torchwheel as tw
from torchwheel import CUDA_HOME, HIP_HOME, IS_HIP_EXTENSION, ROCM_HOME, include_paths, library_paths
print(json.dumps([{values}]))
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux")


class SetupPy(Built):
    """A setup.py that is run in a folder of its own, with the PyTorch and the variables of a test."""

    def __init__(self, folder: Path, torch: TorchTree = CUDA) -> None:
        super().__init__(folder, "setup.py", torch, "ein Projekt")
        (self.project / "setup.py").unlink()
        self.torch = self.packages / "torch"

    def ask(self, values: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", PROGRAM.format(values=values), **variables)

    def values(self, values: str, **variables: str) -> Any:
        """What these expressions are in it."""
        done = self.ask(values, **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def setup_py(tmp_path: Path) -> SetupPy:
    return SetupPy(tmp_path)


@linux
def test_a_toolkit_that_is_named(setup_py: SetupPy, tmp_path: Path) -> None:
    torch = setup_py.torch
    toolkit = linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    values = "CUDA_HOME, include_paths('cuda'), library_paths('cuda'), include_paths('cuda', False)"
    assert setup_py.values(values, TORCHWHEEL_CUDA_PATH=str(toolkit)) == [
        str(toolkit),
        [*(str(torch / "include"), str(torch / "include/torch/csrc/api/include")), str(toolkit / "include")],
        [str(torch / "lib"), str(toolkit / "lib64")],
        [str(toolkit / "include")],
    ]


@linux
def test_a_toolkit_of_packages_is_ready_for_use(setup_py: SetupPy, tmp_path: Path) -> None:
    """Projects run ``CUDA_HOME/bin/nvcc -V`` in their setup.py."""
    site_packages(setup_py.packages)
    (home,) = setup_py.values("CUDA_HOME", TORCHWHEEL_CUDA_FROM="pypi")
    assert Path(home).parent == tmp_path / "cache" / "toolkits"
    assert os.access(Path(home, "bin/nvcc"), os.X_OK)


def test_no_toolkit_fits(setup_py: SetupPy) -> None:
    assert setup_py.values("CUDA_HOME", TORCHWHEEL_CUDA="==9.2") == [None]


@pytest.mark.parametrize("request_", ["include_paths('cuda')", "tw.CUDAExtension('k', ['k.cpp'])"])
def test_a_setup_py_that_asks_for_cuda_is_told_why_there_is_none(setup_py: SetupPy, request_: str) -> None:
    done = setup_py.ask(request_, TORCHWHEEL_CUDA="==9.2")
    assert done.returncode == 2
    assert re.findall(r"\[([a-z-]+)\]", done.stderr) == ["no-release-fits"]


def test_a_pytorch_without_cuda(tmp_path: Path) -> None:
    setup_py = SetupPy(tmp_path, CPU)
    torch = setup_py.torch
    values = "CUDA_HOME, ROCM_HOME, HIP_HOME, IS_HIP_EXTENSION, include_paths(), library_paths()"
    assert setup_py.values(values) == [
        *(None, None, None, False),
        [str(torch / "include"), str(torch / "include/torch/csrc/api/include")],
        [str(torch / "lib")],
    ]
    for function in ("include_paths", "library_paths"):
        done = setup_py.ask(f"{function}('cuda')")
        assert done.stderr.splitlines()[-1] == (
            "OSError: there is no CUDA toolkit for the installed PyTorch: torchwheel.CUDA_HOME is None"
        )


@linux
def test_names_without_documentation_that_projects_import(setup_py: SetupPy, tmp_path: Path) -> None:
    torch = setup_py.torch
    toolkit = linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    values = (
        "tw.LIB_EXT, tw.IS_WINDOWS, tw.TORCH_LIB_PATH, tw._find_cuda_home(), tw._join_cuda_home('bin', 'nvcc'), "
        "tw._get_cuda_arch_flags(), tw._get_cuda_arch_flags(['-arch=sm_90']), tw._is_cuda_file('a.cu'), "
        "tw.COMMON_NVCC_FLAGS[-1]"
    )
    named = {"TORCHWHEEL_CUDA_PATH": str(toolkit), "TORCHWHEEL_TARGET": "rtx5070"}
    assert setup_py.values(values, **named) == [
        *(".so", False, str(torch / "lib"), str(toolkit), str(toolkit / "bin/nvcc")),
        *(["-gencode=arch=compute_120,code=sm_120"], [], True, "--expt-relaxed-constexpr"),
    ]


def test_what_a_project_assigns_counts_in_torchs_own_functions(setup_py: SetupPy) -> None:
    names = "tw.BuildExtension.finalize_options.__globals__"
    assigned = (
        f"setattr(tw, 'CUDA_HOME', '/own'), {names}['CUDA_HOME'], __import__('os').environ['CUDA_HOME']"
    )
    assert setup_py.values(assigned) == [None, "/own", "/own"]


def test_pytorch_is_not_imported_and_can_be(setup_py: SetupPy) -> None:
    (setup_py.torch / "__init__.py").write_text("print('imported')\nmark = 7\n")
    done = setup_py.ask("tw.CppExtension('a', ['a.cpp']).libraries, tw.BuildExtension.__name__")
    assert "imported" not in done.stdout
    assert setup_py.ask("__import__('torch').mark").stdout == "imported\n[7]\n"
    assert setup_py.ask("tw.IS_LINUX, __import__('torch').mark").stdout == "imported\n[true, 7]\n"
