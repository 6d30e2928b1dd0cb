"""A wheel of extensions on its way out: relabelled for the plan, then finalized as every wheel is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.version import Version

from torchwheel.extension.hooks.project import Asked
from torchwheel.extension.model import ExtensionPlan, PlannedExtension
from torchwheel.extension.proving.expectation import expected_wheel
from torchwheel.extension.proving.naming import python_tags
from torchwheel.extension.proving.proof import verify_extension_contents
from torchwheel.findings import Finding
from torchwheel.host.model import Host
from torchwheel.plan.output import decisions
from torchwheel.tree.git import head_commit
from torchwheel.wheel.contents import parse_file_name
from torchwheel.wheel.finalize import finalize, prepared_metadata
from torchwheel.wheel.metadata import parse_metadata_text
from torchwheel.wheel.relabel import Relabelling, relabel_metadata, relabel_wheel


def finalize_wheel(
    plan: ExtensionPlan,
    asked: Asked,
    host: Host,
    built: Path,
    wheel_directory: Path,
    metadata_directory: Path | None,
    *,
    editable: bool,
) -> str:
    """Label a wheel, prove it against the plan, add the build manifest, and place it under its final name.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the wheel is not what was planned, or cannot be written. Nothing is handed over then.
    """
    name, version, tags = parse_file_name(built)
    relabelling = relabelling_of(plan, version, tags)
    labelled = built.parent / "labelled"
    labelled.mkdir(exist_ok=True)
    relabelled = relabel_wheel(built, labelled, relabelling, environment=asked.environment)
    expected = expected_wheel(
        plan,
        name=name,
        version=relabelling.version or version,
        interpreter_tag=host.python.interpreter_tag,
        abi_tag=host.python.abi_tag,
        platform_tag=None,
        prepared_metadata=prepared_metadata(metadata_directory),
        editable=editable,
    )
    return finalize(
        relabelled,
        wheel_directory,
        verify=lambda contents: verify_extension_contents(contents, expected),
        skip_check=plan.settings.skip_check,
        provenance=lambda passed: extension_provenance(plan, host, head_commit(asked.project), passed),
        environment=asked.environment,
    ).name


def finalize_metadata(plan: ExtensionPlan, folder: Path) -> str:
    """Make a prepared ``*.dist-info`` say what the wheel is going to say.

    Returns:
        The folder's new name.
    """
    wheel = parse_metadata_text((folder / "WHEEL").read_bytes())
    version = folder.name.removesuffix(".dist-info").rpartition("-")[2]
    return relabel_metadata(folder, relabelling_of(plan, version, tuple(wheel.values("Tag"))))


def relabelling_of(plan: ExtensionPlan, version: str, tags: tuple[str, ...]) -> Relabelling:
    """What a plan makes of a wheel's version, requirements and tags.

    Args:
        plan: the plan.
        version: the wheel's version; a local label of its own comes before the plan's.
        tags: the wheel's tags.
    """
    return Relabelling(
        version=labelled_version(version, plan.settings.version, plan.local_version),
        requires=plan.requires,
        tag=_tag(plan, tags),
    )


def labelled_version(version: str, requested: str | None, label: str) -> str:
    """A version with a label: ``1.2+own`` and ``cu130.sm120`` make ``1.2+own.cu130.sm120``.

    Args:
        version: the project's own version.
        requested: another version in its place; None for none.
        label: the local version label; empty for none.
    """
    own = Version(version)
    base = requested or own.public
    local = ".".join(part for part in (own.local or "", label) if part)
    return str(Version(f"{base}+{local}" if local else base))


def _tag(plan: ExtensionPlan, tags: tuple[str, ...]) -> str | None:
    """The wheel's tag, where all modules use Python's limited API; None to keep the ones that it has."""
    if not plan.extensions or not all(planned.extension.limited_api for planned in plan.extensions):
        return None
    python_tag, abi_tag = python_tags("", "", limited_api=True)
    platforms = ".".join(dict.fromkeys(tag.rpartition("-")[2] for tag in tags))
    return f"{python_tag}-{abi_tag}-{platforms}"


def extension_provenance(
    plan: ExtensionPlan, host: Host, commit: str | None, passed: Iterable[Finding] = ()
) -> dict[str, Any]:
    """The manifest's plan part, as ``manifest.schema.json`` describes it.

    It travels with the wheel, so no folder of this machine is in it, except where a setting or a finding holds one.

    Args:
        plan: what was carried out.
        host: the machine that it was carried out on.
        commit: the project's commit; None where it is not known.
        passed: what the wheel's proof found and ``skip-check`` let pass.
    """
    cxx = host.compiler("cxx")
    return {
        **decisions(plan.settings, (*plan.findings, *passed)),
        "toolchain": {
            "python": host.python.version,
            "cxx_compiler": f"{cxx.kind} {cxx.version}".strip() if cxx else None,
            "cuda": plan.toolkit.full_version if plan.toolkit else None,
        },
        "source": {"commit": commit},
        "extensions": {
            "torch": {"version": plan.torch.version, "cuda": plan.torch.cuda},
            "requires": list(plan.requires),
            "modules": [_module(planned) for planned in plan.extensions],
        },
    }


def _module(planned: PlannedExtension) -> dict[str, Any]:
    extension = planned.extension
    return {
        "name": extension.name,
        "file": planned.file_name,
        "stable_abi": extension.stable_abi,
        "limited_api": extension.limited_api,
        "architectures": list(planned.architectures.labels) if planned.architectures else [],
        "sources": list(_sources(planned)),
    }


def _sources(planned: PlannedExtension) -> Iterator[dict[str, Any]]:
    """Every source, with the options that its command had."""
    for step in planned.steps:
        gencode = [word for word in step.command if word.startswith("-gencode=")]
        for source in step.sources:
            yield {"path": source, "gencode": gencode}
