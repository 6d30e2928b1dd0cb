"""Front ends that isolate: a new environment every time, and still nothing is compiled twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backend.builds import check, clean_environment, compiled, log_of, make_tree, snapshot, wrapper
from places import REPOSITORY
from torchwheel.cli.adopt import adopt

pytestmark = pytest.mark.network

FRONT_ENDS = {
    "pip": (sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "-w"),
    "build": (sys.executable, "-m", "build", "--wheel", "-o"),
    "uv": ("uv", "build", "--wheel", "--python", sys.executable, "-o"),
    # An sdist first, then the wheel from the sdist unpacked in a temporary folder.
    "build, by way of an sdist": (sys.executable, "-m", "build", "-o"),
    "uv, by way of an sdist": ("uv", "build", "--python", sys.executable, "-o"),
}
SECONDS = 300


@pytest.mark.long
def test_only_the_first_of_all_front_ends_compiles(tmp_path: Path, online: dict[str, str]) -> None:
    tree = make_tree("setup.py", tmp_path / "py torch é")
    before = snapshot(tree)
    project = wrapper(tmp_path / "Projekt", tree)
    cache = tmp_path / "der Cache"
    environment = clean_environment(cache) | online
    counts, names, roots = {}, set(), set()
    for name, front_end in FRONT_ENDS.items():
        folder = tmp_path / name
        check(*front_end, folder, cwd=project, env=environment, timeout=SECONDS)
        counts[name] = len(compiled(cache))
        names |= {path.name for path in folder.glob("*.whl")}
        roots.add(log_of(cache).parent)
    assert counts.pop("pip") > 10
    assert counts == dict.fromkeys(counts, 0)
    assert len(names) == 1
    assert len(roots) == 1
    assert snapshot(tree) == before
    # The tree's own requirements are in one environment that torchwheel keeps, not in the front ends'.
    assert len(list((cache / "environments").glob("*/torchwheel-ready.json"))) == 1
    assert len(list(cache.glob("builds/*"))) == 1


@pytest.mark.long
def test_an_adopted_tree_needs_no_torchwheel_beforehand(tmp_path: Path, online: dict[str, str]) -> None:
    """The shim asks for torchwheel where a target is requested, and the front end installs it."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    adopt(tree)
    cache = tmp_path / "cache"
    environment = clean_environment(cache) | online
    target = ("-C", "target=cpu", "-C", "package-version=2.14.1", "-C", "disable=tests,openmp,mpi")
    for place, counts in (("eins", range(10, 100)), ("zwei", range(1))):
        check(*FRONT_ENDS["pip"], tmp_path / place, *target, cwd=tree, env=environment, timeout=SECONDS)
        assert len(compiled(cache)) in counts
        (wheel,) = (tmp_path / place).iterdir()
        assert wheel.name.startswith("torch-2.14.1+cpu.nompi.noopenmp-cp3")


@pytest.mark.long
def test_the_readmes_way_to_isolated_builds_without_a_release(
    tmp_path: Path, plain_path: Path, online: dict[str, str]
) -> None:
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(
        index for index, line in enumerate(lines) if line.startswith("    pip wheel --no-deps -w ~/")
    )
    script = "\n".join(["set -e", *lines[start : start + 2], 'cd "$1"', 'pip wheel . --no-deps -w "$2"'])
    assert "export PIP_FIND_LINKS=~/" in script
    project = wrapper(tmp_path / "Projekt", make_tree("scikit-build-core", tmp_path / "py torch é"))
    # "A path without spaces", the README says.
    home = plain_path / "home"
    home.mkdir()
    # The front end's own environment has no torchwheel: only the folder of the README can bring it.
    environment = clean_environment(tmp_path / "cache") | online | {"HOME": str(home), "PIP_FIND_LINKS": ""}
    shell = ("sh", "-c", script, "sh", project, tmp_path / "aus")
    check(*shell, cwd=REPOSITORY, env=environment, timeout=SECONDS)
    (own,) = (home / "torchwheel-wheels").iterdir()
    assert own.name.startswith("torchwheel-")
    (wheel,) = (tmp_path / "aus").iterdir()
    assert wheel.name.startswith("torch-2.14.1+cpu.nompi.noopenmp-cp3")
