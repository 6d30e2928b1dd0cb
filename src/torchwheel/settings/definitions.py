"""What is said of a target or profile: in a table of pyproject.toml or in an overlay file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.catalogue import KnownGpu, gpus
from torchwheel.host.model import Host
from torchwheel.settings.assignments import Source
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.model import Where, file_header, table_header
from torchwheel.settings.tables import Table, header_text, read_table

CPU = "cpu"
NATIVE = "native"

_WHERE = {"target": Where.TARGET, "profile": Where.PROFILE}


@dataclass(frozen=True)
class Definition:
    """What one place says of one target or profile.

    Attributes:
        name: canonical name.
        kind: ``target`` or ``profile``.
        title: what it is, in a few words; may be empty.
        inherits: canonical name of what it is laid over; empty for nothing.
        settings: its settings, conditions evaluated.
        origin: the file or table.
        layer: the layer that it belongs to.
    """

    name: str
    kind: str
    title: str
    inherits: str
    settings: tuple[Setting, ...]
    origin: str
    layer: Layer

    def setting(self, key: str) -> Setting | None:
        """Its setting of that key."""
        return next((setting for setting in self.settings if setting.key == key), None)


def gpu_of(name: str) -> KnownGpu | None:
    """The GPU that a target's name stands for, in any spelling."""
    if name in (CPU, NATIVE):
        return None

    return gpus().find(name)


def canonical_name(name: str) -> str:
    """The one spelling of a name: the catalogue's for a GPU, else lower case with hyphens."""
    gpu = gpu_of(name)
    return gpu.name if gpu else re.sub(r"[\s_]+", "-", name.strip().lower())


def read_definition(
    name: str, kind: str, table: Table, source: Source, host: Host, problems: list[Problem]
) -> Definition:
    """Read what a table says of a target or profile."""
    header = {
        key: header_text(table.content, table_header()[key], table.origin, problems) for key in table_header()
    }
    body = {key: raw for key, raw in table.content.items() if key not in table_header()}
    inherits = header["inherits"]
    return Definition(
        name=name,
        kind=kind,
        title=header["title"],
        inherits=canonical_name(inherits) if inherits else "",
        settings=read_table(_with(table, body), source, host, problems),
        origin=table.origin,
        layer=source.layer,
    )


def _with(table: Table, content: Mapping[str, object]) -> Table:
    return Table(content, table.origin, table.where, table.folder, (*table.others, *table_header()))


@dataclass(frozen=True)
class OverlayFolder:
    """A folder of overlay files, one for each target or profile.

    Attributes:
        path: the folder; need not exist.
        layer: the layer that its files belong to.
        label: what stands for the folder in origins; empty for its path.
    """

    path: Path
    layer: Layer
    label: str = ""

    def names(self) -> tuple[str, ...]:
        """The names that there are files for, as the files spell them."""
        if not self.path.is_dir():
            return ()
        return tuple(sorted(file.stem for file in self.path.glob("*.toml")))

    def file_for(self, name: str) -> Path | None:
        """The file of a canonical name, whatever alias the file is named by."""
        exact = self.path / f"{name}.toml"
        if exact.is_file():
            return exact
        if self.layer is Layer.BUILTIN_OVERLAY:
            return None
        stem = next((stem for stem in self.names() if canonical_name(stem) == name), None)
        return self.path / f"{stem}.toml" if stem else None

    def read(self, name: str, host: Host, problems: list[Problem]) -> Definition | None:
        """What the folder says of a name; None when it has no file for it."""
        file = self.file_for(name)
        if file is None:
            return None
        origin = f"{self.label}/{file.name}" if self.label else str(file)
        try:
            content = read_toml(file)
        except TorchwheelError as error:
            problems += error.problems
            return None
        header = {key: header_text(content, file_header()[key], origin, problems) for key in file_header()}
        if not header["kind"]:
            if "kind" not in content:
                problems.append(_no_kind(origin))
            return None
        body = {key: raw for key, raw in content.items() if key not in file_header()}
        table = Table(body, origin, _WHERE[header["kind"]], file.parent, tuple(file_header()))
        return read_definition(name, header["kind"], table, Source(self.layer), host, problems)


def _no_kind(origin: str) -> Problem:
    return Problem(
        id="overlay-without-kind",
        what="the file does not say what it describes",
        remedy='add kind = "target", or kind = "profile"',
        origin=origin,
    )
