"""Bad input: one clear error that names the remedy, no traceback, nothing written, through every door."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from backend.builds import (
    GENERATIONS,
    clean_environment,
    cmake_cache,
    make_tree,
    run,
    snapshot,
    without_privileges,
    wrapper,
)
from backend.builds import torchwheel as command
from put import append, put
from toolkit.trees import linux_installation
from tree.small_trees import commit_all

HOOK = """
import json, sys
import torchwheel.backend
torchwheel.backend.build_wheel(sys.argv[1], json.loads(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree("scikit-build-core", tmp_path_factory.mktemp("bad input") / "py torch")


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linux_installation(tmp_path_factory.mktemp("toolkit") / "cuda-12.4", "12.4", "12.4.131")


def by_command(
    tree: Path, out: Path, settings: Mapping[str, str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    options = [part for key, value in settings.items() for part in ("-C", f"{key}={value}")]
    return run(*command("build", tree, *options, "-o", out), cwd=out.parent, env=env)


def by_hook(
    tree: Path, out: Path, settings: Mapping[str, str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    project = out.parent / "project"
    put(project / "pyproject.toml", f"[tool.torchwheel]\nsource = '{tree}'\n")
    return run(sys.executable, "-c", HOOK, out, json.dumps(settings), cwd=project, env=env)


DOORS = {"command": by_command, "hook": by_hook}
Door = Callable[[Path, Path, Mapping[str, str], Mapping[str, str]], subprocess.CompletedProcess[str]]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    chosen: Door = DOORS[request.param]
    return chosen


def refused(tree: Path, tmp_path: Path, settings: Mapping[str, str], door: Door = by_hook) -> str:
    """What is said, after checking that nothing else was done."""
    before = snapshot(tree)
    out, cache = tmp_path / "out", tmp_path / "cache"
    answer = door(tree, out, settings, clean_environment(cache))
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    assert not out.exists()
    assert not cache.exists()
    assert snapshot(tree) == before
    assert "Traceback" not in answer.stderr
    return errors_in(answer.stderr)


def errors_in(said: str) -> str:
    """What is said without the notes after the errors."""
    return said.partition("\nnote: ")[0]


def ids_in(said: str) -> list[str]:
    return re.findall(r"  \[([a-z-]+)\]$", said, re.MULTILINE)


def test_unknown_target_and_every_other_mistake_at_once(door: Door, tree: Path, tmp_path: Path) -> None:
    said = refused(tree, tmp_path, {"target": "rtx507", "jobs": "many", "enabel": "nccl"}, door)
    assert (said.startswith("torchwheel: 3 problems:\n1. "), len(ids_in(said))) == (True, 3)
    assert "unknown-target" in ids_in(said)
    assert "-C jobs" in said
    assert '-C enabel: "enabel" is not a setting' in said


def test_an_architecture_that_the_toolkit_cannot_compile(tree: Path, toolkit: Path, tmp_path: Path) -> None:
    said = refused(tree, tmp_path, {"arch": "12.0", "cuda-path": str(toolkit)})
    # What else is wrong with this hollow toolkit is said with it.
    assert ids_in(said) == ["toolkit-incomplete", "nvcc-does-not-work", "toolkit-lacks-architecture"]


@pytest.mark.parametrize("skipped", ["", "need-not-build"])
def test_an_official_build_that_serves_is_said_once_after_the_errors(
    tree: Path, toolkit: Path, tmp_path: Path, skipped: str
) -> None:
    """pip shows the output of a hook that failed, and of no other."""
    settings = {"arch": "12.0", "cuda-path": str(toolkit), **({"skip-check": skipped} if skipped else {})}
    answer = by_hook(tree, tmp_path / "out", settings, clean_environment(tmp_path / "cache"))
    assert answer.returncode == 2
    said = ids_in(answer.stderr)
    assert said.count("need-not-build") == (0 if skipped else 1)
    assert skipped or said[-1] == "need-not-build"


def test_an_official_build_is_not_said_under_other_errors(tree: Path, tmp_path: Path) -> None:
    settings = {"target": "cpu", "build-dir": str(tree / "builds")}
    answer = by_hook(tree, tmp_path / "out", settings, clean_environment(tmp_path / "cache"))
    assert (answer.returncode, ids_in(answer.stderr)) == (2, ["build-folder-in-checkout"])


unix_permissions = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


@unix_permissions
def test_an_unreadable_pyproject(tmp_path: Path) -> None:
    put(tmp_path / "pyproject.toml", "[tool.torchwheel]\n", 0)
    build = without_privileges(*command("build", tmp_path))
    answer = run(*build, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    assert (answer.returncode, ids_in(answer.stderr)) == (2, ["unreadable-file"])


@unix_permissions
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("torch/new/a.py", "torch/new/a.py"),
        ("torch/new", "torch/new"),
        ("torch/overrides", "torch/overrides/a.py"),
        ("c10/core/Allocator.cpp", "c10/core/Allocator.cpp"),
    ],
)
def test_source_that_may_not_be_read(tmp_path: Path, place: str, said: str) -> None:
    """``torch/new`` is in no commit, and git passes it over; the others are tracked."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    for name in ("overrides", "new"):
        (tree / "torch" / name).mkdir()
        (tree / "torch" / name / "a.py").touch()
        if name == "overrides":
            commit_all(tree)
    mode = (tree / place).stat().st_mode
    (tree / place).chmod(0)
    build = without_privileges(*command("build", tree, "--target", "cpu"))
    answer = run(*build, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    (tree / place).chmod(mode)
    assert (answer.returncode, ids_in(errors_in(answer.stderr))) == (2, ["unpackable-files"])
    assert f": {said}: " in answer.stderr


@unix_permissions
@pytest.mark.parametrize("name", ["version.txt", "CMakeLists.txt"])
def test_a_file_that_every_tree_has_and_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    (tree / name).chmod(0)
    plan = without_privileges(*command("plan", tree, "--target", "cpu"))
    answer = run(*plan, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    assert (answer.returncode, ids_in(answer.stderr)) == (2, ["source-unreadable"])
    assert str(tree / name) in answer.stderr


@pytest.mark.parametrize("how", ["-C", "variable", "project"])
def test_a_traceback_is_there_for_who_asks(tree: Path, tmp_path: Path, how: str) -> None:
    settings = {"traceback": "true"} if how == "-C" else {}
    variables = {"TORCHWHEEL_TRACEBACK": "1"} if how == "variable" else {}
    (tmp_path / "project").mkdir()
    line = "traceback = true\n" if how == "project" else ""
    put(tmp_path / "project" / "pyproject.toml", f"[tool.torchwheel]\nsource = '{tree}'\n{line}")
    environment = clean_environment(tmp_path / "cache", **variables)
    arguments = (tmp_path / "out", json.dumps(settings))
    answer = run(sys.executable, "-c", HOOK, *arguments, cwd=tmp_path / "project", env=environment)
    assert answer.returncode == 1
    assert answer.stderr.startswith("Traceback (most recent call last):\n")
    assert "torchwheel.reporting.errors.TorchwheelError: no target is named" in answer.stderr


def test_an_output_folder_that_cannot_be(tree: Path, tmp_path: Path) -> None:
    """Said before the build, which may take hours."""
    (tmp_path / "in the way").write_text("a file", encoding="utf-8")
    settings = {"target": "cpu", "build-env": "current"}
    answer = by_hook(tree, tmp_path / "in the way", settings, clean_environment(tmp_path / "cache"))
    assert (answer.returncode, answer.stdout, ids_in(answer.stderr)) == (2, "", ["output-not-writable"])


STRANGE = {
    "A_LIST": "one;two three;;four",
    "A_SPACED": "  two spaces  in front",
    "A_QUOTED": "say \"hello\" and 'bye', 'all'",
    "A_UNICODE": "Grüße 你好 \U0001f525",
    "A_CMAKE": "${CMAKE_BINARY_DIR} $ENV{HOME} $<1:x> @VAR@ [=[x]=] # no comment",
    "A_SHELL": "$HOME `id` $(id) && exit; * ? ~ | >",
    "A_BACKSLASH": "C:\\Program Files\\NVIDIA\\",
    "A_ASSIGNMENT": "-DX:STRING=1 = 2",
    "A_EMPTY": "",
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_define_arrives_exactly(generation: str, tmp_path: Path) -> None:
    """By whichever way an option takes: those with these prefixes go through PyTorch's own forwarding."""
    tree = make_tree(generation, tmp_path / "py torch é")
    asked = {f"{prefix}{name}": value for prefix in ("", "USE_", "CMAKE_") for name, value in STRANGE.items()}
    defines = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in asked.items())
    project = wrapper(tmp_path / "Projekt ü", tree, **{"build-env": '"current"'})
    append(project / "pyproject.toml", f"\n[tool.torchwheel.define]\n{defines}")
    options = ("-C", "define.FROM_COMMAND=a;b \"c\" 'd' é")
    answer = run(
        *command("build", "--configure-only", project, *options),
        cwd=tmp_path,
        env=clean_environment(tmp_path / "cache"),
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    asked["FROM_COMMAND"] = "a;b \"c\" 'd' é"
    taken = cmake_cache(tmp_path / "cache")
    assert {name: taken.get(name) for name in asked} == asked


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 100 KiB."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can make a disk that is full")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


ON_SMALL_DISK = {
    "target": "cpu",
    "build-env": "current",
    "skip-check": "disk-too-small",
    "disable": "tests,openmp",
}


@pytest.mark.long
def test_a_disk_that_fills_up_while_building_and_is_made_larger(
    tree: Path, tmp_path: Path, small_disk: Path
) -> None:
    subprocess.run(["mount", "-o", "remount,size=600k", str(small_disk)], check=True)
    environment = clean_environment(small_disk / "cache")
    answer = by_command(tree, tmp_path / "out", ON_SMALL_DISK, environment)
    assert answer.returncode == 1
    assert ids_in(answer.stderr) == ["disk-full"]
    assert list((tmp_path / "out").iterdir()) == []
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    answer = by_command(tree, tmp_path / "out", ON_SMALL_DISK, environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(list((tmp_path / "out").glob("*.whl"))) == 1


@pytest.mark.long
def test_a_wheel_that_does_not_fit_leaves_nothing_behind(
    tmp_path: Path, tree: Path, small_disk: Path
) -> None:
    (small_disk / "filling").write_bytes(b"x" * 80_000)
    environment = clean_environment(tmp_path / "cache")
    answer = by_command(tree, small_disk / "out", ON_SMALL_DISK, environment)
    assert answer.returncode == 1
    assert (ids_in(answer.stderr), str(small_disk / "out") in answer.stderr) == (["disk-full"], True)
    assert list((small_disk / "out").iterdir()) == []


@unix_permissions
def test_a_cache_that_cannot_be_written_to(tree: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    build = without_privileges(*command("build", tree, "--target", "cpu"))
    answer = run(*build, cwd=tmp_path, env=clean_environment(locked / "cache"))
    assert (answer.returncode, ids_in(errors_in(answer.stderr))) == (2, ["build-folder-not-writable"])
