"""What is read of this machine for a project's extensions: PyTorch's architectures, and a compiler cache."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from extension.torch_releases import add_torch_files
from extension.torch_trees import CUDA_LIBRARIES, PLAIN, PTX, SASS, TorchTree, install, libtorch_cuda
from toolkit.trees import linux_installation
from torchwheel.extension.extension_plan import Extension, ExtensionInputs
from torchwheel.extension.extension_survey import plan_extensions, read_extension_project
from torchwheel.extension.planning import make_extension_plan
from torchwheel.extension.wheel_record import record_of
from torchwheel.hardware.arch import parse_architectures
from torchwheel.reporting.errors import Severity
from torchwheel.survey import BuildRequest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux")

KERNEL = Extension(name="k", sources=("k.cu",))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a kernel, beside a PyTorch for CUDA 13.0 whose kernels are for 9.0 and 12.0."""
    code = libtorch_cuda(
        (SASS, 90, PLAIN, 4), (SASS, 120, PLAIN, 4), (PTX, 120, PLAIN, 3), (SASS, 75, PLAIN, 1)
    )
    site = tmp_path / "site-packages"
    install(site, TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES, code=code))
    monkeypatch.syspath_prepend(str(site))
    linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "k.cu").touch()
    return folder


def read(project: Path, *, path: str = "", **variables: str) -> ExtensionInputs:
    environment = {
        "PATH": path,
        "TORCHWHEEL_CUDA_PATH": str(project.parent / "cuda"),
        "TORCHWHEEL_CACHE_DIR": str(project.parent / "cache"),
    }
    request = BuildRequest(project, {}, {**environment, **variables})
    return plan_extensions(read_extension_project(request), [KERNEL]).inputs


def test_without_a_target_the_architectures_are_those_of_pytorchs_kernels(project: Path) -> None:
    inputs = read(project)
    assert inputs.torch_architectures == parse_architectures("9.0;12.0+PTX")
    assert make_extension_plan(inputs).architectures == parse_architectures("9.0;12.0+PTX")


def test_what_pytorchs_own_build_reads_is_not_for_the_projects(project: Path) -> None:
    """Jobs that build PyTorch and then its extensions have it: the kernels were called 2.14.1+cu118."""
    own_version = {"PYTORCH_BUILD_VERSION": "2.14.1+cu118", "PYTORCH_BUILD_NUMBER": "2"}
    build_type = {"DEBUG": "1", "REL_WITH_DEB_INFO": "1", "CMAKE_BUILD_TYPE": "Debug"}
    build_type["CMAKE_ARGS"] = "-DCMAKE_BUILD_TYPE=Debug"
    inputs = read(project, **own_version, **build_type)
    assert inputs.project.settings.build_type == read(project).project.settings.build_type
    record = record_of(make_extension_plan(inputs))
    assert (record.version, record.label) == (None, None)
    own = read(project, TORCHWHEEL_PACKAGE_VERSION="1.5", TORCHWHEEL_LOCAL_VERSION="mine")
    record = record_of(make_extension_plan(own))
    assert (record.version, record.label) == ("1.5", "mine")


