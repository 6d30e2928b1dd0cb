"""What is found inside wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from refusals import error_of, ids_of, origins_of
from torchwheel.hardware.architecture import Architecture
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import (
    Library,
    TorchVersion,
    WheelContents,
    inspect_wheel,
    parse_torch_version,
    runnable_architectures,
)
from torchwheel.wheel.fatbinary import CodeImage, ImageKind
from torchwheel.wheel.metadata import parse_metadata_text

SM_120 = CodeImage(Architecture(12, 0), ImageKind.SASS, False, 1, 8)
PTX_120 = CodeImage(Architecture(12, 0), ImageKind.PTX, False, 1, 8)


def test_everything_in_a_wheel(recipe: Any, samples: Any, tmp_path: Path) -> None:
    entry = samples.Entry
    cuda_library = samples.library(entry(2, 120), entry(1, 120))
    python_library = samples.library(entry(2, 120))
    windows_library = samples.pe({".nv_fatb": samples.fat_binary(entry(2, 90))})
    path = recipe(
        metadata="Metadata-Version: 2.1\nName: Torch\nVersion: {version}\nRequires-Python: >=3.10\n"
        "Requires-Dist: filelock\nRequires-Dist: sympy>=1.13.3\n\nDescription: Ünïcode\n",
        files={
            "torch/lib/libtorch_cuda.so": cuda_library,
            "torch/lib/libtorch_cpu.so.2.14": samples.library(),
            "torch/lib/torch_cuda.DLL": windows_library,
            "torch/_C.cpython-311-x86_64-linux-gnu.so": python_library,
            "torch/not_a_library.so.txt": cuda_library,
        },
    ).write(tmp_path)
    version = "2.14.1+cu130.sm120"
    contents = inspect_wheel(path)
    assert contents == WheelContents(
        path=path,
        name="torch",
        version=version,
        tags=("cp311-cp311-linux_x86_64",),
        wheel=parse_metadata_text(
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"
        ),
        metadata=parse_metadata_text(
            (
                f"Metadata-Version: 2.1\nName: Torch\nVersion: {version}\nRequires-Python: >=3.10\n"
                "Requires-Dist: filelock\nRequires-Dist: sympy>=1.13.3\n\nDescription: Ünïcode\n"
            ).encode()
        ),
        has_torch=True,
        torch_version=TorchVersion(version, "13.0", "0123456789abcdef0123456789abcdef01234567", False),
        libraries=(
            Library("torch/_C.cpython-311-x86_64-linux-gnu.so", len(python_library), (SM_120,)),
            Library("torch/lib/libtorch_cpu.so.2.14", len(samples.library()), ()),
            Library("torch/lib/libtorch_cuda.so", len(cuda_library), (PTX_120, SM_120)),
            Library(
                "torch/lib/torch_cuda.DLL",
                len(windows_library),
                (CodeImage(Architecture(9, 0), ImageKind.SASS, False, 1, 8),),
            ),
        ),
        files=frozenset(zipfile.ZipFile(path).namelist()),
    )
    assert [(image.label, image.count) for image in contents.images] == [
        ("sm90", 1),
        ("ptx120", 1),
        ("sm120", 2),
    ]
    assert (contents.metadata.single("Name"), contents.metadata.single("Summary")) == ("Torch", None)
    assert contents.metadata.requires_dist == ("filelock", "sympy>=1.13.3")
    assert contents.architectures is not None
    assert contents.architectures.labels == ("sm90", "sm120", "ptx120")


def test_what_a_driver_can_load() -> None:
    """Neither LTO IR nor code before device linking is a reason to say that a wheel runs on something."""
    code = [
        CodeImage(Architecture(9, 0), ImageKind.LTO_IR, False, 1, 8),
        CodeImage(Architecture(12, 1), ImageKind.SASS, True, 1, 8),
        CodeImage(Architecture(12, 1), ImageKind.PTX, True, 1, 8),
    ]
    assert runnable_architectures(code) is None
    found = runnable_architectures([*code, SM_120, PTX_120])
    assert found is not None
    assert found.labels == ("sm120", "ptx120")


@pytest.mark.parametrize("name", ["torch.whl", "torch-2.14.1.zip", "torch-x-py3-none-any.whl"])
def test_file_names_of_no_wheel(recipe: Any, tmp_path: Path, name: str) -> None:
    recipe().write(tmp_path).rename(tmp_path / name)
    (problem,) = error_of(inspect_wheel, tmp_path / name).problems
    assert problem.id == "bad-wheel-file-name"
    assert repr(name) in problem.what
    assert problem.origin == str(tmp_path / name)


def test_a_file_that_is_not_there_is_missing_whatever_its_name(tmp_path: Path) -> None:
    assert ids_of(inspect_wheel, tmp_path / "torch.whl") == ["unreadable-file"]


def test_no_room_to_look_into_a_library(
    recipe: Any, samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = samples.library()
    path = recipe(files={"torch/_C.so": library}).write(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: namedtuple("usage", "free")(100))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert error_of(inspect_wheel, path).problems == (
        Problem.of(
            "no-space",
            origin=path,
            member="torch/_C.so",
            size=len(library),
            folder=tmp_path,
            detail="has 100 left",
        ),
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit for the size of a file")
def test_the_disk_is_full_while_unpacking(recipe: Any, samples: Any, tmp_path: Path) -> None:
    library = samples.library()
    path = recipe(files={"torch/_C.so": library}).write(tmp_path)
    script = (
        "import pathlib, resource, sys, tempfile\n"
        "from torchwheel.reporting.errors import TorchwheelError\n"
        "from torchwheel.wheel.contents import inspect_wheel\n"
        "tempfile.tempdir = sys.argv[2]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: inspect_wheel(pathlib.Path(sys.argv[1]))\n"
        "except TorchwheelError as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    problem = Problem.of(
        "no-space",
        origin=path,
        member="torch/_C.so",
        size=len(library),
        folder=tmp_path,
        detail="says: File too large",
    )
    assert done.stdout == f"{problem.render()}\n"


def test_a_damaged_library_names_itself(recipe: Any, samples: Any, tmp_path: Path) -> None:
    path = recipe(files={"torch/_C.so": samples.library()[:-1]}).write(tmp_path)
    assert origins_of(inspect_wheel, path) == [("damaged-library", f"{path}: torch/_C.so")]


def test_as_pytorch_writes_it() -> None:
    source = b"""from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.6.0+cu124'
debug = False
cuda: Optional[str] = '12.4'
git_version = '2236df1770800ffea5697b11b0bb0d910b2e59e1'
hip: Optional[str] = None
"""
    assert parse_torch_version(source, "x") == TorchVersion(
        version="2.6.0+cu124",
        cuda="12.4",
        git_version="2236df1770800ffea5697b11b0bb0d910b2e59e1",
        debug=False,
    )


def test_nothing_is_run_and_other_forms_are_left_out() -> None:
    source = b"""
raise SystemExit(1)
__version__ = open('x').read()
cuda = 13
debug = 'yes'
git_version, other = 'a', 'b'
git_version: str
"""
    assert parse_torch_version(source, "x") == TorchVersion(None, None, None, None)


@pytest.mark.parametrize(
    "source", [b"def", b"\0", b"\xff\xfe", b"(" * 100_000], ids=["syntax", "NUL", "not UTF-8", "nesting"]
)
def test_not_python(source: bytes) -> None:
    (problem,) = error_of(parse_torch_version, source, "w.whl: torch/version.py").problems
    assert problem.id == "malformed-version-file"
    assert problem.origin == "w.whl: torch/version.py"
