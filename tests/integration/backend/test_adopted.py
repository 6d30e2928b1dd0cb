"""Adopted trees: built in place where a target is requested, and as before where none is."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from backend.builds import (
    GENERATIONS,
    PACKAGES,
    check,
    clean_environment,
    compiled,
    compute,
    make_tree,
    manifest,
    names_in,
    new_environment,
    run,
)
from backend.builds import torchwheel as command
from places import REPOSITORY
from torchwheel.cli.adopt import adopt, undo

SETTINGS = ("-C", "build-env=current", "-C", "package-version=2.14.1", "-C", "disable=tests,openmp,mpi")
QUICK = {"USE_CUDA": "0", "USE_OPENMP": "0", "USE_MPI": "0", "BUILD_TEST": "0"}


@pytest.fixture(params=GENERATIONS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_tree(request.param, tmp_path / "ein Baum é")


def pip(python: Path | str, *arguments: str | Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "pip", "--python", python, *arguments, "--no-deps", "--no-build-isolation")


def content(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.long
def test_it_builds_in_place_and_a_second_time_compiles_nothing(tree: Path, tmp_path: Path) -> None:
    before = content(tree)
    adopt(tree)
    command = pip(sys.executable, "wheel", ".", "-w", tmp_path / "dist", "-C", "target=cpu", *SETTINGS)
    environment = clean_environment(tmp_path / "cache")
    check(*command, cwd=tree, env=environment)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith("torch-2.14.1+cpu.nompi.noopenmp-cp3")
    assert manifest(wheel)["plan"]["target"] == ["cpu"]
    assert len(compiled(tmp_path / "cache")) > 10
    assert (tree / "torch" / "version.py").is_file()
    assert not list((tmp_path / "cache" / "builds").glob("*/source"))
    names = names_in(wheel)
    check(*command, cwd=tree, env=environment)
    assert names_in(wheel) == names
    assert compiled(tmp_path / "cache") == []
    undo(tree)
    after = content(tree)
    assert {name: after[name] for name in before} == before
    assert not (tree / "backend").exists()


@pytest.mark.long
def test_another_target_in_the_same_tree_keeps_no_option_of_the_first(tmp_path: Path) -> None:
    """setup.py knows one build directory only, and CMake keeps every option that it was ever given."""
    tree = make_tree("setup.py", tmp_path / "tree")
    adopt(tree)
    environment = clean_environment(tmp_path / "cache")
    asked = command("build", "--configure-only", tree, "--target", "cpu", "-C", "build-env=current")
    check(*asked, "-C", "define.USE_OPENMP=OFF", cwd=tmp_path, env=environment)
    cache = tree / "build" / "CMakeCache.txt"
    check(*asked, cwd=tmp_path, env=environment)
    (line,) = (
        line for line in cache.read_text(encoding="utf-8").splitlines() if line.startswith("USE_OPENMP:")
    )
    assert line == "USE_OPENMP:BOOL=ON"


@pytest.mark.long
def test_a_header_that_an_earlier_build_installed_is_not_handed_over(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")
    (tree / ".gitignore").write_text("build/\ntorch/include/\ntorch/lib/\n", encoding="utf-8")
    gone = tree / "c10" / "util" / "gone.h"
    gone.touch()
    adopt(tree)
    environment = clean_environment(tmp_path / "cache")
    build = (*command("build", tree, "--target", "cpu", *SETTINGS), "-o", tmp_path / "out")
    check(*build, cwd=tmp_path, env=environment)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    header = "torch/include/c10/util/gone.h"
    assert header in names_in(wheel)

    gone.unlink()
    done = run(*build, cwd=tmp_path, env=environment)
    assert (done.returncode, "[leftovers-packed]" in done.stderr, header in done.stderr) == (3, True, True)
    # The remedy's git clean needs a repository.
    for folder in ("include", "lib"):
        shutil.rmtree(tree / "torch" / folder)
    check(*build, cwd=tmp_path, env=environment)
    assert header not in names_in(wheel)
    assert (tree / "c10" / "util" / "intrusive_ptr.h").is_file()


@pytest.mark.long
def test_an_editable_install(tree: Path, tmp_path: Path) -> None:
    adopt(tree)
    python = new_environment(tmp_path / "venv", PACKAGES, REPOSITORY / "src")
    command = pip(python, "install", "-e", ".", "-C", "target=cpu", *SETTINGS)
    check(*command, cwd=tree, env=clean_environment(tmp_path / "cache"))
    version, product, place = compute(python, tmp_path, tmp_path / "cache")
    assert (version, product) == ("2.14.1+cpu.nompi.noopenmp", [[7.0, 10.0], [15.0, 22.0]])
    assert Path(place) == tree / "torch" / "__init__.py"


@pytest.mark.long
def test_an_sdist_of_it_builds_elsewhere(tree: Path, tmp_path: Path) -> None:
    adopt(tree)
    before = content(tree)
    build = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "-Ctarget=cpu")
    environment = clean_environment(tmp_path / "cache")
    check(*build, *SETTINGS, "-o", tmp_path / "dist", cwd=tree, env=environment)
    sdist, wheel = sorted((tmp_path / "dist").iterdir(), key=lambda path: path.suffix)
    assert sdist.name == "torch-2.14.1+cpu.nompi.noopenmp.tar.gz"
    assert wheel.name.startswith("torch-2.14.1+cpu.nompi.noopenmp-cp3")
    assert content(tree) == before
    shutil.rmtree(tree)
    # It remembers its target; the tree's own backend would take the CUDA toolkit that it finds.
    check(*pip(sys.executable, "wheel", sdist, "-w", tmp_path / "again"), cwd=tmp_path, env=environment)
    assert [path.name for path in (tmp_path / "again").iterdir()] == [wheel.name]
