"""``torchwheel cache``."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cli.running import Run
from torchwheel.engine.cache import note_user, record_use
from torchwheel.system.locks import file_lock


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    for name in ("new", "old", "gone", "busy"):
        source = tmp_path / name
        folder = root / "builds" / name
        folder.mkdir(parents=True)
        if name != "gone":
            source.mkdir()
        record_use(folder, source)
        (folder / "lock").touch()
        (folder / "build.log").write_bytes(b"x" * 8192)
    for path in (*(root / "builds" / "old").iterdir(), root / "builds" / "old"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(root))
    monkeypatch.setenv("COLUMNS", "200")
    return root


def left(cache: Path) -> set[str]:
    return {path.name for path in (cache / "builds").iterdir()}


def test_list(torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    with file_lock(cache / "builds/busy/lock"):
        document = torchwheel("cache", "list", "--json").document("cache")
        lines = torchwheel("cache", "list").out.splitlines()
    assert document["folder"] == str(cache)
    assert document["removed"] == []
    rows = {Path(row["path"]).name: row for row in document["kept"]}
    assert {name for name, row in rows.items() if row["in_use"]} == {"busy"}
    assert {name for name, row in rows.items() if not row["source_exists"]} == {"gone"}
    assert rows["old"]["used"] == "2023-11-14T22:13:20+00:00"
    assert lines[0] == str(cache)
    assert lines[2].split() == ["KIND", "SIZE", "LAST", "USED", "NAME", "MADE", "FOR"]
    (old,) = (line.split(maxsplit=5) for line in lines if " old " in line)
    assert [old[0], *old[3:]] == ["build", "2023-11-14", "old", str(tmp_path / "old")]
    (busy,) = (line.split() for line in lines if " busy " in line)
    assert busy[3] == "now"
    (gone,) = (line for line in lines if " gone " in line)
    assert gone.endswith(f"{tmp_path / 'gone'} (deleted)")
    assert lines[-1].endswith(" in all")


def test_an_empty_cache(torchwheel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path / "none"))
    assert torchwheel("cache", "list").out == f"{tmp_path / 'none'}\nnothing is kept there\n"
    assert torchwheel("cache", "clear").out == "there is nothing to remove\n"


def test_prune_takes_what_is_old_or_orphaned(torchwheel: Run, cache: Path) -> None:
    dry = torchwheel("cache", "prune", "--dry-run").out
    assert left(cache) == {"new", "old", "gone", "busy"}
    result = torchwheel("cache", "prune")
    assert left(cache) == {"new", "busy"}
    assert dry == result.out.replace("removed", "would be removed")
    assert {line.split(",")[0] for line in result.out.splitlines()[:-1]} == {
        "removed: build old",
        "removed: build gone",
    }


def test_prune_counts_days(torchwheel: Run, cache: Path) -> None:
    torchwheel("cache", "prune", "--days", "100000")
    assert left(cache) == {"new", "old", "busy"}
    assert torchwheel("cache", "prune", "--days", "-1").status == 2


def test_clear_leaves_what_is_in_use(torchwheel: Run, cache: Path) -> None:
    with file_lock(cache / "builds/busy/lock"):
        dry = torchwheel("cache", "clear", "--dry-run").out
        document = torchwheel("cache", "clear", "--json").document("cache")
    assert "busy" not in dry
    assert left(cache) == {"busy"}
    assert [Path(row["path"]).name for row in document["kept"]] == ["busy"]
    assert {Path(row["path"]).name for row in document["removed"]} == {"new", "old", "gone"}


@pytest.mark.skipif(os.name == "nt", reason="flock is POSIX")
@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    torchwheel: Run, cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Neither that something is in use can be said there, nor that it is not."""

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert [row["in_use"] for row in torchwheel("cache", "list", "--json").document("cache")["kept"]] == [
        None
    ] * 4
    lines = torchwheel("cache", "list").out.splitlines()
    (old,) = (line.split() for line in lines if " old " in line)
    assert old[3] == "2023-11-14?"
    assert lines[-1] == "?: locks are unsupported here, so it may be in use"
    for words in (["clear"], ["prune"], ["clear", "--dry-run"]):
        refused = torchwheel("cache", *words)
        assert (refused.status, "[no-file-locks]" in refused.err) == (1, True)
    assert left(cache) == {"new", "old", "gone", "busy"}
    assert torchwheel("cache", "prune", "--days", "100000").status == 1
    (cache.parent / "gone").mkdir()
    assert torchwheel("cache", "prune", "--days", "100000").out == "there is nothing to remove\n"


def test_what_several_builds_share_is_listed_with_who_used_it_last(
    torchwheel: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(100 + len(str(tmp_path))))
    for kind in ("environments/cp311-1", "toolkits/cuda-13.0-1"):
        note_user(cache / kind, tmp_path / "kernels")
    lines = torchwheel("cache", "list").out.splitlines()
    assert [
        line.split()[0] for line in lines if line.endswith(f"last used by {tmp_path / 'kernels'} (deleted)")
    ] == ["environment", "toolkit"]
    rows = torchwheel("cache", "list", "--json").document("cache")["kept"]
    assert {
        (row["source"], row["source_exists"]) for row in rows if row["kind"] in ("environment", "toolkit")
    } == {(str(tmp_path / "kernels"), False)}
    assert "environment" not in torchwheel("cache", "prune", "--dry-run").out
