"""What setuptools' own backend makes of extensions of PyTorch, without compiling anything."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution

from extension import projects
from extension.projects import Built
from toolkit.trees import linux_installation
from torchwheel import BuildExtension, CppExtension
from torchwheel.extension.setuptools_distribution import finalize

SETUP = """\
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from torchwheel import BuildExtension, CppExtension


class DownloadedWheel(bdist_wheel):
    def run(self):
        pass


setup(
    name="door",
    version={version!r},
    packages=[],
    ext_modules=[CppExtension("door", ["op.cpp"])],
    cmdclass={{"build_ext": {build_ext}, "bdist_wheel": {bdist_wheel}}},
)
"""
MODULE = """\
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "door", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit_door() { return PyModule_Create(&definition); }
"""
CPU = {"TORCHWHEEL_TARGET": "cpu"}
SDIST_CONFIGURATION = "[egg_info]\ntag_build = \ntag_date = 0\n"


def door(
    tmp_path: Path,
    version: str = "1.2",
    build_ext: str = "BuildExtension",
    bdist_wheel: str = "bdist_wheel",
    backend: str = "setuptools.build_meta",
) -> Built:
    """A project of one source, which a hook of setuptools' backend builds for the CPU."""
    built = Built(tmp_path, "setup.py alone")
    built.backend = backend
    shutil.rmtree(built.project)
    (tmp_path / "out").mkdir()
    text = SETUP.format(version=version, build_ext=build_ext, bdist_wheel=bdist_wheel)
    built.write("setup.py", text)
    built.write("op.cpp", MODULE)
    return built


def _metadata(folder: Path) -> list[str]:
    (path,) = folder.glob("out/*.dist-info/METADATA")
    return [
        line
        for line in path.read_text("utf-8").splitlines()
        if line.startswith(("Version:", "Requires-Dist:"))
    ]


@pytest.mark.parametrize(
    ("version", "configuration", "labelled"),
    [
        pytest.param("1.2", "[egg_info]\ntag_build = .dev3\n", "1.2.dev3+cpu.torch2.14", id="a-tag"),
        pytest.param("1.2+own", SDIST_CONFIGURATION, "1.2+own.cpu.torch2.14", id="a-label-of-its-own"),
    ],
)
def test_metadata_is_labelled(tmp_path: Path, version: str, configuration: str, labelled: str) -> None:
    built = door(tmp_path, version)
    built.write("setup.cfg", configuration)
    done = built.call("prepare_metadata_for_build_wheel", **CPU)
    assert done.returncode == 0, done.stderr
    assert _metadata(tmp_path) == [f"Version: {labelled}", "Requires-Dist: torch<2.15,>=2.14"]


@pytest.mark.skipif(sys.platform != "linux", reason="makes libraries as Linux has them")
@pytest.mark.parametrize(
    ("build_ext", "module"),
    [
        ("BuildExtension", f"door{sysconfig.get_config_var('EXT_SUFFIX')}"),
        ("BuildExtension.with_options(no_python_abi_suffix=True)", "door.so"),
    ],
)
def test_a_wheel_is_proved_under_the_names_that_its_modules_have(
    tmp_path: Path, build_ext: str, module: str
) -> None:
    built = door(tmp_path, build_ext=build_ext)
    done = built.call("build_wheel", **CPU)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("out/*.whl")
    assert wheel.name.startswith("door-1.2+cpu.torch2.14-cp")
    assert module in zipfile.ZipFile(wheel).namelist()
    (entry,) = built.manifest()["plan"]["extensions"]["modules"]
    assert entry["file"] == module


