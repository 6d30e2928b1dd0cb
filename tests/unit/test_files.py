"""Files that are complete or not there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.files import (
    atomic_copy,
    atomic_write,
    open_log,
    output_file,
    remove_tree,
    write_if_changed,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "größer als.whl"
    with output_file(path) as stream:
        stream.write(b"new")
        (temporary,) = names(tmp_path)
        assert temporary.startswith(".größer als.whl.")
        assert temporary.endswith(".part")
    assert names(tmp_path) == [path.name]
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_it_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with output_file(tmp_path / "file"):
        pass
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "other").stat().st_mode
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """And nothing of a process that still writes, of another machine, or of another file."""
    path = tmp_path / "torch-2+cpu.whl"
    code = f"""
import os, signal
from pathlib import Path
from torchwheel.system.files import output_file
held = [output_file(Path({str(tmp_path)!r}, name)) for name in ("torch-2+cpu.whl", "other.whl")]
for file in held:
    file.__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    left = names(tmp_path)
    assert len(left) == 2
    strange = [".torch-2+cpu.whl.part", ".torch-2+cpu.whl.0123abcd-1-1-ab.part", ".torch-2+cpu.whl.x.part"]
    for name in strange:
        (tmp_path / name).touch()
    with output_file(path), output_file(path):
        assert len(names(tmp_path)) == 2 + 1 + len(strange)
    assert names(tmp_path) == sorted([*strange, left[0], path.name])
    atomic_copy(path, tmp_path / "other.whl")
    assert names(tmp_path) == sorted([*strange, "other.whl", path.name])


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_after_a_failure_the_old_file_is_there(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(failure), output_file(path) as stream:
        stream.write(b"new")
        raise failure
    assert names(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


def test_a_file_that_is_right_keeps_its_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    for text in ("größe\n", "other\n"):
        write_if_changed(path, text)
        assert path.read_bytes() == text.encode()
        os.utime(path, (1_000_000_000, 1_000_000_000))
        write_if_changed(path, text)
        assert path.stat().st_mtime == 1_000_000_000
    # Left by a clock that was set back since, it would look newer than all that is made of it.
    os.utime(path, (4_000_000_000, 4_000_000_000))
    write_if_changed(path, text)
    assert path.stat().st_mtime < 4_000_000_000


def test_a_path_that_is_not_utf8_is_written_as_it_is(tmp_path: Path) -> None:
    """A checkout in such a folder: what tells which tree a build is of could not be written, or not compared."""
    file = tmp_path / "used-for.txt"
    for write in (atomic_write, write_if_changed, write_if_changed):
        write(file, b"/src/tr\xffee \xc3\xbc".decode("utf-8", "surrogateescape"))
        assert file.read_bytes() == b"/src/tr\xffee \xc3\xbc"


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "new" / "file"
    source.write_bytes(b"1")
    source.chmod(0o700)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    atomic_copy(source, path)
    assert path.stat().st_mtime > 1_000_000_000
    with pytest.raises(OSError, match="gone"):
        atomic_copy(tmp_path / "gone", path)
    with pytest.raises(UnicodeEncodeError):
        atomic_write(path, "\ud800")
    assert names(tmp_path / "new") == ["file"]
    assert path.read_bytes() == b"1"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit for the size of a file")
def test_a_real_limit(tmp_path: Path) -> None:
    """The system itself refuses the write, in the middle of the file."""
    script = (
        "import resource, sys, pathlib\n"
        "from torchwheel.reporting.errors import TorchwheelError\n"
        "from torchwheel.system.files import output_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    with output_file(pathlib.Path(sys.argv[1])) as stream:\n"
        "        for _ in range(100): stream.write(bytes(10_000))\n"
        "except TorchwheelError as error:\n"
        "    print(error.problems[0].id)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "disk-full\n"
    assert names(tmp_path) == []


def test_no_such_folder(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "file"
    with pytest.raises(TorchwheelError) as caught, output_file(path):
        pass
    assert caught.value.problems == (
        Problem.of(
            "cannot-write", origin=path, file="file", reason="No such file or directory", folder=path.parent
        ),
    )


def test_read_only_files_go_with_their_folder_on_windows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git for Windows makes the objects of a repository so, and CMake's FetchContent clones repositories."""
    pack = tmp_path / "_deps/cutlass-src/.git/objects/pack/pack-1.idx"
    pack.parent.mkdir(parents=True)
    pack.touch(0o444)
    unlink = os.unlink

    def refusing(path: str, *, dir_fd: int | None = None) -> None:
        if not os.stat(path, dir_fd=dir_fd).st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Access is denied", path)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refusing)
    with pytest.raises(PermissionError):
        remove_tree(tmp_path / "_deps")
    monkeypatch.setattr(sys, "platform", "win32")
    remove_tree(tmp_path / "_deps")
    assert names(tmp_path) == []


@pytest.mark.parametrize(("platform", "refusals", "done"), [("win32", 3, True), ("linux", 1, False)])
def test_a_file_that_another_program_has_open_is_replaced_when_it_lets_go(
    platform: str, refusals: int, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, where virus scanners look at what is new, and `torchwheel status` reads the record of a build."""
    replace, refused = Path.replace, iter(range(refusals))

    def replaced(self: Path, target: Path) -> Path:
        if next(refused, None) is not None:
            raise PermissionError(errno.EACCES, "Access is denied", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr("torchwheel.system.files._SECONDS_BETWEEN_TRIES", 0.0)
    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(sys, "platform", platform)
    with suppress(PermissionError):
        atomic_write(tmp_path / "file", "new")
    assert ((tmp_path / "file").read_text(), names(tmp_path)) == ("new" if done else "old", ["file"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead")
def test_nobody_else_reads_a_log(tmp_path: Path) -> None:
    """Also not one that an older torchwheel has made."""
    log = tmp_path / "folder" / "build.log"
    for mode in (None, 0o644):
        if mode:
            log.chmod(mode)
        open_log(log).close()
        assert log.stat().st_mode & 0o777 == 0o600
