"""Sdists of extensions: their version is that of the wheel that is made of them, in every way to describe them."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from extension import projects
from extension.projects import MODULE, Built
from extension.torch_releases import install
from extension.torch_trees import TorchTree
from torchwheel.engine.sdist import rewrite_sdist
from torchwheel.reporting.errors import Problem
from tree.small_trees import commit_all

WAYS = ["tables", "setup.py", "setup.py alone", "CMake"]
SOURCE = "csrc/bind.cpp"


def sdist(built: Built, config: dict[str, str] | None = None, **variables: str) -> Path:
    done = built.call("build_sdist", config, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return built.folder / "out" / done.stdout.splitlines()[-1]


def unpack(built: Built, archive: Path) -> Path:
    """Go on with what an sdist holds."""
    with tarfile.open(archive) as members:
        members.extractall(built.folder / "unpacked", filter="data")
    built.project = built.folder / "unpacked" / archive.name.removesuffix(".tar.gz")
    return built.project


def recorded(archive: Path) -> Any:
    return content(archive, ".torchwheel-sdist.json")


def content(archive: Path, name: str) -> Any:
    folder = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as members:
        stream = members.extractfile(f"{folder}/{name}")
        assert stream is not None
        data = stream.read()
    return json.loads(data) if name.endswith(".json") else data.decode()


@pytest.mark.parametrize("way", WAYS)
def test_with_a_target_it_has_the_wheels_label_and_remembers_the_target(tmp_path: Path, way: str) -> None:
    made = sdist(Built(tmp_path, way, project="pro jekt"), TORCHWHEEL_TARGET="cpu")
    assert made.name == "tiny-1.2+cpu.torch2.14.tar.gz"
    assert recorded(made) == {
        "version": "1.2+cpu.torch2.14",
        "label": "cpu.torch2.14",
        "settings": {"target": "cpu"},
    }
    assert "\nVersion: 1.2+cpu.torch2.14\n" in content(made, "PKG-INFO")
    assert content(made, SOURCE) == MODULE


@pytest.mark.parametrize("way", ["tables", "setup.py alone"])
def test_without_a_target_neither_it_nor_its_wheel_has_a_label(tmp_path: Path, way: str) -> None:
    made = sdist(Built(tmp_path, way))
    assert made.name == "tiny-1.2.tar.gz"
    assert recorded(made) == {"version": "1.2", "settings": {"local-version": ""}}


@pytest.mark.parametrize("way", ["tables", "setup.py alone", "CMake"])
def test_without_pytorch_the_target_is_remembered_and_that_is_said(tmp_path: Path, way: str) -> None:
    built = Built(tmp_path, way, torch=None)
    before = sorted(built.project.rglob("*"))
    assert built.call("get_requires_for_build_sdist").returncode == 0
    done = built.call("build_sdist", TORCHWHEEL_TARGET="rtx5070")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "torchwheel: there is no PyTorch here, so neither the sdist nor a wheel made of it has a label\n"
        in done.stdout
    )
    assert done.stdout.splitlines()[-1] == "tiny-1.2.tar.gz"
    assert recorded(tmp_path / "out/tiny-1.2.tar.gz") == {
        "version": "1.2",
        "settings": {"arch": "12.0", "local-version": "", "target": "rtx5070"},
    }
    # setuptools' own backend writes beside its setup.py.
    assert way == "setup.py alone" or sorted(built.project.rglob("*")) == before


def test_a_label_of_ones_own_and_another_version(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables", torch=None)
    made = sdist(built, {"local-version": "own", "package-version": "3.0"})
    assert made.name == "tiny-3.0+own.tar.gz"
    assert recorded(made)["settings"] == {"local-version": "own", "package-version": "3.0"}
    again = sdist(built, {"local-version": ""}, TORCHWHEEL_TARGET="cpu")
    assert (again.name, recorded(again)["settings"]) == (
        "tiny-1.2.tar.gz",
        {"local-version": "", "target": "cpu"},
    )


def test_an_sdist_has_every_source_and_every_file_that_git_does_not_ignore(tmp_path: Path) -> None:
    """Also a source that git ignores: the wheel that is made of it would be linked without that one."""
    built = Built(tmp_path, "tables", torch=None)
    text = projects.HEAD + projects.PROJECT + projects.TABLE
    texts = {
        "pyproject.toml": text.replace('"csrc/*.cpp"', '"csrc/*.cpp", "./*.cpp", "made-later.cpp"'),
        "made.cpp": "int y;\n",
        ".gitignore": "made*\n",
        "own.h": "",
        "made.h": "",
        "tiny/data.json": "{}",
    }
    for name, text in texts.items():
        built.write(name, text)
    commit_all(built.project)
    with tarfile.open(sdist(built)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {SOURCE, "made.cpp", "own.h", "tiny/__init__.py", "tiny/data.json", "pyproject.toml"} <= names
    assert not {"made.h", "made-later.cpp", "tiny/_C.abi3.so"} & names


@pytest.mark.parametrize("way", ["tables", "CMake"])
def test_an_sdist_does_not_hold_what_torchwheel_has_built(tmp_path: Path, way: str) -> None:
    built = Built(tmp_path, way, torch=None)
    built.write(".kept/extensions/tiny-1/backend.log", "")
    if way == "CMake":
        done = built.call("build_sdist", TORCHWHEEL_CACHE_DIR=".kept")
        assert done.returncode == 2
        assert "[sdist-holds-builds]" in done.stdout + done.stderr
        assert list((tmp_path / "out").glob("*")) == []
        built.write(".gitignore", "/.kept/extensions/\n")
    with tarfile.open(sdist(built, TORCHWHEEL_CACHE_DIR=".kept")) as archive:
        assert not [name for name in archive.getnames() if ".kept" in name]


@pytest.mark.parametrize(
    ("variables", "version"), [({"TORCHWHEEL_TARGET": "cpu"}, "1.2+cpu.torch2.14"), ({}, "1.2")]
)
def test_the_wheel_made_of_it_has_its_version(
    tmp_path: Path, variables: dict[str, str], version: str
) -> None:
    built = Built(tmp_path, "tables")
    unpack(built, sdist(built, **variables))
    made = built.call("prepare_metadata_for_build_wheel")
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == f"tiny-{version}.dist-info"
    # An sdist of what was unpacked is the same again.
    again = sdist(built)
    assert again.name == f"tiny-{version}.tar.gz"
    with tarfile.open(again) as archive:
        names = archive.getnames()
    assert sorted(names) == sorted(set(names))


def test_another_pytorch_than_the_sdists_is_an_error_before_anything_is_compiled(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables")
    unpack(built, sdist(built, {"target": "cpu"}))
    shutil.rmtree(built.packages / "torch")
    install(built.packages, TorchTree(version="2.15.0+cpu"))
    done = built.call("build_wheel")
    assert done.returncode == 2
    problem = Problem.of("version-is-not-the-sdists/torch", sdist="1.2+cpu.torch2.14", label="cpu.torch2.15")
    assert done.stderr == f"torchwheel: {problem.render()}\n"


def test_what_git_said_of_the_checkout_is_in_the_sdist(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables")
    commit = commit_all(built.project)
    assert sdist(built, {"target": "cpu"}).name == "tiny-1.2+cpu.torch2.14.tar.gz"
    built.write(SOURCE, "int y;\n")
    dirty = sdist(built, {"target": "cpu"})
    assert dirty.name == "tiny-1.2+cpu.torch2.14.dirty.tar.gz"
    facts = {"commit": commit, "release_tag": None, "dirty": True, "identity": ""}
    assert content(dirty, ".torchwheel-source.json") == facts
    unpack(built, dirty)
    made = built.call("prepare_metadata_for_build_wheel")
    assert made.stdout.splitlines()[-1] == "tiny-1.2+cpu.torch2.14.dirty.dist-info", made.stderr


def test_an_sdist_is_copied_under_another_version(tmp_path: Path) -> None:
    members: list[tuple[str, bytes, str]] = [
        ("a.txt", b"text", ""),
        ("hard", b"", "p-1/a.txt"),
        ("PKG-INFO", b"Metadata-Version: 2.2\nName: p\nVersion: 0\n", ""),
        (".own", b"old", ""),
        ("PKG-INFO", b"Metadata-Version: 2.2\nName: p\nVersion: 1\n\nText\n", ""),
    ]
    with tarfile.open(tmp_path / "p-1.tar.gz", "w:gz") as archive:
        for name, data, link in members:
            info = tarfile.TarInfo(f"p-1/{name}")
            info.size, info.mtime, info.linkname = len(data), 1_600_000_000, link
            info.type = tarfile.LNKTYPE if link else tarfile.REGTYPE
            archive.addfile(info, io.BytesIO(data))
    built = tmp_path / "p-1.tar.gz"
    assert rewrite_sdist(built, tmp_path / "out", "1+cpu", {".own": b"new"}, {}) == "p-1+cpu.tar.gz"
    with tarfile.open(tmp_path / "out/p-1+cpu.tar.gz") as archive:
        found = {one.name: (one.mtime, archive.extractfile(one).read()) for one in archive}  # type: ignore[union-attr]
        assert len(found) == len(archive.getnames())
    assert found == {
        f"p-1+cpu/{name}": (1_600_000_000, data)
        for name, data in {
            "a.txt": b"text",
            "hard": b"text",
            "PKG-INFO": b"Metadata-Version: 2.2\nName: p\nVersion: 1+cpu\n\nText\n",
            ".own": b"new",
        }.items()
    }
