"""Sdists of extensions: their version is that of the wheel that is made of them, in every way to describe them."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from extension.torch_releases import install
from extension.torch_trees import TorchTree
from places import REPOSITORY
from torchwheel.engine.sdist import rewrite_sdist
from torchwheel.reporting.errors import Problem
from torchwheel.system.toml import read_toml
from tree.small_trees import commit_all

OWN, LEGACY = "torchwheel.extension.backend", "setuptools.build_meta"
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "torchwheel.extension.backend"\n'
METADATA = '[project]\nname = "pkg"\nversion = "1.2"\n'
FILES = {
    "tables": {
        "pyproject.toml": PROJECT
        + METADATA
        + '[[tool.torchwheel.extension]]\nname = "pkg._C"\nsources = ["a.cpp"]\n'
    },
    "setup.py": {
        "pyproject.toml": PROJECT,
        "setup.py": "from setuptools import setup\nfrom torchwheel import BuildExtension, CppExtension\n"
        'setup(name="pkg", version="1.2", packages=["pkg"], ext_modules=[CppExtension("pkg._C", ["a.cpp"])], '
        'cmdclass={"build_ext": BuildExtension})\n',
    },
    "CMake": {
        "pyproject.toml": PROJECT + METADATA,
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(pkg LANGUAGES CXX)\n"
        "find_package(TorchWheel REQUIRED)\ntorchwheel_add_extension(NAME pkg._C SOURCES a.cpp)\n",
    },
}
FILES["setup.py alone"] = {"setup.py": FILES["setup.py"]["setup.py"]}
WAYS = ["tables", "setup.py", "setup.py alone", "CMake"]


class Site:
    """A project and a PyTorch that is not imported; hooks run in processes of their own."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder, self.project, self.packages = folder, folder / "pro jekt", folder / "site-packages"
        self.backend = LEGACY if way == "setup.py alone" else OWN
        for name, text in {**FILES[way], "pkg/__init__.py": "", "a.cpp": "int x;\n"}.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text, encoding="utf-8")
        # As an installation has it, for setuptools to find.
        own = self.packages / "torchwheel-0.1.0.dist-info"
        own.mkdir(parents=True)
        (own / "METADATA").write_text("Metadata-Version: 2.1\nName: torchwheel\nVersion: 0.1.0\n", "utf-8")
        entries = read_toml(REPOSITORY / "pyproject.toml")["project"]["entry-points"].items()
        text = "".join(
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in one.items()) for group, one in entries
        )
        (own / "entry_points.txt").write_text(text, "utf-8")

    def with_torch(self, version: str = "2.14.1+cpu") -> Site:
        shutil.rmtree(self.packages / "torch", ignore_errors=True)
        install(self.packages, TorchTree(version=version))
        return self

    def call(
        self,
        hook: str,
        config: dict[str, str] | None = None,
        *,
        project: Path | None = None,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        code = f"import {self.backend} as b; print(b.{hook}({str(out)!r}, {config or {}!r}))"
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.packages),
            "TORCHWHEEL_CACHE_DIR": str(self.folder / "cache"),
            "COLUMNS": "10000",
            **variables,
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=project or self.project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def sdist(self, config: dict[str, str] | None = None, **variables: str) -> Path:
        done = self.call("build_sdist", config, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.folder / "out" / done.stdout.splitlines()[-1]

    def unpacked(self, sdist: Path) -> Path:
        with tarfile.open(sdist) as archive:
            archive.extractall(self.folder / "unpacked", filter="data")
        return self.folder / "unpacked" / sdist.name.removesuffix(".tar.gz")


def recorded(sdist: Path) -> Any:
    return content(sdist, ".torchwheel-sdist.json")


def content(sdist: Path, name: str) -> Any:
    folder = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as archive:
        stream = archive.extractfile(f"{folder}/{name}")
        assert stream is not None
        data = stream.read()
    return json.loads(data) if name.endswith(".json") else data.decode()


@pytest.mark.parametrize("way", WAYS)
def test_with_a_target_it_has_the_wheels_label_and_remembers_the_target(tmp_path: Path, way: str) -> None:
    site = Site(tmp_path, way).with_torch()
    sdist = site.sdist(TORCHWHEEL_TARGET="cpu")
    assert sdist.name == "pkg-1.2+cpu.torch2.14.tar.gz"
    assert recorded(sdist) == {
        "version": "1.2+cpu.torch2.14",
        "label": "cpu.torch2.14",
        "settings": {"target": "cpu"},
    }
    assert "\nVersion: 1.2+cpu.torch2.14\n" in content(sdist, "PKG-INFO")
    assert content(sdist, "a.cpp") == "int x;\n"


@pytest.mark.parametrize("way", ["tables", "setup.py alone"])
def test_without_a_target_neither_it_nor_its_wheel_has_a_label(tmp_path: Path, way: str) -> None:
    site = Site(tmp_path, way).with_torch()
    sdist = site.sdist()
    assert sdist.name == "pkg-1.2.tar.gz"
    assert recorded(sdist) == {"version": "1.2", "settings": {"local-version": ""}}


@pytest.mark.parametrize("way", ["tables", "setup.py alone", "CMake"])
def test_without_pytorch_the_target_is_remembered_and_that_is_said(tmp_path: Path, way: str) -> None:
    site = Site(tmp_path, way)
    done = site.call("build_sdist", TORCHWHEEL_TARGET="rtx5070")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "torchwheel: there is no PyTorch here, so neither the sdist nor a wheel made of it has a label\n"
        in done.stdout
    )
    assert done.stdout.splitlines()[-1] == "pkg-1.2.tar.gz"
    assert recorded(tmp_path / "out/pkg-1.2.tar.gz") == {
        "version": "1.2",
        "settings": {"arch": "12.0", "local-version": "", "target": "rtx5070"},
    }


