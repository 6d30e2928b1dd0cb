"""The environments that torchwheel makes and keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from engine.tiny_wheels import tiny_wheel
from put import put
from refusals import error_of, ids_of, origins_of
from torchwheel.engine import venv
from torchwheel.engine.venv import Installing, ensure_environment, ensure_overlay, lost_environment
from torchwheel.host.this import interpreter_in, site_packages

PIP = metadata.version("pip")
READY, USED_FOR = "torchwheel-ready.json", "used-for.txt"


class Site:
    """A place to install from, and variables as a user may have them: pip set up to install elsewhere, in a frontend.

    Attributes:
        environment: the variables.
        folder: the environment that torchwheel keeps.
        log: pip's output.
    """

    def __init__(self, root: Path) -> None:
        index = root / "wheels"
        index.mkdir()
        for version in ("24.2", "25.0"):
            tiny_wheel(index, "tiny", version)
        tiny_wheel(index, "other", "1.0")
        self.folder, self.log = root / "environments" / "the environment", root / "log"
        self.tree = root / "tree"
        self.environment = {
            "PATH": "/usr/bin",
            "PIP_TARGET": str(root / "elsewhere"),
            "PYTHONPATH": str(root),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": index.as_uri(),
        }

    def ensure(self, *requires: str) -> None:
        ensure_environment(self.folder, requires, self.log, Installing(self.tree, self.environment))

    def overlay(self, *more: str) -> dict[str, str]:
        return ensure_overlay(self.folder, more, self.log, Installing(self.tree, self.environment))

    def version(self, overlay: dict[str, str] | None = None) -> str:
        """Of ``tiny``, and where it is imported from."""
        command = [interpreter_in(self.folder), "-c", "import tiny; print(tiny.version, tiny.__file__)"]
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", env=overlay or {})
        return answer.stdout.strip().replace(str(self.folder.parent), "")


def test_an_environment_is_made_once_and_never_changed(tmp_path: Path) -> None:
    """A build may run in it: what a hook asks for beyond it is beside it, and installed versions decide, not words."""
    site = Site(tmp_path)
    site.ensure("tiny==24.2")
    made = {
        path: path.lstat().st_mtime_ns
        for path in site.folder.rglob("*")
        # The times of these say when it was last used.
        if "__pycache__" not in path.parts and path.name not in (READY, USED_FOR)
    }
    packages = str(site_packages(site.folder))[len(str(site.folder.parent)) :]
    assert site.version() == f"24.2 {packages}/tiny.py"
    log = site.log.read_bytes()
    for more in ((), ("tiny",), ("tiny<25",), ("tiny==24.2", "tiny>=1"), ("absent; python_version < '3'",)):
        assert site.overlay(*more) == {}
    assert site.log.read_bytes() == log
    newer = site.overlay("tiny==25.0", "other")
    assert site.version(newer).startswith("25.0 /the environment-")
    # 24.2, 25.0, 24.2 ends with 24.2.
    assert site.overlay("tiny==24.2") == {}
    assert site.version() == f"24.2 {packages}/tiny.py"
    log = site.log.read_bytes()
    site.ensure("tiny==24.2")
    assert site.overlay("other", "tiny==25.0") == newer
    assert site.log.read_bytes() == log
    assert not (tmp_path / "elsewhere").exists()
    assert {path: path.lstat().st_mtime_ns for path in made} == made
    assert sorted(path.name for path in site.folder.parent.glob("*/torchwheel-ready.json")) == [READY, READY]
    users = [path.read_text("utf-8") for path in site.folder.parent.glob(f"*/{USED_FOR}")]
    assert users == [str(site.tree)] * 2


RECORDED = {
    "tiny.py": ("version = 1", "11"),
    "tiny-1.dist-info/METADATA": ("Name: tiny\nVersion: 1\n", "22"),
    "tiny-1.dist-info/INSTALLER": ("pip", ""),
    "__pycache__/tiny.pyc": ("", ""),
}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("", None),
        ("__pycache__/tiny.pyc", None),
        ("torchwheel-ready.json", ""),
        ("tiny.py", "tiny.py is missing"),
        ("tiny-1.dist-info/RECORD", "RECORD is missing"),
        ("bin/python", "bin/python is missing"),
        ("pyvenv.cfg", "pyvenv.cfg is missing"),
        ("emptied", "pyvenv.cfg names no interpreter"),
        ("moved", "/elsewhere"),
        ("asks more", "absent, absent-too>=2"),
        ("needs more", "other>1"),
        ("long", "field larger than field limit"),
        ("empty", "RECORD is empty"),
        ("a list", READY),
        ("deep", READY),
        ("half", "tiny.py is not as it was installed"),
        ("nonsense", "not enough values to unpack"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names of POSIX's environments")
def test_a_damaged_environment_is_made_again(
    damage: str,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "environment"
    packages = site_packages(folder)
    made: list[str] = []

    def create(_folder: Path, _installing: Installing, _log: Path, *options: str) -> None:
        made.append("created")
        assert "--without-pip" in options
        for name, (text, _size) in RECORDED.items():
            put(packages / name, text)
        rows = "".join(f"{name},,{size}\n" for name, (_, size) in RECORDED.items())
        (packages / "tiny-1.dist-info" / "RECORD").write_text(rows, encoding="utf-8")
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n", encoding="utf-8")

    monkeypatch.setattr(venv, "_create_environment", create)
    monkeypatch.setattr(venv, "_install_packages", lambda *_, **__: None)
    for expected in (None, said):
        ensure_environment(folder, ("tiny",), tmp_path / "log", Installing(tmp_path, {}))
        printed = capsys.readouterr().out
        assert expected in printed if expected else printed == ""
        if damage == "half":
            (packages / "tiny.py").write_text("vers", encoding="utf-8")
        elif damage == "emptied":
            (folder / "pyvenv.cfg").write_text("", encoding="utf-8")
        elif damage in ("moved", "asks more"):
            mark = json.loads((folder / READY).read_text("utf-8"))
            changed = (
                {"folder": "/elsewhere"} if damage == "moved" else {"requires": ["absent", "absent-too>=2"]}
            )
            (folder / READY).write_text(json.dumps(mark | changed), encoding="utf-8")
        elif damage == "needs more":
            info = packages / "tiny-1.dist-info"
            put(info / "METADATA", "Name: tiny\nVersion: 1\nRequires-Dist: other>1\n")
            put(info / "RECORD", (info / "RECORD").read_text("utf-8").replace("METADATA,,22", "METADATA,,"))
        elif damage in ("a list", "deep"):
            (folder / READY).write_text("[" * 100_000 if damage == "deep" else "[]", encoding="utf-8")
        elif damage in ("long", "empty"):
            text = "a" * 150_000 if damage == "long" else ""
            (packages / "tiny-1.dist-info" / "RECORD").write_text(text, encoding="utf-8")
        elif damage == "nonsense":
            (packages / "tiny-1.dist-info" / "RECORD").write_text("nonsense", encoding="utf-8")
        elif damage:
            for place in (folder, packages):
                (place / damage).unlink(missing_ok=True)
    log = tmp_path / "log"
    lost = lost_environment(folder, log)
    # A build that fails then is told so, and not what was missing.
    assert (lost is None) is (said is None)
    if lost is not None:
        assert (said or f"{READY} is missing") in lost.what
        assert (lost.id, lost.origin) == ("environment-lost", str(folder))
    ensure_environment(folder, ("tiny",), log, Installing(tmp_path, {}))
    assert len(made) == (1 if said is None else 3)


def test_an_installer_that_installs_nothing_makes_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is not marked as ready, so the same command works once the installer does."""
    site = Site(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(venv, "_install_packages", lambda *_, **__: None)
        for _ in range(2):
            assert ids_of(site.ensure, "tiny") == ["build-requirements-missing"]
            assert not (site.folder / READY).exists()
    site.ensure("tiny")
    assert site.version().startswith("25.0 ")


def test_no_mark_holds_an_address(tmp_path: Path) -> None:
    """It may hold a password."""
    site = Site(tmp_path)
    place = (tmp_path / "wheels" / "tiny-24.2-py3-none-any.whl").as_uri()
    site.ensure(f"tiny @ {place}#x=PASSWORD ; python_version >= '3'")
    assert site.version().startswith("24.2 ")
    mark = json.loads((site.folder / READY).read_text("utf-8"))
    assert mark["requires"] == ['tiny; python_version >= "3"']
    log = site.log.read_bytes()
    site.ensure(f"tiny @ {place}#x=PASSWORD ; python_version >= '3'")
    assert site.log.read_bytes() == log


def test_a_requirement_that_cannot_be_installed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    installing = Installing(tmp_path, {"PATH": "", "PIP_NO_INDEX": "1"})
    (problem,) = error_of(ensure_environment, tmp_path / "env", ("not-there>=9",), log, installing).problems
    assert (problem.id, f"pip {PIP} " in problem.what) == ("build-requirements-missing", True)
    assert problem.why.startswith(f"the last lines of {log} are\n")
    assert problem.why.endswith("No matching distribution found for not-there>=9")
    assert "not-there" in log.read_text(encoding="utf-8")


def test_an_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "no-python"))
    error = error_of(ensure_environment, tmp_path / "env", (), tmp_path / "log", Installing(tmp_path, {}))
    assert [problem.id for problem in error.problems] == ["environment-not-made"]
    assert f"{tmp_path / 'no-python'} -m venv" in str(error)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert origins_of(
        ensure_environment, tmp_path / "env", (), tmp_path / "log", Installing(tmp_path, {})
    ) == [("disk-full", str(tmp_path / "env"))]


