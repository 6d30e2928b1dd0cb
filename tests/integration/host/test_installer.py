"""The pip or uv that fills an environment, and which of the user's settings reach it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.tiny_wheels import tiny_wheel
from put import put
from refusals import error_of, ids_of
from torchwheel.engine import venv
from torchwheel.engine.venv import Installing, ensure_environment, ensure_overlay
from torchwheel.host import installer
from torchwheel.host.installer import (
    find_installer,
    frontend_uv,
    has_another_index,
    installing_variables,
    pip_variables,
    version_choices,
)
from torchwheel.host.programs import find_program
from torchwheel.host.this import interpreter_in
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
        put(self.home / ".config" / program / ("pip.conf" if program == "pip" else "uv.toml"), text)

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
    "no-build-isolation = False",
    "no-deps = yes",
    "dry-run = yes",
    "user = yes",
    "target = elsewhere",
    "prefix = elsewhere",
    "require-hashes = yes",
    "require-virtualenv = yes",
    "python-version = 3.7",
    "quiet = 3",
    "upgrade = yes",
    "force-reinstall = yes",
)
_OF_VARIABLES = (
    "python = /nowhere/python",
    "root = elsewhere",
    "report = report.json",
    "platform = win_amd64",
    "requirement = nowhere.txt",
    "editable = nowhere",
)


@pytest.mark.parametrize("way", ["variables", "pip.conf"])
def test_what_decides_where_and_whether_does_not_reach_pip(way: str, place: Place) -> None:
    """All at once, as each that did would stop it or leave the environment empty. conda-build sets the first three."""
    pairs = [line.partition(" = ")[::2] for line in (*HARMFUL, *_OF_VARIABLES)]
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


def test_relative_paths_of_pips_settings_begin_where_the_user_stands(place: Place) -> None:
    """The folder has a blank; a module of its own does not stand in for pip."""
    os.chdir(place.wheels)
    (place.wheels / "pip.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    del place.environment["PIP_FIND_LINKS"]
    (place.wheels / "old").write_text("tiny<25\n", encoding="utf-8")
    place.configured("pip", "[global]\nfind-links = .\n[install]\nconstraint = old\n")
    assert has_another_index(place.environment)
    assert place.installed() == {"tiny": "24.2"}


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
    assert variables["PIP_CONSTRAINT"] == "old"
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
    (problem,) = error_of(
        ensure_environment, place.home / "environment", ("tiny>=25",), place.home / "log", installing
    ).problems
    assert problem.id == "build-requirements-missing"
    assert "(constraint) tiny<25" in problem.why


def test_a_users_choice_of_warnings_does_not_reach_pip() -> None:
    """Older releases use functions that are deprecated in newer Pythons."""
    assert installing_variables({"PYTHONWARNINGS": "error", "PIP_INDEX_URL": "x"}) == {"PIP_INDEX_URL": "x"}


def test_the_frontends_own_pip_is_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """build fills an environment without pip by its own; where there is none, torchwheel keeps one."""
    here = find_installer(place.environment)
    assert here is not None
    assert (here.command, here.name) == ((sys.executable, "-I", "-m", "pip"), "pip")
    bare = place.home / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    own = sys.executable
    monkeypatch.setattr(sys, "executable", interpreter_in(bare))
    monkeypatch.setattr(installer, "_parent_command", lambda: [own, "-m", "build"])
    found = find_installer(place.environment)
    assert found is not None
    assert found.command == (own, "-I", "-m", "pip")
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
def test_uv_reads_its_own_settings(place: Place) -> None:
    """Its files and variables decide versions and indexes; those for a project's own environment are overruled."""
    place.environment |= {"UV": UV, "UV_CACHE_DIR": str(place.home / ".cache")}
    harmful = (
        "no-deps = true\nrequire-hashes = true\npython-version = '3.7'\nresolution = 'lowest'\nprefix = 'x'\n"
    )
    place.configured("uv", f"no-index = true\nfind-links = ['../../some wheels']\n[pip]\n{harmful}")
    overruled = {
        "UV_REQUIRE_HASHES": "1",
        "UV_CONSTRAINT": "nowhere",
        "UV_PYTHON": "2.7",
        "UV_RESOLUTION": "lowest",
    }
    assert has_another_index(place.environment)
    assert place.installed("one", **overruled) == {"tiny": "25.0"}
    (place.home / "old").write_text("tiny<25\n", encoding="utf-8")
    assert place.installed("two", UV_BUILD_CONSTRAINT="old") == {"tiny": "24.2"}
    (place.home / "pyproject.toml").write_text(
        "[tool.uv]\nbuild-constraint-dependencies = ['tiny<25']\n", "utf-8"
    )
    assert place.installed("three") == {"tiny": "24.2"}
    assert list(place.home.glob("**/torchwheel-uv-*")) == []


@needs_uv
def test_a_target_in_uvs_file_is_refused(place: Place) -> None:
    """uv has no option against it, so the environment stays empty."""
    place.environment |= {"UV": UV, "UV_CACHE_DIR": str(place.home / ".cache"), "UV_OFFLINE": "1"}
    place.environment |= {"UV_FIND_LINKS": str(place.wheels)}
    place.configured("uv", f"[pip]\ntarget = '{place.home / 'elsewhere'}'\n")
    assert ids_of(place.installed) == ["build-requirements-missing"]


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


def test_what_uvs_files_say_about_versions(place: Place) -> None:
    """A project's own file and the user's."""
    place.configured("uv", "exclude-newer = '2026-01-01'\nextra-index-url = ['https://two']\n")
    project = place.home / "pyproject.toml"
    project.write_text("[tool.uv]\nno-build = true\nmanaged = false\n", "utf-8")
    below = place.home / "below"
    below.mkdir()
    os.chdir(below)
    environment = {**place.environment, "UV": "uv"}
    assert version_choices(environment) == ["no-build=true", 'exclude-newer="2026-01-01"']
    for without in ("# [tool.uv]\ntool = 3\n", "# [tool.uv]\n", "[[tool.uv]]\nno-build = true\n"):
        project.write_text(without, "utf-8")
        assert version_choices(environment) == ['exclude-newer="2026-01-01"']
    own = put(place.home / "own.toml", "no-build = true\n")
    assert version_choices({**environment, "UV_CONFIG_FILE": str(own)}) == ["no-build=true"]
    assert version_choices({**environment, "UV_NO_CONFIG": "1"}) == []
    assert 'UV_EXCLUDE_NEWER="1 week"' in version_choices({**environment, "UV_EXCLUDE_NEWER": "1 week"})
