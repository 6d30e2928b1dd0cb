"""Source distributions; a wrapper project's contains the wrapped tree, so that it builds anywhere."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import tomlkit

from torchwheel.plan.build_plan import hash_facts
from torchwheel.plan.make import make_plan
from torchwheel.plan.naming import wheel_version
from torchwheel.reproducible import source_date
from torchwheel.settings import Settings
from torchwheel.settings.project import (
    NAME_VARIABLE,
    SDIST_FILE,
    SdistRecord,
    read_project,
    settings_to_record,
)
from torchwheel.survey import BuildRequest, survey
from torchwheel.system.files import atomic_replace, remove_leftovers
from torchwheel.system.paths import is_file
from torchwheel.system.toml import get_subtable
from torchwheel.tree.source_files import sdist_files
from torchwheel.tree.source_tree import (
    SOURCE_FACTS_FILE,
    Tree,
    read_pyproject,
    source_facts_json,
    submodule_states,
)
from torchwheel.versions import wheel_spelling
from torchwheel.wheel.metadata import parse_metadata_text

INNER_FOLDER = "source"
"""The folder of the tree in a wrapper project's sdist."""

# Fields of a wheel's metadata besides name and version.
_DYNAMIC = (
    "Author", "Author-email", "Classifier", "Description", "Description-Content-Type", "Home-page", "Keywords",
    "License", "License-Expression", "License-File", "Maintainer", "Maintainer-email", "Platform", "Project-URL",
    "Provides-Extra", "Requires-Dist", "Requires-External", "Requires-Python", "Summary",
)  # fmt: skip
# Those that a tree's [project] may state once and for all.
_STATIC = {
    "description": "Summary",
    "keywords": "Keywords",
    "license": "License-Expression",
    "requires-python": "Requires-Python",
    "classifiers": "Classifier",
}
_PKG_INFO = "PKG-INFO"
# For over a gigabyte of a PyTorch tree; level 6 takes three times as long to save a tenth.
_COMPRESSION_LEVEL = 1


def build_sdist(request: BuildRequest, sdist_directory: Path) -> str:
    """Write the source distribution under its final name when it is complete; returns its file name.

    Its name and version are the wheel's, because frontends refuse a wheel whose name or version differs from its sdist,
    and it records the settings behind them. Without a target there is no wheel to match, and the version has no label.
    """
    inputs = survey(request)
    settings = inputs.settings
    if settings.target or settings.arch is not None:
        plan = make_plan(inputs)
        cuda = plan.toolkit.version if plan.toolkit else None
        record = SdistRecord(str(plan.version), settings_to_record(settings.entries.values(), cuda))
    else:
        named = filter(None, [settings.variables.get(NAME_VARIABLE)])
        version = wheel_version(inputs.tree, settings.package_version, "", "")[0].base
        record = SdistRecord(version, settings_to_record(named, None))
    name = f"{wheel_spelling(inputs.tree.name)}-{record.version}"
    moment = source_date(request.environment)
    # A tree's identity depends on its path, which a reproducible archive must not contain.
    identity = inputs.tree.identity if moment is None else hash_facts(name)
    members = _sdist_members(request.project, inputs.tree, settings, record, identity)
    final = sdist_directory / f"{name}.tar.gz"
    with _open_archive(final, moment, 0) as archive:
        for relative, content in members:
            archive.add_member(f"{name}/{relative}", content)
    return final.name


def _sdist_members(
    project: Path, tree: Tree, settings: Settings, record: SdistRecord, identity: str
) -> Iterator[tuple[str, bytes | Path]]:
    yield _PKG_INFO, _pkg_info(tree, record.version)
    yield SDIST_FILE, record.to_json()
    prefix = ""
    if settings.source is not None:
        prefix = INNER_FOLDER + "/"
        yield "pyproject.toml", _pointing_inside(project / "pyproject.toml")
        for pattern in ("README*", "LICEN[CS]E*", "NOTICE*", "CHANGELOG*"):
            yield from ((path.name, path) for path in sorted(project.glob(pattern)) if is_file(path))
    yield prefix + SOURCE_FACTS_FILE, source_facts_json(tree, identity, submodule_states(tree.root))
    own = read_project(tree.root).table("tool", "scikit-build", "sdist")
    include, exclude = (_sdist_patterns(settings, own, name) for name in ("include", "exclude"))
    for relative in sdist_files(tree.root, include, exclude):
        if relative not in (_PKG_INFO, SDIST_FILE, SOURCE_FACTS_FILE):
            yield prefix + relative, tree.root / relative


