"""What a project's tables or its setup.py describe, found without building."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from refusals import error_of, ids_of
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.extension.extension_project import ProjectKind, project_plan, read_hook_request, read_setup_py
from torchwheel.extension.extension_survey import ExtensionProject, read_extension_project
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings.known_keys import EXTENSION_KEYS
from torchwheel.survey import BuildRequest

SETUP = """\
import helper
print("a script prints what it likes")
from setuptools import Extension, setup
from torchwheel import BuildExtension, CppExtension, CUDAExtension
setup(
    name="x",
    ext_modules=[
        CUDAExtension("x._C", ["csrc/a.cpp", "csrc/k.cu"], extra_compile_args={"nvcc": helper.FLAGS}, unity=True,
                      front_end="shared"),
        CppExtension("x._cpu", ["csrc/b.cpp"]),
        Extension("x.plain", ["plain.c"]),
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""


def written(folder: Path, text: str) -> Path:
    project = folder / "proj é"
    project.mkdir()
    (project / "setup.py").write_text(text, encoding="utf-8")
    (project / "helper.py").write_text("FLAGS = ['-O2']\n", encoding="utf-8")
    return project


def read(project: Path) -> ExtensionProject:
    return read_extension_project(BuildRequest(project, {}, {}))


def described(project: ExtensionProject) -> tuple[Extension, ...]:
    with read_setup_py(project) as (_, found):
        return found


def test_its_extensions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here, project = Path.cwd(), written(tmp_path, SETUP)
    cuda, cpu = described(read(project))
    assert (cuda.name, cuda.sources, cuda.unity) == ("x._C", ("csrc/a.cpp", "csrc/k.cu"), True)
    assert (cuda.front_end, cpu.front_end) == ("shared", "separate")
    assert cuda.flags[Language.CUDA] == ("-O2",)
    assert (cpu.name, cpu.sources) == ("x._cpu", ("csrc/b.cpp",))
    assert Path.cwd() == here
    assert str(project) not in sys.path
    captured = capfd.readouterr()
    told = f"torchwheel: running {project}/setup.py, which says what its extensions are\n"
    assert (captured.out, captured.err) == ("", f"{told}a script prints what it likes\n")


@pytest.mark.parametrize(
    ("text", "id", "what"),
    [
        ("import no_such_module", "setup-py-failed", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "setup-py-failed", "setup.py cannot be read: ZeroDivisionError: division by zero"),
        ("x = 1", "setup-py-failed", "setup.py cannot be read: RuntimeError: "),
        (
            "from setuptools import setup\nsetup(name='x')",
            "no-extensions",
            "setup.py describes no extension of PyTorch",
        ),
        (
            SETUP.replace('"shared"', '"single"'),
            "ill-typed-value",
            'front_end is "single", which is not one of separate, shared',
        ),
        (
            SETUP.replace("unity=True", 'source_architectures={"smgo/*.cu": "9.0a"}'),
            "no-source-matches",
            'source_architectures."smgo/*.cu" matches no CUDA source of the extension',
        ),
    ],
)
def test_what_is_wrong_with_one(tmp_path: Path, text: str, id: str, what: str) -> None:
    (problem,) = error_of(described, read(written(tmp_path, text))).problems
    assert problem.id == id
    assert what in problem.what
    assert "setup.py" in problem.origin


def test_a_project_without_extensions(tmp_path: Path) -> None:
    assert ids_of(read_hook_request, BuildRequest(tmp_path, {}, {})) == ["no-extensions"]


def test_what_nothing_of_a_build_heeds_is_an_error_of_its_plan(tmp_path: Path) -> None:
    """A plan would otherwise be one of another build."""
    (tmp_path / "setup.py").touch()
    for given, id in (
        ({"wheel.exclude": "x"}, "setting-of-another-backend"),
        ({"env.SKBUILD_WHEEL_PY_API": "py3"}, "unseen-variable"),
    ):
        said = []
        for asked in (lambda request: project_plan(read_hook_request(request)), read_hook_request):
            error = error_of(asked, BuildRequest(tmp_path, given, {}))
            said.append(str(error))
        assert said[0] == said[1]
        assert [problem.id for problem in error.problems] == [id]


def test_a_project_that_only_cmake_understands(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").touch()
    assert ids_of(project_plan, read_hook_request(BuildRequest(tmp_path, {}, {}))) == ["commands-of-cmake"]


ARCHITECTURES = """\
import os
from setuptools import setup
from torchwheel import BuildExtension, CppExtension
open("shown", "w").write(os.environ.get("TORCH_CUDA_ARCH_LIST", "none"))
setup(name="x", ext_modules=[CppExtension("x._C", ["a.cpp"])], cmdclass={"build_ext": BuildExtension})
"""


@pytest.mark.parametrize(
    ("config", "variables", "shown"),
    [
        ({"target": "h100,rtx5070"}, {}, "9.0;12.0"),
        ({"target": "h100"}, {"TORCH_CUDA_ARCH_LIST": "8.0"}, "9.0"),
        ({"arch": "9.0a+PTX"}, {}, "9.0a+PTX"),
        ({}, {"TORCH_CUDA_ARCH_LIST": "8.0"}, "8.0"),
        ({"target": "cpu"}, {}, "none"),
        ({}, {}, "none"),
    ],
)
def test_a_setup_py_reads_the_target(
    tmp_path: Path,
    config: dict[str, str],
    variables: dict[str, str],
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SageAttention chooses its sources by TORCH_CUDA_ARCH_LIST."""
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    # setuptools sets it once in a process.
    for name, value in {**variables, "PLAT": "any"}.items():
        monkeypatch.setenv(name, value)
    project = written(tmp_path, ARCHITECTURES)
    request = BuildRequest(project, config, variables)
    before = dict(os.environ)
    # There is no PyTorch here.
    with suppress(TorchwheelError):
        described(read_extension_project(request))
    assert (project / "shown").read_text("utf-8") == shown
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("script", "given", "kind"),
    [
        ("setup(ext_modules=[])\n", {}, ProjectKind.SETUP_PY),
        ("setup()\n", {}, ProjectKind.CMAKE),
        ("setup(ext_modules=[])\n", {"extensions-from": "cmake"}, ProjectKind.CMAKE),
        ("setup(**computed)\n", {"extensions-from": "setup.py"}, ProjectKind.SETUP_PY),
    ],
)
def test_a_setup_py_beside_a_cmakelists(
    tmp_path: Path, script: str, given: dict[str, str], kind: ProjectKind
) -> None:
    """torch_scatter and others ship a CMakeLists.txt for C++ programs."""
    (tmp_path / "setup.py").write_text(script, encoding="utf-8")
    (tmp_path / "CMakeLists.txt").touch()
    assert read_hook_request(BuildRequest(tmp_path, given, {})).kind is kind


def test_only_a_setup_py_needs_setuptools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.py").touch()
    monkeypatch.setitem(sys.modules, "setuptools", None)
    for name in ("described_extensions", "setuptools_ext"):
        monkeypatch.delitem(sys.modules, f"torchwheel.extension.{name}", raising=False)
    assert ids_of(project_plan, read_hook_request(BuildRequest(tmp_path, {}, {}))) == ["setuptools-missing"]


def test_examples_are_right_arguments() -> None:
    """Each message about a setup.py's arguments ends with one."""
    from torchwheel.extension.described_extensions import SETUP_PY

    keys = [
        EXTENSION_KEYS[name] for name in ("stable-abi", "unity", "front-end", "architectures", "cuda-sources")
    ]
    assert eval(f"dict({', '.join(map(SETUP_PY.example, keys))})") == {
        "stable_abi": "2.10",
        "unity": True,
        "front_end": "shared",
        "source_architectures": {"sm90/*.cu": "9.0a"},
        "cuda_sources": ["csrc/cuda/*.cu"],
    }


def test_cuda_sources_of_a_cpp_extension_are_compiled_with_cuda(tmp_path: Path) -> None:
    """As torch.utils.cpp_extension does, which goes by the sources alone."""
    project = written(tmp_path, SETUP.replace('"csrc/b.cpp"', '"csrc/b.cu"'))
    assert [extension.uses_cuda for extension in described(read(project))] == [True, True]
