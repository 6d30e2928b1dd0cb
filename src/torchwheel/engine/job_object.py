"""Windows: a job object ends a command and all that it started when torchwheel ends, whatever ended that.

The system closes a dead process's handles, and this job's last handle takes its processes along. On other systems the
class does nothing; there the supervisor does this.
Source: https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_extended_limit_information
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import TracebackType

_EXTENDED_LIMIT_INFORMATION = 9
_KILL_ON_JOB_CLOSE = 0x2000
_LIMIT_FLAGS_OFFSET = 16
_SIZES = {4: 112, 8: 144}
"""Bytes of JOBOBJECT_EXTENDED_LIMIT_INFORMATION, by those of a pointer; all other fields are 0: no limits."""


class JobObject:
    """A job that the process is put into; what it started in the microseconds before stays outside."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._job = 0

    def __enter__(self) -> None:
        if sys.platform == "win32":
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.CreateJobObjectW.restype = ctypes.c_void_p
            self._job = kernel.CreateJobObjectW(None, None) or 0
            self._limit(_KILL_ON_JOB_CLOSE)
            kernel.AssignProcessToJobObject(
                ctypes.c_void_p(self._job), ctypes.c_void_p(int(self._process._handle))
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.platform == "win32":
            if kind is None:
                # What a finished command leaves running, such as sccache's server, is meant to.
                self._limit(0)
            ctypes.WinDLL("kernel32").CloseHandle(ctypes.c_void_p(self._job))

    def _limit(self, flags: int) -> None:
        if sys.platform == "win32":
            size = _SIZES[ctypes.sizeof(ctypes.c_void_p)]
            limits = ctypes.create_string_buffer(size)
            limits[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = flags.to_bytes(4, "little")
            ctypes.WinDLL("kernel32").SetInformationJobObject(
                ctypes.c_void_p(self._job), _EXTENDED_LIMIT_INFORMATION, limits, size
            )
