"""What the cache folder holds, what of it is in use, and what is removed."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from refusals import ids_of
from torchwheel.engine import cache as module
from torchwheel.engine.cache import Kept, list_entries, note_user, record_use, remove_entries, remove_orphans
from torchwheel.host import this
from torchwheel.system.locks import file_lock

OLD = datetime.now(timezone.utc) - timedelta(days=3)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build, an extension, an environment with a link into it from a toolkit, and what is none of these."""
    monkeypatch.setattr(this, "_PLAIN_PLACE", tmp_path)
    root = tmp_path / "cache with a space"
    for name, source in (
        ("builds/torch-cpu-1", tmp_path / "pytorch"),
        ("extensions/k-1", tmp_path / "kernels"),
    ):
        source.mkdir()
        (root / name).mkdir(parents=True)
        (root / name / "lock").touch()
        record_use(root / name, source)
    (root / "environments/cp311-1/bin").mkdir(parents=True)
    (root / "environments/cp311-1.lock").touch()
    (root / "environments/cp311-1/bin/nvcc").write_bytes(b"x" * 100_000)
    (root / "toolkits/cuda-13.0").mkdir(parents=True)
    os.link(root / "environments/cp311-1/bin/nvcc", root / "toolkits/cuda-13.0/nvcc")
    (root / "toolkits/cuda-13.0.log").touch()
    (root / "last-build.txt").touch()
    return root


def age(folder: Path, moment: datetime = OLD) -> None:
    for path in (*folder.iterdir(), folder):
        os.utime(path, (moment.timestamp(), moment.timestamp()))


def names(entries: tuple[Kept, ...]) -> list[tuple[str, str]]:
    return [(entry.kind, entry.path.name) for entry in entries]


def test_every_folder_with_its_kind_size_and_source(cache: Path, tmp_path: Path) -> None:
    build, extension, environment, toolkit = list_entries(cache)
    assert names((build, extension, environment, toolkit)) == [
        ("build", "torch-cpu-1"),
        ("extension", "k-1"),
        ("environment", "cp311-1"),
        ("toolkit", "cuda-13.0"),
    ]
    assert (build.source, extension.source) == (tmp_path / "pytorch", tmp_path / "kernels")
    assert (environment.source, toolkit.source) == (None, None)
    # The file is there once, under two names.
    assert environment.size >= 100_000
    assert toolkit.size < 100_000
    assert not any(entry.in_use or entry.orphaned for entry in (build, extension, environment, toolkit))
    assert abs(datetime.now(timezone.utc) - build.used) < timedelta(minutes=5)


def test_an_environment_was_used_when_its_lock_was_last_touched(cache: Path) -> None:
    age(cache / "environments/cp311-1")
    lock = cache / "environments/cp311-1.lock"
    used = {entry.kind: entry.used for entry in list_entries(cache)}["environment"]
    assert used == datetime.fromtimestamp(lock.stat().st_mtime, timezone.utc)
    os.utime(lock, (OLD.timestamp(), OLD.timestamp()))
    assert {entry.kind: entry.used for entry in list_entries(cache)}["environment"] < OLD + timedelta(
        seconds=1
    )


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)


@pytest.mark.skipif(os.name == "nt", reason="flock is POSIX")
def test_without_locks_nobody_knows_what_is_in_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_entries(cache)
    without_locks(monkeypatch)
    entries = list_entries(cache)
    assert [entry.in_use for entry in entries] == [None] * 4
    assert [replace(entry, in_use=False) for entry in entries] == list(before)
    assert ids_of(tuple, remove_entries(entries)) == ["no-file-locks"]
    assert list_entries(cache) == entries


def test_what_several_builds_share_tells_who_used_it_last_and_outlives_that(
    cache: Path, tmp_path: Path
) -> None:
    shared = [cache / "environments/cp311-1", cache / "toolkits/cuda-13.0"]
    for folder in shared:
        age(folder)
        note_user(folder, tmp_path / "first")
        note_user(folder, tmp_path / "gone")
    (tmp_path / "a file").touch()
    note_user(tmp_path / "a file", tmp_path)
    entries = list_entries(cache)[2:]
    assert [(entry.path, entry.source, entry.orphaned) for entry in entries] == [
        (folder, tmp_path / "gone", False) for folder in shared
    ]
    assert all(entry.used > OLD + timedelta(days=1) for entry in entries)


