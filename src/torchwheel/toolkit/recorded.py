"""The files of NVIDIA's installed packages, compared with their RECORD and with their first use.

Source of RECORD: https://packaging.python.org/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchwheel.reporting.errors import Problem, TorchwheelError, stop_on
from torchwheel.system.files import atomic_write, file_sha256
from torchwheel.system.locks import file_lock

_FIRST_USE = "packages.sha256"
_NOT_PART = frozenset({".metadata", "__pycache__", ".."})


@dataclass(frozen=True)
class RecordedPackage:
    """A distribution with files in a toolkit's folder."""

    name: str
    version: str
    record: str
    folder: str

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Path in the folder of Python packages -> ``sha256=`` and the hash; empty without one."""
        rows = (row for row in csv.reader(self.record.splitlines()) if len(row) == 3)
        return {
            path: digest
            for path, digest, _ in rows
            if path.startswith(f"{self.folder}/") and not _NOT_PART.intersection(path.split("/"))
        }

    @property
    def digest(self) -> str:
        """SHA-256 of these files' RECORD entries: depends on the wheel, not on the installer."""
        lines = sorted(f"{path},{digest}\n" for path, digest in self.files.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_file(package: RecordedPackage, file: Path, recorded: str) -> None:
    try:
        digest = file_sha256(file)
    except FileNotFoundError:
        raise TorchwheelError(_changed_file(package, file, "it is missing")) from None
    found = "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
    if found != recorded:
        why = f"its hash is {found}, and RECORD says {recorded or 'none'}"
        raise TorchwheelError(_changed_file(package, file, why))


def check_first_use(packages: Iterable[RecordedPackage], toolkits: Path, platform: str) -> None:
    """Compare packages with the first ones of the same versions that were used here.

    Args:
        platform: the packages' platform, because machines of several platforms may share the folder.
    """
    known = _read_first_uses(toolkits)
    problems = [
        _changed_package(package, known[line], toolkits / _FIRST_USE)
        for package in packages
        if known.get(line := _first_use_line(package, platform), package.digest) != package.digest
    ]
    stop_on(problems)


def record_first_use(packages: Iterable[RecordedPackage], toolkits: Path, platform: str) -> None:
    """Add the packages that are used for the first time to the list."""
    used = {_first_use_line(package, platform): package.digest for package in packages}
    if used.keys() <= _read_first_uses(toolkits).keys():
        return
    with file_lock(toolkits / f"{_FIRST_USE}.lock"):
        # Read again under the lock, because of two processes the first one counts.
        every = {**used, **_read_first_uses(toolkits)}
        text = "".join(f"{digest}  {line}\n" for line, digest in sorted(every.items()))
        atomic_write(toolkits / _FIRST_USE, text)


def _read_first_uses(toolkits: Path) -> dict[str, str]:
    try:
        text = (toolkits / _FIRST_USE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return {line: digest for digest, _, line in (row.partition("  ") for row in text.splitlines())}


def _first_use_line(package: RecordedPackage, platform: str) -> str:
    return f"{package.name}=={package.version} {platform}"


def _changed_file(package: RecordedPackage, file: Path, why: str) -> Problem:
    return Problem.of(
        "toolkit-file-changed", file=file, package=package.name, version=package.version, why=why
    )


def _changed_package(package: RecordedPackage, first: str, file: Path) -> Problem:
    return Problem.of(
        "toolkit-package-changed",
        package=package.name,
        version=package.version,
        first=first,
        digest=package.digest,
        file=file,
    )
