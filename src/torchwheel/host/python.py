"""The Python a wheel is built for: this one, or one that somebody described.

The tags are read off the interpreter directly: ``packaging.tags`` lists all tags an interpreter
accepts, and importing it costs a fifth of the time that ``torchwheel plan`` has.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.model import Python

# https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/#python-tag
_SHORT_NAMES = {"cpython": "cp", "pypy": "pp"}

_VERSION = re.compile(r"(3)\.(\d{1,2})(?:\.(\d+))?((?:a|b|rc)\d+)?(t?)", re.ASCII)


def this_python() -> Python:
    """The interpreter that runs this."""
    info = sys.version_info
    implementation = sys.implementation.name
    interpreter = f"{_SHORT_NAMES.get(implementation, implementation)}{info.major}{info.minor}"
    return Python(
        executable=sys.executable,
        version=_full_version(info),
        implementation=implementation,
        implementation_version=_full_version(sys.implementation.version),
        interpreter_tag=interpreter,
        abi_tag=abi_tag(EXTENSION_SUFFIXES[0], interpreter),
        cache_tag=sys.implementation.cache_tag or "",
    )


def described_python(version: str, executable: str = "", origin: str = "") -> Python:
    """A CPython known by its version: ``"3.11"``, ``"3.11.7"``, ``"3.14.0rc1"``, ``"3.13t"``.

    Raises:
        TorchwheelError: the version is not of such a form.
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise TorchwheelError(
            Problem(
                id="unknown-python-version",
                what=f"{version!r} is not a version of Python 3",
                remedy="write it as 3.11, 3.11.7, 3.14.0rc1, or 3.13t for a free-threaded Python",
                origin=origin,
            )
        )
    major, minor, micro, stage, threading = match.groups(default="")
    full = f"{major}.{minor}.{micro or '0'}{stage}"
    return Python(
        executable=executable,
        version=full,
        implementation="cpython",
        implementation_version=full,
        interpreter_tag=f"cp{major}{minor}",
        abi_tag=f"cp{major}{minor}{threading}",
        cache_tag=f"cpython-{major}{minor}",
    )


def abi_tag(extension_suffix: str, interpreter_tag: str) -> str:
    """The ABI tag, read off the file name suffix of extension modules.

    The suffix carries it on every platform: ``.cpython-311-x86_64-linux-gnu.so``,
    ``.cpython-313t-darwin.so``, ``.pypy310-pp73-x86_64-linux-gnu.so``, ``.cp311-win_amd64.pyd``, and
    ``_d.cp311-win_amd64.pyd`` for a debug build on Windows.
    """
    first, tagged, *_ = extension_suffix.split(".")
    name, _, rest = tagged.partition("-")
    if name == "cpython":
        return f"cp{rest.partition('-')[0]}"
    if name.startswith("pypy"):
        return f"{name}_{rest.partition('-')[0]}"
    if name.startswith("cp"):
        return f"{name}d" if first == "_d" else name
    return interpreter_tag


def _full_version(info: object) -> str:
    major, minor, micro = (getattr(info, part) for part in ("major", "minor", "micro"))
    stage = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(getattr(info, "releaselevel", ""), "")
    serial = f"{stage}{getattr(info, 'serial', '')}" if stage else ""
    return f"{major}.{minor}.{micro}{serial}"
