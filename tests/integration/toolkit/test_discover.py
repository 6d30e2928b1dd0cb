"""Where toolkits are looked for, in which order, and that each is found once.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchwheel.toolkit.discover import discover_toolkits, nvcc_version


@pytest.mark.nvcc
def test_the_toolkit_of_this_machine() -> None:
    toolkits = discover_toolkits(os.environ)
    if not toolkits:
        pytest.skip("there is no CUDA toolkit on this machine")
    for toolkit in toolkits:
        assert toolkit.nvcc is not None
        assert nvcc_version(toolkit.nvcc).startswith(f"{toolkit.version}.")
        assert (Path(toolkit.include_dirs[0]) / "cuda_runtime.h").is_file()
        assert toolkit.library_dir is not None
        assert any(Path(toolkit.library_dir).glob("*cudart*"))


@pytest.mark.nvcc
def test_the_catalogue_agrees_with_the_compiler_of_this_machine() -> None:
    import re
    import subprocess

    from torchwheel.toolkit.cuda_releases import read_toolkits

    here = discover_toolkits(os.environ)
    if not here:
        pytest.skip("there is no CUDA toolkit on this machine")
    release = read_toolkits().release(here[0].version)
    assert release is not None
    text = subprocess.run([str(here[0].nvcc), "--help"], capture_output=True, text=True, check=True).stdout
    allowed = text.partition("--gpu-code <code>")[2].partition("--generate-code")[0]
    listed = set(re.findall(r"'(sm_\d+[af]?)'", allowed))
    assert listed == {architecture.sm for architecture in release.architectures}
    limits = (Path(here[0].include_dirs[0]) / "crt/host_config.h").read_text(encoding="utf-8")
    assert f"gcc versions later than {release.gcc_max} are not supported" in limits
    assert f"clang version must be less than {release.clang_max + 1} " in limits
    least, greatest = release.msvc_range
    assert f"_MSC_VER < {least} || _MSC_VER >= {greatest + 1}" in limits
