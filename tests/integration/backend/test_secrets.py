"""A build leaves no secret that it was given in any file or stream, whatever it was given by."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, clean_environment, make_tree, run, torchwheel, wrapper
from index.web import serving

SECRET = "hunter2-{}{}-opensesame"
# CMake keeps each option as it was given, and scikit-build-core writes a file for CMake and asks it for its options.
OF_CMAKE = re.compile(
    r".*(/CMakeCache.txt|/CMakeInit.txt|/torchwheel-defines.cmake|/torchwheel-values.json|/.cmake/api/.*)"
)
TELLS_ALL = """
message(STATUS "by option $ENV{FROM_SETTING_TOKEN} ${MY_TOKEN} ${MY_URL}")
execute_process(COMMAND ${CMAKE_COMMAND} -E environment)
"""


@pytest.fixture
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A package index with nothing in it."""
    with serving(tmp_path_factory.mktemp("index")) as (found, _):
        yield found.removeprefix("http://")


class Plants:
    """Secrets, each another, and which of them a text holds."""

    def __init__(self, name: str = "") -> None:
        self.name, self.planted = name, list[str]()

    def secret(self) -> str:
        self.planted.append(SECRET.format(self.name, len(self.planted)))
        return self.planted[-1]

    def url(self, host: str = "127.0.0.1:9") -> str:
        return f"http://bob:{self.secret()}@{host}/simple?token={self.secret()}"

    def found(self, content: bytes) -> list[str]:
        return [one for one in self.planted if one.encode() in content]


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, and every member of a wheel."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        yield str(path.relative_to(folder)), path.read_bytes()
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                yield from ((f"{path.name}: {name}", archive.read(name)) for name in archive.namelist())


@pytest.mark.long
@pytest.mark.network
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_build_leaves_no_secret(
    generation: str, tmp_path: Path, online: dict[str, str], index: str
) -> None:
    plants, options = Plants(), Plants("option-")
    tree = make_tree(generation, tmp_path / "tree")
    with (tree / "CMakeLists.txt").open("a", encoding="utf-8") as stream:
        stream.write(TELLS_ALL)
    for command in (("init", "-q"), ("remote", "add", "origin", plants.url("example.org"))):
        subprocess.run(["git", *command], cwd=tree, check=True)
    project = wrapper(tmp_path / "project", tree, **{"env.PROJECT_PASSWORD": f"'{plants.secret()}'"})
    for name in ("home", "temporary", "out", "cache"):
        (tmp_path / name).mkdir()
    pip = f"{index} {online.get('PIP_TRUSTED_HOST', '')}"
    variables = {
        "HF_TOKEN": plants.secret(),
        "DEPLOY_KEY": f"{plants.secret()}\n{plants.secret()}\n",
        "AWS_SECRET_ACCESS_KEY": plants.secret(),
        "SCCACHE_REDIS_PASSWORD": plants.secret(),
        "CCACHE_REMOTE_STORAGE": plants.url(),
        "CMAKE_ARGS": f"-DBY_ARGS_TOKEN={options.secret()} -DBY_ARGS_URL={options.url()}",
        "TORCHWHEEL_ENV": f"BY_VARIABLE_SECRET={plants.secret()}",
        "PIP_EXTRA_INDEX_URL": plants.url(index),
        "PIP_TRUSTED_HOST": pip.strip(),
        "PIP_VERBOSE": "2",
        "UV_INDEX": plants.url(index),
        "http_proxy": f"bob:{plants.secret()}@127.0.0.1:9",
        "HTTPS_PROXY": f"http://bob:{plants.secret()}@127.0.0.1:9",
        "NO_PROXY": "*",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    given = [
        f"env.FROM_SETTING_TOKEN={plants.secret()}",
        f"env.FROM_SETTING_URL={plants.url()}",
        f"define.MY_TOKEN={options.secret()}",
        f"define.DATABASE_PWD={options.secret()}",
        f"define.MY_URL={options.url()}",
        f"cmake.args=-DPASSED_ON_PASSWORD={options.secret()}",
        "build-env=managed",
    ]
    environment = clean_environment(tmp_path / "cache") | online | variables
    words = [word for one in given for word in ("-C", one)]
    streams: dict[str, bytes] = {}
    for name, *command in (
        ("plan", "plan"),
        ("plan --explain", "plan", "--explain"),
        ("plan --json", "plan", "--json"),
        ("doctor", "doctor"),
        ("build", "build", "-o", tmp_path / "out"),
        ("build --json", "build", "--json", "-o", tmp_path / "out"),
        ("status", "status", "--report"),
    ):
        about = [] if name == "status" else [project, *words]
        done = run(*torchwheel(*map(str, [*command, *about])), cwd=tmp_path, env=environment, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        streams[name] = (done.stdout + done.stderr).encode()
    for name, content in streams.items():
        assert (name, plants.found(content), options.found(content)) == (name, [], [])
    assert len(list((tmp_path / "out").glob("*.whl"))) == 1
    read = 0
    for folder in ("cache", "home", "out", "temporary"):
        for name, content in contents(tmp_path / folder):
            read += 1
            assert (name, plants.found(content)) == (name, [])
            if not OF_CMAKE.fullmatch(Path(name).as_posix()):
                assert (name, options.found(content)) == (name, [])
    assert read > 100
    # The build itself had them all.
    log = Path((tmp_path / "cache" / "last-build.txt").read_text(encoding="utf-8"))
    previous = log.with_name("previous.log").read_text(encoding="utf-8")
    assert "by option *** *** http://***@" in previous
    assert f"http://***@{index}" in previous
    if os.name == "posix":
        for one in (log, log.with_name("previous.log")):
            assert stat.S_IMODE(one.stat().st_mode) == 0o600
