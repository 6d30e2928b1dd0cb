"""What programs read and print: streams that are closed or take nothing, a deleted folder, a plan's first lines."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from answered import answered
from backend.builds import without_privileges
from cli.running import Run
from places import MINITORCH
from torchwheel.cli.main import EXIT_OUTPUT_CLOSED
from torchwheel.reporting.errors import Problem, report_errors, system_problem
from torchwheel.reporting.terminal import _StandardOutput, open_standard_streams, say
from unit.cli.test_diagnose import KNOWN, shown


@pytest.mark.parametrize("words", [["gpus", "--json"], ["gpus", "--help"], ["inspect", "no.whl"]])
def test_a_closed_output_is_no_error(words: list[str], here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "torchwheel.cli.main", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    if words[:1] == ["inspect"]:  # It writes nothing to standard output, and its error is shown.
        assert (done.returncode, b"no.whl" in done.stderr) == (2, True)
    else:
        assert (done.returncode, done.stderr) == (EXIT_OUTPUT_CLOSED, b"")


posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes the streams")


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A script in which $T is the program."""
    program = f"'{sys.executable}' -m torchwheel.cli.main"
    return answered(
        ["sh", "-c", script.replace("$T", program)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200"},
        timeout=60,
    )


@posix
@pytest.mark.parametrize(
    ("words", "closing"),
    [("gpus", ">&-"), ("--help", "<&-"), ("", "2>&-"), ("explain no-target", "<&- >&- 2>&-")],
)
def test_closed_standard_streams(words: str, closing: str, here: Path) -> None:
    done = in_shell(f"$T {words} {closing}", here)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (">&-" not in closing.replace("2>&-", ""))


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the kernel has no /dev/full")
def test_an_output_that_takes_nothing(here: Path) -> None:
    done = in_shell("$T gpus > /dev/full", here)
    assert (done.returncode, "[output-not-written]" in done.stderr) == (1, True)


@posix
def test_a_current_folder_that_is_gone(here: Path) -> None:
    done = in_shell("mkdir gone; cd gone; rmdir ../gone; $T plan --target cpu", here)
    assert (done.returncode, "[no-current-folder]" in done.stderr) == (2, True)


def test_a_file_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    """As where torchwheel's cache is deleted while a build runs."""
    try:
        (tmp_path / "build.log").read_bytes()
    except FileNotFoundError as error:
        problem = system_problem(error)
    assert problem == Problem.of("system-error/missing", origin=tmp_path / "build.log")


@posix
@pytest.mark.parametrize(
    ("place", "mode", "variables", "id", "named"),
    [
        ("closed/below/a.py", 0o000, {}, "not-readable", "{closed}"),
        ("closed/below", 0o600, {}, "not-readable", "{closed}"),
        ("closed/new", 0o500, {}, "not-writable", "{closed}/new"),
        (
            "closed/a/b/c",
            0o000,
            {"HOME": "", "A": "/a/b", "B": "/a", "C": "/c"},
            "not-readable",
            "variable A",
        ),
        ("closed/a", 0o000, {"HOME": ""}, "not-readable", "{closed}"),
    ],
)
def test_what_may_not_be_read_is_the_folder_that_is_closed(
    tmp_path: Path, place: str, mode: int, variables: dict[str, str], id: str, named: str
) -> None:
    (tmp_path / "closed/below").mkdir(parents=True)
    (tmp_path / "closed/below/a.py").touch()
    (tmp_path / "closed").chmod(mode)
    denied = f"PermissionError(13, 'Permission denied', {str(tmp_path / place)!r})"
    script = (
        "from torchwheel.reporting.errors import system_problem\n"
        f"problem = system_problem({denied})\nprint(problem.id, problem.origin)"
    )
    done = answered(
        without_privileges(sys.executable, "-c", script),
        env={**os.environ, **{name: f"{tmp_path}/closed{below}" for name, below in variables.items()}},
        check=True,
    )
    (tmp_path / "closed").chmod(0o700)
    assert done.stdout == f"{id} {named.format(closed=tmp_path / 'closed')}\n"


def test_what_windows_means_by_its_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is open, and a path that is too long, are refused as what is forbidden, and what is not there."""
    monkeypatch.setattr(sys, "platform", "win32")
    used = system_problem(PermissionError(errno.EACCES, "Permission denied", "C:/k/_C.pyd"))
    assert used == Problem.of("not-writable/windows", origin="C:/k/_C.pyd", reason="Permission denied")
    path = "C:/" + "a" * 257
    long = system_problem(FileNotFoundError(errno.ENOENT, "No such file or directory", path))
    assert long == Problem.of(
        "unusable-path/too-long", origin=path, length=260, reason="No such file or directory"
    )
    gone = system_problem(FileNotFoundError(errno.ENOENT, "No such file or directory", "C:/gone"))
    assert gone.id == "system-error"


def test_a_hook_prints_names_that_its_pipe_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python on Windows writes a pipe in the system's code page."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "cp1252"))
    with report_errors():
        say("C:/Users/J\u00f6rg/\u0141ukasz")
    assert written.getvalue() == b"torchwheel: C:/Users/J\xf6rg/\\u0141ukasz\n"


def test_a_console_of_windows_gets_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bytes in UTF-8 it makes those of its own code page."""

    class Console(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    console = Console(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(sys, "platform", "win32")
    open_standard_streams()
    assert sys.stdout is console


@pytest.mark.skipif(
    sys.platform != "linux", reason="an eventfd of Linux refuses one byte so, as Windows a pipe"
)
@pytest.mark.parametrize(("platform", "raised"), [("win32", BrokenPipeError), ("linux", OSError)])
def test_a_pipe_that_nobody_reads_is_known_on_windows_too(
    platform: str, raised: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with _StandardOutput(os.eventfd(0), "wb") as output, pytest.raises(OSError) as caught:
        output.write(b"x")
    assert type(caught.value) is raised


def test_a_pipe(program: Run) -> None:
    result = program("diagnose", "-", text=KNOWN)
    assert (result.status, result.out, result.err) == (1, shown(KNOWN), "")


def test_that_building_is_needless_is_said_first_with_the_whole_command(torchwheel: Run) -> None:
    asked = ("plan", MINITORCH, "--target", "gtx1080", "--platform", "win_amd64")
    out = torchwheel(*asked).out.splitlines()
    assert "PyTorch 2.14.1 (cu126 build)" in out[0]
    command = "         pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126"
    assert out.index(command) < next(n for n, line in enumerate(out) if line.startswith("wheel "))
    minimal = torchwheel("plan", MINITORCH, "--target", "cpu", "--profile", "minimal").out
    assert "the profile minimal" in " ".join(minimal.partition("\nwheel ")[0].split())
    document = json.loads(torchwheel(*asked, "--json").out)
    assert document["findings"][0]["id"] == "need-not-build"
