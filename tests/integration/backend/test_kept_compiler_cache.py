"""A compiler cache that comes or goes compiles nothing again."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from backend.builds import (
    check,
    clean_environment,
    compiled,
    make_tree,
    torchwheel,
    without_privileges,
)

CCACHE = shutil.which("ccache")
COMMAND = ("--target=cpu", "--disable=tests,mpi,openmp", "-Cpackage-version=2.6.0", "-Cbuild-env=current")

pytestmark = pytest.mark.skipif(CCACHE is None or os.name == "nt", reason="needs ccache")


class Machine:
    """One tree and its builds, on a PATH that ccache is on or not."""

    def __init__(self, generation: str, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.tree = make_tree(generation, folder / "tree")
        self.programs, self.optional = folder / "programs", folder / "optional"
        for made in (self.programs, self.optional):
            made.mkdir()
        # Everything that is on PATH, without compiler caches.
        for place in clean_environment(self.cache)["PATH"].split(os.pathsep):
            for program in Path(place).iterdir() if Path(place).is_dir() else ():
                link = self.programs / program.name
                if "ccache" not in program.name and not link.is_symlink() and program.exists():
                    link.symlink_to(program)
        assert CCACHE is not None
        (self.optional / "ccache").symlink_to(CCACHE)

    def environment(self, *, ccache: bool) -> dict[str, str]:
        path = [str(self.optional)] if ccache else []
        return clean_environment(
            self.cache,
            PATH=os.pathsep.join([*path, str(self.programs)]),
            CCACHE_DIR=str(self.folder / "ccache"),
        )

    def build(self, *options: str, ccache: bool) -> str:
        command = torchwheel("build", self.tree, *COMMAND, *options, "-o", self.folder / "out")
        return check(*command, cwd=self.folder, env=self.environment(ccache=ccache))

    def touch(self) -> None:
        """Change one source, so that something is to be built."""
        source = self.tree / "c10" / "core" / "Storage.cpp"
        source = source if source.exists() else next(self.tree.glob("c10/**/*.cpp"))
        source.write_text(source.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")


@pytest.mark.long
def test_ccache_comes(tmp_path: Path) -> None:
    machine = Machine("setup.py", tmp_path)
    machine.build(ccache=False)
    everything = compiled(machine.cache)
    assert len(everything) > 10
    machine.touch()
    assert " of 1 compilations" in machine.build(ccache=True)
    assert len(compiled(machine.cache)) == 1
    machine.touch()
    machine.build("-C", "compiler-cache=none", ccache=True)
    assert len(compiled(machine.cache)) == 1
    assert len(list(machine.cache.glob("builds/*"))) == 1


@pytest.mark.long
def test_ccache_goes_and_comes_back(tmp_path: Path) -> None:
    machine = Machine("scikit-build-core", tmp_path)
    machine.build(ccache=True)
    everything = compiled(machine.cache)
    assert len(everything) > 10
    machine.touch()
    machine.build(ccache=False)
    assert len(compiled(machine.cache)) == 1
    machine.touch()
    assert " of 1 compilations" in machine.build(ccache=True)
    # Where it may not be written to, the build goes on without it.
    locked = machine.folder / "ccache"
    shutil.rmtree(locked)
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    machine.touch()
    words = without_privileges(*torchwheel("build", machine.tree, *COMMAND, "-o", machine.folder / "out"))
    printed = check(*words, cwd=machine.folder, env=machine.environment(ccache=True))
    assert "[compiler-cache-left-out]" in printed
    assert len(compiled(machine.cache)) == 1
    locked.chmod(stat.S_IRWXU)
    assert len(list(machine.cache.glob("builds/*"))) == 1
