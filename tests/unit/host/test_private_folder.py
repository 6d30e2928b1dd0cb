"""A cache folder that others can write to is found; a private group's permission is none of another's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchwheel.host import this as private_folder
from torchwheel.host.this import make_private, other_writers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead")


class Entry:
    """A group's entry in the database of groups."""

    def __init__(self, name: str, *members: str) -> None:
        self.gr_name, self.gr_mem = name, list(members)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    (folder / "environments").mkdir(parents=True)
    for one in (folder, folder / "environments"):
        one.chmod(0o755)
    return folder


def as_user(monkeypatch: pytest.MonkeyPatch, folder: Path, **groups: Entry) -> None:
    """Be the owner of a folder, ``me``, whose group is the one that is given, by any number but root's."""
    monkeypatch.setattr(private_folder, "_ROOT", -1)
    monkeypatch.setattr(private_folder.os, "geteuid", lambda: folder.stat().st_uid)
    monkeypatch.setattr(private_folder, "_user_name", lambda number: "me")
    monkeypatch.setattr(private_folder.grp, "getgrgid", lambda number: groups["entry"])


def test_a_folder_of_this_user_alone(cache: Path) -> None:
    assert other_writers(cache) == ""
    assert other_writers(cache / "missing") == ""


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
@pytest.mark.parametrize("name", [".", "environments"])
def test_a_folder_that_everybody_may_write_to(cache: Path, mode: int, name: str) -> None:
    """Also with the sticky bit: others could make a folder there before this user does."""
    (cache / name).chmod(mode)
    assert f"{mode:o}" in other_writers(cache)


def test_what_nobody_else_can_reach_is_private(cache: Path) -> None:
    (cache / "environments").chmod(0o777)
    cache.chmod(0o700)
    assert other_writers(cache) == ""


@pytest.mark.parametrize(
    ("entry", "is_private"),
    [
        (Entry("me"), True),
        (Entry("me", "me"), True),
        (Entry("me", "bob"), False),
        (Entry("staff"), False),
        (Entry("staff", "me"), False),
    ],
)
def test_groups(monkeypatch: pytest.MonkeyPatch, cache: Path, entry: Entry, is_private: bool) -> None:
    """Nobody else is in a private group, which has the user's name; who has another one as his own is not listed."""
    as_user(monkeypatch, cache, entry=entry)
    cache.chmod(0o775)
    assert (other_writers(cache) == "") is is_private


def test_a_folder_of_another_user(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(private_folder, "_ROOT", -1)
    monkeypatch.setattr(private_folder.os, "geteuid", lambda: cache.stat().st_uid + 1)
    assert "belongs to" in other_writers(cache)


def test_a_new_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "above" / "cache")
    finally:
        os.umask(before)
    assert (tmp_path / "above" / "cache").stat().st_mode & 0o777 == 0o700
    make_private(tmp_path / "above" / "cache")
