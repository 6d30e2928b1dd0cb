"""Builds of other users: two that share ccache's folder (docs/compiler-caches.md), and one without name and home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import torchwheel
from answered import answered
from backend.builds import GENERATIONS, make_tree
from backend.test_compiler_caches import ANSWERED, COMMAND, needs
from extension.projects import WAYS, Built

pytestmark = [
    needs("ccache", "c++"),
    pytest.mark.skipif(
        os.name == "nt" or os.geteuid() != 0, reason="needs root, to run builds as two other users"
    ),
]
GROUP = 23000
HOOK = "from torchwheel.extension import backend\nbackend.build_wheel('../out', {'target': 'cpu'})"


@dataclass(frozen=True)
class User:
    """A user of the group, who has nothing but a home.

    Attributes:
        number: of the user, and of a group that nobody else is in.
    """

    number: int
    home: Path

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, whose files are all below the home."""
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, self.number, self.number, follow_symlinks=False)
        own = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MAX_JOBS": "2"}
        return answered(
            command,
            cwd=cwd,
            env={**own, **variables},
            user=self.number,
            group=self.number,
            extra_groups=[GROUP],
            umask=0o022,
            timeout=240,
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users can enter, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="torchwheel-users-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def python(folder: Path) -> tuple[str, str]:
    """An interpreter that other users can run too, and where it finds torchwheel and what that requires."""
    search = os.pathsep.join([str(Path(torchwheel.__file__).parents[1]), sysconfig.get_path("purelib")])
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    user = User(GROUP + 9, folder / "nobody")
    user.home.mkdir()
    for one in (sys.executable, system):
        try:
            done = user.run(one, "-m", "torchwheel.cli.main", "--version", cwd=user.home, PYTHONPATH=search)
        except OSError:
            continue
        if done.returncode == 0:
            return one, search
    pytest.skip(f"another user can run neither {sys.executable} nor {system} with torchwheel")


KINDS = (*GENERATIONS, *(f"extension by {way}" for way in WAYS))


@pytest.mark.parametrize(
    "what",
    [pytest.param(kind, marks=() if kind == "extension by CMake" else pytest.mark.long) for kind in KINDS],
)
def test_the_second_user_is_answered(folder: Path, python: tuple[str, str], what: str) -> None:
    interpreter, search = python
    store = folder / "ccache"
    store.mkdir()
    os.chown(store, 0, GROUP)
    store.chmod(0o2775)
    (store / "ccache.conf").write_text("umask = 002\n", encoding="utf-8")
    counted = []
    for number, home in ((GROUP + 1, folder / "one"), (GROUP + 2, folder / "an/other/home")):
        home.mkdir(parents=True)
        variables = {"PYTHONPATH": search, "CCACHE_DIR": str(store)}
        if what in GENERATIONS:
            tree = make_tree(what, home / "tree")
            command, cwd = ("-m", "torchwheel.cli.main", "build", str(tree), *COMMAND, "-o", "out"), home
        else:
            built = Built(home, what.removeprefix("extension by "))
            (home / "out").mkdir()
            variables["PYTHONPATH"] += f"{os.pathsep}{home / 'site-packages'}"
            command, cwd = ("-c", HOOK), built.project
        done = User(number, home).run(interpreter, *command, cwd=cwd, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        counted += [(int(hits), int(of)) for _, hits, of in ANSWERED.findall(done.stdout)]
    assert counted == [(0, counted[0][1]), (counted[0][1],) * 2]
    assert counted[0][1] == {"setup.py": 20, "scikit-build-core": 20}.get(what, 1)


@pytest.mark.parametrize(
    ("home", "generation"),
    [(None, "scikit-build-core"), ("/", "setup.py"), ("/nonexistent", "scikit-build-core")],
)
def test_a_user_without_a_name_and_a_home(
    folder: Path, python: tuple[str, str], home: str | None, generation: str
) -> None:
    """As in a container: ``docker run -u 23003``."""
    interpreter, search = python
    # The user's folder in /var/tmp is no other process's, which may run this test at the same time.
    number, work, temporary = GROUP + os.getpid(), folder / "work", folder / "temporary"
    own = Path("/var/tmp", f"torchwheel-{number}")
    shutil.rmtree(own, ignore_errors=True)
    work.mkdir()
    temporary.mkdir()
    os.chown(temporary, number, number)
    tree = make_tree(generation, work / "tree")
    user = User(number, work)
    variables = {"PYTHONPATH": search, "TMPDIR": str(temporary), **({} if home is None else {"HOME": home})}
    words = ("-m", "torchwheel.cli.main", "build", "--configure-only", str(tree), *COMMAND)
    done = user.run(
        *("env", "-u", "HOME"), *(f"{k}={v}" for k, v in variables.items()), interpreter, *words, cwd=work
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((own / "builds").iterdir())
    assert list(temporary.iterdir()) == []
    assert not Path("/nonexistent").exists()
    shutil.rmtree(own)
