"""The tags and versions of Pythons, this one and described ones."""

from __future__ import annotations

import platform
import sys

import pytest
from packaging import tags

from torchwheel.errors import TorchwheelError
from torchwheel.host.model import Python
from torchwheel.host.python import abi_tag, described_python, this_python


def test_this_python_has_the_tags_that_packaging_gives_it() -> None:
    best = next(tags.sys_tags())
    python = this_python()
    assert (python.interpreter_tag, python.abi_tag) == (best.interpreter, best.abi)
    assert python.executable == sys.executable
    assert python.version == platform.python_version()
    assert python.minor_version == ".".join(platform.python_version_tuple()[:2])
    assert python.cache_tag == sys.implementation.cache_tag


@pytest.mark.parametrize(
    ("suffix", "interpreter", "expected"),
    [
        (".cpython-311-x86_64-linux-gnu.so", "cp311", "cp311"),
        (".cpython-313t-x86_64-linux-gnu.so", "cp313", "cp313t"),
        (".cpython-313td-darwin.so", "cp313", "cp313td"),
        (".cpython-312d-aarch64-linux-gnu.so", "cp312", "cp312d"),
        (".cpython-311-darwin.so", "cp311", "cp311"),
        (".cp311-win_amd64.pyd", "cp311", "cp311"),
        (".cp313t-win_arm64.pyd", "cp313", "cp313t"),
        ("_d.cp312-win_amd64.pyd", "cp312", "cp312d"),
        (".pypy310-pp73-x86_64-linux-gnu.so", "pp310", "pypy310_pp73"),
        (".so", "cp311", "cp311"),
    ],
)
def test_abi_tag_from_the_suffix_of_extension_modules(suffix: str, interpreter: str, expected: str) -> None:
    assert abi_tag(suffix, interpreter) == expected


@pytest.mark.parametrize(
    ("text", "version", "interpreter", "abi"),
    [
        ("3.11", "3.11.0", "cp311", "cp311"),
        (" 3.11.7 ", "3.11.7", "cp311", "cp311"),
        ("3.14.0rc1", "3.14.0rc1", "cp314", "cp314"),
        ("3.13t", "3.13.0", "cp313", "cp313t"),
        ("3.14.2t", "3.14.2", "cp314", "cp314t"),
    ],
)
def test_described(text: str, version: str, interpreter: str, abi: str) -> None:
    assert described_python(text, "/usr/bin/python3") == Python(
        executable="/usr/bin/python3",
        version=version,
        implementation="cpython",
        implementation_version=version,
        interpreter_tag=interpreter,
        abi_tag=abi,
        cache_tag=f"cpython-{interpreter[2:]}",
    )


@pytest.mark.parametrize("text", ["", "3", "2.7", "py311", "3.11.7.1", "cp311", "3.x", "3.\u0661"])
def test_no_version(text: str) -> None:
    with pytest.raises(TorchwheelError) as error:
        described_python(text, origin="host.toml")
    assert str(error.value) == (
        f"host.toml: {text!r} is not a version of Python 3  [unknown-python-version]\n"
        "    fix: write it as 3.11, 3.11.7, 3.14.0rc1, or 3.13t for a free-threaded Python"
    )
