"""Finalize an extension's wheel, or metadata alone: label it and verify it against its plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchwheel.extension.extension_plan import ExtensionProject
from torchwheel.extension.wheel_record import WheelRecord, labelled_version, python_tags
from torchwheel.host.this import home_names
from torchwheel.plan.output import changing_settings
from torchwheel.proof.module_checks import verify_extension_contents
from torchwheel.proof.prove import prove_contents
from torchwheel.reporting.errors import Problem
from torchwheel.tree.source_files import vendored_libraries
from torchwheel.versions import major_minor
from torchwheel.wheel.archive import parse_file_name
from torchwheel.wheel.finalize import NO_MANIFEST, finalize, prepared_metadata, replaced_build
from torchwheel.wheel.manifest import as_written
from torchwheel.wheel.proof import Expectation
from torchwheel.wheel.rewrite import Relabelling, relabel_metadata, relabel_wheel


def finalize_wheel(
    record: WheelRecord,
    project: ExtensionProject,
    built: Path,
    wheel_directory: Path,
    metadata_directory: Path | None = None,
    *,
    editable: bool = False,
) -> str:
    """Label a wheel, verify it against the plan, add the build manifest, and place it; returns its file name."""
    name, version, tags = parse_file_name(built)
    relabelling = _relabelling_for(record, version, tags)
    labelled = built.parent / "labelled"
    labelled.mkdir(exist_ok=True)
    relabelled = relabel_wheel(built, labelled, relabelling, environment=project.environment)
    python = project.host.python
    python_tag, abi_tag = python_tags(python.interpreter_tag, python.abi_tag, limited_api=record.limited_api)
    # setuptools' editable wheels contain no modules.
    labels = Expectation(
        name=name,
        version=relabelling.version or version,
        cuda=record.cuda,
        architectures=record.architectures,
        python_tag=python_tag,
        abi_tag=abi_tag,
        prepared_metadata=prepared_metadata(metadata_directory),
        editable=editable,
    )
    problems = tuple(_replaced_build(record, project, wheel_directory / relabelled.name))
    return finalize(
        relabelled,
        wheel_directory,
        verify=lambda contents: (
            *verify_extension_contents(contents, labels, record.requires, record.modules),
            *(() if editable else prove_contents(contents, record.provenance)),
            *problems,
        ),
        skip_check=record.skip_check,
        provenance=record.provenance,
        environment=project.environment,
        folders=_named_folders(project),
        libraries=vendored_libraries(project.folder),
        toolkit=record.toolkit,
    ).name


def _named_folders(project: ExtensionProject) -> dict[str, str]:
    return {str(project.folder): "<project>", sys.prefix: "<python>"}


def _replaced_build(record: WheelRecord, project: ExtensionProject, wheel: Path) -> Iterator[Problem]:
    """Report that a wheel of another build would be replaced; another commit of the project does not count as one."""

    def describe_difference(made: Mapping[str, Any]) -> str:
        if "extensions" not in made:
            return NO_MANIFEST
        folders = home_names(project.environment) | (_named_folders(project) if project.reproducible else {})
        old, new = _relevant_choices(made), _relevant_choices(as_written(record.provenance, folders))
        names = [name for name in new | old if old.get(name) != new.get(name)]
        return f"the two differ in {', '.join(names)}" if names else ""

    return replaced_build(wheel, describe_difference)


def _relevant_choices(made: Mapping[str, Any]) -> dict[str, str]:
    """The settings in a manifest's plan part that change the wheel."""
    labels = {label for one in made["extensions"]["modules"] for label in one["architectures"]}
    return changing_settings(made) | {
        "the value of a setting that no manifest tells": str(made.get("unrecorded", "")),
        "PyTorch": ", ".join(made["extensions"]["requires"]),
        "CUDA": major_minor(made.get("toolchain", {}).get("cuda") or ""),
        "device code": ", ".join(sorted(labels)),
    }


def finalize_metadata(record: WheelRecord, folder: Path) -> str:
    """Relabel a prepared ``*.dist-info`` like the wheel; returns its new name."""
    version = folder.name.removesuffix(".dist-info").rpartition("-")[2]
    # setuptools prepares no WHEEL file, which would have tags.
    return relabel_metadata(folder, _relabelling_for(record, version, ()))


def _relabelling_for(record: WheelRecord, version: str, tags: tuple[str, ...]) -> Relabelling:
    """Return the version, requirements and tags of a wheel, whose own local label precedes the plan's."""
    return Relabelling(
        version=labelled_version(version, record.version, record.local_version),
        requires=record.requires,
        tag=_wheel_tag(record, tags),
        skip_check=record.skip_check,
    )


def _wheel_tag(record: WheelRecord, tags: tuple[str, ...]) -> str | None:
    """The wheel's tag if all modules use Python's limited API; None to keep its tags."""
    if not record.limited_api:
        return None
    python_tag, abi_tag = python_tags("", "", limited_api=True)
    platforms = ".".join(dict.fromkeys(tag.rpartition("-")[2] for tag in tags))
    return f"{python_tag}-{abi_tag}-{platforms}"
