"""The wheel store's key: digests of all inputs of a tree's wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchwheel._version import __version__
from torchwheel.engine.configuring import STATE as CONFIGURED
from torchwheel.engine.packing import has_packed, packs_the_tree, staged_sources
from torchwheel.engine.record import recorded_contents
from torchwheel.engine.relevant_environment import searched_digest
from torchwheel.engine.store import WheelKey
from torchwheel.engine.tree_wheel import describe_provenance
from torchwheel.host.this import import_folders
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.fingerprint import hash_facts
from torchwheel.plan.output import is_only_how
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.reproducible import source_date
from torchwheel.system.files import file_sha256
from torchwheel.versions import installed_versions

_RECORDS = ("files that CMake reads", "ninja's commands")


def wheel_key(
    plan: Plan, uncommitted: Sequence[str], environment: Mapping[str, str], variables: str
) -> WheelKey | None:
    """Return the key of a plan's wheel, before or right after a build in its locked folders.

    It covers the staged sources, the plan with every setting, the environment, the packages of the build environment,
    the content of each file outside the stage that CMake read, the record of what the steps read, ninja's commands,
    and the folders that CMake searches. Those records are up to date before a build and after a successful one.

    Args:
        variables: the digest of those that the build may depend on.

    Returns:
        The key; None if nothing was built there yet, or the last build did not succeed.
    """
    folders = plan.folders
    if packs_the_tree(plan) and not has_packed(plan):
        return None
    records = (folders.root / CONFIGURED, folders.build / "build.ninja")
    if (read := recorded_contents(folders.build)) is None:
        return None
    try:
        contents = [file_sha256(record).hex() for record in records]
        manifest = describe_provenance(plan, uncommitted)
    except (OSError, TorchwheelError):
        return None
    # Such settings do not change the wheel; nor do findings, which describe this machine at one moment.
    layers = [layer for layer in manifest["layers"] if not is_only_how(layer["key"])]
    parts = {
        "torchwheel's release": __version__,
        "the wheel's name": plan.wheel_name,
        "the plan": {**manifest, "layers": layers},
        "SOURCE_DATE_EPOCH": str(source_date(environment)),
        "the environment": variables,
        "folders that CMake searches": searched_digest(plan, environment),
        "settings of the tree's backend": dict(plan.inner_config_settings),
        "packages of the build environment": _installed_packages(folders.environment),
        "what the steps read": read,
        "the sources": staged_sources(plan),
        **dict(zip(_RECORDS, contents, strict=True)),
    }
    return WheelKey({name: hash_facts(value) for name, value in parts.items()})


def _installed_packages(environment: Path | None) -> list[str]:
    """List the packages that the tree's own backend can import: from its environment, else from this process's."""
    path = [str(folder) for folder in import_folders(environment)]
    return sorted(f"{name} {version}" for name, version in installed_versions(path).items())
