"""The wheel store: finished wheels in torchwheel's cache folder, each under a key made of digests of all its inputs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from torchwheel._version import __version__
from torchwheel.engine.cache import WHEELS, record_use
from torchwheel.engine.configuring import STATE as CONFIGURED
from torchwheel.engine.packing import has_packed, packs_the_tree, staged_sources
from torchwheel.engine.record import recorded_contents
from torchwheel.engine.relevant_environment import searched_digest
from torchwheel.engine.tree_wheel import describe_provenance
from torchwheel.host.this import import_folders
from torchwheel.plan.build_plan import Plan, hash_facts
from torchwheel.plan.output import is_only_how
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.reproducible import source_date
from torchwheel.system.files import (
    atomic_write,
    file_sha256,
    read_beginning,
    remove_tree,
    replace_path,
)
from torchwheel.system.paths import is_file
from torchwheel.versions import installed_versions

_log = logging.getLogger(__name__)

_DIGEST = "sha256.txt"
"""Written last, so an entry without it is incomplete."""
_BUILT_IN = "built-in.txt"


def lookup(cache: Path, key: str | None, name: str) -> Path | None:
    """The wheel that is stored under a key; None if there is none, or if it is damaged."""
    if key is None:
        _log.info("wheel store: no lookup, because the last build here did not end well, or there was none")
        return None
    entry = cache / WHEELS / key
    try:
        expected = (entry / _DIGEST).read_text(encoding="ascii")
        if file_sha256(entry / name).hex() == expected:
            _log.info("wheel store: cache hit, %s", entry)
            return entry / name
        _log.info("wheel store: %s is damaged", entry)
    except (OSError, ValueError):
        _log.info("wheel store: cache miss, %s", entry)
    return None


def put(cache: Path, key: str, wheel: Path, build: Path, tree: Path) -> Path:
    """Move a finished wheel into the store; it replaces the one with its name from the same build folder."""
    entry = cache / WHEELS / key
    entry.mkdir(parents=True, exist_ok=True)
    content = file_sha256(wheel).hex()
    # Without it the entry is ignored.
    (entry / _DIGEST).unlink(missing_ok=True)
    replace_path(wheel, entry / wheel.name)
    atomic_write(entry / _BUILT_IN, str(build))
    record_use(entry, tree)
    atomic_write(entry / _DIGEST, content)
    for other in find_by_name(cache, wheel.name):
        with suppress(OSError):
            built_in = read_beginning(other.with_name(_BUILT_IN), undecodable="surrogateescape")
            if other.parent != entry and built_in == str(build):
                remove_tree(other.parent)
    return entry / wheel.name


def find_by_name(cache: Path, name: str) -> Iterator[Path]:
    """The stored wheels with a file name, in no order; they may have other sources or options."""
    for complete in (cache / WHEELS).glob(f"*/{_DIGEST}"):
        if is_file(wheel := complete.with_name(name)):
            yield wheel


def wheel_key(
    plan: Plan, uncommitted: Sequence[str], environment: Mapping[str, str], variables: str
) -> str | None:
    """Return the key of a plan's wheel, before or right after a build in its locked folders.

    Its parts' records are up to date before a build and after a successful one; else it is None, as before the first.
    ``variables`` is the digest of those that the build may depend on.
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
        "files that CMake reads, and ninja's commands": contents,
    }
    return hash_facts(parts)


def _installed_packages(environment: Path | None) -> list[str]:
    """The packages that the tree's own backend can import: from its environment, else from this process's."""
    path = [str(folder) for folder in import_folders(environment)]
    return sorted(f"{name} {version}" for name, version in installed_versions(path).items())