@pytest.mark.skipif(sys.platform == "win32", reason="names of POSIX's environments")
def test_what_lies_in_an_environments_place_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "environment"
    made: list[bool] = []
    monkeypatch.setattr(venv, "_create_environment", lambda *_: made.append(os.path.lexists(folder)))
    for place in (folder.touch, lambda: folder.symlink_to(tmp_path), lambda: folder.mkdir()):
        place()
        ensure_environment(folder, (), tmp_path / "log", Installing(tmp_path, {}))
        assert made.pop() is False
        shutil.rmtree(folder)
    assert (tmp_path / "log").parent.is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="names of POSIX's environments")
def test_an_environment_from_the_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CMake's modules lie in one: where they look newer than build.ninja, ninja configures again and again."""
    folder = tmp_path / "environment"
    packages = site_packages(folder)

    def create(*_: object) -> None:
        (packages / "tiny-1.dist-info").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
        (packages / "old.cmake").touch()
        (packages / "new.cmake").touch()
        os.utime(packages / "old.cmake", (10**9, 10**9))
        os.utime(packages / "new.cmake", (4 * 10**9, 4 * 10**9))
        put(packages / "tiny-1.dist-info" / "RECORD", "old.cmake,,0\nnew.cmake,,0\n")

    monkeypatch.setattr(venv, "_create_environment", create)
    for _ in range(2):
        ensure_environment(folder, (), tmp_path / "log", Installing(tmp_path, {}))
    assert (packages / "old.cmake").stat().st_mtime == 10**9
    assert (packages / "new.cmake").stat().st_mtime <= time.time()
