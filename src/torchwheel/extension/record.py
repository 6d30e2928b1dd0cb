"""What a plan says of the wheel that it makes: all that finalizing that wheel needs.

It is written beside a build whose plan is made in another process: CMake's, or the one that runs a setup.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel._files import write_if_changed
from torchwheel.extension.model import ExtensionPlan, PlannedExtension
from torchwheel.extension.naming import (
    LIMITED_PYTHON,
    common_stable_abi,
    extension_label,
    python_tags,
    torch_requirements,
)
from torchwheel.extension.verify import ExpectedExtensionWheel, ExpectedModule
from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.host.model import Python
from torchwheel.plan.output import decisions
from torchwheel.wheel.verify import Expectation


@dataclass(frozen=True, kw_only=True)
class WheelRecord:
    """What a wheel was planned to be.

    Attributes:
        version: the public version that was requested in place of the project's; None for the project's.
        label: the local version label that was requested, empty for none; None for the usual one.
        provenance: the plan's part of the build manifest.
    """

    torch: str
    cuda: str | None
    modules: tuple[ExpectedModule, ...]
    version: str | None
    label: str | None
    skip_check: tuple[str, ...]
    provenance: Mapping[str, Any]

    @property
    def architectures(self) -> ArchitectureList | None:
        """The device code of all modules; None for none."""
        lists = [module.architectures for module in self.modules if module.architectures]
        return ArchitectureList.of(target for one in lists for target in one.targets) if lists else None

    @property
    def limited_api(self) -> bool:
        """Whether all modules use Python's limited API, so that one wheel serves all Pythons."""
        return bool(self.modules) and all(module.limited_api for module in self.modules)

    @property
    def local_version(self) -> str:
        """The wheel's local version label; empty for none."""
        if self.label is not None:
            return self.label
        stable = self._stable_abi is not None
        return extension_label(self.cuda, self.architectures, self.torch, stable=stable)

    @property
    def requires(self) -> tuple[str, ...]:
        """What the wheel requires of PyTorch: ``torch>=2.14,<2.15``."""
        return torch_requirements(self.torch, self._stable_abi)

    @property
    def _stable_abi(self) -> str | None:
        return common_stable_abi(module.stable_abi for module in self.modules)


def record_of(plan: ExtensionPlan, commit: str | None) -> WheelRecord:
    """What a plan says of its wheel; the project's commit is None where it is not known."""
    return WheelRecord(
        torch=plan.torch.version,
        cuda=plan.toolkit.version if plan.toolkit else None,
        modules=tuple(
            ExpectedModule(
                path=planned.file_name,
                architectures=planned.architectures,
                stable_abi=planned.extension.stable_abi,
                limited_api=LIMITED_PYTHON if planned.extension.limited_api else None,
            )
            for planned in plan.extensions
        ),
        version=plan.settings.version,
        label=plan.settings.local_version,
        skip_check=plan.settings.skip_check,
        provenance=_provenance(plan, commit),
    )


def expected_wheel(
    record: WheelRecord,
    *,
    name: str,
    version: str,
    python: Python,
    platform_tag: str | None,
    prepared_metadata: bytes | None = None,
    editable: bool = False,
) -> ExpectedExtensionWheel:
    """What the wheel of a plan has to be; ``platform_tag`` is None for any, and editable wheels hold no modules."""
    python_tag, abi_tag = python_tags(python.interpreter_tag, python.abi_tag, limited_api=record.limited_api)
    labels = Expectation(
        name=name,
        version=version,
        cuda=record.cuda,
        architectures=record.architectures,
        python_tag=python_tag,
        abi_tag=abi_tag,
        platform_tag=platform_tag,
        prepared_metadata=prepared_metadata,
        editable=editable,
    )
    return ExpectedExtensionWheel(labels, record.requires, record.modules)


def combined(records: Sequence[WheelRecord]) -> WheelRecord:
    """One record of several, whose modules are in one wheel."""
    first = records[0]
    modules = tuple(module for record in records for module in record.modules)
    whole = replace(first, modules=modules, cuda=next((r.cuda for r in records if r.cuda), None))
    provenances = [record.provenance for record in records]
    own = provenances[0]
    toolkits = (p["toolchain"]["cuda"] for p in provenances)
    findings = [finding for p in provenances for finding in p["findings"]]
    extensions = {
        **own["extensions"],
        "requires": list(whole.requires),
        "modules": [module for p in provenances for module in p["extensions"]["modules"]],
    }
    merged = {
        **own,
        "findings": [f for number, f in enumerate(findings) if f not in findings[:number]],
        "skipped_checks": sorted({check for p in provenances for check in p["skipped_checks"]}),
        "toolchain": {**own["toolchain"], "cuda": next(filter(None, toolkits), None)},
        "extensions": extensions,
    }
    return replace(whole, provenance=merged)


def write_record(file: Path, record: WheelRecord) -> None:
    """Write a record as JSON.

    Raises:
        OSError: it cannot be written.
    """
    document = {
        **asdict(replace(record, modules=(), provenance={})),
        "modules": [
            {
                **asdict(replace(one, architectures=None)),
                "architectures": one.architectures and str(one.architectures),
            }
            for one in record.modules
        ],
        "provenance": record.provenance,
    }
    write_if_changed(file, json.dumps(document, indent=1, sort_keys=True) + "\n")


def read_record(file: Path) -> WheelRecord:
    """A record that :func:`write_record` wrote.

    Raises:
        OSError: it cannot be read.
    """
    document = json.loads(file.read_text(encoding="utf-8"))
    modules = tuple(
        ExpectedModule(
            **one | {"architectures": one["architectures"] and parse_architectures(one["architectures"])}
        )
        for one in document["modules"]
    )
    return WheelRecord(**{**document, "modules": modules, "skip_check": tuple(document["skip_check"])})


def _provenance(plan: ExtensionPlan, commit: str | None) -> dict[str, Any]:
    """The manifest's plan part, as ``manifest.schema.json`` describes it.

    It travels with the wheel, so no folder of this machine is in it, except where a setting or a finding holds one.
    """
    return {
        **decisions(plan.settings, plan.findings),
        "toolchain": dict(plan.toolchain),
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
        "sources": [
            {"path": source, "gencode": [word for word in step.command if word.startswith("-gencode=")]}
            for step in planned.steps
            for source in step.sources
        ],
    }
