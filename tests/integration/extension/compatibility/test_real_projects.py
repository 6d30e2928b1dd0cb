"""Public projects build with only the import changed.

Takes a network and many minutes, so it runs where TEST_TORCHWHEEL_COMPATIBILITY names projects, or says ``all``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from answered import answered, own_environment
from extension.compatibility.projects import Project, projects
from extension.compatibility.sdists import download, skip_unless_chosen, unpack

pytestmark = [
    pytest.mark.network,
    pytest.mark.torch,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="what the projects build was recorded on Linux"),
]

_TARGET, _LABEL = "rtx5070", "sm120"
_LOADED = """
import importlib.util, sys
import torch
paths = dict(argument.split("=", 1) for argument in sys.argv[1:])
for path in paths.values():
    torch.ops.load_library(path)
def module(name):
    spec = importlib.util.spec_from_file_location(name, paths[name])
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
"""


@pytest.fixture(params=list(projects()))
def project(request: pytest.FixtureRequest) -> Project:
    """The projects that are to be tried."""
    skip_unless_chosen(request.param)
    return projects()[request.param]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torchwheel's cache folder, with the toolkit that is made of PyPI's packages."""
    return tmp_path_factory.mktemp("cache")


def test_it_builds_for_a_named_gpu(
    project: Project, cuda_torch_python: str, tmp_path: Path, cache: Path
) -> None:
    environment = _environment(cache, project.environment)
    sdist = f"{project.name}=={project.version}"
    archive = download(sdist, cuda_torch_python, tmp_path, environment, project.sha256)
    source = unpack(archive, tmp_path / "source")
    _change(source, project)
    wheel = _build(source, cuda_torch_python, tmp_path / "dist", environment)
    assert wheel.name.split("-")[1] == f"{project.version}+{_label(cuda_torch_python)}"
    libraries = _inspect(wheel, cuda_torch_python, environment)
    assert {name.partition(".")[0]: labels for name, labels in libraries.items()} == project.modules
    assert _used(project, wheel, libraries, cuda_torch_python, tmp_path) == project.printed


def _environment(cache: Path, further: Mapping[str, str]) -> dict[str, str]:
    return {
        **own_environment(),
        **further,
        "TORCHWHEEL_CACHE_DIR": str(cache),
        "TORCHWHEEL_TARGET": _TARGET,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _run(
    command: list[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = answered(command, cwd=cwd, env=environment)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done


def _change(source: Path, project: Project) -> None:
    for edit in project.edits:
        path = source / edit.file
        lines = path.read_text("utf-8").splitlines(keepends=True)
        assert [line.rstrip("\r\n") for line in lines].count(edit.before) == edit.times
        changed = [
            line.replace(edit.before, edit.after) if line.rstrip("\r\n") == edit.before else line
            for line in lines
        ]
        path.write_text("".join(changed), "utf-8")


def _build(source: Path, python: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """Build the wheel, and say what it took."""
    started, used = time.monotonic(), _processor_seconds()
    command = [
        python,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-build-isolation",
        "--no-deps",
        f"--wheel-dir={folder}",
    ]
    _run(command, environment, source)
    print(f"{source.name}: {time.monotonic() - started:.0f} s, CPU {_processor_seconds() - used:.0f} s")
    (wheel,) = folder.iterdir()
    return wheel


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _label(python: str) -> str:
    """The label that every wheel must have: ``cu130.sm120.torch2.14``."""
    asked = "import torch; print(torch.version.cuda, torch.__version__)"
    cuda, version = _run([python, "-c", asked]).stdout.split()
    return f"cu{cuda.replace('.', '')}.{_LABEL}.torch{'.'.join(version.split('.')[:2])}"


def _inspect(wheel: Path, python: str, environment: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Every library in a wheel and the labels of its device code, as ``torchwheel inspect`` finds them."""
    command = [python, "-m", "torchwheel.cli.main", "inspect", "--json", f"--gpu={_TARGET}", str(wheel)]
    (inspected,) = json.loads(_run(command, environment).stdout)["inspected"]
    assert [(gpu["name"], gpu["how"]) for gpu in inspected["gpus"]] == [(_TARGET, "native")]
    return {
        library["path"]: tuple(image["label"] for image in library["images"])
        for library in inspected["libraries"]
    }


def _used(
    project: Project, wheel: Path, libraries: Mapping[str, tuple[str, ...]], python: str, folder: Path
) -> str:
    """What the project's piece of Python prints, with the wheel's packages on the search path."""
    installed = folder / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    modules = [f"{name.partition('.')[0].replace('/', '.')}={installed / name}" for name in libraries]
    return _run([python, "-c", _LOADED + project.use, *modules], cwd=installed).stdout.strip()
