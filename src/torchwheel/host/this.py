"""This machine."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping

from torchwheel.host.compilers import find_compilers
from torchwheel.host.cores import usable_cores
from torchwheel.host.memory import usable_memory
from torchwheel.host.model import Host
from torchwheel.host.python import this_python


def this_host(environment: Mapping[str, str]) -> Host:
    """Describe the machine this runs on, without starting a process.

    ``environment`` decides which compilers are found (``CC``, ``CXX``, ``PATH``).
    """

    system, machine, release, version = _system(environment)
    return Host(
        platform_tag=sysconfig.get_platform().replace("-", "_").replace(".", "_"),
        system=system,
        machine=machine,
        python=this_python(),
        memory_bytes=usable_memory(),
        cores=usable_cores(),
        compilers=find_compilers(environment, system),
        here=True,
        glibc=_glibc(),
        os_release=release,
        os_version=version,
    )


def _system(environment: Mapping[str, str]) -> tuple[str, str, str, str]:
    """System, machine, release and version as ``platform.uname()`` tells them, whose import is slow."""
    if sys.platform == "win32":
        windows = sys.getwindowsversion()
        # PROCESSOR_ARCHITEW6432 is the machine's own where this process is emulated.
        machine = environment.get("PROCESSOR_ARCHITEW6432") or environment.get("PROCESSOR_ARCHITECTURE", "")
        return "Windows", machine, str(windows.major), f"{windows.major}.{windows.minor}.{windows.build}"
    uname = os.uname()
    return uname.sysname, uname.machine, uname.release, uname.version


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return None
    return version if name == "glibc" else None
