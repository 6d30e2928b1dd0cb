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
from toolkit.trees import linux_installation
from torchwheel.reporting.errors import Problem
from tree.small_trees import commit_all

HOOK = """
import json, sys
import torchwheel.backend
torchwheel.backend.build_wheel(sys.argv[1], json.loads(sys.argv[2]))
"""


def printed(problem: Problem) -> str:
    return f"torchwheel: {problem.render()}\n"


def no_permission(folder: Path) -> str:
    return f"you have no write permission in {folder}"


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
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").write_text(f"[tool.torchwheel]\nsource = '{tree}'\n", encoding="utf-8")
    return run(sys.executable, "-c", HOOK, out, json.dumps(settings), cwd=project, env=env)


DOORS = {"command": by_command, "hook": by_hook}
Door = Callable[[Path, Path, Mapping[str, str], Mapping[str, str]], subprocess.CompletedProcess[str]]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    chosen: Door = DOORS[request.param]
    return chosen


def refused(door: Door, tree: Path, tmp_path: Path, settings: Mapping[str, str], **variables: str) -> str:
    """What is said, after checking that nothing else was done."""
    before = snapshot(tree) if tree.is_dir() else {}
    out, cache = tmp_path / "out", tmp_path / "cache"
    answer = door(tree, out, settings, clean_environment(cache, **variables))
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert answer.stdout == ""
    assert not out.exists()
    assert not cache.exists()
    assert (snapshot(tree) if tree.is_dir() else {}) == before
    assert "Traceback" not in answer.stderr
    return errors_in(answer.stderr)


def errors_in(said: str) -> str:
    """What is said without the notes after the errors."""
    return said.partition("\nnote: ")[0]


def ids_in(said: str) -> list[str]:
    return re.findall(r"  \[([a-z-]+)\]$", said, re.MULTILINE)


def test_no_target(door: Door, tree: Path, tmp_path: Path) -> None:
    said = refused(door, tree, tmp_path, {})
    assert (ids_in(said), "'torchwheel gpus'" in said) == (["no-target"], True)


def test_native_without_a_gpu(door: Door, tree: Path, tmp_path: Path) -> None:
    # An empty PATH has no nvidia-smi.
    assert refused(door, tree, tmp_path, {"target": "native"}, PATH=str(tmp_path)) == (
        "torchwheel: "
        + Problem.of(
            "no-gpu-found/target", origin="-C target", why="nvidia-smi is missing, or lists none"
        ).render()
        + "\n"
    )


def test_unknown_target_and_every_other_mistake_at_once(door: Door, tree: Path, tmp_path: Path) -> None:
    said = refused(door, tree, tmp_path, {"target": "rtx507", "jobs": "many", "enabel": "nccl"})
    assert said.startswith("torchwheel: 3 problems:\n1. ")
    target = Problem.of(
        "unknown-target", origin="-C target", name="rtx507", advice="did you mean rtx5070 (12.0)?"
    )
    assert target.render().splitlines()[0] in said
    assert "-C jobs" in said
    assert '-C enabel: "enabel" is not a setting' in said


def test_an_architecture_that_the_toolkit_cannot_compile(
    door: Door, tree: Path, toolkit: Path, tmp_path: Path
) -> None:
    said = refused(door, tree, tmp_path, {"arch": "12.0", "cuda-path": str(toolkit)})
    # What else is wrong with this hollow toolkit is said with it.
    assert ids_in(said) == [
        "toolkit-incomplete",
        "nvcc-does-not-work",
        "toolkit-lacks-architecture",
        "toolkit-too-old",
    ]
    assert f"3. -C cuda-path: CUDA 12.4 in {toolkit} cannot compile for sm_120 (12.0)" in said


@pytest.mark.parametrize("skipped", ["", "need-not-build"])
def test_an_official_build_that_serves_is_said_once_after_the_errors(
    door: Door, tree: Path, toolkit: Path, tmp_path: Path, skipped: str
) -> None:
    """pip shows the output of a hook that failed, and of no other."""
    settings = {"arch": "12.0", "cuda-path": str(toolkit), **({"skip-check": skipped} if skipped else {})}
    answer = door(tree, tmp_path / "out", settings, clean_environment(tmp_path / "cache"))
    assert answer.returncode == 2
    said = ids_in(answer.stderr)
    assert said.count("need-not-build") == (0 if skipped else 1)
    assert skipped or said[-1] == "need-not-build"


