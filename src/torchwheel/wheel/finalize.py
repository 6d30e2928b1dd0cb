"""From the wheel that a build backend made to the one that is handed over: the one way for trees and extensions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from torchwheel._version import __version__
from torchwheel.host.this import home_names
from torchwheel.reporting.errors import (
    Problem,
    Severity,
    TorchwheelError,
    announce,
    error,
    skipped_errors,
    stop_on_errors,
    warning,
)
from torchwheel.reporting.masking import mask_document
from torchwheel.reproducible import source_date
from torchwheel.system.paths import exists, is_file
from torchwheel.toolkit.cuda_toolkit import ToolkitPackage
from torchwheel.tree.source_files import VendoredLibrary
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.manifest import MANIFEST_NAME, SCHEMA_VERSION, manifest_bytes, read_manifest
from torchwheel.wheel.rewrite import Changes, rewrite_wheel
from torchwheel.wheel.sbom import SBOM_NAME, sbom_bytes

NO_MANIFEST = "its build manifest is missing or cannot be read"


def finalize(
    built: Path,
    wheel_directory: Path,
    *,
    verify: Callable[[WheelContents], Iterable[Problem]],
    skip_check: Collection[str],
    provenance: Mapping[str, Any],
    environment: Mapping[str, str],
    folders: Mapping[str, str] | None = None,
    libraries: Iterable[VendoredLibrary] = (),
    toolkit: Iterable[ToolkitPackage] = (),
    name: str | None = None,
) -> Path:
    """Inspect a wheel, verify it, add the build manifest and the bill of materials, and place it under its name.

    Args:
        verify: everything in which the wheel is not what was planned; what no honest build makes counts besides.
        provenance: the plan's part of the manifest; what ``skip_check`` lets pass and warnings of odd members join it.
        folders: this machine's folders and what the manifest calls them where SOURCE_DATE_EPOCH is set.
    """
    contents = inspect_wheel(built)
    misnamed = () if name is None else _other_build_tag(built, name)
    problems = (*verify(contents), *misnamed, *_grade_problems(contents, Severity.ERROR))
    errors = tuple(map(error, problems))
    stop_on_errors(errors, skip_check)
    found = (*errors, *map(warning, _grade_problems(contents, Severity.WARNING)))
    announce(found, skip_check)
    built_at = source_date(environment)
    before = provenance["findings"]
    plan = {
        **provenance,
        # A plan may have reported some of them.
        "findings": [*before, *(one for one in (f.document() for f in found) if one not in before)],
        "skipped_checks": sorted({*provenance["skipped_checks"], *skipped_errors(errors, skip_check)}),
    }
    manifest = manifest_document(plan, contents, built_at)
    named = {**home_names(environment), **(folders or {} if built_at else {})}
    finished = wheel_directory / (name or built.name)
    members = {
        MANIFEST_NAME: manifest_bytes(manifest, named),
        SBOM_NAME: sbom_bytes(contents, plan, libraries, toolkit, built_at),
    }
    rewrite_wheel(built, finished, lambda _: Changes(members), environment=environment)
    built.unlink()
    return finished


def manifest_document(
    plan: Mapping[str, Any], contents: WheelContents, built: datetime | None = None
) -> dict[str, Any]:
    """A build manifest, with the moment that SOURCE_DATE_EPOCH states where it is set."""
    return {
        "schema": SCHEMA_VERSION,
        "torchwheel": __version__,
        **contents.described(),
        "plan": mask_document(plan),
        **({"built": built.isoformat()} if built else {}),
    }


def _other_build_tag(built: Path, name: str) -> Iterator[Problem]:
    """Report a build tag that was not planned; ``verify`` compares the other parts of the name."""
    found, planned = ("".join(map(str, parse_wheel_filename(one)[2])) or "none" for one in (built.name, name))
    if found != planned:
        yield Problem.of("wheel-tag", origin=built, found=found, planned=planned, where="its build tag")


def _grade_problems(contents: WheelContents, severity: Severity) -> tuple[Problem, ...]:
    return tuple(remark.problem for remark in contents.remarks if remark.severity is severity)


def replaced_build(wheel: Path, difference: Callable[[Mapping[str, Any]], str]) -> Iterator[Problem]:
    """That a wheel which another build made would be replaced; ``difference`` says by what in its plan that shows."""
    if not exists(wheel):
        return
    made = {}
    with suppress(TorchwheelError, OSError):
        made = (read_manifest(wheel) or {}).get("plan", {})
    if why := difference(made) if made else NO_MANIFEST:
        yield Problem.of("output-of-another-build", wheel=wheel, why=why)


def prepared_metadata(metadata_directory: Path | None) -> bytes | None:
    if metadata_directory is None:
        return None
    file = metadata_directory / "METADATA"
    return file.read_bytes() if is_file(file) else None
