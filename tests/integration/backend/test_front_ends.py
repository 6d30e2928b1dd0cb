"""The same wheel through every front end, without compiling anything twice."""

from __future__ import annotations

import re
import shutil
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from backend.builds import (
    PACKAGES,
    check,
    clean_environment,
    compiled,
    log_of,
    manifest,
    names_in,
    new_environment,
    run,
    snapshot,
    wrapper,
)
from backend.builds import torchwheel as command
from backend.conftest import Site
from places import REPOSITORY
from torchwheel.reporting.terminal import shell_word

NOT_ISOLATED = {
    "pip": (sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w"),
    "build": (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "-o"),
    "uv": ("uv", "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o"),
    "torchwheel": (*command("build"), "-o"),
}


@pytest.mark.parametrize("front_end", NOT_ISOLATED)
def test_every_front_end_makes_the_same_wheel(site: Site, front_end: str, tmp_path: Path) -> None:
    check(*NOT_ISOLATED[front_end], tmp_path / "dist", cwd=site.project, env=clean_environment(site.cache))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name == site.wheel.name
    assert names_in(wheel) == names_in(site.wheel)
    assert compiled(site.cache) == []
    assert snapshot(site.tree) == site.before
    shutil.rmtree(site.project / "build", ignore_errors=True)
    assert {path.name for path in site.project.iterdir()} == {"pyproject.toml"}


def test_an_sdist_and_the_wheel_from_it(site: Site, tmp_path: Path) -> None:
    """``python -m build`` unpacks the sdist in a temporary folder and builds the wheel there."""
    command = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "-o")
    check(*command, tmp_path / "dist", cwd=site.project, env=clean_environment(site.cache))
    sdist, wheel = sorted((tmp_path / "dist").iterdir(), key=lambda path: path.suffix)
    assert sdist.name == "torch-2.14.1+cpu.nompi.noopenmp.tar.gz"
    assert wheel.name == site.wheel.name
    assert names_in(wheel) == names_in(site.wheel)
    assert compiled(site.cache) == []
    assert snapshot(site.tree) == site.before


