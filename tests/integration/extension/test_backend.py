"""The backend's hooks where no PyTorch is needed: what kind of project it is, labels, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extension.projects import CMAKE, CPU, CUDA, PROJECT, SETUP_PY, TABLE, Built
from extension.torch_trees import TorchTree
from put import append
from refusals import error_of, ids_of, origins_of
from torchwheel.engine.process import ProcessFailed
from torchwheel.extension import backend, extension_build, inner_backend
from torchwheel.extension.extension_project import HookRequest, ProjectKind, project_kind, read_hook_request
from torchwheel.extension.handover import as_variable
from torchwheel.extension.wheel_record import labelled_version
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.messages import settings_written_as
from torchwheel.settings.project import read_project
from torchwheel.survey import BuildRequest

RTX5070 = {"TORCHWHEEL_TARGET": "rtx5070"}


def described(folder: Path, way: str, torch: TorchTree | None = None) -> Built:
    return Built(folder, way, torch, "projekt é")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return described(tmp_path, "tables").project


def kind_of(project: Path) -> ProjectKind:
    return project_kind(read_project(project))


def asked_of(project: Path, given: dict[str, Any]) -> HookRequest:
    return read_hook_request(BuildRequest(project, given, {}))


def test_tables_before_cmake_before_setup_py(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("", encoding="utf-8")
    assert kind_of(tmp_path) is ProjectKind.SETUP_PY
    (tmp_path / "CMakeLists.txt").write_text("", encoding="utf-8")
    assert kind_of(tmp_path) is ProjectKind.CMAKE
    (tmp_path / "pyproject.toml").write_text(PROJECT + TABLE, encoding="utf-8")
    assert kind_of(tmp_path) is ProjectKind.TABLES


def test_tables_without_a_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    assert [(p.id, p.remedy, p.origin) for p in error_of(kind_of, tmp_path).problems] == [
        (
            "no-project-metadata",
            'add a table [project] with name = "package" and version = "1.0"',
            "pyproject.toml",
        )
    ]


def test_settings_are_told_apart(tmp_path: Path) -> None:
    given = {
        "target": "rtx5070",
        "cmake.define.OWN": "1",
        "skbuild.cmake.define.MORE": "a;b",
        "wheel.packages": ["pkg"],
        "skbuild.editable.mode": "inplace",
    }
    asked = asked_of(described(tmp_path, "CMake").project, given)
    assert asked.own == {"target": "rtx5070", "cmake.define.OWN": "1", "skbuild.cmake.define.MORE": "a;b"}
    assert asked.inner == {
        "wheel.packages": ["pkg"],
        "editable.mode": "inplace",
        "cmake.define.OWN": "1",
        "cmake.define.MORE": "a;b",
    }


OF_TREES = (
    [(way, key, value, key) for way in ("setup.py", "tables", "CMake") for key, value in [
        ("build-env", "managed"),
    ]]
    + [("CMake", "disable", "kineto", "kineto"), ("setup.py", "define.OWN", "1", "define.OWN")]
)  # fmt: skip


@pytest.mark.parametrize(("way", "key", "value", "name"), OF_TREES)
def test_a_setting_that_only_a_build_of_pytorch_has_is_an_error(
    tmp_path: Path, way: str, key: str, value: str, name: str
) -> None:
    assert str(error_of(asked_of, described(tmp_path, way).project, {key: value, "target": "cpu"})) == (
        Problem.of("setting-of-trees", origin=f"-C {key}", setting=name).render()
    )


def test_what_holds_for_all_builds_of_a_user_says_nothing_of_an_extension(project: Path) -> None:
    variables = {"TORCHWHEEL_BUILD_ENV": "managed", "USE_KINETO": "0"}
    request = BuildRequest(project, {"disable": "cuda", "target": "cpu"}, variables)
    assert read_hook_request(request).kind is ProjectKind.TABLES
    append(project / "pyproject.toml", '[tool.torchwheel]\nbuild-env = "current"\ndefine.OWN = 1\n')
    assert (
        origins_of(asked_of, project, {"target": "cpu"})
        == [("setting-of-trees", "pyproject.toml [tool.torchwheel]")] * 2
    )


@pytest.mark.parametrize("way", ["tables", "CMake", "setup.py"])
def test_what_would_make_another_wheel_unseen_does_not_reach_the_backend_inside(
    tmp_path: Path, way: str
) -> None:
    project = described(tmp_path, way).project
    unseen = {"SKBUILD_WHEEL_PY_API": "cp310", "SKBUILD_BUILD_TARGETS": "pkg._C", "DESTDIR": "/x"}
    asked = read_hook_request(BuildRequest(project, {}, {**unseen, "CXXFLAGS": "-O2"}))
    assert asked.project.environment == {"CXXFLAGS": "-O2"}
    assert [finding.id for finding in asked.project.findings] == ["variables-kept-out"]


def test_a_description_for_cmake_beside_tables_is_an_error(project: Path) -> None:
    (project / "CMakeLists.txt").write_text("project(of_programs)\n", encoding="utf-8")
    assert asked_of(project, {"target": "cpu"}).kind is ProjectKind.TABLES
    (project / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    append(project / "pyproject.toml", '[tool.scikit-build]\nwheel.packages = ["pkg"]\n')
    assert ids_of(asked_of, project, {"target": "cpu", "wheel.build-tag": "1"}) == [
        *("setting-of-another-backend", "scikit-build-unread", "scikit-build-unread")
    ]


def test_the_target_as_a_variable_of_cmake(project: Path) -> None:
    asked = asked_of(project, {"cmake.define.TORCHWHEEL_TARGET": "h100"})
    assert asked.project.settings.target == ("h100",)
    assert asked.own == {"target": "h100"}


@pytest.mark.parametrize(
    ("version", "requested", "label", "expected"),
    [
        ("1.2", None, "cu130.sm120.torch2.14", "1.2+cu130.sm120.torch2.14"),
        ("1.2+own", None, "cpu", "1.2+own.cpu"),
        ("1.2", None, "", "1.2"),
        ("1.2+own", None, "", "1.2+own"),
        ("1.02.RC1", None, "cpu", "1.2rc1+cpu"),
        ("1.2", "3.0", "cpu", "3.0+cpu"),
        ("1.2+own", "3.0", "", "3.0+own"),
        # What an sdist's PKG-INFO says is there already.
        ("1.2+cpu.torch2.14", None, "cpu.torch2.14", "1.2+cpu.torch2.14"),
        ("1.2+own.1.my.label", None, "My_Label", "1.2+own.1.my.label"),
        ("1.2+nocpu", None, "cpu", "1.2+nocpu.cpu"),
    ],
)
def test_labels(version: str, requested: str | None, label: str, expected: str) -> None:
    assert labelled_version(version, requested, label) == expected


def test_without_pytorch(tmp_path: Path) -> None:
    for hook in ("get_requires_for_build_wheel", "build_wheel"):
        failed = described(tmp_path / hook, "tables").call(hook)
        assert failed.returncode == 2
        assert "[torch-not-installed]" in failed.stderr, failed.stderr
        assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("hook", ["get_requires_for_build_sdist", "get_requires_for_build_wheel"])
@pytest.mark.parametrize("way", ["CMake", "setup.py"])
def test_what_the_backend_inside_requires_are_requirements(tmp_path: Path, way: str, hook: str) -> None:
    """A frontend hands the answer to pip, which would obey an option in it."""
    built = described(tmp_path, way, CPU)
    if way == "setup.py":
        script = "from setuptools import build_meta\n"
        script += 'raise build_meta.SetupRequirementsError(["--index-url=https://evil.example"])\n'
        built.add("setup.py", script)
    else:
        evil = '[tool.scikit-build]\nbuild.requires = ["--index-url=https://evil.example", "numpy"]\n'
        built.add("pyproject.toml", evil)
    failed = built.call(hook)
    assert failed.returncode == 2, failed.stdout
    assert "[malformed-requirement]" in failed.stderr, failed.stderr
    assert "'--index-url=https://evil.example'" in failed.stderr


@pytest.mark.parametrize("target", ["rtx5070", "cpu"])
def test_a_setup_py_with_pytorchs_own_functions_does_not_ignore_a_target(tmp_path: Path, target: str) -> None:
    own = "from torchwheel.torch_install.cpp_extension import NAME, cpp_extension\nimport sys\n"
    own += "CppExtension, BuildExtension = cpp_extension().CppExtension, cpp_extension().BuildExtension\n"
    own += "sys.modules[NAME] = cpp_extension()\n"
    imported = "from torchwheel import BuildExtension, CppExtension\n"
    assert imported in SETUP_PY
    built = described(tmp_path, "setup.py", CPU)
    built.write("setup.py", SETUP_PY.replace(imported, own))
    failed = built.call("build_wheel", {"target": target})
    problem = Problem.of("target-ignored", origin="-C target", key="target", value=target)
    assert (failed.returncode, failed.stderr) == (2, f"torchwheel: {problem.render()}\n")


@pytest.mark.parametrize("way", ["tables", "CMake", "setup.py", "setup.py alone"])
def test_a_gpu_that_is_asked_for_is_not_left_out_by_a_project_that_looks_at_pytorch(
    tmp_path: Path, way: str
) -> None:
    """What is described has no CUDA sources, as with ``if torch.version.cuda:`` around them; the project has."""
    built = described(tmp_path, way, CPU)
    built.write("k.cu", "")
    if way == "setup.py alone":
        failed = built.run("setup.py", "build_ext", "--inplace", **RTX5070)
    else:
        failed = built.call("build_wheel", **RTX5070)
    assert failed.returncode == 2
    problem = Problem.of(
        "torch-without-cuda/left-out",
        origin="variable TORCHWHEEL_TARGET",
        key="target",
        value="rtx5070",
        torch="2.14.1+cpu",
        extensions="the project",
    )
    # Without a hook of torchwheel's nobody reads -C.
    with settings_written_as(as_variable if way == "setup.py alone" else lambda *_: ""):
        assert failed.stderr == f"torchwheel: {problem.render()}\n"


def test_a_gpu_that_is_asked_for_is_not_left_out_by_a_setup_py_that_describes_no_kernels(
    tmp_path: Path,
) -> None:
    built = described(tmp_path, "setup.py", CUDA)
    built.write("k.cu", "")
    # No toolkit is installed for it.
    failed = built.call("build_wheel", **RTX5070, TORCHWHEEL_CUDA_FROM="pypi", PIP_NO_INDEX="1")
    assert (failed.returncode, "[target-without-code]" in failed.stderr) == (2, True), failed.stderr
    assert "compile csrc/bind.cpp" not in failed.stdout


@pytest.mark.parametrize(
    ("folder", "cache"), [("$ENV{HOME}", "cache"), ("a\nb", "cache"), ("a;b", "cache"), ("ab", "{state}")]
)
def test_a_folder_that_cmake_would_take_for_another(tmp_path: Path, folder: str, cache: str) -> None:
    """In a project's folder ``a;b`` CMake made one called ``b``; a wheel that ``{state}`` made was not proved."""
    built = Built(tmp_path, "CMake", project=folder)
    before = sorted(built.project.rglob("*"))
    named = {} if cache == "cache" else {"build-dir": str(tmp_path / cache)}
    failed = built.call("build_wheel", {"target": "cpu", **named})
    assert (failed.returncode, "[path-breaks-tools]" in failed.stderr) == (2, True), failed.stderr
    assert sorted(built.project.rglob("*")) == before