def _sdist_patterns(settings: Settings, own: Mapping[str, Any], name: str) -> list[str]:
    """scikit-build-core's ``sdist.include`` or ``sdist.exclude``, from ``-C``, else from the tree's pyproject.toml."""
    given = settings.passthrough.get(f"sdist.{name}")
    if isinstance(given, str):
        return given.split(";")
    patterns = own.get(name, []) if given is None else given
    return [pattern for pattern in patterns if isinstance(pattern, str)] if isinstance(patterns, list) else []


def _pkg_info(tree: Tree, version: str) -> bytes:
    """The sdist's metadata: what the tree's ``[project]`` states; the rest is known once the wheel is built.

    Source: https://packaging.python.org/specifications/core-metadata/#dynamic
    """
    project = get_subtable(read_pyproject(tree.root), "project")
    dynamic = project.get("dynamic", [])
    static = {
        field: values
        for key, field in _STATIC.items()
        if key not in dynamic and (values := _metadata_lines(project.get(key)))
    }
    if keywords := static.get("Keywords"):
        static["Keywords"] = [",".join(keywords)]
    lines = ["Metadata-Version: 2.4", f"Name: {tree.name}", f"Version: {version}"]
    lines += [f"{field}: {value}" for field, values in static.items() for value in values]
    lines += [f"Dynamic: {field}" for field in _DYNAMIC if field not in static]
    return "".join(f"{line}\n" for line in lines).encode()


def _metadata_lines(value: object) -> list[str]:
    """A text, or a list of texts, of one line each; empty for anything else, such as a license's table."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [one for one in values if isinstance(one, str) and one.splitlines() == [one]]


def _pointing_inside(pyproject: Path) -> bytes:
    """Rewrite the wrapper project's pyproject.toml so that every ``source`` points to the copy in the sdist."""
    document = tomlkit.parse(pyproject.read_text(encoding="utf-8"))
    table = document["tool"]["torchwheel"]
    for block in table.get("when", []):
        block.pop("source", None)
    table["source"] = INNER_FOLDER
    return tomlkit.dumps(document).encode()


@dataclass(frozen=True)
class _Archive:
    """An archive to write; ``epoch`` is the time of generated members, and of ``plain`` files."""

    tar: tarfile.TarFile
    epoch: int
    plain: bool

    def add_member(self, member: str, content: bytes | Path) -> None:
        if isinstance(content, bytes):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            info.mtime = self.epoch
            self.tar.addfile(info, io.BytesIO(content))
            return
        info = self.tar.gettarinfo(str(content), member)
        with content.open("rb") if info.isreg() else nullcontext() as stream:
            self.copy_member(info, stream)

    def copy_member(self, info: tarfile.TarInfo, stream: IO[bytes] | None) -> None:
        # Times are kept, so that a later build from the unpacked sdist compiles only changed files.
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        if self.plain:
            info.mtime = self.epoch
            info.mode = 0o755 if info.isdir() or info.mode & 0o111 else 0o644
            # They may have the original time with a fraction, which outranks the field.
            info.pax_headers = {}
        self.tar.addfile(info, stream)


@contextmanager
def _open_archive(final: Path, moment: datetime | None, epoch: int) -> Iterator[_Archive]:
    epoch = epoch if moment is None else int(moment.timestamp())
    final.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(final)
    with (
        atomic_replace(final) as part,
        part.open("wb") as raw,
        # Without a name, because gzip would record that of the temporary file.
        gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        yield _Archive(archive, epoch, plain=moment is not None)


def rewrite_sdist(
    built: Path, folder: Path, version: str, files: Mapping[str, bytes], environment: Mapping[str, str]
) -> str:
    """Copy a backend's sdist into ``folder`` with another version and more ``files``; returns the copy's name."""
    old = built.name.removesuffix(".tar.gz")
    name = f"{old.rpartition('-')[0]}-{version}"
    with tarfile.open(built) as source:
        info = source.getmember(f"{old}/{_PKG_INFO}")
        stream = source.extractfile(info)
        metadata = parse_metadata_text(stream.read() if stream else b"").replacing("Version", [version])
        new = {_PKG_INFO: bytes(metadata), **files}
        with _open_archive(folder / f"{name}.tar.gz", source_date(environment), int(info.mtime)) as archive:
            for member in source:
                relative = member.name.removeprefix(f"{old}/")
                if relative in new:
                    continue
                stream = source.extractfile(member) if member.isreg() else None
                member.name = f"{name}/{relative}"
                # A hard link names another member, whose folder has the old version in its name.
                if member.islnk():
                    member.linkname = f"{name}/{member.linkname.removeprefix(f'{old}/')}"
                archive.copy_member(member, stream)
            for relative, content in new.items():
                archive.add_member(f"{name}/{relative}", content)
    return f"{name}.tar.gz"
