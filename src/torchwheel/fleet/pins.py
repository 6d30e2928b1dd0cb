"""Files that pin the wheels of an index: constraints for pip and uv, and a lock file with hashes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import tomlkit

from torchwheel.index.catalogue import SiteWheel

_LOCK_VERSION = "1.0"
"""The version of pylock.toml: https://packaging.python.org/specifications/pylock-toml/."""


def constraints_text(wheels: Iterable[SiteWheel]) -> str:
    """Return constraints that pin the newest version of each project; with its label, which no other index has."""
    return "".join(f"{name}=={own[0].version}\n" for name, own in _newest_versions(wheels).items())


def lock_text(wheels: Iterable[SiteWheel]) -> str:
    """Return a lock file of the newest version of each project.

    It pins only these wheels, not their dependencies. packaging.pylock would validate it, and is in no release that
    torchwheel's oldest packaging has.
    """
    document = tomlkit.document()
    document["lock-version"] = _LOCK_VERSION
    document["created-by"] = "torchwheel"
    packages = tomlkit.aot()
    for name, own in _newest_versions(wheels).items():
        package = tomlkit.table()
        package["name"] = str(name)
        package["version"] = str(own[0].version)
        if own[0].requires_python:
            package["requires-python"] = own[0].requires_python
        package["wheels"] = [_wheel_entry(wheel) for wheel in own]
        packages.append(package)
    document["packages"] = packages
    return tomlkit.dumps(document)


def _wheel_entry(wheel: SiteWheel) -> dict[str, object]:
    file = wheel.file
    return {
        "name": file.name,
        # Relative to the lock file in the folder of the label.
        "path": str(PurePosixPath(file.path).relative_to(wheel.label)),
        "size": file.size,
        "hashes": {"sha256": file.sha256},
    }


def _newest_versions(wheels: Iterable[SiteWheel]) -> dict[str, list[SiteWheel]]:
    """The wheels of the newest version of each project, by name."""
    found: dict[str, list[SiteWheel]] = {}
    for wheel in sorted(wheels, key=lambda one: (one.name, one.version, one.file.path)):
        own = found.setdefault(wheel.name, [])
        if own and own[0].version != wheel.version:
            own.clear()
        own.append(wheel)
    return found
