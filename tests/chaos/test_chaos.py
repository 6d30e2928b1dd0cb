"""Kills, full disks and races: the next build ends with the wheel that an undisturbed one makes.

`make chaos` does a few of each, `make chaos CHAOS=full` all of it, which takes hours.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, torchwheel
from chaos.world import ASKED, FOLDERS, Result, Trigger, World, after_seconds, at_file, at_line

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at Linux's /proc"),
    pytest.mark.timeout(4 * 3600),
]
FULL = os.environ.get("CHAOS", "short") == "full"
KILLS = 50 if FULL else 1
DISKS = 11 if FULL else 1
RACES = 5 if FULL else 1
VICTIMS = ("parent", "child", "group")

whole_environments = pytest.mark.parametrize(
    "generation",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(not FULL, reason="installs packages for minutes: CHAOS=full")
        )
        for name in GENERATIONS
    ],
)

# Where a build is killed: at a line that it prints, or when a file is there.
AT_LINES = {
    "configuring, while compilers are tried": r"Detecting C(XX)? compiler ABI info$|loading initial cache",
    "configuring, while features are tried": r"Found OpenMP|Performing Test|Summary",
    "configured, not generated": r"-- Configuring done",
    "generated": r"-- Build files have been written",
    "compiling": r"^\[(9|10|11)/",
    "linking": r"Linking CXX shared library",
    "installing": r"Install the project|Installing project into wheel",
    "installing the libraries": r"-- (Installing|Up-to-date): .*\.so",
    "packaging": r"copying torch/lib|Making wheel",
    "packaging, the second copy": r"copying build/lib|-- (Installing|Up-to-date): .*\.h$",
}
AT_FILES = {
    "staging": "builds/*/source/*",
    "staging, one file": "builds/*/stage.part",
    "writing the inner wheel": "builds/*/wheel/**/*.whl*",
    "handing the wheel over": "../out/.*.part",
}
# What scikit-build-core's trees have not.
AT_FILES_OF_SETUP_PY = {
    "finishing the wheel": "builds/*/finished/.*.part",
    "storing the finished wheel": "wheels/*/sha256.txt",
}
AT_ENVIRONMENT = {
    "environment, making it": "environments/*/bin",
    "environment, filling it": "environments/*/lib/python*/site-packages/*",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    with small_disk(tmp_path / "disk", "64m") as mounted:
        if not mounted:
            pytest.skip("a small disk needs root")
        yield tmp_path / "disk"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """A disk in memory; whether it could be mounted, which needs root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="module", params=GENERATIONS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("worlds") / "world"
    with small_disk(folder, "600m"):
        yield World(request.param, folder)


