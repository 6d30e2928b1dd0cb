"""Every PEP 517 and PEP 660 hook, called as front ends call them: by pyproject-hooks."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyproject_hooks import BuildBackendHookCaller, HookMissing

from backend.builds import (
    clean_environment,
    compiled,
    dist_info,
    make_tree,
    names_in,
    read,
    snapshot,
    wrapper,
)
from backend.conftest import Site
from torchwheel.system.toml import read_toml
from torchwheel.wheel.metadata import parse_metadata_text

only_scikit_build_core = pytest.mark.parametrize("site", ["scikit-build-core"], indirect=True)


class HookFailed(Exception):
    """A hook's process ended with a failure; the text is all that it printed."""


@dataclass(frozen=True)
class Hooks:
    """The hooks of a project, run without isolation."""

    project: Path
    environment: Mapping[str, str]
    backend: str = "torchwheel.backend"

    def __call__(self, name: str, *arguments: object, **more: object) -> object:
        caller = BuildBackendHookCaller(str(self.project), self.backend, runner=self._run)
        return getattr(caller, name)(*arguments, **more)

    def _run(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environment = {**self.environment, **(extra_environ or {})}
        answer = subprocess.run(
            list(cmd),
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        if answer.returncode != 0:
            raise HookFailed(answer.stdout)


@pytest.fixture
def hooks(site: Site) -> Hooks:
    return Hooks(site.project, clean_environment(site.cache))


def test_what_the_tree_requires_is_required(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    """What its pyproject.toml names, and what its own backend asks for besides."""
    copy = shutil.copytree(site.tree, tmp_path / "copy")
    system = read_toml(copy / "pyproject.toml")["build-system"]
    own = Hooks(copy, hooks.environment, system["build-backend"])("get_requires_for_build_wheel")
    assert isinstance(own, list)
    assert sorted(hooks("get_requires_for_build_wheel")) == sorted([*system["requires"], *own])
    assert hooks("get_requires_for_build_sdist") == []
    assert snapshot(site.tree) == site.before


def test_a_kept_environment_requires_nothing_of_the_front_end(site: Site, hooks: Hooks) -> None:
    assert hooks("get_requires_for_build_wheel", {"build-env": "managed"}) == []


def test_what_is_not_installed_is_required_with_the_programs(tmp_path: Path) -> None:
    """The tree's own backend cannot be asked then, and a front end asks only once."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    pyproject = tree / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace("scikit-build-core>=1.0", "not-there>=9", 1)
    pyproject.write_text(text, encoding="utf-8")
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "ninja").symlink_to(str(shutil.which("ninja")))
    environment = clean_environment(tmp_path / "cache", PATH=str(bin_folder))
    requires = Hooks(project, environment)("get_requires_for_build_wheel")
    assert requires == ["not-there>=9", "cmake>=3.19"]
    for name, script in (("cmake", "echo cmake version 3.17.5"), ("ninja", "exit 3")):
        (bin_folder / name).unlink(missing_ok=True)
        (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (bin_folder / name).chmod(0o755)
    assert Hooks(project, environment)("get_requires_for_build_wheel") == [
        "not-there>=9",
        "cmake>=3.19",
        "ninja",
    ]


def test_metadata_is_prepared_only_where_that_builds_nothing(
    site: Site, hooks: Hooks, tmp_path: Path
) -> None:
    for name in ("prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable"):
        folder = tmp_path / name
        folder.mkdir()
        if site.generation == "setup.py":
            with pytest.raises(HookMissing):
                hooks(name, str(folder), None, False)
            assert list(folder.iterdir()) == []
        else:
            assert hooks(name, str(folder), None, False) == "torch-2.14.1+cpu.nompi.noopenmp.dist-info"
            written = (folder / "torch-2.14.1+cpu.nompi.noopenmp.dist-info" / "METADATA").read_bytes()
            assert written == read(site.wheel, f"{dist_info(site.wheel)}/METADATA")
    assert snapshot(site.tree) == site.before


def test_no_metadata_is_promised_that_depends_on_the_build(tmp_path: Path) -> None:
    """scikit-build-core itself has no such hooks where an override asks whether the build failed."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write("\n[[tool.scikit-build.overrides]]\nif.failed = true\nwheel.cmake = false\n")
    hooks = Hooks(wrapper(tmp_path / "project", tree), clean_environment(tmp_path / "cache"))
    with pytest.raises(HookMissing):
        hooks("prepare_metadata_for_build_wheel", str(tmp_path), None, False)


def test_metadata_hooks_write_generated_sources_into_the_stage_only(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    generated = (
        '\n[[tool.scikit-build.generate]]\npath = "torch/made.py"\nlocation = "source"\ntemplate = "x = 1"\n'
    )
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write(generated)
    before = snapshot(tree)
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    hooks = Hooks(project, clean_environment(tmp_path / "cache"))
    (tmp_path / "out").mkdir()
    made = hooks("prepare_metadata_for_build_wheel", str(tmp_path / "out"))
    assert made == "torch-2.14.1+cpu.nompi.noopenmp.dist-info"
    assert snapshot(tree) == before
    assert [path.name for path in (tmp_path / "cache").glob("builds/*/source/torch/made.py")] == ["made.py"]


@only_scikit_build_core
def test_the_wheel_repeats_the_prepared_metadata(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    name = hooks("prepare_metadata_for_build_wheel", str(tmp_path / "metadata"))
    prepared = str(tmp_path / "metadata" / str(name))
    assert hooks("build_wheel", str(tmp_path / "dist"), None, prepared) == site.wheel.name
    assert names_in(tmp_path / "dist" / site.wheel.name) == names_in(site.wheel)


@only_scikit_build_core
def test_other_settings_than_prepared_are_refused(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    name = hooks(
        "prepare_metadata_for_build_wheel", str(tmp_path / "metadata"), {"package-version": "2.14.2"}
    )
    with pytest.raises(HookFailed, match="Metadata mismatch in METADATA"):
        hooks("build_wheel", str(tmp_path / "dist"), None, str(tmp_path / "metadata" / str(name)))
    assert list((tmp_path / "dist").iterdir()) == []


def test_the_sdist_hook_writes_one_archive(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    assert hooks("build_sdist", str(tmp_path)) == "torch-2.14.1+cpu.nompi.noopenmp.tar.gz"
    assert [path.name for path in tmp_path.iterdir()] == ["torch-2.14.1+cpu.nompi.noopenmp.tar.gz"]
    with tarfile.open(tmp_path / "torch-2.14.1+cpu.nompi.noopenmp.tar.gz") as archive:
        top = {name.partition("/")[0] for name in archive.getnames()}
        member = archive.extractfile("torch-2.14.1+cpu.nompi.noopenmp/PKG-INFO")
        assert member is not None
        metadata = parse_metadata_text(member.read())
        assert metadata.values("Metadata-Version") == ("2.4",)
        # setup.py states nothing before it runs.
        stated = site.generation == "scikit-build-core"
        assert metadata.values("Requires-Python") == ((">=3.10",) if stated else ())
        assert metadata.values("License-Expression") == (("BSD-3-Clause",) if stated else ())
        assert ("Requires-Python" in metadata.values("Dynamic")) is not stated
        assert (metadata.values("Name"), metadata.values("Version")) == (
            ("torch",),
            ("2.14.1+cpu.nompi.noopenmp",),
        )
        # Else uv would take it that there are none.
        assert {"Requires-Dist", "Provides-Extra"} <= set(metadata.values("Dynamic"))
    assert top == {"torch-2.14.1+cpu.nompi.noopenmp"}


def test_an_sdist_is_the_same_archive_every_time(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    for place in ("a", "b"):
        hooks("build_sdist", str(tmp_path / place))
    first, second = (
        (tmp_path / place / "torch-2.14.1+cpu.nompi.noopenmp.tar.gz").read_bytes() for place in ("a", "b")
    )
    assert first == second


def test_nothing_was_compiled_again_by_all_of_this(site: Site, hooks: Hooks, tmp_path: Path) -> None:
    assert hooks("build_wheel", str(tmp_path)) == site.wheel.name
    assert compiled(site.cache) == []
    assert snapshot(site.tree) == site.before