def test_an_official_build_is_not_said_under_other_errors(door: Door, tree: Path, tmp_path: Path) -> None:
    settings = {"target": "cpu", "build-dir": str(tree / "builds")}
    answer = door(tree, tmp_path / "out", settings, clean_environment(tmp_path / "cache"))
    assert (answer.returncode, ids_in(answer.stderr)) == (2, ["build-folder-in-checkout"])


def test_a_toolkit_outside_the_range(door: Door, tree: Path, toolkit: Path, tmp_path: Path) -> None:
    said = refused(door, tree, tmp_path, {"target": "a100", "cuda": ">=12.6", "cuda-path": str(toolkit)})
    assert ids_in(said) == [
        "toolkit-outside-range",
        "toolkit-incomplete",
        "nvcc-does-not-work",
        "toolkit-too-old",
    ]
    first = said.splitlines()[1]
    assert first.startswith("1. -C cuda-path: ")
    assert [value for value in (str(toolkit), "12.4.1", ">=12.6", "-C cuda") if value not in first] == []


@pytest.mark.parametrize("made", [True, False])
def test_a_cuda_path_that_is_no_toolkit(door: Door, tree: Path, tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "no toolkit é"
    if made:
        folder.mkdir()
    said = refused(door, tree, tmp_path, {"target": "a100", "cuda-path": str(folder)})
    assert ids_in(said) == ["not-a-toolkit"]
    assert (str(folder) in said, "targets/*/include/cuda.h" in said) == (True, True)
    # The last line names what this machine has.
    assert len(said.splitlines()) == 3


def source_cases(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    missing, empty, other, file = (tmp_path / name for name in ("nirgends é", "leer é", "etwas é", "datei é"))
    empty.mkdir()
    other.mkdir()
    (other / "readme").write_text("something else", encoding="utf-8")
    file.write_text("no folder", encoding="utf-8")
    return {
        "missing": (
            missing,
            Problem.of("source-missing", path=missing).render() + "\n",
        ),
        "empty": (
            empty,
            Problem.of("source-empty", path=empty, word=f"'{empty}'").render() + "\n",
        ),
        "not PyTorch": (
            other,
            Problem.of(
                "not-pytorch",
                path=other,
                missing="version.txt, no CMakeLists.txt that names USE_CUDA, no torch/ folder, no pyproject.toml or "
                "setup.py",
            ).render()
            + "\n",
        ),
        "a file": (
            file,
            Problem.of("source-not-a-folder", path=file).render() + "\n",
        ),
    }


@pytest.mark.parametrize("case", ["missing", "empty", "not PyTorch", "a file"])
def test_a_source_that_is_no_tree(door: Door, case: str, tmp_path: Path) -> None:
    source, text = source_cases(tmp_path)[case]
    origin = "pyproject.toml [tool.torchwheel]: " if door is by_hook else ""
    assert refused(door, source, tmp_path, {"target": "cpu"}) == f"torchwheel: {origin}{text}"


def test_missing_submodules(door: Door, tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "ohne Teile"
    shutil.copytree(tree, copy)
    shutil.rmtree(copy / "third_party" / "miniblas")
    assert refused(door, copy, tmp_path, {"target": "cpu"}) == (
        "torchwheel: "
        + Problem.of(
            "missing-submodules",
            origin=copy / ".gitmodules",
            count="1",
            names="third_party/miniblas",
            tree=f"'{copy}'",
        ).render()
        + "\n"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            b'[tool.torchwheel]\nsource = "../x\n',
            Problem.of(
                "malformed-toml", origin="{path}", reason="Illegal character '\\n' (at line 2, column 15)"
            ).render()
            + "\n",
        ),
        (
            b"[tool.torchwheel]\nsource = '\xff'\n",
            Problem.of("malformed-toml/encoding", origin="{path}", position="28").render() + "\n",
        ),
        (
            b"[tool.torchwheel]\ntarget = 3\n",
            Problem.of(
                "ill-typed-value/fixed",
                origin="pyproject.toml [tool.torchwheel]",
                key="target",
                value="3",
                form="a name, or a list of names",
                fix='write target = "3"',
            ).render()
            + "\n",
        ),
    ],
)
def test_a_malformed_pyproject(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(data)
    environment = clean_environment(tmp_path / "cache")
    by_cli = run(*command("build", tmp_path, "-o", tmp_path / "out"), cwd=tmp_path, env=environment)
    hook = run(sys.executable, "-c", HOOK, tmp_path / "out", "{}", cwd=tmp_path, env=environment)
    assert hook.stderr == by_cli.stderr
    assert hook.returncode == by_cli.returncode == 2
    assert by_cli.stderr == "torchwheel: " + text.replace("{path}", str(tmp_path / "pyproject.toml"))
    assert {path.name for path in tmp_path.iterdir()} == {"pyproject.toml"}


unix_permissions = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


@unix_permissions
def test_an_unreadable_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.torchwheel]\n", encoding="utf-8")
    path.chmod(0)
    build = without_privileges(*command("build", tmp_path))
    answer = run(*build, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    assert (answer.returncode, answer.stderr) == (
        2,
        "torchwheel: "
        + Problem.of("unreadable-file", origin=path, reason="Permission denied").render()
        + "\n",
    )


UNREADABLE = {
    # what may not be read -> what is said of it
    "torch/new/a.py": "torch/new/a.py",
    "torch/new": "torch/new",
    "torch/overrides": "torch/overrides/a.py",
    "third_party/miniblas/src": "third_party/miniblas/src/sgemm.c",
    "c10/core/Allocator.cpp": "c10/core/Allocator.cpp",
    "cmake/Dependencies.cmake": "cmake/Dependencies.cmake",
}
"""``torch/new`` is in no commit, and git passes it over; the others are tracked."""


@unix_permissions
@pytest.mark.parametrize("place", UNREADABLE)
def test_source_that_may_not_be_read(tmp_path: Path, place: str) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    (tree / "torch/overrides").mkdir()
    (tree / "torch/overrides/a.py").touch()
    commit_all(tree)
    (tree / "torch/new").mkdir()
    (tree / "torch/new/a.py").touch()
    environment = clean_environment(tmp_path / "cache")
    mode = (tree / place).stat().st_mode
    (tree / place).chmod(0)
    try:
        answers = {
            name: run(
                *without_privileges(*command(name, tree, "--target", "cpu")), cwd=tmp_path, env=environment
            )
            for name in ("plan", "build")
        }
    finally:
        (tree / place).chmod(mode)
    problem = Problem.of("unpackable-files", tree=tree, files=f"{UNREADABLE[place]}: it cannot be read")
    assert {name: answer.returncode for name, answer in answers.items()} == {"plan": 2, "build": 2}
    assert " ".join(answers["plan"].stdout.split()).count(f"{problem.what} [unpackable-files]") == 1
    assert errors_in(answers["build"].stderr) == printed(problem)


@unix_permissions
@pytest.mark.parametrize("name", ["version.txt", "CMakeLists.txt"])
def test_a_file_that_every_tree_has_and_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    (tree / name).chmod(0)
    plan = without_privileges(*command("plan", tree, "--target", "cpu"))
    answer = run(*plan, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    assert (answer.returncode, answer.stderr) == (
        2,
        "torchwheel: "
        + Problem.of("source-unreadable", file=tree / name, reason="Permission denied").render()
        + "\n",
    )


@pytest.mark.parametrize("how", ["-C", "variable", "project"])
def test_a_traceback_is_there_for_who_asks(tree: Path, tmp_path: Path, how: str) -> None:
    settings = {"traceback": "true"} if how == "-C" else {}
    variables = {"TORCHWHEEL_TRACEBACK": "1"} if how == "variable" else {}
    (tmp_path / "project").mkdir()
    line = "traceback = true\n" if how == "project" else ""
    (tmp_path / "project" / "pyproject.toml").write_text(
        f"[tool.torchwheel]\nsource = '{tree}'\n{line}", encoding="utf-8"
    )
    environment = clean_environment(tmp_path / "cache", **variables)
    arguments = (tmp_path / "out", json.dumps(settings))
    answer = run(sys.executable, "-c", HOOK, *arguments, cwd=tmp_path / "project", env=environment)
    assert answer.returncode == 1
    assert answer.stderr.startswith("Traceback (most recent call last):\n")
    assert "torchwheel.reporting.errors.TorchwheelError: no target is named" in answer.stderr


def test_an_output_folder_that_cannot_be(door: Door, tree: Path, tmp_path: Path) -> None:
    """Said before the build, which may take hours."""
    (tmp_path / "in the way").write_text("a file", encoding="utf-8")
    settings = {"target": "cpu", "build-env": "current"}
    answer = door(tree, tmp_path / "in the way", settings, clean_environment(tmp_path / "cache"))
    assert (answer.returncode, answer.stdout, answer.stderr) == (
        2,
        "",
        "torchwheel: "
        + Problem.of("output-not-writable", folder=tmp_path / "in the way", reason="File exists").render()
        + "\n",
    )


def test_a_bad_source_date_epoch(tree: Path, tmp_path: Path) -> None:
    code = "import sys, torchwheel.backend as b; b.build_sdist(sys.argv[1], {'target': 'cpu'})"
    environment = clean_environment(tmp_path / "cache", SOURCE_DATE_EPOCH="yesterday")
    answer = run(
        sys.executable, "-c", code, tmp_path / "out", cwd=wrapper(tmp_path / "p", tree), env=environment
    )
    problem = Problem.of(
        "bad-source-date-epoch", origin="environment variable SOURCE_DATE_EPOCH", value="yesterday"
    )
    assert (answer.returncode, answer.stderr) == (2, f"torchwheel: {problem.render()}\n")
    assert not (tmp_path / "out").exists()


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
    with (project / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write(f"\n[tool.torchwheel.define]\n{defines}")
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


def test_a_disk_that_is_too_small_is_told_before_the_build(
    tree: Path, tmp_path: Path, small_disk: Path
) -> None:
    settings = {**ON_SMALL_DISK, "skip-check": ""}
    answer = by_command(tree, tmp_path / "out", settings, clean_environment(small_disk / "cache"))
    assert answer.returncode == 2
    assert re.match(
        r"torchwheel: this build takes about [\d.]+ GiB, and .* has 0.0 GiB left  \[disk-too-small\]\n",
        answer.stderr,
    )
    # The cache folder itself is there, to be this user's alone.
    assert list(small_disk.rglob("*")) == [small_disk / "cache"]


def test_a_disk_that_fills_up_while_copying(tree: Path, tmp_path: Path, small_disk: Path) -> None:
    before = snapshot(tree)
    environment = clean_environment(small_disk / "cache")
    answer = by_command(tree, tmp_path / "out", ON_SMALL_DISK, environment)
    assert answer.returncode == 1
    assert answer.stderr == f"torchwheel: {Problem.of('disk-full').render()}\n"
    assert list((tmp_path / "out").iterdir()) == []
    assert list(small_disk.rglob(".*.part")) == []
    assert snapshot(tree) == before


@pytest.mark.long
def test_a_disk_that_fills_up_while_building_and_is_made_larger(
    tree: Path, tmp_path: Path, small_disk: Path
) -> None:
    subprocess.run(["mount", "-o", "remount,size=600k", str(small_disk)], check=True)
    environment = clean_environment(small_disk / "cache")
    answer = by_command(tree, tmp_path / "out", ON_SMALL_DISK, environment)
    assert answer.returncode == 1
    assert "[disk-full]\n" in answer.stderr
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
    (name,) = re.findall(r"Created (\S+\.whl)", answer.stdout)
    assert answer.stderr == (
        "torchwheel: "
        + Problem.of(
            "disk-full/output",
            origin=small_disk / "out" / name,
            file=name,
            reason="No space left on device",
            folder=small_disk / "out",
        ).render()
        + "\n"
    )
    assert list((small_disk / "out").iterdir()) == []


@unix_permissions
def test_a_cache_that_cannot_be_written_to(tree: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    build = without_privileges(*command("build", tree, "--target", "cpu"))
    answer = run(*build, cwd=tmp_path, env=clean_environment(locked / "cache"))
    assert (answer.returncode, errors_in(answer.stderr)) == (
        2,
        printed(
            Problem.of("build-folder-not-writable", folder=f"{locked}/cache", obstacle=no_permission(locked))
        ),
    )
