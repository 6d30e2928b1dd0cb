"""Real compiler caches: two machines of one store, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backend.builds import COMPUTES, check, clean_environment, compiled, make_tree, torchwheel
from torchwheel.engine.cache_session import CompilerCache
from torchwheel.host.compiler_cache import cache_variables

ANSWERED = re.compile(r"torchwheel: (\w+) answered (\d+) of (\d+) compilations")
COMMAND = ("--target=cpu", "--disable=tests,mpi", "-Cpackage-version=2.6.0", "-Cbuild-env=current")


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [
        program
        for program in programs
        if shutil.which(program, path=clean_environment(Path())["PATH"]) is None
    ]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} cannot be run here")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server(*command: str | Path, port: int, log: Path, **variables: str) -> Iterator[None]:
    """A server that listens on loopback while the block runs."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=stream,
            stderr=stream,
            cwd=log.parent,
            env={**os.environ, **variables},
        )
    try:
        for _ in range(600):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis server that forgets everything when it ends."""
    port = free_port()
    command = ("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    with server(*command, port=port, log=tmp_path / "redis.log"):
        yield f"redis://127.0.0.1:{port}"


@dataclass(frozen=True)
class Machine:
    """A home, a checkout and local caches of its own, in a folder of its own.

    Attributes:
        enter: what stands before a command that runs on it.
    """

    folder: Path
    generation: str
    enter: tuple[str, ...] = ()

    @property
    def tree(self) -> Path:
        tree = self.folder / "tree"
        return tree if tree.exists() else make_tree(self.generation, tree)

    def build(self, variables: Mapping[str, str], *settings: str) -> str:
        """What a build prints, whose wheel then computes what it should."""
        home, out = self.folder / "home", self.folder / "out"
        home.mkdir(parents=True, exist_ok=True)
        local = {"HOME": str(home), "CCACHE_DIR": str(home / "ccache"), "SCCACHE_DIR": str(home / "sccache")}
        environment = clean_environment(home / "cache", **local, **variables)
        command = torchwheel("build", self.tree, *COMMAND, *(f"-C{one}" for one in settings), "-o", out)
        printed = check(*self.enter, *command, cwd=self.folder, env=environment)
        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(out / "unpacked")
        answer = check(sys.executable, "-c", COMPUTES, cwd=out / "unpacked", env=environment)
        assert json.loads(answer)[:2] == ["2.6.0+cpu.nompi", [[7.0, 10.0], [15.0, 22.0]]]
        return printed


def answered(printed: str) -> tuple[str, int, int]:
    (found,) = ANSWERED.findall(printed)
    return found[0], int(found[1]), int(found[2])


@pytest.mark.long
@needs("ccache", "redis-server")
def test_two_machines_share_a_redis_server_by_ccache(plain_path: Path, redis: str) -> None:
    shared_by_two(plain_path, "scikit-build-core", "ccache", {"CCACHE_REMOTE_STORAGE": redis})


@needs("sccache", "redis-server")
def test_two_machines_share_a_redis_server_by_sccache(plain_path: Path, redis: str) -> None:
    shared_by_two(plain_path, "setup.py", "sccache", {"SCCACHE_REDIS_ENDPOINT": redis})


def shared_by_two(folder: Path, generation: str, cache: str, variables: Mapping[str, str]) -> None:
    """The second of two machines, at another path and for another user, has 95 % and more answered by the first's."""
    one, two = (
        Machine(folder / "one-machine", generation),
        Machine(folder / "and-é-another" / "one", generation),
    )
    name, hits, compilations = answered(one.build(variables, f"compiler-cache={cache}"))
    assert (name, hits, compilations > 10) == (cache, 0, True)
    name, hits, total = answered(two.build(variables, f"compiler-cache={cache}"))
    assert (name, total, hits >= 0.95 * total) == (cache, compilations, True)
    # What an object depends on is here: a change in the other checkout is none, and one in this checkout is.
    (ninja,) = (two.folder / "home/cache/builds").glob("**/.ninja_deps")
    deps = check("ninja", "-t", "deps", cwd=ninja.parent, env=clean_environment(folder))
    assert "ReduceOps.cpp" in deps
    assert str(one.folder) not in deps