def test_an_sdist_appears_under_its_name_when_it_is_complete(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    seen: list[list[Path]] = []

    (project / "pyproject.toml").unlink()
    (project / "setup.py").touch()

    def inner(_request: object, _hook: str, folder: str, _config: object, *, handover: object) -> str:
        Path(folder, "pkg-1.2.tar.gz").write_bytes(b"half")
        seen.append(sorted(out.glob("*")))
        if len(seen) == 2:
            raise KeyboardInterrupt
        Path(folder, "pkg-1.2.tar.gz").write_bytes(b"whole")
        return "pkg-1.2.tar.gz"

    monkeypatch.setattr(extension_build, "call_inner", inner)
    request = BuildRequest(project, {}, {})
    assert extension_build.build_sdist(request, out) == "pkg-1.2.tar.gz"
    with pytest.raises(KeyboardInterrupt):
        extension_build.build_sdist(request, out)
    assert seen == [[], [out / "pkg-1.2.tar.gz"]]
    assert [(path.name, path.read_bytes()) for path in out.iterdir()] == [("pkg-1.2.tar.gz", b"whole")]


def test_metadata_only_where_it_is_cheap(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    hooks = ("prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable")
    assert all(hasattr(backend, hook) for hook in hooks)
    (project / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    assert not any(hasattr(backend, hook) for hook in hooks)


def test_metadata_installs_no_toolkit(tmp_path: Path) -> None:
    built = described(tmp_path, "tables", CUDA)
    built.write("csrc/k.cu", "")
    built.write("pyproject.toml", PROJECT + TABLE.replace("*.cpp", "*.c*"))
    variables = {**RTX5070, "TORCHWHEEL_CUDA_FROM": "pypi", "PIP_NO_INDEX": "1"}
    done = built.call("prepare_metadata_for_build_wheel", **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "tiny-1.2+cu130.sm120.torch2.14.dist-info"
    assert not any((tmp_path / "cache").rglob("cuda-13*"))


def test_an_output_folder_that_cannot_be_written_to_is_told_before_anything_is_compiled(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    failed = described(tmp_path, "tables", CPU).call("build_wheel", out="file/out")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "[output-not-writable]" in failed.stderr


@pytest.mark.parametrize("way", ["tables", "CMake", "setup.py"])
def test_a_compiler_that_does_not_work_is_told_before_anything_is_compiled(tmp_path: Path, way: str) -> None:
    built = described(tmp_path, way, CPU)
    compiler = built.write("bin/g++", "#!/bin/sh\nexit 3\n")
    compiler.chmod(0o755)
    failed = built.call("build_wheel", CXX=str(compiler))
    assert (failed.returncode, "[host-compiler-does-not-work]" in failed.stderr) == (2, True), failed.stderr
    assert "CMake Error" not in failed.stdout
    assert "compile csrc/bind.cpp" not in failed.stdout


@pytest.mark.parametrize(
    ("variables", "option"),
    [({"CMAKE_GENERATOR": "Unix Makefiles"}, ""), ({"CMAKE_GENERATOR": "Ninja"}, "-G;Unix Makefiles")],
)
def test_another_generator_is_refused(tmp_path: Path, variables: dict[str, str], option: str) -> None:
    given = {"target": "cpu", **({"cmake.args": option} if option else {})}
    failed = described(tmp_path, "CMake", CPU).call("build_wheel", given, **variables)
    assert failed.returncode == 2
    assert "[generator-not-ninja]" in failed.stderr


def test_where_memory_runs_out_the_backend_inside_gets_fewer_jobs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "CMakeLists.txt").write_text("project(x)\n", encoding="utf-8")
    tried: list[str] = []

    def inner(
        _backend: Any, hook: str, _arguments: Any, stream: Any, *, environment: dict[str, str], **_: Any
    ) -> str:
        log = stream.keywords["log"]
        tried.append(environment["CMAKE_BUILD_PARALLEL_LEVEL"])
        if tried[-1] == "1":
            return "x.whl"
        log.write_text("virtual memory exhausted: Cannot allocate memory\n", encoding="utf-8")
        raise ProcessFailed(hook, 1, log)

    monkeypatch.setattr(inner_backend, "call_hook", inner)
    asked = asked_of(project, {})
    variables = {"CMAKE_BUILD_PARALLEL_LEVEL": "4"}
    assert inner_backend.call_inner(asked, "build_wheel", "dist", variables=variables) == "x.whl"
    assert tried == ["4", "2", "1"]