@pytest.mark.skipif(sys.platform != "linux", reason="makes libraries as Linux has them")
@pytest.mark.parametrize("backend", ["setuptools.build_meta", "torchwheel.extension.backend"])
def test_what_an_earlier_build_left_is_not_packed(backend: str, tmp_path: Path) -> None:
    """A module that was deleted since, and half a copy of one, which looks newer than its source."""
    built = door(tmp_path, backend=backend)
    for name in ("__init__", "gone", "whole"):
        built.write(f"package/{name}.py", "x = 1\n")
    built.write("pyproject.toml", '[build-system]\nrequires = ["torch"]\n')
    built.write("setup.cfg", "[options]\npackages = package\n")
    assert built.call("build_wheel", **CPU).returncode == 0
    (built.project / "package/gone.py").unlink()
    (copy,) = (built.project / "build").glob("lib*/package/whole.py")
    copy.write_text("x", "utf-8")
    done = built.call("build_wheel", **CPU)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("out/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if name.startswith("package/")}
    assert packed == {"package/__init__.py": b"x = 1\n", "package/whole.py": b"x = 1\n"}


def test_a_project_that_does_not_use_torchwheel_imports_only_the_entry_point(tmp_path: Path) -> None:
    """Whatever else is imported slows down every setuptools build beside torchwheel, and a fault in it breaks them."""
    built = door(tmp_path)
    script = """\
import sys
from setuptools import setup
setup(name="empty", version="1.2", py_modules=[])
print(sorted(name for name in sys.modules if name.startswith("torchwheel")))
"""
    built.write("setup.py", script)
    done = built.run("setup.py", "--name")
    assert (done.returncode, done.stdout) == (
        0,
        "empty\n['torchwheel', 'torchwheel._setuptools_entry_point']\n",
    ), done.stderr


def test_a_wheel_that_the_project_takes_from_elsewhere_is_refused(tmp_path: Path) -> None:
    done = door(tmp_path, bdist_wheel="DownloadedWheel").call("build_wheel", **CPU)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "[wheel-from-elsewhere]" in done.stderr
    assert list(tmp_path.glob("out/*.whl")) == []


def test_sources_may_be_made_by_a_command_of_the_project(tmp_path: Path) -> None:
    built = door(tmp_path)
    made = "class Made(BuildExtension):\n    def run(self):\n"
    made += f"        if MAKES_IT: open('op.cpp', 'w').write({MODULE!r})\n        super().run()\nsetup("
    text = SETUP.format(version="1.2", build_ext="Made", bdist_wheel="bdist_wheel").replace("setup(", made, 1)
    for write in (True, False):
        built.write("setup.py", text.replace("MAKES_IT", str(write)))
        (built.project / "op.cpp").unlink(missing_ok=True)
        done = built.run("setup.py", "bdist_wheel", **CPU)
        assert (done.returncode == 0, "op.cpp" in done.stderr) == (write, not write), done.stderr


def test_a_cython_source_is_generated_before_the_compile(tmp_path: Path) -> None:
    """setuptools' own command is Cython's where that is installed."""
    built = Built(tmp_path, "setup.py")
    built.write("tiny/fast.pyx", "def answer():\n    return 42\n")
    text = projects.SETUP_PY.replace(
        "[extension]", '[extension, CppExtension("tiny.fast", ["tiny/fast.pyx"])]'
    )
    built.write("setup.py", text)
    status, said = built.said()
    assert status == 0, said
    (wheel,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    (module,) = tmp_path.glob("unpacked/tiny/fast.*.so")
    program = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('fast', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.answer())"
    )
    assert subprocess.check_output([sys.executable, "-c", program, module], text=True) == "42\n"


def test_a_build_hook_runs_the_command_by_itself() -> None:
    """As hooks of hatch, PDM and Poetry do; the distribution has no cmdclass."""
    distribution = Distribution({"name": "door", "ext_modules": [CppExtension("door", ["op.cpp"])]})
    finalize(distribution)
    assert not issubclass(distribution.get_command_class("build_ext"), BuildExtension)
    distribution.script_args = ["build_ext"]
    finalize(distribution)
    assert issubclass(distribution.cmdclass["build_ext"], BuildExtension)


@pytest.mark.parametrize("own", ["", "for one in self.extensions: self.build_extension(one)"])
def test_commands_that_do_not_call_torchwheels_own_method(tmp_path: Path, own: str) -> None:
    """setuptools' own command builds what torch.utils.cpp_extension describes, too."""
    built = Built(tmp_path, "setup.py")
    command = "from setuptools.command.build_ext import build_ext\n"
    if own:
        command += f"class Own(build_ext):\n    def build_extensions(self):\n        {own}\n"
    text = projects.SETUP_PY.replace("extension =", f"{command}extension =", 1)
    text = text.replace(": BuildExtension}", f": {'Own' if own else 'build_ext'}}}")
    built.write("setup.py", text)
    assert built.mark() == "first, nothing"


OVERRIDE = """\
import pathlib


class Own(BuildExtension):
    def build_extension(self, one):
        try:
            super().build_extension(one)
        except RuntimeError:
            print("caught", one.name)
        else:
            print("built", pathlib.Path(self.get_ext_fullpath(one.name)).stat().st_size > 0)


broken = CppExtension("tiny._broken", ["csrc/broken.cpp"])
extension ="""


def test_an_override_of_build_extension_has_the_module(tmp_path: Path) -> None:
    """Or the failure: it may strip the one, and do without the other."""
    built = Built(tmp_path, "setup.py alone")
    text = projects.SETUP_PY.replace("extension =", OVERRIDE, 1).replace(": BuildExtension}", ": Own}")
    built.write("csrc/broken.cpp", "#error broken\n")
    built.write("setup.py", text.replace("[extension]", "[broken, extension]"))
    done = built.run("setup.py", "bdist_wheel", **CPU)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(("built", "caught"))] == [
        *("caught tiny._broken", "built True")
    ]
    (wheel,) = (built.project / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        record = json.loads(archive.read(next(one for one in archive.namelist() if "torchwheel.json" in one)))
    assert "tiny/_broken" not in json.dumps(record)


@pytest.mark.skipif(sys.platform != "linux", reason="the toolkit's layout is that of Linux")
def test_a_kernel_of_a_table_is_compiled_with_the_toolkit(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables", projects.CUDA)
    toolkit, seen = linux_installation(tmp_path / "cuda", "13.0", "13.0.88"), tmp_path / "seen"
    told = "echo 'Cuda compilation tools, release 13.0, V13.0.88'"
    nvcc = f'#!/bin/sh\ncase "$*" in *-c*) echo "$@" > "{seen}"; exit 1;; esac; {told}\n'
    (toolkit / "bin/nvcc").write_text(nvcc, "utf-8")
    (toolkit / "bin/nvcc").chmod(0o755)
    built.write("csrc/k.cu", "")
    built.write("pyproject.toml", projects.HEAD + projects.PROJECT + projects.TABLE.replace("*.cpp", "*.cu"))
    done = built.call("build_wheel", {"target": "rtx5070", "cuda-path": str(toolkit)})
    assert "[extension-build-failed]" in done.stderr, done.stdout + done.stderr
    words = seen.read_text("utf-8").split()
    assert {"toolkit/include", "-gencode=arch=compute_120,code=sm_120"} <= {*words}
