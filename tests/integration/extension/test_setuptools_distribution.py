"""What setuptools' own backend makes of extensions of PyTorch, without compiling anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution

from extension import projects
from extension.projects import Built
from extension.torch_releases import install
from places import REPOSITORY
from torchwheel import BuildExtension, CppExtension
from torchwheel.extension.setuptools_distribution import finalize
from torchwheel.system.toml import read_toml

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
SDIST_CONFIGURATION = "[egg_info]\ntag_build = \ntag_date = 0\n"


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """A PyTorch for the CPU, and torchwheel's entry points as an installation has them."""
    folder = tmp_path / "site-packages"
    install(folder)
    entry_points = read_toml(REPOSITORY / "pyproject.toml")["project"]["entry-points"]
    own = folder / "torchwheel-0.1.0.dist-info"
    own.mkdir()
    (own / "METADATA").write_text("Metadata-Version: 2.1\nName: torchwheel\nVersion: 0.1.0\n", "utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
        for group, table in entry_points.items()
    ]
    (own / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    return folder


def _hook(
    call: str,
    tmp_path: Path,
    site_packages: Path,
    version: str = "1.2",
    build_ext: str = "BuildExtension",
    bdist_wheel: str = "bdist_wheel",
    backend: str = "setuptools.build_meta",
) -> subprocess.CompletedProcess[str]:
    """Call a hook of setuptools' backend for a project of one source."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "setup.py").write_text(
        SETUP.format(version=version, build_ext=build_ext, bdist_wheel=bdist_wheel), "utf-8"
    )
    (project / "op.cpp").write_text(MODULE, "utf-8")
    return _python(["-c", f"import {backend} as backend; backend.{call}"], project, site_packages)


def _python(arguments: list[str], project: Path, site_packages: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    environment |= {
        "PYTHONPATH": str(site_packages),
        "TORCHWHEEL_CACHE_DIR": str(project.parent / "cache"),
        "TORCHWHEEL_TARGET": "cpu",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _metadata(folder: Path) -> list[str]:
    (path,) = folder.glob("*.dist-info/METADATA")
    return [
        line
        for line in path.read_text("utf-8").splitlines()
        if line.startswith(("Version:", "Requires-Dist:"))
    ]


@pytest.mark.parametrize(
    ("version", "configuration", "labelled"),
    [
        pytest.param("1.2", "", "1.2+cpu.torch2.14", id="a-repository"),
        pytest.param("1.2", SDIST_CONFIGURATION, "1.2+cpu.torch2.14", id="an-sdist"),
        pytest.param("1.2", "[egg_info]\ntag_build = .dev3\n", "1.2.dev3+cpu.torch2.14", id="a-tag"),
        pytest.param("1.2+own", SDIST_CONFIGURATION, "1.2+own.cpu.torch2.14", id="a-label-of-its-own"),
    ],
)
def test_metadata_is_labelled(
    tmp_path: Path, site_packages: Path, version: str, configuration: str, labelled: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/setup.cfg").write_text(configuration, "utf-8")
    done = _hook("prepare_metadata_for_build_wheel('..')", tmp_path, site_packages, version)
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
    tmp_path: Path, site_packages: Path, build_ext: str, module: str
) -> None:
    library = tmp_path / "library.cpp"
    library.write_text("int registered;\n", "utf-8")
    for path in (site_packages / "torch/lib").iterdir():
        subprocess.run(["c++", "-shared", "-fPIC", "-o", path, library], check=True)
    done = _hook("build_wheel('..')", tmp_path, site_packages, build_ext=build_ext)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("door-1.2+cpu.torch2.14-cp")
    with zipfile.ZipFile(wheel) as archive:
        manifest = json.loads(archive.read("door-1.2+cpu.torch2.14.dist-info/torchwheel.json"))
        assert module in archive.namelist()
    (entry,) = manifest["plan"]["extensions"]["modules"]
    assert (entry["file"], entry["sources"]) == (module, [{"path": "op.cpp", "gencode": []}])


@pytest.mark.skipif(sys.platform != "linux", reason="makes libraries as Linux has them")
@pytest.mark.parametrize("backend", ["setuptools.build_meta", "torchwheel.extension.backend"])
def test_what_an_earlier_build_left_is_not_packed(backend: str, tmp_path: Path, site_packages: Path) -> None:
    """A module that was deleted since, and half a copy of one, which looks newer than its source."""
    package = tmp_path / "project" / "package"
    package.mkdir(parents=True)
    for name in ("__init__", "gone", "whole"):
        (package / f"{name}.py").write_text("x = 1\n", "utf-8")
    (tmp_path / "project" / "pyproject.toml").write_text('[build-system]\nrequires = ["torch"]\n', "utf-8")
    (tmp_path / "project" / "setup.cfg").write_text("[options]\npackages = package\n", "utf-8")
    call = "build_wheel('..')"
    assert _hook(call, tmp_path, site_packages, backend=backend).returncode == 0
    (package / "gone.py").unlink()
    (copy,) = (tmp_path / "project" / "build").glob("lib*/package/whole.py")
    copy.write_text("x", "utf-8")
    done = _hook(call, tmp_path, site_packages, backend=backend)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if name.startswith("package/")}
    assert packed == {"package/__init__.py": b"x = 1\n", "package/whole.py": b"x = 1\n"}


def test_a_project_that_does_not_use_torchwheel_imports_only_the_entry_point(
    tmp_path: Path, site_packages: Path
) -> None:
    """Whatever else is imported slows down every setuptools build beside torchwheel, and a fault in it breaks them."""
    project = tmp_path / "project"
    project.mkdir()
    script = """\
import sys
from setuptools import setup
setup(name="empty", version="1.2", py_modules=[])
print(sorted(name for name in sys.modules if name.startswith("torchwheel")))
"""
    (project / "setup.py").write_text(script, "utf-8")
    done = _python(["setup.py", "--name"], project, site_packages)
    assert (done.returncode, done.stdout) == (
        0,
        "empty\n['torchwheel', 'torchwheel._setuptools_entry_point']\n",
    ), done.stderr


def test_a_wheel_that_the_project_takes_from_elsewhere_is_refused(
    tmp_path: Path, site_packages: Path
) -> None:
    done = _hook("build_wheel('..')", tmp_path, site_packages, bdist_wheel="DownloadedWheel")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "[wheel-from-elsewhere]" in done.stderr
    assert list(tmp_path.glob("*.whl")) == []


def test_sources_may_be_made_by_a_command_of_the_project(tmp_path: Path, site_packages: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    made = "class Made(BuildExtension):\n    def run(self):\n"
    made += f"        if MAKES_IT: open('op.cpp', 'w').write({MODULE!r})\n        super().run()\nsetup("
    text = SETUP.format(version="1.2", build_ext="Made", bdist_wheel="bdist_wheel").replace("setup(", made, 1)
    for write, status in ((True, 0), (False, 2)):
        (project / "setup.py").write_text(text.replace("MAKES_IT", str(write)), "utf-8")
        (project / "op.cpp").unlink(missing_ok=True)
        done = _python(["setup.py", "bdist_wheel"], project, site_packages)
        assert (done.returncode, "[source-missing]" in done.stderr) == (status, not write), done.stderr


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
    built = Built(tmp_path, "setup.py")
    text = projects.SETUP_PY.replace("extension =", OVERRIDE, 1).replace(": BuildExtension}", ": Own}")
    built.write("csrc/broken.cpp", "#error broken\n")
    built.write("setup.py", text.replace("[extension]", "[broken, extension]"))
    built.write(
        "pyproject.toml", projects.HEAD.replace("torchwheel.extension.backend", "setuptools.build_meta")
    )
    done = _python(["setup.py", "bdist_wheel"], built.project, tmp_path / "site-packages")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(("built", "caught"))] == [
        *("caught tiny._broken", "built True")
    ]
    (wheel,) = (built.project / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        record = json.loads(archive.read(next(one for one in archive.namelist() if "torchwheel.json" in one)))
    assert "tiny/_broken" not in json.dumps(record)
