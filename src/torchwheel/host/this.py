"""This machine, and the Python that runs this."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Mapping

from packaging.markers import default_environment
from packaging.tags import sys_tags

from torchwheel.host.compilers import find_compilers
from torchwheel.host.limits import usable_cores, usable_memory
from torchwheel.host.model import Host, Python


def this_host(environment: Mapping[str, str]) -> Host:
    """Describe the machine this runs on.

    ``environment`` decides which compilers are found (``CC``, ``CXX``, ``PATH``).
    """
    libc, libc_version = platform.libc_ver()
    return Host(
        platform_tag=sysconfig.get_platform().replace("-", "_").replace(".", "_"),
        system=platform.system(),
        machine=platform.machine(),
        python=this_python(),
        memory_bytes=usable_memory(),
        cores=usable_cores(),
        compilers=find_compilers(environment, platform.system()),
        here=True,
        glibc=libc_version if libc == "glibc" else None,
        os_release=platform.release(),
        os_version=platform.version(),
    )


def without_folder(text: str, folder: str, name: str = "~") -> str:
    """JSON or TOML with a folder in its strings written by a name: the home folder as ``~``, to not tell who made it.

    Whole components of a path only: neither /home/annabel nor /mnt/home/ann is /home/ann. Flags such as -I may precede.
    """
    names = [
        re.escape(json.dumps(part, ensure_ascii=False)[1:-1]) for part in re.split(r"[\\/]", folder) if part
    ]
    if not names:
        return text
    separator = r"(?:/|\\\\)"
    start = r"(?:(?<![^\s\"'=:;,(])|(?<=-[A-Z])|(?<=-isystem))" + (separator if folder[0] in "\\/" else "")
    flags = re.IGNORECASE if names[0].endswith(":") else 0
    return re.sub(start + separator.join(names) + r"(?=[\\/\s\"'=:;,)])", lambda _: name, text, flags=flags)


def home_folder(environment: Mapping[str, str]) -> str:
    """The user's home folder; empty where the environment names none."""
    return environment.get("USERPROFILE" if os.name == "nt" else "HOME", "")


def this_python() -> Python:
    """The interpreter that runs this."""
    markers, tag = default_environment(), next(sys_tags())
    return Python(
        executable=sys.executable,
        version=markers["python_full_version"],
        implementation=markers["implementation_name"],
        implementation_version=markers["implementation_version"],
        interpreter_tag=tag.interpreter,
        abi_tag=tag.abi,
    )
