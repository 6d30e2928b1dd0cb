"""The pip or uv that fills an environment, and which of the user's settings reach it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.tiny_wheels import tiny_wheel
from torchwheel.engine import venv
from torchwheel.engine.venv import Installing, ensure_environment, ensure_overlay
from torchwheel.host import installer
from torchwheel.host.installer import find_installer, installing_variables
from torchwheel.host.installer_settings import (
    frontend_uv,
    pip_variables,
    uv_settings,
    version_choices,
)
from torchwheel.host.programs import find_program
from torchwheel.host.this import interpreter_in
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.versions import installed_versions

UV = find_program("uv", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])) or ""
needs_uv = pytest.mark.skipif(not UV, reason="needs uv")


class Place:
    """A home with a folder of wheels, ``tiny`` 24.2 and 25.0, whose settings name it as a user's do.

    Attributes:
        home: the folder, which holds pip.conf and uv.toml as well.
        environment: variables of a frontend.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.wheels = home, home / "some wheels"
        self.wheels.mkdir()
        for version in ("24.2", "25.0"):
            tiny_wheel(self.wheels, "tiny", version)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "XDG_CONFIG_DIRS": str(home),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": self.wheels.as_uri(),
        }

    def configured(self, program: str, text: str) -> None:
        file = self.home / ".config" / program / ("pip.conf" if program == "pip" else "uv.toml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def installed(self, name: str = "environment", **more: str) -> dict[str, str]:
        folder = self.home / "environments" / name
        ensure_environment(
            folder, ("tiny",), self.home / "log", Installing(self.home, {**self.environment, **more})
        )
        return installed_versions([str(venv.site_packages(folder))])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


# conda-build sets the first two.
HARMFUL = (
    "no-dependencies = True",
    "ignore-installed = True",
    "no-deps = yes",
    "dry-run = yes",
    "user = yes",
    "target = elsewhere",
    "prefix = elsewhere",
    "root = elsewhere",
    "require-hashes = yes",
    "upgrade = yes",
    "force-reinstall = yes",
    "report = report.json",
    "python = /nowhere/python",
    "python-version = 3.7",
    "platform = win_amd64",
    "require-virtualenv = yes",
    "use-feature = of-tomorrow",
    "progress-bar = of-tomorrow",
    "exists-action = of-tomorrow",
    "root-user-action = of-tomorrow",
    "no-build-isolation = yes",
    "requirement = nowhere.txt",
    "editable = nowhere",
    "config-settings = target=cpu",
    "isolated = yes",
    "log = elsewhere.log",
)


@pytest.mark.parametrize("way", ["variables", "pip.conf"])
def test_what_decides_where_and_whether_does_not_reach_pip(way: str, place: Place) -> None:
    """All at once, as each that did would stop it or leave the environment empty."""
    pairs = [line.partition(" = ")[::2] for line in HARMFUL]
    variables = {f"PIP_{key.upper().replace('-', '_')}": value for key, value in pairs}
    if way == "pip.conf":
        place.configured(
            "pip", "[global]\n" + "\n".join(HARMFUL[::2]) + "\n[install]\n" + "\n".join(HARMFUL[1::2])
        )
        variables = {}
    assert place.installed(**variables) == {"tiny": "25.0"}
    assert sorted(path.name for path in place.home.iterdir() if path.name != ".config") == [
        "environments",
        "log",
        "some wheels",
    ]


@pytest.mark.parametrize("way", ["PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "constraint", "build-constraint"])
def test_constraints_hold_and_those_of_builds_count_more(way: str, place: Place) -> None:
    old, new = place.home / "old", place.home / "new"
    old.write_text("tiny<25\n", encoding="utf-8")
    new.write_text("tiny>=25\n", encoding="utf-8")
    given = {way: "old"} if way.startswith("PIP_") else {}
    if not given:
        place.configured("pip", f"[install]\n{way} = old\n")
    if "BUILD" in way.upper():
        given["PIP_CONSTRAINT"] = "new"
    variables = pip_variables({**place.environment, **given})
    assert variables["PIP_CONSTRAINT"] == old.as_uri()
    assert version_choices({**place.environment, **given}) == ["tiny<25\n"]


def test_a_constraint_is_kept_by_pip(place: Place) -> None:
    """Its path is relative to where the frontend runs, and holds a blank there."""
    folder = place.home / "with a blank"
    folder.mkdir()
    os.chdir(folder)
    (folder / "old").write_text("-c nested\n", encoding="utf-8")
    (folder / "nested").write_text("tiny<25\n", encoding="utf-8")
    assert place.installed(PIP_CONSTRAINT="old") == {"tiny": "24.2"}


def test_the_constraint_of_a_conflict_is_named(place: Place) -> None:
    """pip --quiet would not name it."""
    (place.home / "old").write_text("tiny<25\n", encoding="utf-8")
    installing = Installing(place.home, {**place.environment, "PIP_CONSTRAINT": "old"})
    with pytest.raises(TorchwheelError) as caught:
        ensure_environment(place.home / "environment", ("tiny>=25",), place.home / "log", installing)
    (problem,) = caught.value.problems
    assert problem.id == "build-requirements-missing"
    assert "(constraint) tiny<25" in problem.why


def test_a_users_choice_of_warnings_does_not_reach_pip() -> None:
    """Older releases use functions that are deprecated in newer Pythons."""
    assert installing_variables({"PYTHONWARNINGS": "error", "PIP_INDEX_URL": "x"}) == {"PIP_INDEX_URL": "x"}


def test_the_frontends_own_pip_is_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """build fills an environment without pip by its own; where there is none, torchwheel keeps one."""
    here = find_installer(place.environment)
    assert here is not None
    assert (here.command, here.name) == ((sys.executable, "-m", "pip"), "pip")
    bare = place.home / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    own = sys.executable
    monkeypatch.setattr(sys, "executable", interpreter_in(bare))
    monkeypatch.setattr(installer, "_parent_command", lambda: [own, "-m", "build"])
    found = find_installer(place.environment)
    assert found is not None
    assert found.command == (own, "-m", "pip")
    monkeypatch.setattr(installer, "_parent_command", lambda: ["/bin/sh", "-c", "torchwheel build"])
    assert find_installer(place.environment) is None


def test_uv_is_taken_where_it_builds_or_made_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert frontend_uv({"UV": "/opt/uv"}) == "/opt/uv"
    assert frontend_uv({"UV": "/opt/uv", "PIP_BUILD_TRACKER": "/tmp/x"}) is None
    assert frontend_uv({"PATH": str(tmp_path)}) is None
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.9\n", encoding="utf-8")
    (tmp_path / "uv").touch(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert frontend_uv({"PATH": str(tmp_path)}) == str(tmp_path / "uv")


@needs_uv
def test_uv_gets_what_decides_versions_and_indexes(place: Place) -> None:
    """From its files and variables; what decides where and whether stays away, as [pip] does with `uv build`."""
    place.environment |= {"UV": UV, "UV_CACHE_DIR": str(place.home / ".cache")}
    harmful = "target = 'elsewhere'\nno-deps = true\nrequire-hashes = true\nprefix = 'x'\n"
    place.configured("uv", f"no-index = true\nfind-links = ['../../some wheels']\n[pip]\n{harmful}")
    overruled = {
        "UV_REQUIRE_HASHES": "1",
        "UV_CONSTRAINT": "nowhere",
        "UV_PYTHON": "2.7",
        "UV_RESOLUTION": "lowest",
    }
    assert place.installed("one", **overruled) == {"tiny": "25.0"}
    (place.home / "old").write_text("tiny<25\n", encoding="utf-8")
    assert place.installed("two", UV_BUILD_CONSTRAINT="old") == {"tiny": "24.2"}
    (place.home / "pyproject.toml").write_text(
        "[tool.uv]\nbuild-constraint-dependencies = ['tiny<25']\n", "utf-8"
    )
    assert place.installed("three") == {"tiny": "24.2"}
    assert not (place.home / "elsewhere").exists()
    assert list(place.home.glob("**/torchwheel-uv-*")) == []


@needs_uv
def test_uv_installs_beside_an_environment(place: Place) -> None:
    """What a hook asks for beyond the environment comes in front of it, and the environment stays as it is."""
    place.environment |= {
        "UV": UV,
        "UV_CACHE_DIR": str(place.home / ".cache"),
        "UV_FIND_LINKS": str(place.wheels),
    }
    place.environment |= {"UV_OFFLINE": "1"}
    assert place.installed("base") == {"tiny": "25.0"}
    base = place.home / "environments" / "base"
    overlay = ensure_overlay(
        base, ("tiny==24.2",), place.home / "log", Installing(place.home, place.environment)
    )
    command = [interpreter_in(base), "-c", "import tiny; print(tiny.version)"]
    for environment, version in ((overlay, "24.2"), ({}, "25.0")):
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)
        assert answer.stdout == f"{version}\n"


def test_ways_of_uvs_files(place: Place) -> None:
    """A project's own file stands before the user's, and lists are joined."""
    place.configured(
        "uv", "exclude-newer = '2026-01-01'\nextra-index-url = ['https://two']\n[pip]\ntarget = 'x'\n"
    )
    (place.home / "pyproject.toml").write_text("[tool.uv]\nextra-index-url = ['https://one']\n", "utf-8")
    below = place.home / "below"
    below.mkdir()
    os.chdir(below)
    environment = {**place.environment, "UV": "uv"}
    assert uv_settings(environment) == {
        "extra-index-url": ["https://one", "https://two"],
        "exclude-newer": "2026-01-01",
    }
    assert version_choices(environment) == ['exclude-newer="2026-01-01"']
    own = place.home / "own.toml"
    own.write_text("[[index]]\nurl = 'some wheels'\nname = 'x'\n", encoding="utf-8")
    assert uv_settings({**environment, "UV_CONFIG_FILE": str(own)}) == {
        "index": [{"url": str(place.wheels), "name": "x"}]
    }
    assert uv_settings({**environment, "UV_NO_CONFIG": "1"}) == {}
    assert version_choices({**environment, "UV_EXCLUDE_NEWER": "1 week"})[0] == 'UV_EXCLUDE_NEWER="1 week"'
