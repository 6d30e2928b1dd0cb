"""What PyPI has of CUDA, as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.packages import load_packages, not_for_platform, packages, requirements_for
from torchwheel.toolkit.sources import installable

EXTRAS = (
    "nvcc,crt,nvvm,cudart,cccl,cublas,cusparse,cusolver,cufft,curand,nvrtc,nvjitlink,nvtx,nvml,cupti,profiler,"
    "cufile,culibos"
)


@pytest.mark.parametrize("version", ["13.0", "13.0.88"])
def test_the_requirement_for_a_release(version: str) -> None:
    assert requirements_for(version) == (f"cuda-toolkit[{EXTRAS}]==13.0.*",)


@pytest.mark.parametrize("version", ["11.8", "12.9.86"])
def test_older_packages_have_no_nvcc(version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    with pytest.raises(TorchwheelError) as caught:
        requirements_for(version)
    assert str(caught.value) == (
        f"nvcc of CUDA {minor} cannot be installed from PyPI  [no-nvcc-on-pypi]\n"
        f"    why: its packages for CUDA {minor} hold ptxas and headers alone; nvcc is in those of 13.0 and later\n"
        f"    fix: install NVIDIA's CUDA {minor} toolkit (https://developer.nvidia.com/cuda-toolkit-archive) and name "
        "it with -C cuda-path=, or use a PyTorch with CUDA 13.0 or later"
    )


def test_a_release_that_there_is_no_package_of() -> None:
    with pytest.raises(TorchwheelError) as caught:
        requirements_for("11.7")
    (problem,) = caught.value.problems
    assert problem.what == "PyPI has no cuda-toolkit 11.7"
    assert problem.why == "it is known to have nvcc of CUDA 13.0 to 13.4"


def test_what_there_is_for_which_platform() -> None:
    assert installable("linux_x86_64") == ("13.0", "13.1", "13.2", "13.3", "13.4")
    assert installable("linux_aarch64") == installable("win_amd64") == installable("linux_x86_64")
    assert installable("win_arm64") == ("13.4",)
    assert installable("linux_ppc64le") == ()
    problem = not_for_platform("13.0", "win_arm64")
    assert problem.what == "PyPI has no CUDA 13.0 for win_arm64"
    assert problem.why == "there are packages for linux_x86_64, linux_aarch64, win_amd64"


def test_windows_lacks_what_is_for_linux_alone() -> None:
    linux, windows = packages().needed("linux_aarch64"), packages().needed("win_amd64")
    assert linux - windows == {"nvidia-cufile", "nvidia-cuda-culibos"}
    assert packages().needed_to_compile() <= windows


def test_both_catalogues_agree() -> None:
    known = {release.version: release for release in toolkits() if release.pypi}
    assert {release.version: release.nvcc for release in packages().releases} == {
        version: release.pypi_nvcc for version, release in known.items()
    }
    for release in packages().releases:
        if release.nvcc:
            assert set(release.platforms) == set(known[release.version].platforms)


WRONG = """
source = ""
[distributions]
nvcc = "nvidia-cuda-nvcc"
nvvm = "nvidia-nvvm"
[compiler]
extras = ["nvcc", "crt"]
[[release]]
version = "13.0"
extras = ["nvcc"]
nvcc = true
platforms = ["linux_x86_64"]
source = "METADATA"
[[release]]
version = "13.1"
adds = ["nvcc", "nvvm"]
colour = "red"
"""


def test_a_wrong_file_is_refused_with_everything_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "packages.toml"
    path.write_text(WRONG, encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        load_packages(path)
    assert [problem.what for problem in caught.value.problems] == [
        "the file: 'source' must be a str that is not empty, and is ''",
        "release '13.1': unknown key 'colour'",
        "release '13.1': adds what the release before it had: nvcc",
        "release '13.1': 'source' must be a str that is not empty, and is nothing",
        "'crt' has no distribution",
        "release '13.0': has no extra nvvm",
    ]
