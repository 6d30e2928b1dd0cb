"""Where compiles are measured: a folder to run in, a folder for what they write, and a record of what was measured."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from torchwheel._files import write_if_changed
from torchwheel.extension.compile.paths import write_links
from torchwheel.extension.model import Language
from torchwheel.extension.profile.invocation import Invocation
from torchwheel.extension.profile.model import Compiles
from torchwheel.extension.profile.processes import Finished, run_measured

Say = Callable[[str], None]
"""Tells the user what is being measured."""

_SUFFIXES = {Language.C: ".c", Language.CXX: ".cpp", Language.CUDA: ".cu"}


class Workplace:
    """Runs compilers one at a time, so that they do not disturb each other's times.

    Attributes:
        folder: where commands run.
        scratch: a folder for outputs, deleted in the end.
    """

    def __init__(self, folder: Path, scratch: Path, environment: Mapping[str, str], say: Say) -> None:
        self.folder = folder
        self.scratch = scratch
        # The reports are to be in English, and ccache may stand behind a compiler's name and answer at no cost.
        self._environment = {**environment, "LC_ALL": "C", "CCACHE_DISABLE": "1"}
        self._say = say
        self._read: dict[tuple[Invocation, tuple[str, ...]], float | None] = {}

    def run(self, command: Sequence[str], what: str, folder: str = ".") -> Finished:
        """Run a command in a folder below the build folder; ``what`` tells the user of it."""
        self._say(what)
        return run_measured(command, self.folder / folder, self._environment, self.scratch / "output.txt")

    def header_seconds(self, invocation: Invocation, headers: tuple[str, ...]) -> float | None:
        """What a source pays for headers: reading one with nothing but these, less reading an empty one.

        None where they do not compile by themselves. The same question is measured once.
        """
        whole = self._reading(invocation, headers)
        empty = self._reading(invocation, ())
        return None if whole is None or empty is None else max(0.0, whole - empty)

    def _reading(self, invocation: Invocation, headers: tuple[str, ...]) -> float | None:
        key = (invocation, headers)
        if key not in self._read:
            source = self.scratch / f"headers{_SUFFIXES[invocation.language]}"
            source.write_text("".join(f"#include <{name}>\n" for name in headers), encoding="utf-8")
            command = invocation.reading(str(source), self.scratch / "headers.o")
            finished = self.run(command, _question(headers), invocation.folder)
            self._read[key] = finished.usage.cost if finished.status == 0 else None
        return self._read[key]


def _question(headers: tuple[str, ...]) -> str:
    return f"headers alone: {', '.join(headers)}" if headers else "an empty source"


@contextmanager
def workplace(compiles: Compiles, environment: Mapping[str, str], say: Say) -> Iterator[Workplace]:
    """A workplace for the compiles of a project; the project and its build folder stay as they are."""
    with tempfile.TemporaryDirectory(prefix="torchwheel-profile-", ignore_cleanup_errors=True) as name:
        scratch = Path(name) / "scratch"
        scratch.mkdir()
        yield Workplace(compiles.folder or _fresh_folder(Path(name), compiles), scratch, environment, say)


def _fresh_folder(parent: Path, compiles: Compiles) -> Path:
    folder = parent / "build"
    folder.mkdir()
    write_links(folder, dict(compiles.links))
    for path, content in compiles.generated:
        write_if_changed(folder / path, content)
    return folder
