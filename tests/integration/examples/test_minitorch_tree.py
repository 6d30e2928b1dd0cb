"""examples/minitorch is as PyTorch where torchwheel's other tests, which build it, would not notice a difference."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from backend.builds import check, clean_environment, make_tree, run
from places import MINITORCH


def test_version_precedence(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(MINITORCH / "tools" / "generate_torch_version.py", tools)
    (tmp_path / "version.txt").write_text("2.14.1a0\n", encoding="utf-8")

    def version_of(**variables: str) -> str:
        code = "import generate_torch_version as g; print(g.get_torch_version())"
        result = run(sys.executable, "-c", code, cwd=tools, env=clean_environment(tmp_path, **variables))
        return (result.stdout + result.stderr).strip()

    assert version_of() == "2.14.1a0"

    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    check("git", "init", "-q", cwd=tmp_path, env=clean_environment(tmp_path))
    check(*git, "commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path, env=clean_environment(tmp_path))
    sha = check("git", "rev-parse", "HEAD", cwd=tmp_path, env=clean_environment(tmp_path))
    assert version_of() == f"2.14.1a0+git{sha[:7]}"

    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: torch\nVersion: 2.14.0\n", "utf-8")
    assert version_of() == "2.14.0"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1", PYTORCH_BUILD_NUMBER="1") == "2.14.1"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1+cpu", PYTORCH_BUILD_NUMBER="2") == "2.14.1+cpu.post2"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1") == (
        "PYTORCH_BUILD_VERSION needs PYTORCH_BUILD_NUMBER beside it; set it to 1"
    )


def read_cache(build: Path) -> dict[str, str]:
    """The entries of a CMakeCache.txt; plain ones only, as these tests use no others."""
    lines = (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    matches = (re.match(r"([A-Za-z_]\w*):\w+=(.*)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def configure(tree: Path, *defines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """CMake alone, with nothing on that costs time."""
    environment = clean_environment(tree, USE_OPENMP="0", USE_NUMPY="0", **variables)
    command = ("cmake", "-S", tree, "-B", tree / "build", "-GNinja", f"-DPython_EXECUTABLE={sys.executable}")
    return run(*command, *defines, cwd=tree, env=environment)


def test_environment_forwarding(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "trëe with spaces")
    awkward = 'a;b "c" ]=] $x \\ é ]'
    defines = ("-DUSE_FBGEMM=OFF", "-DATEN_THREADING=OMP", "-DBUILD_TEST=OFF")
    first = configure(
        tree,
        *defines,
        USE_CUDA="0",
        USE_FBGEMM="ON",
        USE_AWKWARD=awkward,
        ATEN_THREADING="NATIVE",
        BLAS="MKL",
        CUDNN_LIB_DIR="/cudnn/lib",
        CUDAHOSTCXX="g++-12",
        CUDA_HOST_COMPILER="g++-13",
        RUN_EXITCODE="0",
        OTHER="x",
    )
    assert first.returncode == 0, first.stderr
    cache = read_cache(tree / "build")
    expected = {
        "ATEN_THREADING": "OMP",
        "BLAS": "MKL",
        "BUILD_TEST": "OFF",
        "CMAKE_CUDA_HOST_COMPILER": "g++-13",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDNN_LIBRARY": "/cudnn/lib",
        "RUN_EXITCODE": "0",
        "USE_AWKWARD": awkward,
        "USE_CUDA": "0",
        "USE_FBGEMM": "ON",
    }
    assert {name: cache.get(name) for name in [*expected, "OTHER"]} == expected | {"OTHER": None}

    # Now there is a cache: the environment still decides about USE_*, but no longer about BLAS.
    second = configure(tree, USE_CUDA="0", USE_FBGEMM="OFF", BLAS="OpenBLAS")
    assert second.returncode == 0, second.stderr
    cache = read_cache(tree / "build")
    assert (cache["USE_FBGEMM"], cache["BLAS"]) == ("OFF", "MKL")


def test_setup_py_makes_defines_of_the_environment(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")
    code = (
        "import json; from tools.setup_helpers.cmake import build_options; "
        "print(json.dumps(build_options({variables!r}, '2.13.0')))"
    )

    def options(**variables: str) -> subprocess.CompletedProcess[str]:
        text = code.format(variables=variables)
        return run(sys.executable, "-c", text, cwd=tree, env=clean_environment(tmp_path))

    given = {
        "BLAS": "MKL",
        "BUILD_TEST": "0",
        "CMAKE_PREFIX_PATH": "/opt/x",
        "CUDACXX": "/low/nvcc",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDA_NVCC_EXECUTABLE": "/high/nvcc",
        "CUDNN_LIB_DIR": "/cudnn/lib",
        "OTHER": "x",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "USE_CUDA": "1",
    }
    assert json.loads(options(**given).stdout) == {
        "BLAS": "MKL",
        "BUILD_PYTHON": "ON",
        "BUILD_TEST": "OFF",
        "CMAKE_CUDA_HOST_COMPILER": "g++-13",
        "CMAKE_INSTALL_PREFIX": str(tree / "torch"),
        "CMAKE_PREFIX_PATH": sysconfig.get_path("purelib") + ";/opt/x",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDA_NVCC_EXECUTABLE": "/high/nvcc",
        "CUDNN_LIBRARY": "/cudnn/lib",
        "Python_EXECUTABLE": sys.executable,
        "TORCH_BUILD_VERSION": "2.13.0",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "USE_CUDA": "1",
        "USE_NUMPY": "ON",
    }
    refused = options(CMAKE_INSTALL_PREFIX="/usr")
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        1,
        "",
        "CMAKE_INSTALL_PREFIX should not be set in the environment: setup.py installs into torch/\n",
    )
