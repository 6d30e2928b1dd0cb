"""PyTorch's own ``load`` and ``load_inline``, with torchwheel's target and cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from answered import answered, own_environment
from put import put_all

pytestmark = pytest.mark.torch

INLINE = """\
import torchwheel
twice = "int twice(int x) { return 2 * x; }"
print(torchwheel.load_inline("inline", twice, functions=["twice"]).twice(21))
"""
LOAD = """\
import torchwheel
given = {"extra_include_paths": ["in clude"], "extra_cflags": ["-O1 -DADDED=1"]}
print(torchwheel.load("own", ["csrc/own.cpp"], **given).answer())
"""
OWN = """\
#include <torch/extension.h>
#include <own.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("answer", [] { return ANSWER + ADDED; }); }
"""
VARIABLES = """\
import os, torchwheel
from torch.utils import cpp_extension
def seen(*args, **kwargs):
    names = ("TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR")
    print(*(os.environ.get(name) for name in names), sep=chr(10))
    print(*cpp_extension._get_cuda_arch_flags())
cpp_extension._jit_compile = seen
torchwheel.load("own", ["own.cu"])
print("TORCH_CUDA_ARCH_LIST" in os.environ)
"""


def run(python: str, folder: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {"TORCHWHEEL_CACHE_DIR": str(folder / "ca che"), "CCACHE_DISABLE": "1"}
    return answered([python, "-c", program], cwd=folder, env=own_environment(**{**own, **variables}))


@pytest.mark.long
def test_in_folders_with_blanks(torch_python: str, tmp_path: Path) -> None:
    project = tmp_path / "ein Projekt"
    put_all(project, {"csrc/own.cpp": OWN, "in clude/own.h": "#define ANSWER 41\n"})
    done = run(torch_python, project, LOAD)
    assert done.stdout == "42\n", done.stderr
    done = run(torch_python, project, INLINE)
    assert done.stdout == "42\n", done.stderr
    assert [path.name for path in (project / "ca che").rglob("*.so")] != []


def test_what_is_wrong_is_a_runtime_error(torch_python: str, tmp_path: Path) -> None:
    (tmp_path / "own.cpp").write_text("#error broken\n")
    program = (
        "import torchwheel\ntry: torchwheel.load('own', ['own.cpp'])\nexcept RuntimeError as e: print(e)\n"
    )
    assert "#error broken" in run(torch_python, tmp_path, program).stdout
    wrong = run(torch_python, tmp_path, program, TORCHWHEEL_TARGET="rtx507")
    assert "rtx5070" in wrong.stdout, wrong.stderr


def test_a_target_is_shown_to_pytorch_alone(cuda_torch_python: str, tmp_path: Path) -> None:
    done = run(cuda_torch_python, tmp_path, VARIABLES, TORCHWHEEL_TARGET="rtx5070,h100")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[-4:]
    assert said[0] == "9.0;12.0"
    assert said[1].startswith(str(tmp_path / "ca che"))
    assert said[2] == "-gencode=arch=compute_120,code=sm_120 -gencode=arch=compute_90,code=sm_90"
    assert said[3] == "False"
