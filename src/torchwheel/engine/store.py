"""The wheel store: finished wheels in torchwheel's cache folder, each under the key of what it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from torchwheel._files import atomic_write, file_sha256, remove_tree, replace_path
from torchwheel.engine.cache import WHEELS, record_use

_DIGEST = "sha256.txt"
"""Written last, so an entry without it is not complete."""
_BUILT_IN = "built-in.txt"


def lookup(cache: Path, key: str | None, name: str) -> Path | None:
    """Return the wheel that is stored under a key; None where there is none, or where it is damaged.

    Args:
        cache: torchwheel's cache folder.
        key: as :func:`torchwheel.engine.wheel_key.wheel_key` makes it.
        name: the wheel's file name.
    """
    if key is None:
        return None
    entry = cache / WHEELS / key
    try:
        expected = (entry / _DIGEST).read_text(encoding="ascii")
        return entry / name if file_sha256(entry / name).hex() == expected else None
    except (OSError, ValueError):
        return None


def put(cache: Path, key: str, wheel: Path, build: Path, tree: Path) -> Path:
    """Move a finished wheel into the store, in place of what the same build folder stored under the same name.

    Args:
        wheel: lies on the file system of the cache folder.
        build: the folder that it was built in.
        tree: the source tree, which ``torchwheel cache`` shows.

    Returns:
        The stored wheel.

    Raises:
        OSError: it cannot be written.
    """
    entry = cache / WHEELS / key
    entry.mkdir(parents=True, exist_ok=True)
    digest = file_sha256(wheel).hex()
    # Without it the entry is not looked at.
    (entry / _DIGEST).unlink(missing_ok=True)
    replace_path(wheel, entry / wheel.name)
    atomic_write(entry / _BUILT_IN, str(build))
    record_use(entry, tree)
    atomic_write(entry / _DIGEST, digest)
    for other in named(cache, wheel.name):
        with suppress(OSError):
            if other.parent != entry and (other.parent / _BUILT_IN).read_text(encoding="utf-8") == str(build):
                remove_tree(other.parent)
    return entry / wheel.name


def named(cache: Path, name: str) -> Iterator[Path]:
    """Return the stored wheels of a file name, in no order; they may be of other sources or options."""
    for digest in (cache / WHEELS).glob(f"*/{_DIGEST}"):
        if (wheel := digest.with_name(name)).is_file():
            yield wheel
