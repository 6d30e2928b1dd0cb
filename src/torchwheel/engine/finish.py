"""From the wheel that the tree's own backend made to the one that is handed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torchwheel.engine.provenance import provenance
from torchwheel.errors import TorchwheelError
from torchwheel.findings import error
from torchwheel.plan.model import Plan
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.manifest import MANIFEST_NAME, Manifest, manifest_bytes
from torchwheel.wheel.rewrite import add_members
from torchwheel.wheel.timestamps import source_date
from torchwheel.wheel.verify import Expectation, verify_contents


def finish_wheel(
    plan: Plan,
    built: Path,
    wheel_directory: Path,
    metadata_directory: Path | None,
    environment: Mapping[str, str],
    *,
    editable: bool,
) -> str:
    """Prove the wheel against the plan, add the build manifest, and place it under its final name.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the wheel is not what was planned, or cannot be written; it stays where it was built,
            for inspection.
    """
    contents = inspect_wheel(built)
    problems = verify_contents(contents, _expectation(plan, metadata_directory, editable))
    stopping = [problem for problem in problems if problem.id not in plan.settings.skip_check]
    if stopping:
        raise TorchwheelError(stopping)
    passed = replace(plan, findings=(*plan.findings, *map(error, problems)))
    manifest = Manifest(provenance(passed), contents, source_date(environment))
    members = {MANIFEST_NAME: manifest_bytes(manifest)}
    add_members(built, wheel_directory / built.name, members, environment=environment)
    built.unlink()
    return built.name


def _expectation(plan: Plan, metadata_directory: Path | None, editable: bool) -> Expectation:
    prepared = metadata_directory / "METADATA" if metadata_directory is not None else None
    return Expectation(
        name=plan.distribution,
        version=str(plan.version),
        cuda=plan.toolkit.version if plan.toolkit else None,
        architectures=plan.architectures,
        python_tag=plan.host.python.interpreter_tag,
        abi_tag=plan.host.python.abi_tag,
        platform_tag=plan.host.platform_tag,
        prepared_metadata=prepared.read_bytes() if prepared is not None and prepared.is_file() else None,
        editable=editable,
    )
