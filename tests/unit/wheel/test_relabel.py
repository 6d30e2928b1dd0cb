"""Wheels that say other things of themselves: name and metadata change, and no other byte."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

from refusals import error_of, origins_of
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.rewrite import Relabelling, relabel_metadata, relabel_wheel
from wheel_samples import compressed, is_sound

VERSION = "1.2+cu130.sm120.torch2.14"
WHOLE = Relabelling(VERSION, ("torch>=2.14,<2.15",), "cp310-abi3-linux_x86_64")

METADATA = """Metadata-Version: 2.1
Name: my.kernels
Version: 1.2
Requires-Dist: torch>=2.4
Requires-Dist: numpy

# My kernels
Version: 1.2
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a data folder, a build number, and a name that is not ASCII."""
    path = tmp_path / "my_kernels-1.2-7-cp311-cp311-linux_x86_64.whl"
    files = {
        "my_kernels/__init__.py": b"",
        "my_kernels/größe.txt": b"12" * 1000,
        "my_kernels/my_kernels-1.2.dist-info": b"no folder",
        "my_kernels-1.2.data/scripts/tool": b"#!python\n",
        "my_kernels-1.2.data/data/share/größe.txt": b"12",
        "my_kernels-1.2.dist-info/METADATA": METADATA.encode(),
        "my_kernels-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nBuild: 7\nTag: cp311-cp311-linux_x86_64\n",
        "my_kernels-1.2.dist-info/licenses/LICENSE": b"free",
    }
    with WheelFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "ausgabe ü"
    folder.mkdir()
    return folder


def test_everything_at_once(wheel: Path, out: Path) -> None:
    before = compressed(wheel)
    made = relabel_wheel(wheel, out, WHOLE, environment={})

    assert made == out / f"my_kernels-{VERSION}-7-cp310-abi3-linux_x86_64.whl"
    assert list(out.iterdir()) == [made]
    assert is_sound(made)
    old, new = "my_kernels-1.2", f"my_kernels-{VERSION}"
    after = compressed(made)
    kept = {
        "my_kernels/__init__.py": "my_kernels/__init__.py",
        "my_kernels/größe.txt": "my_kernels/größe.txt",
        "my_kernels/my_kernels-1.2.dist-info": "my_kernels/my_kernels-1.2.dist-info",
        f"{old}.data/scripts/tool": f"{new}.data/scripts/tool",
        f"{old}.data/data/share/größe.txt": f"{new}.data/data/share/größe.txt",
        f"{old}.dist-info/licenses/LICENSE": f"{new}.dist-info/licenses/LICENSE",
    }
    assert {new_name: before[old_name] for old_name, new_name in kept.items()}.items() <= after.items()
    assert list(after) == [
        *kept.values(),
        *(f"{new}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
    ]
    with zipfile.ZipFile(made) as archive:
        metadata = archive.read(f"{new}.dist-info/METADATA").decode()
        wheel_file = archive.read(f"{new}.dist-info/WHEEL").decode()
    assert metadata == METADATA.replace("Version: 1.2\nReq", f"Version: {VERSION}\nReq").replace(
        "torch>=2.4", "torch<2.15,>=2.14,>=2.4"
    )
    assert wheel_file == "Wheel-Version: 1.0\nBuild: 7\nTag: cp310-abi3-linux_x86_64\n"
    contents = inspect_wheel(made)
    assert (contents.name, contents.version, contents.metadata.single("Version")) == (
        "my-kernels",
        VERSION,
        VERSION,
    )
    assert contents.tags == contents.wheel_tags == ("cp310-abi3-linux_x86_64",)


def test_nothing_to_change(wheel: Path, out: Path) -> None:
    before = compressed(wheel)
    made = relabel_wheel(wheel, out, Relabelling(), environment={})
    assert made.name == wheel.name
    record = "my_kernels-1.2.dist-info/RECORD"
    assert {k: v for k, v in compressed(made).items() if k != record} == {
        k: v for k, v in before.items() if k != record
    }


def test_compressed_tags_are_expanded(wheel: Path, out: Path) -> None:
    made = relabel_wheel(wheel, out, Relabelling(tag="py2.py3-none-any"), environment={})
    assert made.name == "my_kernels-1.2-7-py2.py3-none-any.whl"
    assert inspect_wheel(made).wheel_tags == ("py2-none-any", "py3-none-any")


def test_a_contradiction_leaves_nothing_behind(wheel: Path, out: Path) -> None:
    assert origins_of(relabel_wheel, wheel, out, Relabelling(VERSION, ("torch<2.4",)), environment={}) == [
        ("contradictory-requirements", str(wheel))
    ]
    assert list(out.iterdir()) == []


def test_folders_of_two_versions(wheel: Path, out: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed" / wheel.name
    mixed.parent.mkdir()
    with WheelFile(wheel) as old, WheelFile(mixed, "w") as new:
        for name in old.namelist():
            if not name.endswith("RECORD"):
                new.writestr(name, old.read(name))
        new.writestr(f"my_kernels-{VERSION}.data/scripts/tool", b"")
    assert error_of(relabel_wheel, mixed, out, WHOLE, environment={}).problems == (
        Problem.of("forbidden-member/twice", origin=mixed, names=f"my_kernels-{VERSION}.data/scripts/tool"),
    )
    assert list(out.iterdir()) == []


def test_prepared_metadata_is_the_wheels(wheel: Path, out: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            prepared, [n for n in archive.namelist() if n.startswith("my_kernels-1.2.dist-info")]
        )
    (prepared / "my_kernels-1.2.dist-info" / "RECORD").unlink()
    name = relabel_metadata(prepared / "my_kernels-1.2.dist-info", WHOLE)
    assert name == f"my_kernels-{VERSION}.dist-info"
    assert [path.name for path in prepared.iterdir()] == [name]
    with zipfile.ZipFile(relabel_wheel(wheel, out, WHOLE, environment={})) as archive:
        for file in ("METADATA", "WHEEL"):
            assert (prepared / name / file).read_bytes() == archive.read(f"{name}/{file}")


def test_prepared_metadata_without_a_wheel_file(tmp_path: Path) -> None:
    folder = tmp_path / "kernels-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: kernels\nVersion: 1.2\n", encoding="utf-8", newline="")
    assert relabel_metadata(folder, WHOLE) == f"kernels-{VERSION}.dist-info"
    assert sorted(path.name for path in (tmp_path / f"kernels-{VERSION}.dist-info").iterdir()) == ["METADATA"]
