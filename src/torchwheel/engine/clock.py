"""What a build made by a clock that was set back since: ninja, make and CMake judge by nothing but times.

What is changed now would look older than what was made of it, and its old object would be linked. And what is from the
future looks newer than all that is made of it, again and again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

from torchwheel._files import atomic_write, entries_below
from torchwheel.host.ninja import LOG, LOGGED_TIME
from torchwheel.terminal import counted, say

_CACHE = "CMakeCache.txt"
_HOUR = 3600 * 10**9


def set_back(folders: Collection[Path], now: int) -> None:
    """Give what is from the future a time that has been, and say so.

    What is older than what stays as it is, also in ninja's logs, so that nothing is made again for it. The oldest get
    theirs first: what a kill leaves in the future comes after them the next time.

    Args:
        folders: hold all that a build makes and all that is compiled, and nobody else works in them.
        now: the time of a file that was written just now on their disk, later than all that the right clock made
            there; nanoseconds since 1970.

    Raises:
        OSError: a time cannot be set.
    """
    outermost = (folder for folder in folders if not set(folders).intersection(folder.parents))
    files = {one for folder in outermost for one in _files(folder)}
    named = [Path(path) for _, path in files if path.endswith(LOG)]
    logs = {path: content for path in named if path.name == LOG and (content := path.read_bytes())}
    noted = (int(line[2]) for content in logs.values() for line in LOGGED_TIME.finditer(content))
    late = sorted({time for time in (*(time for time, _ in files), *noted) if time > now})
    if not late:
        return
    _say(sum(time > now for time, _ in files), late[-1], "their times are set back too, in the same order")
    first = max((time for time, _ in files if now - _HOUR < time <= now), default=now - _HOUR)
    times = {time: first + (now - first) * number // len(late) for number, time in enumerate(late, 1)}
    for log, content in logs.items():
        atomic_write(
            log, LOGGED_TIME.sub(lambda line: line[1] + b"%d" % times.get(t := int(line[2]), t), content)
        )
    for time, path in sorted(files):
        if time > now:
            os.utime(path, ns=(times[time], times[time]))


def forget_future(folder: Path, now: int) -> None:
    """Let nothing count as made where CMake or ninja ran in the future, and say so.

    For what is compiled where the user edits it: whether that was before or after a file was made, nothing tells.

    Args:
        folder: the folder that is built in.
        now: as for :func:`set_back`.

    Raises:
        OSError: a file cannot be removed, or its time not be set.
    """
    files = list(_files(folder))
    # Not any file: a copy may have its time from the user's tree, and would have it in the next build again.
    late = [(time, Path(path)) for time, path in files if time > now]
    if not any(path.name in (LOG, _CACHE, "build.ninja") for _, path in late):
        return
    _say(len(late), max(late)[0], "all is compiled again")
    for path in (Path(path) for _, path in files if path.endswith((LOG, _CACHE))):
        if path.name in (LOG, _CACHE):
            path.unlink()
    for _, path in late:
        if path.exists():
            os.utime(path, ns=(now, now))


def _say(count: int, latest: int, then: str) -> None:
    # A file system's times may be later than Python's.
    when = datetime.fromtimestamp(min(latest, 1 << 62) / 1e9).astimezone().isoformat(" ", "minutes")
    files = f"{counted(count, 'file')} of earlier builds, up to {when}, would look new"
    say(f"the clock was set back: {files}; {then}")


def _files(folder: Path) -> Iterator[tuple[int, str]]:
    """All files and folders below a folder, with their times; links are as old as what they lead to."""
    for _, entry in entries_below(folder) if folder.is_dir() else ():
        if not entry.is_symlink():
            yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.path
