"""What PyPI has of CUDA, as data."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import torchwheel.toolkit
from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.pypi import not_for_platform, packages, requirements_for

DATA = read_toml(Path(torchwheel.toolkit.__path__[0], "packages.toml"))
SCHEMA = json.loads(Path(__file__).with_name("packages.schema.json").read_text(encoding="utf-8"))

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
    assert packages().with_nvcc("linux_x86_64") == ("13.0", "13.1", "13.2", "13.3", "13.4")
    assert (
        packages().with_nvcc("linux_aarch64")
        == packages().with_nvcc("win_amd64")
        == packages().with_nvcc("linux_x86_64")
    )
    assert packages().with_nvcc("win_arm64") == ("13.4",)
    assert packages().with_nvcc("linux_ppc64le") == ()
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


def test_the_file_is_as_its_schema_says() -> None:
    jsonschema.validate(DATA, SCHEMA)


def test_no_release_adds_what_the_one_before_it_had() -> None:
    extras: set[str] = set()
    for row in DATA["release"]:
        assert not extras.intersection(row.get("adds", [])), row
        extras = set(row["extras"]) if "extras" in row else extras.union(row.get("adds", []))


def test_every_extra_that_is_needed_has_a_distribution_and_is_in_every_release_with_nvcc() -> None:
    known = packages().distributions.keys()
    assert {*packages().compiler, *packages().linux_only} <= known
    assert all(known <= release.extras for release in packages().releases if release.nvcc)


@pytest.mark.parametrize(
    "wrong", [{"colour": "red"}, {"source": ""}, {"nvcc": "yes"}, {"version": "13"}, {"platforms": []}]
)
def test_the_schema_refuses_a_wrong_release(wrong: dict[str, object]) -> None:
    row = {"version": "13.9", "source": "METADATA", **wrong}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DATA, "release": [*DATA["release"], row]}, SCHEMA)