class Report:
    """What was tried and what came out, a line a case; all that was wrong fails in the end."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.cases = self.struck = self.refused = 0
        self.wrong: list[str] = []

    def add(self, case: str, world: World, attacked: Result, after: Result) -> None:
        faults = world.faults(attacked, after)
        self.cases += 1
        self.struck += attacked.struck
        self.refused += attacked.code > 0
        self.wrong += [f"{case}: {fault}" for fault in faults]
        print(f"{self.what}: {case}: {attacked.code}, {'; '.join(faults) or 'well'}", flush=True)

    def end(self) -> None:
        print(
            f"{self.what}: {self.cases} cases, {self.struck} struck, {self.refused} ended with an error, "
            f"{len(self.wrong)} wrong",
            flush=True,
        )
        assert self.wrong == []


def attack(world: World, report: Report, case: str, trigger: Trigger, victim: str, *, cold: bool) -> None:
    """One kill of a first build, or of one after an edit, and the build that follows."""
    if cold:
        world.forget()
    world.other()
    attacked = world.attacked(trigger, victim)
    report.add(f"{case}, {victim}, {'first' if cold else 'next'} build", world, attacked, world.build())


def places(world: World) -> dict[str, Callable[[], Trigger]]:
    files = AT_FILES | (AT_FILES_OF_SETUP_PY if world.generation == "setup.py" else {})
    return {
        **{name: lambda text=text: at_line(text) for name, text in AT_LINES.items()},
        **{name: lambda text=text: at_file(world.cache, text) for name, text in files.items()},
    }


def test_kills_at_random(world: World) -> None:
    report = Report(f"{world.generation}: kills at random")
    chance = random.Random(world.generation)
    for number in range(KILLS):
        moment = chance.random()
        trigger = after_seconds(moment * world.seconds)
        victim = (*VICTIMS, *ASKED)[number % 5]
        attack(world, report, f"at {moment:.0%}", trigger, victim, cold=number % 4 == 0)
    report.end()


def test_aimed_kills(world: World) -> None:
    report = Report(f"{world.generation}: aimed kills")
    points = places(world)
    chosen = list(points) if FULL else ["configured, not generated"]
    for number, name in enumerate(chosen):
        cold = name not in ("writing the inner wheel", "handing the wheel over", "installing the libraries")
        victims = ("parent", "group") if number % 2 and FULL else (VICTIMS[number % len(VICTIMS)],)
        for victim in victims:
            attack(world, report, name, points[name](), victim, cold=cold)
    report.end()


def test_deleted_caches(world: World) -> None:
    """All of the cache may be deleted at any time, while a build runs, too."""
    report = Report(f"{world.generation}: deleted caches")
    points = places(world)
    for number, name in enumerate(points if FULL else ["compiling"]):
        for folder in FOLDERS if FULL else list(FOLDERS)[:1]:
            attack(world, report, name, points[name](), folder, cold=number % 2 == 0)
    report.end()


@whole_environments
def test_kills_while_an_environment_is_made(generation: str, tmp_path: Path) -> None:
    world = World(generation, tmp_path, "managed")
    report = Report(f"{generation}: kills while an environment is made")
    for name, pattern in AT_ENVIRONMENT.items():
        for victim in VICTIMS if FULL else VICTIMS[:1]:
            shutil.rmtree(world.cache / "environments")
            attack(world, report, name, at_file(world.cache, pattern), victim, cold=False)
    report.end()


def test_full_disks(world: World) -> None:
    disk = world.root
    if not disk.is_mount():
        pytest.skip("a small disk needs root")
    report = Report(f"{world.generation}: full disks")
    world.build()
    used = shutil.disk_usage(disk).used
    world.forget()
    needed = used - shutil.disk_usage(disk).used
    for number in range(DISKS):
        cold = number % 3 != 2
        if cold:
            world.forget()
        world.other()
        room = (needed if cold else needed // 20) * (number + 0.5) / DISKS
        filler = disk / "filler"
        with filler.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, max(4096, int(shutil.disk_usage(disk).free - room)))
        attacked = world.build()
        filler.unlink()
        report.add(
            f"{room / 1024:.0f} KiB left, {'first' if cold else 'next'} build", world, attacked, world.build()
        )
    report.end()


def test_a_full_temporary_folder(world: World, disk: Path) -> None:
    """Compilers write to the build's own, so that this one changes nothing."""
    report = Report(f"{world.generation}: full temporary folders")
    before = dict(world.environment)
    world.environment["TMPDIR"] = str(disk)
    for room in (0, 8, 64, 512) if FULL else (0,):
        world.forget()
        world.other()
        filler = disk / "filler"
        with filler.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, shutil.disk_usage(disk).free - room * 1024)
        attacked = world.build()
        filler.unlink()
        report.add(f"{room} KiB left", world, attacked, world.build())
    world.environment = before
    report.end()


def test_races(world: World) -> None:
    """Two builds, and two source distributions, at once into one folder."""
    report = Report(f"{world.generation}: races")
    for number in range(RACES):
        if number % 2:
            world.forget()
        world.other()
        with world.started() as (other, _lines):
            one = world.build()
            assert other.wait() == 0
        report.add("wheels", world, one, world.build())
    report.end()


def test_a_race_of_source_distributions(world: World) -> None:
    project = world.root / "project"
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").write_text(
        f"[tool.torchwheel]\nsource = '{world.tree}'\ntarget = 'cpu'\npackage-version = '2.14.1'\n",
        encoding="utf-8",
    )
    hook = [torchwheel()[0], "-c", "import torchwheel.backend; torchwheel.backend.build_sdist('sdist')"]
    for _ in range(RACES):
        racers = [subprocess.Popen(hook, cwd=project, env=world.environment) for _ in range(3)]
        assert [racer.wait(100) for racer in racers] == [0, 0, 0]
        (archive,) = (project / "sdist").iterdir()
        with tarfile.open(archive) as members:
            assert any(name.endswith("torch/__init__.py") for name in members.getnames())


@whole_environments
def test_a_race_for_an_environment(generation: str, tmp_path: Path) -> None:
    world = World(generation, tmp_path, "managed")
    report = Report(f"{generation}: races for an environment")
    for _ in range(RACES):
        shutil.rmtree(world.cache / "environments")
        world.other()
        with world.started() as (other, _lines):
            one = world.build()
            assert other.wait() == 0
        report.add("environment", world, one, world.build())
    report.end()