@pytest.mark.long
def test_an_sdist_builds_where_the_tree_is_gone(site: Site, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check", "-o")
    check(*command, tmp_path, cwd=site.project, env=clean_environment(site.cache))
    with tarfile.open(tmp_path / "torch-2.14.1+cpu.nompi.noopenmp.tar.gz") as archive:
        archive.extractall(tmp_path / "ein anderer Ort", filter="data")
    unpacked = tmp_path / "ein anderer Ort" / "torch-2.14.1+cpu.nompi.noopenmp"
    tree_files = {name for name in site.before if (site.tree / name).is_file()}
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert files == {
        ".torchwheel-sdist.json",
        "PKG-INFO",
        "pyproject.toml",
        "source/.torchwheel-source.json",
        # minitorch's own pyproject.toml leaves these out of its sdists.
        *(f"source/{name}" for name in tree_files if not name.startswith(("setup_py/", "tools/make_gen"))),
    }
    # pip gives unpacked files permissions of its own.
    for path in unpacked.rglob("*"):
        if path.is_file():
            path.chmod(stat.S_IMODE(path.stat().st_mode) ^ stat.S_IWGRP)
    away = site.tree.with_name("moved away")
    site.tree.rename(away)
    try:
        check(*NOT_ISOLATED["pip"], tmp_path / "dist", cwd=unpacked, env=clean_environment(site.cache))
    finally:
        away.rename(site.tree)
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [site.wheel.name]
    assert compiled(site.cache) == []


@pytest.mark.long
def test_an_sdist_remembers_what_it_was_made_for(site: Site, tmp_path: Path) -> None:
    """Nothing but the archive is given: no target, no version, no wrapper project."""
    project = wrapper(tmp_path / "ein Projekt", site.tree, target='"rtx5070"', **{"package-version": '"3.0"'})
    environment = clean_environment(site.cache)
    asked = ("-C", "target=cpu", "-C", "package-version=2.14.1", "-C", "build-env=current")
    build = (sys.executable, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check")
    check(*build, *asked, "-o", tmp_path, cwd=project, env=environment)
    sdist = tmp_path / "torch-2.14.1+cpu.nompi.noopenmp.tar.gz"
    pip = (*NOT_ISOLATED["pip"][:4], "--no-deps", "--no-build-isolation", "-C", "build-env=current")
    check(*pip, sdist, "-w", tmp_path / "dist", cwd=tmp_path, env=environment)
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [site.wheel.name]
    refused = run(*pip, sdist, "-C", "profile=debug", "-w", tmp_path / "more", cwd=tmp_path, env=environment)
    assert refused.returncode != 0
    assert "[version-is-not-the-sdists]" in refused.stdout + refused.stderr


def test_an_untouched_tree_by_command_line(site: Site, tmp_path: Path) -> None:
    """The same settings on the command line are the same build as the wrapper project's."""
    options = ["-C", "build-env=current", "--disable", "tests,openmp,mpi", "--package-version", "2.14.1"]
    arguments = ("build", site.tree, "--target", "cpu", *options, "-o", tmp_path)
    output = check(*command(*arguments), cwd=tmp_path, env=clean_environment(site.cache))
    wheel = tmp_path / site.wheel.name
    constraints = tmp_path / "constraints-torch-2.14.1+cpu.nompi.noopenmp.txt"
    assert re.search(r"^took +\d+ s, 0 files", output, re.MULTILINE)
    assert f"pip install -c {shell_word(str(constraints))} PACKAGE\n" in output
    assert set(tmp_path.iterdir()) == {wheel, constraints}
    assert compiled(site.cache) == []
    assert snapshot(site.tree) == site.before


@pytest.mark.long
def test_how_much_is_said(site: Site, tmp_path: Path) -> None:
    """The first line says what is done where; -q leaves the rest to the log."""
    # A variable that no build has seen: the wheel is not taken from the wheel store.
    environment = clean_environment(site.cache, SAID="1")
    build = command("build", site.project, "-o", tmp_path)
    quiet = check(*build, "-q", cwd=tmp_path, env=environment).splitlines()
    log = log_of(site.cache)
    assert (site.wheel.name in quiet[0], str(log) in quiet[0]) == (True, True)
    # That is worth a word even where little is said.
    assert any("[need-not-build]" in line for line in quiet)
    last = quiet[quiet.index("", 2) :]
    assert [line[:13].strip() for line in last][1:3] == ["wheel", "constraints"]
    assert len(log.read_text(encoding="utf-8").splitlines()) > 5


@pytest.mark.long
def test_an_editable_install_of_a_wrapper_builds_in_the_tree(site: Site, tmp_path: Path) -> None:
    tree, project = tmp_path / "py torch", tmp_path / "Projekt"
    shutil.copytree(site.tree, tree)
    shutil.copytree(site.project, project)
    pyproject = project / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace(str(site.tree), str(tree))
    pyproject.write_text(text, encoding="utf-8")
    python = new_environment(tmp_path / "venv", PACKAGES, REPOSITORY / "src")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-build-isolation")
    check(*pip, "-e", ".", cwd=project, env=clean_environment(site.cache))
    code = "import torch; print(torch.__version__, torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).tolist())"
    output = check(python, "-c", code, cwd=tmp_path, env=clean_environment(site.cache))
    assert output == "2.14.1+cpu.nompi.noopenmp [[2.0, 2.0], [2.0, 2.0]]\n"
    place = check(
        python, "-c", "import torch; print(torch.__file__)", cwd=tmp_path, env=clean_environment(site.cache)
    )
    assert place == f"{tree / 'torch' / '__init__.py'}\n"
    init = tree / "torch" / "__init__.py"
    init.write_text(init.read_text(encoding="utf-8") + "\nedited = True\n", encoding="utf-8")
    answer = run(
        python, "-c", "import torch; print(torch.edited)", cwd=tmp_path, env=clean_environment(site.cache)
    )
    assert answer.stdout == "True\n"


@pytest.mark.long
def test_a_wheel_of_another_build_stays_unless_it_may_be_replaced(site: Site, tmp_path: Path) -> None:
    """The label does not tell of flags; the build manifest does."""
    folder, environment = tmp_path / "aus gabe", clean_environment(site.cache)
    folder.mkdir()
    wheel = folder / site.wheel.name
    shutil.copyfile(site.wheel, wheel)
    check(*command("build", site.project, "-o", folder), cwd=tmp_path, env=environment)
    before = wheel.read_bytes()
    other = ("build", site.project, "-o", folder, "-C", "define.CMAKE_CXX_FLAGS=-DOTHER")
    refused = run(*command(*other), cwd=tmp_path, env=environment)
    assert (refused.returncode, wheel.read_bytes()) == (2, before)
    assert "[output-of-another-build]" in refused.stderr
    assert "CMAKE_CXX_FLAGS" in refused.stderr
    wheel.write_bytes(b"not a wheel")
    refused = run(*command("build", site.project, "-o", folder), cwd=tmp_path, env=environment)
    assert "[output-of-another-build]" in refused.stderr
    allowed = ("-C", "skip-check=output-of-another-build")
    check(*command("build", site.project, "-o", folder, *allowed), cwd=tmp_path, env=environment)
    assert manifest(wheel)["plan"]["skipped_checks"] == ["output-of-another-build"]


@pytest.mark.long
def test_a_wheel_whose_name_only_the_build_tells_replaces_none_of_another_build(
    site: Site, tmp_path: Path
) -> None:
    """A build tag of scikit-build-core is planned, bdist_wheel's refused before the build."""
    folder, environment = tmp_path / "aus gabe", clean_environment(site.cache)
    tags = {"setup.py": "--build-option=--build-number=7", "scikit-build-core": "wheel.build-tag=7"}
    other = {
        "setup.py": ("-C", "define.CMAKE_CXX_FLAGS=-DOTHER"),
        "scikit-build-core": ("-C", "wheel.exclude=**/*.h"),
    }
    tagged = ("build", site.project, "-o", folder, f"-C={tags[site.generation]}")
    done = run(*command(*tagged), cwd=tmp_path, env=environment)
    if site.generation == "setup.py":
        # A message has one status, whether the plan or the proof gives it.
        assert (done.returncode, "[wheel-tag]" in done.stderr) == (3, True)
    else:
        (wheel,) = folder.glob("*.whl")
        assert "-7-cp3" in wheel.name
        before = wheel.read_bytes()
        refused = run(*command(*tagged, *other[site.generation]), cwd=tmp_path, env=environment)
        assert (refused.returncode, wheel.read_bytes()) == (2, before)
        assert (str(wheel) in refused.stderr, "[output-of-another-build]" in refused.stderr) == (True, True)
    ambient = {
        "SKBUILD_WHEEL_BUILD_TAG": "9",
        "SKBUILD_WHEEL_EXCLUDE": "torch/*.py",
        "DESTDIR": str(tmp_path / "x"),
    }
    check(
        *command("build", site.project, "-o", folder / "plain"), cwd=tmp_path, env={**environment, **ambient}
    )
    assert not (tmp_path / "x").exists()
    (plain,) = (folder / "plain").glob("*.whl")
    assert (plain.name, names_in(plain)) == (site.wheel.name, names_in(site.wheel))