@pytest.mark.long
@needs("ccache")
def test_a_cache_that_comes_or_goes_compiles_nothing_again(tmp_path: Path) -> None:
    tree, cache, programs = (
        make_tree("setup.py", tmp_path / "tree"),
        tmp_path / "cache",
        tmp_path / "programs",
    )
    programs.mkdir()
    # Everything that is on PATH, without compiler caches.
    for place in clean_environment(cache)["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = programs / program.name
            if "ccache" not in program.name and not link.is_symlink() and program.exists():
                link.symlink_to(program)

    def build(*, ccache: bool) -> str:
        (programs / "ccache").unlink(missing_ok=True)
        if ccache:
            (programs / "ccache").symlink_to(str(shutil.which("ccache")))
        environment = clean_environment(cache, PATH=str(programs), CCACHE_DIR=str(tmp_path / "ccache"))
        with next(tree.glob("c10/**/*.cpp")).open("a", encoding="utf-8") as source:
            source.write("// changed\n")
        return check(
            *torchwheel("build", tree, *COMMAND, "-o", tmp_path / "out"), cwd=tmp_path, env=environment
        )

    build(ccache=False)
    assert len(compiled(cache)) > 10
    assert " of 1 compilations" in build(ccache=True)
    assert len(compiled(cache)) == 1
    build(ccache=False)
    assert len(compiled(cache)) == 1
    assert len(list(cache.glob("builds/*"))) == 1


# --- what goes wrong, tried on one file


@dataclass(frozen=True)
class Bench:
    """One source and its header, compiled through a cache as a build does it."""

    cache: str
    folder: Path
    variables: Mapping[str, str]
    compiler: str = "c++"
    source: str = "answer.cpp"

    def compile(
        self, capsys: pytest.CaptureFixture[str], *, answer: str = "42", store: Path | None = None
    ) -> str:
        """What is said of the cache after the object was made, which holds the answer that the source gives."""
        place = str(store or self.folder / "cache")
        environment = clean_environment(self.folder, CCACHE_DIR=place, SCCACHE_DIR=place, **self.variables)
        told = cache_variables("auto", self.cache, [self.folder], windows=False)
        with CompilerCache(self.cache, told, self.folder / "build").running(environment) as whole:
            command = [self.cache, self.compiler, "-Iinclude", "-c", self.source, "-o", "build/answer.o"]
            subprocess.run(command, cwd=self.folder, env=whole, check=True, timeout=60)
        made = self.folder / "build" / "answer.o"
        assert f"the answer is {answer}\0".encode() in made.read_bytes()
        made.unlink()
        return capsys.readouterr().out.replace("torchwheel: ", "")


def bench(cache: str, folder: Path, **variables: str) -> Bench:
    for name in ("build", "include"):
        (folder / name).mkdir(parents=True)
    (folder / "include/answer.h").write_text('#define ANSWER "the answer is 42"\n', encoding="utf-8")
    (folder / "answer.cpp").write_text(
        '#include "answer.h"\nextern const char* const a = ANSWER;\n', encoding="utf-8"
    )
    return Bench(cache, folder, variables)


CACHES = [pytest.param(name, marks=needs(name, "c++")) for name in ("ccache", "sccache")]


@pytest.mark.parametrize("cache", CACHES)
def test_what_a_header_says_counts_and_not_its_time(
    cache: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, header = bench(cache, tmp_path), tmp_path / "include/answer.h"
    status = header.stat()
    assert one.compile(capsys) == f"{cache} answered 0 of 1 compilations (0 %)\n"
    header.write_text('#define ANSWER "the answer is 41"\n', encoding="utf-8")
    os.utime(header, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert one.compile(capsys, answer="41") == f"{cache} answered 0 of 1 compilations (0 %)\n"


@pytest.mark.parametrize("cache", CACHES)
def test_another_checkout_gets_what_its_own_headers_say(
    cache: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two places whose names mean nothing sccache takes the headers for the same, unless it is told otherwise."""
    answers = {"one": "42", "two": "a longer one", "three": "42"}
    for name, answer in answers.items():
        checkout = bench(cache, tmp_path / name)
        (tmp_path / name / "include/answer.h").write_text(
            f'#define ANSWER "the answer is {answer}"\n', encoding="utf-8"
        )
        said = checkout.compile(capsys, answer=answer, store=tmp_path / "store")
        assert said.startswith(f"{cache} answered {int(name == 'three')} of 1 compilations")


@needs("ccache", "nvcc")
def test_a_cuda_source_is_answered_in_another_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, hits in (("one", 0), ("two", 1)):
        checkout = replace(bench("ccache", tmp_path / name), compiler="nvcc", source="answer.cu")
        (tmp_path / name / "answer.cpp").rename(tmp_path / name / "answer.cu")
        said = checkout.compile(capsys, store=tmp_path / "store")
        assert said.startswith(f"ccache answered {hits} of 1 compilations")


@needs("ccache", "c++")
def test_shared_storage_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = bench("ccache", tmp_path, CCACHE_REMOTE_STORAGE=f"redis://127.0.0.1:{free_port()}")
    assert one.compile(capsys).splitlines() == [
        "ccache answered 0 of 1 compilations (0 %)",
        "ccache's storage failed 1 time; what it lacked was compiled here",
    ]
    # What is kept here needs no storage elsewhere.
    assert one.compile(capsys).startswith("ccache answered 1 of 1 compilations (100 %)")
