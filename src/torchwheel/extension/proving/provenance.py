"""The plan's part of the build manifest of a wheel of extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchwheel.extension.model import ExtensionPlan, PlannedExtension
from torchwheel.plan.provenance import decisions


def extension_provenance(
    plan: ExtensionPlan, *, toolchain: Mapping[str, str | None], commit: str | None
) -> dict[str, Any]:
    """The manifest's plan part, as ``manifest.schema.json`` describes it.

    It travels with the wheel, so no folder of this machine is in it, except where a setting or a finding holds one.

    Args:
        plan: what was carried out.
        toolchain: versions of the compilers and tools, by name.
        commit: the project's commit; None where it is not known.
    """
    return {
        **decisions(plan.settings, plan.findings),
        "toolchain": dict(toolchain),
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