def test_a_label_of_ones_own_and_another_version(tmp_path: Path) -> None:
    site = Site(tmp_path, "tables")
    sdist = site.sdist({"local-version": "own", "package-version": "3.0"})
    assert sdist.name == "pkg-3.0+own.tar.gz"
    assert recorded(sdist)["settings"] == {"local-version": "own", "package-version": "3.0"}
    again = site.sdist({"local-version": ""}, TORCHWHEEL_TARGET="cpu")
    assert (again.name, recorded(again)["settings"]) == (
        "pkg-1.2.tar.gz",
        {"local-version": "", "target": "cpu"},
    )


def test_an_sdist_has_every_source_and_every_file_that_git_does_not_ignore(tmp_path: Path) -> None:
    """Also a source that git ignores: the wheel that is made of it would be linked without that one."""
    site = Site(tmp_path, "tables")
    file = site.project / "pyproject.toml"
    file.write_text(file.read_text("utf-8").replace('"a.cpp"', '"./*.cpp", "made-later.cpp"'), "utf-8")
    texts = {
        "made.cpp": "int y;\n",
        ".gitignore": "made*\n",
        "own.h": "",
        "made.h": "",
        "pkg/data.json": "{}",
    }
    for name, text in texts.items():
        (site.project / name).write_text(text, "utf-8")
    commit_all(site.project)
    with tarfile.open(site.sdist()) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"a.cpp", "made.cpp", "own.h", "pkg/__init__.py", "pkg/data.json", "pyproject.toml"} <= names
    assert not {"made.h", "made-later.cpp", "pkg/_C.abi3.so"} & names


@pytest.mark.parametrize("way", ["tables", "CMake"])
def test_an_sdist_does_not_hold_what_torchwheel_has_built(tmp_path: Path, way: str) -> None:
    site = Site(tmp_path, way)
    kept = site.project / ".kept/extensions/pkg-1/backend.log"
    kept.parent.mkdir(parents=True)
    kept.touch()
    if way == "CMake":
        done = site.call("build_sdist", TORCHWHEEL_CACHE_DIR=".kept")
        assert done.returncode == 2
        assert "[sdist-holds-builds]" in done.stdout + done.stderr
        assert list((tmp_path / "out").glob("*")) == []
        (site.project / ".gitignore").write_text("/.kept/extensions/\n", "utf-8")
    with tarfile.open(site.sdist(TORCHWHEEL_CACHE_DIR=".kept")) as archive:
        assert not [name for name in archive.getnames() if ".kept" in name]


@pytest.mark.parametrize(
    ("variables", "version"), [({"TORCHWHEEL_TARGET": "cpu"}, "1.2+cpu.torch2.14"), ({}, "1.2")]
)
def test_the_wheel_made_of_it_has_its_version(
    tmp_path: Path, variables: dict[str, str], version: str
) -> None:
    site = Site(tmp_path, "tables").with_torch()
    unpacked = site.unpacked(site.sdist(**variables))
    made = site.call("prepare_metadata_for_build_wheel", project=unpacked)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == f"pkg-{version}.dist-info"
    # An sdist of what was unpacked is the same again.
    again = site.call("build_sdist", project=unpacked)
    assert again.stdout.splitlines()[-1] == f"pkg-{version}.tar.gz", again.stderr
    assert site.unpacked(tmp_path / f"out/pkg-{version}.tar.gz").is_dir()
    with tarfile.open(tmp_path / f"out/pkg-{version}.tar.gz") as archive:
        names = archive.getnames()
    assert sorted(names) == sorted(set(names))


def test_another_pytorch_than_the_sdists_is_an_error_before_anything_is_compiled(tmp_path: Path) -> None:
    site = Site(tmp_path, "tables").with_torch()
    unpacked = site.unpacked(site.sdist({"target": "cpu"}))
    site.with_torch("2.15.0+cpu")
    done = site.call("build_wheel", project=unpacked)
    assert done.returncode == 2
    problem = Problem.of("version-is-not-the-sdists/torch", sdist="1.2+cpu.torch2.14", label="cpu.torch2.15")
    assert done.stderr == f"torchwheel: {problem.render()}\n"


def test_what_git_said_of_the_checkout_is_in_the_sdist(tmp_path: Path) -> None:
    site = Site(tmp_path, "tables").with_torch()
    commit = commit_all(site.project)
    assert site.sdist({"target": "cpu"}).name == "pkg-1.2+cpu.torch2.14.tar.gz"
    (site.project / "a.cpp").write_text("int y;\n", encoding="utf-8")
    sdist = site.sdist({"target": "cpu"})
    assert sdist.name == "pkg-1.2+cpu.torch2.14.dirty.tar.gz"
    facts = {"commit": commit, "release_tag": None, "dirty": True, "identity": ""}
    assert content(sdist, ".torchwheel-source.json") == facts
    made = site.call("prepare_metadata_for_build_wheel", project=site.unpacked(sdist))
    assert made.stdout.splitlines()[-1] == "pkg-1.2+cpu.torch2.14.dirty.dist-info", made.stderr


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