def test_kernels_that_are_left_out_as_a_skipped_check_lets_pass_are_in_the_plan(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = project.parent / "cpu"
    install(site, TorchTree(version="2.14.1+cpu"))
    monkeypatch.syspath_prepend(str(site))
    (project / "k.cpp").touch()
    environment = {"PATH": "", "TORCHWHEEL_CACHE_DIR": str(project.parent / "cache")}
    config = {"target": "rtx5070", "skip-check": "torch-without-cuda"}
    read_project = read_extension_project(BuildRequest(project, config, environment))
    plan = plan_extensions(read_project, [Extension(name="k", sources=("k.cpp",))])
    (finding,) = [one for one in plan.findings if one.id == "torch-without-cuda"]
    assert (finding.severity, finding.problem.what) == (
        Severity.ERROR,
        "the target is rtx5070, but the installed PyTorch 2.14.1+cpu is built without CUDA, so the project's CUDA "
        "sources would be left out",
    )


def test_a_cuda_extension_for_the_cpu_takes_no_toolkit(project: Path) -> None:
    """It was labelled for CUDA, and a toolkit was installed for it."""
    request = BuildRequest(project, {"target": "cpu"}, {"PATH": "/usr/bin:/bin"})
    extension = Extension(name="k", sources=("k.cpp",), cuda=True)
    plan = plan_extensions(read_extension_project(request), [extension])
    assert (plan.inputs.selection, record_of(plan).local_version) == (None, "cpu.torch2.14")


def test_with_a_target_pytorchs_device_code_is_not_looked_at(project: Path) -> None:
    inputs = read(project, TORCHWHEEL_ARCH="8.0")
    assert inputs.torch_architectures is None
    assert make_extension_plan(inputs).architectures == parse_architectures("8.0")


@pytest.mark.parametrize(
    ("programs", "variables", "expected"),
    [
        (("sccache", "ccache"), {}, "ccache"),
        (("sccache",), {}, "sccache"),
        ((), {}, None),
        (("ccache",), {"TORCH_NO_COMPILER_WRAPPER": "1"}, None),
        (("ccache",), {"TORCH_NO_COMPILER_WRAPPER": "0"}, "ccache"),
        (("ccache", "sccache"), {"TORCHWHEEL_COMPILER_CACHE": "sccache"}, "sccache"),
        (("ccache", "sccache"), {"TORCHWHEEL_COMPILER_CACHE": "none"}, None),
        (("sccache",), {"TORCHWHEEL_COMPILER_CACHE": "ccache"}, None),
    ],
)
def test_the_compiler_cache(
    project: Path, tmp_path: Path, programs: tuple[str, ...], variables: dict[str, str], expected: str | None
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in programs:
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    inputs = read(project, path=str(folder), **variables)
    # By its name: the command is the same one where it lies elsewhere.
    assert (inputs.launcher, inputs.compiler_cache) == ((expected,) if expected else (), expected)


@pytest.mark.parametrize(
    ("source", "broken", "asked"), [("k.cpp", "g++", True), ("k.cpp", "gcc", False), ("k.c", "gcc", False)]
)
def test_compilers_that_are_needed_are_asked(
    project: Path, tmp_path: Path, source: str, broken: str, asked: bool
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gcc", "g++"):
        answer = "exit 3" if name == broken else "echo 12.2.0"
        (folder / name).write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    request = BuildRequest(project, {}, {"PATH": str(folder)})
    inputs = plan_extensions(read_extension_project(request), [Extension(name="k", sources=(source,))]).inputs
    program = folder / broken
    reason = f"{program} ended with status 3, and prints nothing"
    assert inputs.unanswered == ({str(program): reason} if asked else {})


def test_a_sources_own_architectures_choose_the_toolkit_too(project: Path) -> None:
    request = BuildRequest(
        project, {"target": "rtx5070", "cuda-path": str(project.parent / "cuda")}, {"PATH": ""}
    )
    own = replace(KERNEL, source_architectures={"k.cu": parse_architectures("7.0")})
    for extension, expected in ((KERNEL, []), (own, ["toolkit-lacks-architecture"])):
        selection = plan_extensions(read_extension_project(request), [extension]).inputs.selection
        assert selection is not None
        assert [finding.id for finding in selection.findings] == expected


@pytest.mark.parametrize(
    ("variables", "name"), [({"CC": "gcc-12"}, "gcc-12"), ({"CC": "gcc-12", "CXX": "g++"}, None), ({}, None)]
)
def test_nvccs_host_compiler(project: Path, variables: dict[str, str], name: str | None) -> None:
    programs = project.parent / "programs"
    programs.mkdir()
    for program in ("gcc", "gcc-12", "g++"):
        (programs / program).write_text("#!/bin/sh\necho 12.2.0\n", encoding="utf-8")
        (programs / program).chmod(0o755)
    host = read(project, path=f"{programs}:/bin:/usr/bin", **variables).cuda_host
    assert (host and (Path(host.path).name, host.version)) == (name and (name, "12.2.0"))


@pytest.mark.parametrize(
    ("given", "expected"), [("Hopper", "9.0+PTX"), ("Turing Blackwell+Tegra", "7.5+PTX;11.0"), ("9.0", "9.0")]
)
def test_a_family_is_what_the_installed_pytorch_takes_it_for(
    project: Path, given: str, expected: str
) -> None:
    add_torch_files(project.parent / "site-packages/torch")
    assert str(read(project, TORCH_CUDA_ARCH_LIST=given).project.settings.arch) == expected
