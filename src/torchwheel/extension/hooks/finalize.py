"""A wheel of extensions on its way out: relabelled for the plan, then finalized as every wheel is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from torchwheel.extension.naming import python_tags
from torchwheel.extension.record import WheelRecord, expected_wheel
from torchwheel.extension.verify import verify_extension_contents
from torchwheel.findings import Finding
from torchwheel.host.model import Python
from torchwheel.wheel.contents import parse_file_name
from torchwheel.wheel.finalize import finalize, prepared_metadata
from torchwheel.wheel.metadata import parse_metadata_text
from torchwheel.wheel.relabel import Relabelling, relabel_metadata, relabel_wheel


def finalize_wheel(
    record: WheelRecord,
    python: Python,
    built: Path,
    wheel_directory: Path,
    metadata_directory: Path | None,
    environment: Mapping[str, str],
    *,
    editable: bool,
) -> str:
    """Label a wheel, verify it against the plan, add the build manifest, and place it under its final name.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the wheel is not what was planned, or cannot be written. Nothing is handed over then.
    """
    name, version, tags = parse_file_name(built)
    relabelling = relabelling_of(record, version, tags)
    labelled = built.parent / "labelled"
    labelled.mkdir(exist_ok=True)
    relabelled = relabel_wheel(built, labelled, relabelling, environment=environment)
    expected = expected_wheel(
        record,
        name=name,
        version=relabelling.version or version,
        python=python,
        platform_tag=None,
        prepared_metadata=prepared_metadata(metadata_directory),
        editable=editable,
    )
    return finalize(
        relabelled,
        wheel_directory,
        verify=lambda contents: verify_extension_contents(contents, expected),
        skip_check=record.skip_check,
        provenance=lambda passed: _with_passed(record.provenance, passed),
        environment=environment,
    ).name


def _with_passed(provenance: Mapping[str, Any], passed: Iterable[Finding]) -> dict[str, Any]:
    """The plan's part of the manifest with what verifying the wheel found and ``skip-check`` let pass."""
    found = tuple(passed)
    return {
        **provenance,
        "findings": [*provenance["findings"], *(finding.document() for finding in found)],
        "skipped_checks": sorted({*provenance["skipped_checks"], *(finding.id for finding in found)}),
    }


def finalize_metadata(record: WheelRecord, folder: Path) -> str:
    """Make a prepared ``*.dist-info`` say what the wheel is going to say.

    Returns:
        The folder's new name.
    """
    wheel = parse_metadata_text((folder / "WHEEL").read_bytes())
    version = folder.name.removesuffix(".dist-info").rpartition("-")[2]
    return relabel_metadata(folder, relabelling_of(record, version, tuple(wheel.values("Tag"))))


def relabelling_of(record: WheelRecord, version: str, tags: tuple[str, ...]) -> Relabelling:
    """The version, requirements and tags that a wheel gets.

    Args:
        version: the wheel's version; a local label of its own comes before the plan's.
    """
    return Relabelling(
        version=labelled_version(version, record.version, record.local_version),
        requires=record.requires,
        tag=_tag(record, tags),
    )


def labelled_version(version: str, requested: str | None, label: str) -> str:
    """A version with a label: ``1.2+own`` and ``cu130.sm120`` make ``1.2+own.cu130.sm120``."""
    own = Version(version)
    base = requested or own.public
    local = ".".join(part for part in (own.local or "", label) if part)
    return str(Version(f"{base}+{local}" if local else base))


def _tag(record: WheelRecord, tags: tuple[str, ...]) -> str | None:
    """The wheel's tag, where all modules use Python's limited API; None to keep the ones that it has."""
    if not record.limited_api:
        return None
    python_tag, abi_tag = python_tags("", "", limited_api=True)
    platforms = ".".join(dict.fromkeys(tag.rpartition("-")[2] for tag in tags))
    return f"{python_tag}-{abi_tag}-{platforms}"
