"""CUDA_HOME and its kin, as a setup.py imports them beside the extension classes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extension.compatibility.projects import imported
from extension.torch_trees import CUDA_LIBRARIES, TorchTree, install
from toolkit.site_packages import site_packages
from toolkit.trees import linux_installation

PROGRAM = """
import json
import torchwheel as tw
from torchwheel import CUDA_HOME, HIP_HOME, IS_HIP_EXTENSION, ROCM_HOME, include_paths, library_paths
print(json.dumps([{values}]))
"""
_EVERY_NAME = """
import ast, importlib.util, json, pathlib, torchwheel
package = pathlib.Path(importlib.util.find_spec("torch").origin).parent
there, explained = [], []
for node in ast.parse((package / "utils/cpp_extension.py").read_text()).body:
    named = getattr(node, "targets", [node])
    for name in (getattr(one, "id", getattr(one, "name", None)) for one in named):
        if name and not name.startswith("__"):
            try:
                getattr(torchwheel, name)
                there.append(name)
            except ImportError:
                explained.append(name)
print(json.dumps([there, explained]))
"""
CUDA_TORCH = TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux")


class SetupPy:
    """A setup.py that is run in a folder of its own, with the PyTorch and the variables of a test."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "site-packages"
        self.packages.mkdir()
        self.project = folder / "ein Projekt"
        self.project.mkdir()
        self.cache = folder / "cache"

    def run(self, values: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        environment = {
            name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ
        }
        environment |= {
            "PYTHONPATH": str(self.packages),
            "TORCHWHEEL_CACHE_DIR": str(self.cache),
            "COLUMNS": "10000",
        }
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.format(values=values)],
            cwd=self.project,
            env={**environment, **variables},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def values(self, values: str, **variables: str) -> Any:
        """What these expressions are in it."""
        done = self.run(values, **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def setup_py(tmp_path: Path) -> SetupPy:
    return SetupPy(tmp_path)


@linux
def test_a_toolkit_that_is_named(setup_py: SetupPy, tmp_path: Path) -> None:
    torch = install(setup_py.packages, CUDA_TORCH)
    toolkit = linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    values = "CUDA_HOME, include_paths('cuda'), library_paths('cuda'), include_paths('cuda', False)"
    assert setup_py.values(values, TORCHWHEEL_CUDA_PATH=str(toolkit)) == [
        str(toolkit),
        [
            *(str(torch / "include"), str(torch / "include/torch/csrc/api/include")),
            *(str(toolkit / "include"), str(toolkit / "include/cccl")),
        ],
        [str(torch / "lib"), str(toolkit / "lib64")],
        [str(toolkit / "include"), str(toolkit / "include/cccl")],
    ]


@linux
def test_a_toolkit_of_packages_is_ready_for_use(setup_py: SetupPy) -> None:
    """Projects run ``CUDA_HOME/bin/nvcc -V`` in their setup.py."""
    install(setup_py.packages, CUDA_TORCH)
    site_packages(setup_py.packages)
    (home,) = setup_py.values("CUDA_HOME", TORCHWHEEL_CUDA_FROM="pypi")
    assert Path(home).parent == setup_py.cache / "toolkits"
    assert os.access(Path(home, "bin/nvcc"), os.X_OK)


def test_packages_that_are_not_installed_yet(setup_py: SetupPy) -> None:
    install(setup_py.packages, CUDA_TORCH)
    assert setup_py.values("CUDA_HOME", TORCHWHEEL_CUDA_FROM="pypi") == [None]


def test_no_toolkit_fits(setup_py: SetupPy) -> None:
    install(setup_py.packages, CUDA_TORCH)
    assert setup_py.values("CUDA_HOME", TORCHWHEEL_CUDA="==9.2") == [None]


def test_a_pytorch_without_cuda(setup_py: SetupPy) -> None:
    torch = install(setup_py.packages)
    values = "CUDA_HOME, ROCM_HOME, HIP_HOME, IS_HIP_EXTENSION, include_paths(), library_paths()"
    assert setup_py.values(values) == [
        *(None, None, None, False),
        [str(torch / "include"), str(torch / "include/torch/csrc/api/include")],
        [str(torch / "lib")],
    ]
    for function in ("include_paths", "library_paths"):
        done = setup_py.run(f"{function}('cuda')")
        assert done.stderr.splitlines()[-1] == (
            "OSError: there is no CUDA toolkit for the installed PyTorch: torchwheel.CUDA_HOME is None"
        )


def test_without_pytorch_it_is_reported_without_a_traceback(setup_py: SetupPy) -> None:
    done = setup_py.run("CUDA_HOME")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "[torch-not-installed]" in done.stderr


def test_wrong_settings_are_reported_without_a_traceback(setup_py: SetupPy) -> None:
    install(setup_py.packages, CUDA_TORCH)
    done = setup_py.run("CUDA_HOME", TORCHWHEEL_TARGET="rtx5007")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "rtx5007" in done.stderr


@linux
def test_names_without_documentation_that_projects_import(setup_py: SetupPy, tmp_path: Path) -> None:
    torch = install(setup_py.packages, CUDA_TORCH)
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


def test_a_name_that_torchwheel_does_not_have(setup_py: SetupPy) -> None:
    """One of torch.utils.cpp_extension is explained, any other is missing as from any module."""
    torch = install(setup_py.packages, CUDA_TORCH)
    (torch / "utils").mkdir()
    (torch / "utils/cpp_extension.py").write_text("def _write_ninja_file(path):\n    ...\n", "utf-8")
    explained = setup_py.run("__import__('torchwheel')._write_ninja_file").stderr
    assert "ImportError" in explained
    assert "[not-in-torchwheel]" in explained
    assert setup_py.values("hasattr(tw, '_write_ninja')") == [False]


@pytest.mark.torch
@pytest.mark.parametrize("python", ["torch_python", "cuda_torch_python"])
def test_every_name_of_torchs_own_is_there_or_explained(
    python: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    interpreter = request.getfixturevalue(python)
    done = subprocess.run([interpreter, "-c", _EVERY_NAME], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    there, explained = json.loads(done.stdout)
    assert {"BuildExtension", "CUDAExtension", "CUDA_HOME", "LIB_EXT", "IS_WINDOWS"} <= set(there)
    # gsplat's own loader, and Intel's GPUs.
    assert {name for name in explained if name in imported()} <= {
        "SyclExtension",
        "_check_and_build_extension_h_precompiler_headers",
        "_import_module_from_library",
        "_jit_compile",
    }
