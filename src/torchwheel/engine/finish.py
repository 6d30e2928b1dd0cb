"""From the wheel that the tree's own backend made to the one that is handed over."""

from __future__ import annotations

from pathlib import Path

from torchwheel.errors import TorchwheelError
from torchwheel.plan.model import Plan
from torchwheel.wheel.manifest import MANIFEST_NAME, manifest_bytes
from torchwheel.wheel.rewrite import add_members
from torchwheel.wheel.verify import Expectation, verify_wheel


def finish_wheel(
    plan: Plan, built: Path, wheel_directory: Path, metadata_directory: Path | None, *, editable: bool
) -> str:
    """Prove the wheel against the plan, add the build manifest, and place it under its final name.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the wheel is not what was planned; it stays where it was built, for inspection.
        OSError: the wheel cannot be written.
    """
    prepared = metadata_directory / "METADATA" if metadata_directory is not None else None
    expectation = Expectation(
        name=plan.distribution,
        version=str(plan.version),
        cuda=plan.toolkit.version if plan.toolkit else None,
        architectures=plan.architectures,
        python_tag=plan.host.python.interpreter_tag,
        prepared_metadata=prepared.read_bytes() if prepared is not None and prepared.is_file() else None,
        editable=editable,
    )
    problems = [p for p in verify_wheel(built, expectation) if p.id not in plan.settings.skip_check]
    if problems:
        raise TorchwheelError(problems)
    from torchwheel.engine.provenance import manifest_for

    wheel_directory.mkdir(parents=True, exist_ok=True)
    add_members(built, wheel_directory / built.name, {MANIFEST_NAME: manifest_bytes(manifest_for(plan, built))})
    built.unlink()
    return built.name
