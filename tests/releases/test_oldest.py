"""The lowest versions that pyproject.toml allows, with every Python: `make oldest`."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.builds import make_tree, run
from places import REPOSITORY
from releases.installing import FULL, Index, lowest_requirements, pythons

pytestmark = [pytest.mark.releases, pytest.mark.timeout(1800)]

PYTHONS = pythons()
GENERATIONS = ("setup.py", "scikit-build-core")
# In turn, or each with each.
JOBS = [
    (python, generation)
    for number, python in enumerate(PYTHONS)
    for generation in (GENERATIONS if FULL else GENERATIONS[number % 2 :][:1])
]


@pytest.mark.parametrize(("python", "generation"), JOBS, ids=map("-".join, JOBS))
def test_a_tree_builds(python: str, generation: str, index: Index, cache: Path, tmp_path: Path) -> None:
    lowest = lowest_requirements()
    program = index.environment(
        tmp_path / "venv", PYTHONS[python], ["torchwheel", *lowest], "--resolution", "lowest-direct"
    )
    tree = make_tree(generation, tmp_path / "a tree")
    environment = index.variables(cache, PATH=f"{program.parent}:/usr/local/bin:/usr/bin:/bin")
    command = (str(program), "-m", "torchwheel.cli.main")
    build = ("build", str(tree), "--target", "cpu", "-C", "build-env=current", "-o", str(tmp_path / "out"))
    done = run(*command, *build, cwd=tmp_path, env=environment, timeout=900)
    assert done.returncode == 0, f"{done.stdout}\n{index.explain()}"
    (wheel,) = (tmp_path / "out").glob("*.whl")
    for words in (("inspect", str(wheel)), ("verify", "--no-install", str(wheel)), ("plan", str(tree))):
        done = run(*command, *words, cwd=tmp_path, env=environment | {"TORCHWHEEL_TARGET": "cpu"})
        assert done.returncode == 0, f"{words[0]}: {done.stdout}\n{index.explain()}"


@pytest.mark.skipif(not FULL, reason="takes two minutes for each Python; RELEASES=full runs it")
@pytest.mark.parametrize("python", PYTHONS)
def test_what_needs_no_compiler(python: str, index: Index, tmp_path: Path) -> None:
    names = index.resolve(lowest_requirements(), python, "--resolution", "lowest-direct")
    pins = tmp_path / "lowest.txt"
    pins.write_text("".join(f"{name}=={version}\n" for name, version in names.items()), encoding="utf-8")
    options = ("--constraint", str(pins), "--group", f"{REPOSITORY / 'pyproject.toml'}:test")
    program = index.environment(tmp_path / "venv", PYTHONS[python], ["--editable", str(REPOSITORY)], *options)
    tests = (str(program), "-m", "pytest", "tests/unit", "-q", "-p", "no:cacheprovider")
    done = run(*tests, cwd=REPOSITORY, env=index.variables(tmp_path / "cache"), timeout=1500)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{index.explain()}"
