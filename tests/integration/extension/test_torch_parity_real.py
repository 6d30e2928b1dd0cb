"""An extension is compiled with the flags of torch.utils.cpp_extension, but for the differences that are listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from extension.torch_build import own_commands, torch_commands
from torchwheel.extension.compile import flags as compile_flags
from torchwheel.system.toml import read_toml

pytestmark = pytest.mark.torch


def _words(command: tuple[str, ...], environment: Path) -> set[str]:
    """The flags of a command that shape its code: without folders, file names and what ninja needs."""
    text = " ".join(command)
    # torch.utils.cpp_extension does not quote a blank in the path of the environment.
    for blank in (" ", "\\ ", "$ "):
        text = text.replace(str(environment).replace(" ", blank), "/environment")
    text = re.sub(r"(?:-isystem |-I)\S+|-MMD|-MF \S+|-c(?: source/\S+)?(?= |$)|-o \S+", "", text)
    text = text.replace("--compiler-options '-fPIC'", "-Xcompiler=-fPIC")
    text = re.sub(r"--threads=\d+", "--threads=", text)
    return set(re.sub(r"-ccbin=\S+", "-ccbin=c++", text).split())


def _listed(compiler: str) -> tuple[set[str], set[str]]:
    """What only torchwheel passes, and what only torch.utils.cpp_extension passes."""
    table = read_toml(Path(compile_flags.__file__).with_name("compile_flags.toml"))["difference"]
    own = [one for one in table if one["compiler"] == compiler]
    return {one["flag"] for one in own if "without" not in one}, {
        one["flag"] for one in own if "without" in one
    }


@pytest.mark.parametrize(
    ("flags", "arch"),
    [
        ({"cxx": ["-O3"], "nvcc": []}, {"TORCH_CUDA_ARCH_LIST": "8.0;9.0a+PTX"}),
        ({"cxx": ["-O3"], "nvcc": []}, {"TORCH_CUDA_ARCH_LIST": "Ada Hopper"}),
        ({"cxx": ["-O3"], "nvcc": []}, {"TORCH_CUDA_ARCH_LIST": "Blackwell;Turing"}),
        (
            {"cxx": ["-O3"], "nvcc": ["-gencode", "arch=compute_90a,code=sm_90a", "-std=c++20"]},
            {"TORCH_CUDA_ARCH_LIST": "8.0"},
        ),
    ],
)
def test_flags_are_those_of_torchs_own_build_extension(
    cuda_torch_python: str, tmp_path: Path, flags: Mapping[str, list[str]], arch: Mapping[str, str]
) -> None:
    theirs = torch_commands(cuda_torch_python, tmp_path / "torch", flags, arch)
    own = own_commands(cuda_torch_python, tmp_path / "own", flags, arch)
    environment = Path(cuda_torch_python).parents[1]
    for compiler, mine, other in (("nvcc", own.nvcc, theirs.nvcc), ("gnu", own.cxx, theirs.cxx)):
        more, less = _listed(compiler)
        # Two words of torch's are one of torchwheel's.
        expected = {word for word in _words(other, environment) if word != "-gencode"}
        expected = {f"-gencode={word}" if word.startswith("arch=") else word for word in expected}
        found = _words(mine, environment)
        assert found - expected <= more, compiler
        assert expected - found <= less, compiler