def test_no_cache_is_an_empty_one(tmp_path: Path) -> None:
    assert list_entries(tmp_path / "nothing") == ()
    remove_orphans(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("lock", "used"),
    [
        ("builds/torch-cpu-1/lock", {"torch-cpu-1", "cp311-1", "cuda-13.0"}),
        ("extensions/k-1/backend.lock", {"k-1", "cp311-1", "cuda-13.0"}),
        ("environments/cp311-1.lock", {"cp311-1"}),
        ("tree-12ab.lock", {"cp311-1", "cuda-13.0"}),
    ],
)
def test_what_a_running_build_may_use_stays(cache: Path, lock: str, used: set[str]) -> None:
    with file_lock(cache / lock):
        entries = list_entries(cache)
        assert {entry.path.name for entry in entries if entry.in_use} == used
        removed = {entry.path.name for entry in remove_entries(entries)}
    everything = {"torch-cpu-1", "k-1", "cp311-1", "cuda-13.0"}
    assert removed == everything - used
    assert {entry.path.name for entry in list_entries(cache)} == used


def test_a_build_in_the_users_own_tree_uses_its_log(cache: Path) -> None:
    """It holds a lock of its own, and its folder in the cache has none."""
    (cache / "builds/torch-cpu-1/lock").unlink()
    with file_lock(cache / "tree-12ab.lock"):
        assert list_entries(cache)[0].in_use


def test_a_build_that_starts_between_looking_and_removing_stays(cache: Path) -> None:
    entries = list_entries(cache)
    with file_lock(cache / "builds/torch-cpu-1/lock"):
        assert ("build", "torch-cpu-1") not in names(tuple(remove_entries(entries)))
    assert (cache / "builds/torch-cpu-1/used-for.txt").exists()


def test_who_waited_for_a_lock_that_was_removed_takes_the_new_one(cache: Path) -> None:
    """Else it would work beside the one that takes the file made anew."""
    lock = cache / "builds/torch-cpu-1/lock"
    waiting = threading.Event()
    held: list[bool] = []

    def wait() -> None:
        with file_lock(lock, waiting.set), module.free_lock(lock) as free:
            held.append(not free)

    with file_lock(lock):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(30)
        lock.unlink()
    thread.join(30)
    assert held == [True]


def test_builds_of_what_is_gone_go_after_a_day(cache: Path, tmp_path: Path) -> None:
    for name in ("builds/torch-cpu-1", "extensions/k-1"):
        age(cache / name)
    (tmp_path / "kernels").rmdir()
    remove_orphans(cache)
    assert names(list_entries(cache)) == [
        ("build", "torch-cpu-1"),
        ("environment", "cp311-1"),
        ("toolkit", "cuda-13.0"),
    ]
    (tmp_path / "pytorch").rmdir()
    record_use(cache / "builds/torch-cpu-1", tmp_path / "pytorch")
    remove_orphans(cache)
    assert names(list_entries(cache))[0] == ("build", "torch-cpu-1")


def test_what_an_interrupted_removal_left_is_no_build_and_goes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "remove_tree", stop)
        tuple(remove_entries(list_entries(cache)))
    assert ("build", "torch-cpu-1") not in names(list_entries(cache))
    assert list((cache / "builds").glob(".deleted-*"))
    remove_orphans(cache)
    assert list((cache / "builds").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="there is no other place there")
def test_temporary_files_of_a_killed_build_lie_elsewhere(cache: Path) -> None:
    """Because the cache's path has a blank; the next build of that path removes them, too."""
    builds = [cache / "builds/torch-cpu-1", cache / "builds/deleted"]
    killed = [this.temporary_variables(build / "tmp", ()) for build in builds]
    folders = [Path(one.__enter__()["TMPDIR"]) for one in killed]
    found = {entry.path: entry for entry in list_entries(cache) if entry.kind == "temporary"}
    assert [found[path].source for path in folders] == builds
    assert [found[path].orphaned for path in folders] == [False, True]
    with file_lock(builds[0] / "lock"):
        (held,) = (one for one in list_entries(cache) if one.path == folders[0])
        assert (held.in_use, tuple(remove_entries([held]))) == (True, ())
    age(folders[1])
    remove_orphans(cache)
    assert [path.exists() for path in folders] == [True, False]
    assert folders[0] in {one.path for one in remove_entries(list_entries(cache))}
    assert not folders[0].exists()
    with this.temporary_variables(cache.with_name("another cache") / "builds/x/tmp", ()):
        assert "temporary" not in {entry.kind for entry in list_entries(cache)}
