"""Run long commands, whose output streams to the user and to a log at once."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from torchwheel.host.programs import end_tree, on_path
from torchwheel.reporting.masking import mask, mask_line
from torchwheel.reporting.terminal import forward
from torchwheel.system import supervisor as _supervisor
from torchwheel.system.files import open_log
from torchwheel.system.locks import record_session

LineWatcher = Callable[[str], None]
Follow = Callable[[int], AbstractContextManager[Callable[[bytes], None]]]
# The supervisor sends SIGTERM, and SIGKILL after GRACE_SECONDS.
_TERMINATION_SECONDS = _supervisor.GRACE_SECONDS + 10

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")
_EXTENDED_LIMIT_INFORMATION = 9
_KILL_ON_JOB_CLOSE = 0x2000
# Two time limits of 64 bits precede the flags.
_LIMIT_FLAGS_OFFSET = 16
_SIZES = {4: 112, 8: 144}
"""Bytes of JOBOBJECT_EXTENDED_LIMIT_INFORMATION, by pointer size; all other fields are 0, which means no limits."""


class NotStarted(Exception):
    """A command could not be started."""


class ProcessFailed(Exception):
    def __init__(self, command: tuple[str, ...], code: int, log: Path, start: int = 0) -> None:
        super().__init__(f"{command[0]} ended with status {code}; its output is in {log}")
        self.command = command
        self.code = code
        self.log = log
        self.start = start


def _format_timestamp() -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()).encode()


def logged_line(line: bytes) -> bytes:
    return _STAMP.sub(b"", line, count=1) if _STAMP.match(line) else line


def terminate(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        end_tree(process.pid)
    elif process.stdin is not None:
        # The supervisor sees the end of this pipe, and ends its session.
        process.stdin.close()
    try:
        process.wait(_TERMINATION_SECONDS)
    except subprocess.TimeoutExpired:
        if sys.platform == "win32":
            process.kill()
        else:
            _supervisor.end_session(process.pid)
        process.wait()


@contextmanager
def start_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command; it is ended with its child processes when the block or this process ends.

    If it fails or is killed, its child processes are ended as well. Its output is one stream, the process's ``stdout``;
    if the supervisor cannot start the command, it reports that there and exits with 127. If not even that starts,
    NotStarted is raised.
    """
    windows = sys.platform == "win32"
    # Isolated, because the environment is the build's: its PYTHONPATH must not change the supervisor's imports.
    supervisor = [] if windows else [sys.executable, "-I", "-S", _supervisor.__file__]
    try:
        process = subprocess.Popen(
            [*supervisor, *on_path(command, environment)],
            cwd=folder,
            env=dict(environment),
            # This pipe closes with torchwheel, even if that is killed; then the supervisor ends the command.
            stdin=subprocess.DEVNULL if windows else subprocess.PIPE,
            stdout=subprocess.PIPE,
            # One pipe for both, because the order of lines from two pipes is unknown.
            stderr=subprocess.STDOUT,
            # A session, because ninja runs each compiler in a process group of its own.
            start_new_session=not windows,
        )
    except OSError as error:
        raise NotStarted(str(error)) from error
    # Process ids are reused; together with its start time an id is unique.
    began = _supervisor.start_time(process.pid)
    with process, _job_object(process), record_session(process.pid):
        try:
            yield process
            process.wait()
        except BaseException:
            terminate(process)
            raise
        finally:
            # A killed supervisor cannot do this.
            if process.returncode and began is not None and _supervisor.is_session(process.pid, began):
                _supervisor.end_session(process.pid)


@contextmanager
def _time_limit(process: subprocess.Popen[bytes], limit: float | None) -> Iterator[None]:
    """End a process that takes longer; its status shows the signal."""
    timer = threading.Timer(limit or 0.0, terminate, [process])
    timer.daemon = True
    if limit is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run_streaming(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    watch: LineWatcher | None = None,
    show: Callable[[bytes], bytes] | None = None,
    follow: Follow | None = None,
    limit: float | None = None,
) -> None:
    """Run a command, forwarding each line of its output at once.

    Args:
        log: the file to append the output to, undecoded, with the UTC time before each line, and secrets masked.
        watch: called with each decoded line; an exception from it ends the process and is raised.
        show: converts a line for the screen; the log has it unchanged.
        follow: given the session leader's process id, it yields what shows lines instead of :func:`forward`.
        limit: seconds after which the command is ended.

    Raises:
        ProcessFailed: the command could not be started or ended with a status other than 0.
    """
    with open_log(log) as record:
        start = record.tell()
        record.write(_format_timestamp() + f"$ {mask(subprocess.list2cmdline(command))}\n".encode())
        record.flush()
        try:
            with (
                start_process(command, folder, environment) as process,
                _time_limit(process, limit),
                follow(process.pid) if follow else nullcontext(forward) as say,
            ):
                assert process.stdout is not None
                for line in process.stdout:
                    masked = mask_line(line)
                    record.write(_format_timestamp() + masked)
                    say(show(masked) if show else masked)
                    if watch is not None:
                        record.flush()
                        watch(line.decode("utf-8", "replace"))
                code = process.wait()
            if code != 0:
                # The log records the failure, whatever the command itself printed.
                record.write(
                    _format_timestamp() + f"torchwheel: the command ended with exit status {code}\n".encode()
                )
        except NotStarted as error:
            record.write(_format_timestamp() + f"cannot be started: {error}\n".encode())
            raise ProcessFailed(tuple(command), 127, log, start) from error
    if code != 0:
        raise ProcessFailed(tuple(command), code, log, start)


@contextmanager
def _job_object(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Windows: end a command and its child processes when torchwheel ends for any reason.

    The system closes a dead process's handles, and closing the job's last handle ends its processes; children started
    in the microseconds before the process joins the job are not included. On other systems this does nothing, because
    the supervisor does it. Source: https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_extended_limit_information
    """
    if sys.platform != "win32":
        yield
        return
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    # The default is a C int, which would cut off half of a 64-bit handle.
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None) or 0)
    size = _SIZES[ctypes.sizeof(ctypes.c_void_p)]

    def set_limits(flags: int) -> None:
        limits = ctypes.create_string_buffer(size)
        limits[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = flags.to_bytes(4, "little")
        kernel.SetInformationJobObject(job, _EXTENDED_LIMIT_INFORMATION, limits, size)

    set_limits(_KILL_ON_JOB_CLOSE)
    kernel.AssignProcessToJobObject(job, ctypes.c_void_p(int(process._handle)))
    try:
        yield
        if process.returncode == 0:
            # Processes that outlive a finished command, such as sccache's server, are meant to.
            set_limits(0)
    finally:
        kernel.CloseHandle(job)
