"""Check a wheel or an installed package: first what it says, then whether it works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchwheel.proof.libraries import check_libraries
from torchwheel.proof.outcome import Check, Subject
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.verification.claims import check_manifest, check_names, check_record
from torchwheel.verification.trial import try_installed, try_wheel
from torchwheel.wheel.contents import inspect_archive
from torchwheel.wheel.manifest import find_manifest
from torchwheel.wheel.record import open_package


def read_subject(path: Path) -> Subject:
    """Return what is to be checked."""
    with open_package(path) as archive:
        contents, manifest = inspect_archive(archive), find_manifest(archive)
        return Subject(contents, manifest, frozenset(archive.members), archive.site)


def run_checks(
    subject: Subject, environment: Mapping[str, str], *, install: bool, more: Sequence[str] = ()
) -> Iterator[Check]:
    """Yield every check as soon as it is done.

    Args:
        install: whether the wheel is tried as well; an installed package is imported then.
    """
    yield check_record(subject)
    yield check_names(subject)
    yield check_manifest(subject)
    tried = False
    if install:
        trial = (
            try_wheel(subject, more, environment)
            if subject.site is None
            else try_installed(subject, environment)
        )
        try:
            for check in trial:
                tried = tried or check.name == "libraries"
                yield check
        except TorchwheelError as error:
            yield Check("install", "", error.problems)
    if not tried:
        yield check_libraries(subject)
