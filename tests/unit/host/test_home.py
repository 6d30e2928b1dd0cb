"""Users without a home folder, as containers have them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from refusals import ids_of
from torchwheel.host.this import cache_folder, config_folder, has_home, home_folder, with_home_and_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="homes of Windows are named by the system")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user without a name and a home, whose number is the one that runs the test."""
    monkeypatch.setattr("torchwheel.host.this._PLAIN_PLACE", tmp_path)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / f"torchwheel-{os.getuid()}"


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "/nonexistent"}])
def test_without_a_home_builds_are_in_a_folder_of_their_own(
    temporary: Path, environment: dict[str, str]
) -> None:
    assert not has_home(environment)
    assert config_folder(environment) is None
    assert cache_folder(environment) == temporary
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    made = with_home_and_path(environment)
    own = {"HOME": str(temporary / "home"), "TORCHWHEEL_CACHE_DIR": str(temporary)}
    assert made == {**own, "PATH": os.defpath}
    (temporary / "home").mkdir()
    assert cache_folder(made) == temporary
    assert config_folder(made) == temporary / "home/.config/torchwheel"
    assert not Path("/nonexistent").exists()


def test_folders_that_are_named_need_no_home(temporary: Path, tmp_path: Path) -> None:
    named = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "c"), "TORCHWHEEL_CONFIG_DIR": "~/config"}
    assert cache_folder(named) == tmp_path / "c"
    assert config_folder(named) == Path("~/config").absolute()
    assert with_home_and_path(named)["HOME"] == str(tmp_path / "c" / "home")
    assert not temporary.exists()


def test_a_root_folder_that_is_closed_is_no_home(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != "/")
    assert not has_home({"HOME": "/"})
    assert cache_folder({"HOME": "/"}) == temporary


@pytest.mark.parametrize("spoil", ["link", "file", "writable"])
def test_a_folder_of_others_is_not_used(temporary: Path, spoil: str) -> None:
    if spoil == "link":
        temporary.symlink_to("/")
    elif spoil == "file":
        temporary.touch()
    else:
        temporary.mkdir()
        temporary.chmod(0o777)
    assert ids_of(cache_folder, {}) == ["no-cache-folder"]


def test_the_system_knows_homes_that_the_environment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        pw_dir = str(tmp_path)

    monkeypatch.setattr("pwd.getpwuid", lambda _number: Entry)
    assert home_folder({}) == str(tmp_path)
    assert home_folder({"HOME": "/elsewhere"}) == "/elsewhere"
    assert with_home_and_path({"X": "1", "PATH": ""}) == {"X": "1", "PATH": ""}
