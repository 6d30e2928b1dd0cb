"""Giving a finished wheel another version, tag or requirements: its name and metadata, not its other bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from torchwheel.system.files import output_file, replace_path
from torchwheel.system.paths import is_file
from torchwheel.wheel.archive import WheelArchive, parse_file_name
from torchwheel.wheel.metadata import parse_metadata_text, read_metadata_text, with_bounds
from torchwheel.wheel.rewrite import Changes, rewrite_wheel

_DIST_INFO, _DATA = ".dist-info", ".data"


@dataclass(frozen=True)
class Relabelling:
    """What a wheel is to say of itself.

    Attributes:
        version: the whole version with its local label, ``1.2+cu130.sm120.torch2.14``, in its normal form; None to
            keep the old one.
    """

    version: str | None = None
    requires: tuple[str, ...] = ()
    tag: str | None = None
    skip_check: tuple[str, ...] = ()

    def file_name(self, old: str) -> str:
        name, version, *build_and_tag = old.removesuffix(".whl").split("-")
        if self.tag is not None:
            # The last three parts are the tag; a build number may precede them.
            build_and_tag[-3:] = [self.tag]
        return "-".join([name, self.version or version, *build_and_tag]) + ".whl"

    def folder(self, old: str) -> str:
        """The new name of ``NAME-VERSION.dist-info`` or ``NAME-VERSION.data``."""
        if self.version is None:
            return old
        suffix = _DATA if old.endswith(_DATA) else _DIST_INFO
        name = old.removesuffix(suffix).rpartition("-")[0]
        return f"{name}-{self.version}{suffix}"

    def folders(self, dist_info: str) -> dict[str, str]:
        """The new names of both folders that have the version in theirs."""
        data = dist_info.removesuffix(_DIST_INFO) + _DATA
        return {folder: self.folder(folder) for folder in (dist_info, data)}

    def metadata(self, old: bytes, origin: str) -> bytes:
        text = parse_metadata_text(old)
        if self.version is not None:
            text = text.replacing("Version", [self.version])
        return bytes(with_bounds(text, self.requires, origin, self.skip_check))

    def wheel(self, old: bytes) -> bytes:
        if self.tag is None:
            return old
        expanded = ["-".join(tag) for tag in product(*(part.split(".") for part in self.tag.split("-")))]
        return bytes(parse_metadata_text(old).replacing("Tag", expanded))


def relabel_wheel(
    source: Path,
    destination: Path,
    relabelling: Relabelling,
    *,
    environment: Mapping[str, str],
) -> Path:
    """Write a copy of a wheel that says other things of itself, under the name that goes with them.

    All members but METADATA, WHEEL and RECORD keep their compressed bytes.
    """
    parse_file_name(source)
    target = destination / relabelling.file_name(source.name)
    rewrite_wheel(
        source, target, lambda archive: _make_changes(archive, relabelling), environment=environment
    )
    return target


def _make_changes(archive: WheelArchive, relabelling: Relabelling) -> Changes:
    old = {name: bytes(read_metadata_text(archive, name)) for name in ("METADATA", "WHEEL")}
    new = {
        "METADATA": relabelling.metadata(old["METADATA"], str(archive.path)),
        "WHEEL": relabelling.wheel(old["WHEEL"]),
    }
    changed = {name: content for name, content in new.items() if content != old[name]}
    return Changes(changed, relabelling.folders(archive.dist_info))


def relabel_metadata(folder: Path, relabelling: Relabelling) -> str:
    """Make a prepared ``*.dist-info`` say what the wheel will say, and give it the name that goes with it.

    For PEP 517's prepare_metadata_for_build_wheel: METADATA is, byte for byte, what :func:`relabel_wheel` writes.

    Returns:
        The folder's new name.
    """
    metadata, wheel = folder / "METADATA", folder / "WHEEL"
    new = {metadata: relabelling.metadata(metadata.read_bytes(), str(metadata))}
    if is_file(wheel):
        new[wheel] = relabelling.wheel(wheel.read_bytes())
    for path, content in new.items():
        with output_file(path) as stream:
            stream.write(content)
    renamed = folder.with_name(relabelling.folder(folder.name))
    replace_path(folder, renamed)
    return renamed.name
