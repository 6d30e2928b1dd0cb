"""An installed package, read as a wheel is: by its *.dist-info folder and the files that RECORD lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from torchwheel.proof.outcome import Check
from torchwheel.proof.subject import Subject
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.terminal import count_noun, join_items
from torchwheel.system.paths import is_file
from torchwheel.wheel.bounded_file import Allowance
from torchwheel.wheel.contents import (
    SOURCE_SUFFIXES,
    Library,
    Metadata,
    WheelContents,
    is_library_name,
    parse_torch_version,
    read_library,
)
from torchwheel.wheel.fatbinary import START_BYTES, is_code
from torchwheel.wheel.manifest import MANIFEST_NAME, parse_manifest
from torchwheel.wheel.metadata import MetadataText, parse_metadata_text
from torchwheel.wheel.record import RecordRow, parse_record

_CHUNK = 1 << 20


def installed_subject(folder: Path) -> Subject:
    """Return an installed package as something to check.

    Args:
        folder: the package, ``site-packages/torch``.

    Raises:
        TorchwheelError: no RECORD lists its files, or something is malformed.
    """
    folder = folder.resolve()
    site = folder.parent
    info, rows = _find_distribution(folder)
    metadata = _read_metadata(info / "METADATA")
    wheel = _read_metadata(info / "WHEEL")
    manifest = info / MANIFEST_NAME
    name, version = (next(iter(metadata.values(field)), None) for field in ("Name", "Version"))
    torch = folder / "version.py"
    files = frozenset(row.path for row in rows)
    contents = WheelContents(
        path=folder,
        name=canonicalize_name(name or ""),
        version=version or "",
        tags=tuple(sorted(wheel.values("Tag"))),
        wheel=wheel,
        metadata=Metadata(bytes(metadata), name, version, None, metadata.values("Requires-Dist")),
        has_torch=folder.name == "torch",
        torch_version=parse_torch_version(torch.read_bytes(), str(torch)) if is_file(torch) else None,
        libraries=tuple(_read_libraries(site, sorted(files))),
    )
    read = parse_manifest(manifest.read_bytes(), str(manifest)) if is_file(manifest) else None
    return Subject(contents, read, files, site, rows)


def _find_distribution(folder: Path) -> tuple[Path, tuple[RecordRow, ...]]:
    """The *.dist-info folder whose RECORD lists a package, and its lines."""
    for record in sorted(folder.parent.glob("*.dist-info/RECORD")):
        rows = parse_record(record.read_bytes(), str(record))
        if any(row.path == f"{folder.name}/__init__.py" for row in rows):
            return record.parent, rows
    raise refusal("no-distribution-found", folder=folder)


def _read_metadata(file: Path) -> MetadataText:
    return parse_metadata_text(file.read_bytes())


def _read_libraries(site: Path, files: list[str]) -> Iterator[Library]:
    allowance = Allowance()
    for name in files:
        path = site / name
        if PurePosixPath(name).suffix.lower() in SOURCE_SUFFIXES or not is_file(path):
            continue
        if is_library_name(name) or is_code(_read_beginning(path)):
            yield read_library(name, path, allowance=allowance)


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(START_BYTES)


def check_installed_record(subject: Subject) -> Check:
    """Compare the files of an installed package with RECORD; what Python compiled has no hash there."""
    assert subject.site is not None
    site = subject.site
    hashed = [row for row in subject.record if row.digest]
    missing = [row.path for row in hashed if not is_file(site / row.path)]
    changed = [row.path for row in hashed if is_file(site / row.path) and not _is_as_recorded(site, row)]
    problems = [
        Problem.of("installed-file-differs", origin=subject.path, how=how, files=join_items(files))
        for how, files in (("is missing", missing), ("has another content than RECORD says", changed))
        if files
    ]
    said = f"{count_noun(len(hashed), 'file')} are what RECORD says"
    return Check("record", said, tuple(problems), {"files": len(hashed)})


def _is_as_recorded(site: Path, row: RecordRow) -> bool:
    try:
        with (site / row.path).open("rb") as stream:
            return row.describes(iter(lambda: stream.read(_CHUNK), b""))
    except ValueError:
        # An algorithm that this Python has not.
        return False
    except OSError as error:
        raise TorchwheelError(
            Problem.of(
                "installed-file-differs",
                origin=site,
                how=f"cannot be read ({error.strerror})",
                files=row.path,
            )
        ) from None
