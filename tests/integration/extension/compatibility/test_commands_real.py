"""Public sdists, and setup.py files in unusual forms, run the commands of torch.utils.cpp_extension's own build.

Compilers that make empty objects stand in, so that a project takes seconds. The sdists of commands.toml take a network,
so they run where TEST_TORCHWHEEL_COMPATIBILITY names them, or says ``all``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from extension.compatibility.commands import differences, unsaid
from extension.compatibility.forms import setup_py_forms
from extension.compatibility.recorded_builds import Sdist, build_objects, record_build, sdists
from extension.compatibility.sdists import change_imports, download, skip_unless_chosen, unpack
from extension.torch_objects import read_object

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="the commands are those of Linux"),
]

_FILES = (
    *("a.cpp", "k.cu", "b/a.cpp", "b/k.cu", "c.c", "d.cc", "e.cxx", "inc/h.h", "with blank/a b.cpp"),
    *("../outside/o.cu", "../outside/q.cpp"),
)
_OLDER = ("setuptools<70", "wheel", "Cython<3", "setuptools_scm<8", "numpy<2", "ninja")
_SEARCHED = "import sysconfig, torchwheel; print(sysconfig.get_path('purelib')); print(*torchwheel.__path__)"


@pytest.fixture(params=list(sdists()))
def sdist(request: pytest.FixtureRequest) -> Sdist:
    """The sdists that are to be tried."""
    skip_unless_chosen(request.param)
    return sdists()[request.param]


@pytest.fixture(scope="session")
def toolkit(cuda_torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of the CUDA toolkit that is made of PyPI's packages."""
    folder = tmp_path_factory.mktemp("toolkit")
    asked = [cuda_torch_python, "-c", "import torchwheel; print(torchwheel.CUDA_HOME)"]
    return subprocess.check_output(asked, cwd=folder, text=True, env=_environment()).strip()


@pytest.fixture(scope="session")
def older_python(cuda_torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with the same PyTorch and torchwheel, and the build requirements of older projects."""
    folder = tmp_path_factory.mktemp("older")
    subprocess.run([cuda_torch_python, "-m", "venv", folder], check=True)
    python = str(folder / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *_OLDER], check=True)
    packages, own = subprocess.check_output([cuda_torch_python, "-c", _SEARCHED], text=True).splitlines()
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    target = Path(subprocess.check_output(asked, text=True).strip(), "shared.pth")
    target.write_text(f"{packages}\n{Path(own).parent}\n", "utf-8")
    return python


def test_a_public_sdist(
    sdist: Sdist, cuda_torch_python: str, toolkit: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue("older_python") if sdist.older else cuda_torch_python
    environment = {**_for_one_architecture(), **sdist.environment}
    sources, changed = _unpack_twice(sdist, cuda_torch_python, tmp_path, environment)
    assert changed or sdist.none
    builds = [
        record_build(
            python,
            source,
            tmp_path / f"{source.parent.name}-recorded",
            toolkit,
            environment,
            arguments=sdist.arguments,
            gpu=sdist.gpu,
        )
        for source in sources
    ]
    (their_status, their_output, theirs), (status, output, own) = builds
    if sdist.stops:
        # nvcc's own refusal of an architecture is not recorded.
        assert status != 0 and (their_status != 0 or "CUDA 13" in sdist.stops), output
        return
    if sdist.none:
        assert not own.compiles and not theirs.compiles
        return
    assert (status, their_status) == (0, 0), f"{their_output}\n\n{output}"
    assert [str(one) for one in map(unsaid, differences(theirs, own)) if one] == []
    modules = [name for name in own.links if name != "device code"]
    assert (len(modules), len(own.compiles)) == (sdist.modules, sdist.objects)


@pytest.mark.timeout(3600)
def test_objects_of_a_public_sdist(
    sdist: Sdist, cuda_torch_python: str, toolkit: str, tmp_path: Path
) -> None:
    if sdist.kernels is None:
        pytest.skip("its objects were not compared")
    environment = {**_for_one_architecture(), "TORCH_CUDA_ARCH_LIST": "9.0;12.0", **sdist.environment}
    sources, _changed = _unpack_twice(sdist, cuda_torch_python, tmp_path, environment)
    objects = []
    for source in sources:
        made = build_objects(cuda_torch_python, source, tmp_path / "cache", toolkit, environment)
        # Of a source that is named by its whole path, too, both have the same name.
        folder = f"{source.relative_to(source.anchor)}/"
        objects.append({name.removeprefix(folder): read_object(path) for name, path in made.items()})
    theirs, own = objects
    assert own.keys() == theirs.keys()
    assert [name for name, one in own.items() if one != theirs[name]] == []
    assert sum(len(code) for one in own.values() for code in one.images.values()) == sdist.kernels


@pytest.mark.parametrize("name", setup_py_forms())
def test_a_form_of_setup_py(
    name: str, cuda_torch_python: str, toolkit: str, tmp_path: Path, plain_path: Path
) -> None:
    environment = _for_one_architecture()
    # torch.utils.cpp_extension links device code in no folder with a blank in its path.
    place = plain_path if name.startswith("device link") else tmp_path
    builds = []
    for folder in (place / "theirs", place / "own"):
        folder.mkdir()
        for file, text in {**dict.fromkeys(_FILES, ""), "setup.py": setup_py_forms()[name]}.items():
            path = Path(os.path.normpath(folder / file))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        if folder.name == "own":
            change_imports(folder)
        recorded = place / f"{folder.name}-recorded"
        builds.append(record_build(cuda_torch_python, folder, recorded, toolkit, environment))
        shutil.rmtree(recorded / "cuda")
    (their_status, their_output, theirs), (status, output, own) = builds
    assert (status, their_status) == (0, 0), f"{their_output}\n\n{output}"
    assert own.links
    assert [str(one) for one in map(unsaid, differences(theirs, own)) if one] == []


def _unpack_twice(
    sdist: Sdist, python: str, folder: Path, environment: Mapping[str, str]
) -> tuple[tuple[Path, Path], list[str]]:
    """The project as it is and with its imports changed, and the files of the second one that were."""
    archive = download(f"{sdist.name}=={sdist.version}", python, folder, environment, sdist.sha256)
    theirs, own = (unpack(archive, folder / name) for name in ("theirs", "own"))
    return (theirs, own), change_imports(own)


def _for_one_architecture() -> dict[str, str]:
    return {**_environment(), "TORCH_CUDA_ARCH_LIST": "12.0", "MAX_JOBS": "2"}


def _environment() -> dict[str, str]:
    left_out = ("TORCHWHEEL_", "TORCH_", "PYTHON", "CUDA", "CC", "CXX", "CFLAGS", "LDFLAGS", "CPPFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
