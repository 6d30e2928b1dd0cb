"""Compilers that record their commands and make empty objects, in place of the real ones."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("c++", "g++", "cc", "gcc")
# A shell starts it, since the path of a Python with a blank in it cannot stand in the first line.
_STAND_IN = """\
#!/bin/sh
''''exec '{python}' -IS "$0" "$@" #'''
import json, os, sys

def after(*names):
    return next((sys.argv[index + 1] for index, word in enumerate(sys.argv[:-1]) if word in names), None)

words, output = sys.argv[1:], after("-o", "--output-file")
if output is None or not {{"-c", "-shared", "-dlink", "--device-link", "-bundle"}} & set(words):
    os.execv({real!r}, [{real!r}, *words])
line = json.dumps({{"program": {name!r}, "words": words, "folder": os.getcwd()}}) + "\\n"
record = os.open({record!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(record, line.encode())
for path in filter(None, (output, after("-MF", "--dependency-output"))):
    with open(path, "w") as file:
        if path != output:
            file.write(output + ":\\n")
"""


@dataclass(frozen=True)
class Recorded:
    """A command: ``nvcc`` or the name of a host compiler, its words, and the folder that it ran in."""

    program: str
    words: tuple[str, ...]
    folder: str


class Recording:
    """Stand-ins of the compilers and of a CUDA toolkit.

    Args:
        folder: gets them.
        toolkit: the root of a real toolkit, whose files are linked.
    """

    def __init__(self, folder: Path, toolkit: str | None) -> None:
        self._record = folder / "commands.json"
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        for name in _NAMES:
            if real := shutil.which(name):
                self._write(self.programs / name, name, real)
        self.toolkit = folder / "cuda"
        if toolkit is None:
            return
        _link_entries(Path(toolkit), self.toolkit, "bin")
        _link_entries(Path(toolkit, "bin"), self.toolkit / "bin", "nvcc")
        self._write(self.toolkit / "bin/nvcc", "nvcc", str(Path(toolkit, "bin/nvcc")))

    def variables(self, path: str) -> dict[str, str]:
        """The variables with which a build finds them."""
        search = os.pathsep.join([str(self.programs), str(self.toolkit / "bin"), path])
        # A compiler cache would not run them again.
        return {"PATH": search, "CUDA_HOME": str(self.toolkit), "TORCH_NO_COMPILER_WRAPPER": "1"}

    def commands(self) -> Iterator[Recorded]:
        """What ran since the last call."""
        if self._record.exists():
            for line in self._record.read_text("utf-8").splitlines():
                content = json.loads(line)
                yield Recorded(content["program"], tuple(content["words"]), content["folder"])
            self._record.unlink()

    def _write(self, path: Path, name: str, real: str) -> None:
        text = _STAND_IN.format(python=sys.executable, real=real, name=name, record=str(self._record))
        path.write_text(text, "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _link_entries(source: Path, target: Path, left_out: str) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.name != left_out:
            (target / entry.name).symlink_to(entry)
