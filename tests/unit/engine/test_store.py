"""The wheel store: an entry is complete or is not seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchwheel.engine import cache as module
from torchwheel.engine.cache import find_stored, store_wheel, stored_wheels

CONTENT = b"the wheel" * 1000
NAME = "torch-2.14.1+cpu-cp311-cp311-linux_x86_64.whl"


def wheel(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(content)
    return folder / NAME


def put(cache: Path, key: str = "k1", build: str = "b1", content: bytes = CONTENT) -> Path:
    return store_wheel(cache, key, wheel(cache / "finished", content), cache / build, cache / "tree")


def found(cache: Path, key: str | None = "k1", name: str = NAME) -> Path | None:
    return find_stored(cache, key, name)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def test_a_wheel_is_found_by_its_key_alone(cache: Path) -> None:
    stored = put(cache)
    assert (found(cache), stored.read_bytes()) == (stored, CONTENT)
    assert [found(cache, key, name) for key, name in (("k2", NAME), (None, NAME), ("k1", "x"))] == [None] * 3
    assert not (cache / "finished" / NAME).exists()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda stored: stored.write_bytes(CONTENT[:-1]),
    "missing": lambda stored: stored.unlink(),
    "digest cut": lambda stored: stored.with_name("sha256.txt").write_text("1"),
    "digest of no text": lambda stored: stored.with_name("sha256.txt").write_bytes(b"\xff"),
    "digest missing": lambda stored: stored.with_name("sha256.txt").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_a_miss_and_is_replaced(damage: str, cache: Path) -> None:
    DAMAGE[damage](put(cache))
    assert found(cache) is None
    put(cache)
    assert found(cache)


@pytest.mark.parametrize("killed_in", ["replace_path", "atomic_write", "record_use"])
def test_a_kill_leaves_no_half_entry(killed_in: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache, content=b"older")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, killed_in, killed)
        with pytest.raises(KeyboardInterrupt):
            put(cache)
    assert found(cache) is None
    put(cache)
    assert found(cache)


def test_a_build_folder_stores_one_wheel_of_a_name(cache: Path) -> None:
    put(cache, "k1", "b1")
    put(cache, "k2", "b2")
    put(cache, "k3", "b1")
    assert [key for key in ("k1", "k2", "k3") if found(cache, key)] == ["k2", "k3"]
    assert {one.parent.name for one in stored_wheels(cache, NAME)} == {"k2", "k3"}
