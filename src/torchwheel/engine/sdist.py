"""Source distributions: a wrapper project's holds the tree that it wraps, so that it builds anywhere."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import tomlkit

from torchwheel._files import atomic_replace
from torchwheel.engine.source_files import source_files
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.plan.version import wheel_version
from torchwheel.settings import Settings
from torchwheel.survey import BuildRequest, survey
from torchwheel.tree.model import Tree
from torchwheel.tree.read import SOURCE_FACTS_FILE, source_facts_json
from torchwheel.wheel.rewrite import source_date

INNER_FOLDER = "source"
"""Where a wrapper project's sdist keeps the tree."""

_COMPRESSION_LEVEL = 1  # a PyTorch tree has over a gigabyte; level 6 takes three times as long for a tenth
_PROJECT_FILES = ("README*", "LICEN[CS]E*", "NOTICE*", "CHANGELOG*")


def sdist_version(inputs: Inputs) -> str:
    """The sdist's version: the wheel's, since frontends refuse a wheel whose version is not its sdist's.

    Without a target there is no wheel to agree with, and the version has no local label.
    """

    settings = inputs.settings
    if settings.target_names or settings.arch is not None:
        return str(make_plan(inputs).version)
    return wheel_version(inputs.tree, settings.version, "", "")[0].base


def build_sdist(request: BuildRequest, sdist_directory: Path) -> str:
    """Write the source distribution.

    Args:
        request: what is requested.
        sdist_directory: gets the archive, under its final name only when it is complete.

    Returns:
        The archive's file name.

    Raises:
        TorchwheelError: the settings or the tree cannot be read.
        OSError: the archive cannot be written.
    """

    inputs = survey(request)
    name = f"{inputs.tree.name}-{sdist_version(inputs)}"
    members = _members(request.project, inputs.tree, inputs.settings, name)
    stated = source_date(request.environment)
    return _write_archive(sdist_directory, name, members, int(stated.timestamp()) if stated else 0)


Member = tuple[str, "bytes | Path"]


def _members(project: Path, tree: Tree, settings: Settings, name: str) -> Iterator[Member]:
    version = name.rpartition("-")[2]
    yield "PKG-INFO", f"Metadata-Version: 2.1\nName: {tree.name}\nVersion: {version}\n".encode()
    prefix = ""
    if settings.source is not None:
        prefix = INNER_FOLDER + "/"
        yield "pyproject.toml", _pointing_inside(project / "pyproject.toml")
        for pattern in _PROJECT_FILES:
            yield from ((path.name, path) for path in sorted(project.glob(pattern)) if path.is_file())
    yield prefix + SOURCE_FACTS_FILE, source_facts_json(tree)
    for relative in source_files(tree.root).files:
        if relative not in ("PKG-INFO", SOURCE_FACTS_FILE):
            yield prefix + relative, tree.root / relative


def _pointing_inside(pyproject: Path) -> bytes:
    """The wrapper project's pyproject.toml with ``source`` pointing to the copy in the sdist, under any condition."""
    document = tomlkit.parse(pyproject.read_text(encoding="utf-8"))
    table = document["tool"]["torchwheel"]
    for block in table.get("when", []):
        block.pop("source", None)
    table["source"] = INNER_FOLDER
    return tomlkit.dumps(document).encode()


def _write_archive(folder: Path, name: str, members: Iterator[Member], epoch: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{name}.tar.gz"
    with (
        atomic_replace(final) as part,
        part.open("wb") as raw,
        gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for relative, content in members:
            _add(archive, f"{name}/{relative}", content, epoch)
    return final.name


def _add(archive: tarfile.TarFile, member: str, content: bytes | Path, epoch: int) -> None:
    if isinstance(content, bytes):
        info = tarfile.TarInfo(member)
        info.size, info.mtime = len(content), epoch
        archive.addfile(info, io.BytesIO(content))
        return
    info = archive.gettarinfo(str(content), member)
    # Times stay: a later build from the unpacked sdist compiles only what changed since.
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if not info.isreg():
        archive.addfile(info)
        return
    with content.open("rb") as stream:
        archive.addfile(info, stream)
