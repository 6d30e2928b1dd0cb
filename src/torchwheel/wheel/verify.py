"""A wheel against its plan: file name, metadata, versions and machine code must all say the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.errors import Problem
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.device_code import check_device_code

_REBUILD = "delete the build directory that `torchwheel plan` names, and build again"


@dataclass(frozen=True)
class Expectation:
    """What a wheel was planned to be.

    Attributes:
        name: name of the distribution, in any spelling.
        version: version with its local label, e.g. ``2.14.1+cu130.sm120``.
        cuda: version of the CUDA toolkit as in ``13.0``; None for a build without CUDA.
        architectures: what device code was asked for; None for none at all.
        python_tag: interpreter tag, e.g. ``cp311``; None for any.
        abi_tag: ABI tag, e.g. ``cp311``; None for any.
        platform_tag: platform tag, e.g. ``win_amd64``; None for any.
        prepared_metadata: METADATA that a prepare hook has returned, which the wheel must repeat byte for
            byte.
        editable: whether it is an editable wheel: that holds no code and no ``torch/version.py``, and may
            have any tag.
    """

    name: str
    version: str
    cuda: str | None
    architectures: ArchitectureList | None
    python_tag: str | None = None
    abi_tag: str | None = None
    platform_tag: str | None = None
    prepared_metadata: bytes | None = None
    editable: bool = False


def verify_wheel(path: Path, expected: Expectation) -> tuple[Problem, ...]:
    """Everything in which a wheel differs from what was planned; empty if it is as planned.

    Raises:
        TorchwheelError: the file is no wheel, or damaged.
    """
    return verify_contents(inspect_wheel(path), expected)


def verify_contents(contents: WheelContents, expected: Expectation) -> tuple[Problem, ...]:
    """The same as :func:`verify_wheel`, of a wheel that has been looked into."""
    problems = list(check_labels(contents, expected))
    if not expected.editable:
        problems += _torch_version(contents, expected)
        problems += check_device_code(contents, expected.architectures)
    return tuple(problems)


def check_labels(contents: WheelContents, expected: Expectation) -> tuple[Problem, ...]:
    """Where the wheel's file name, METADATA and WHEEL differ from what was planned, or from each other."""
    problems = [*_identity(contents, expected), *_wheel_tags(contents), *_prepared(contents, expected)]
    if not expected.editable:
        problems += _planned_tags(contents, expected)
    return tuple(problems)


def _identity(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    metadata, name = contents.metadata, canonicalize_name(expected.name)
    if contents.name != name:
        yield _differs(contents, "wheel-name", "its file name", contents.name, name)
    if metadata.name is None or canonicalize_name(metadata.name) != name:
        yield _differs(contents, "wheel-name", "METADATA's Name", metadata.name, name)
    if contents.version != expected.version:
        yield _differs(contents, "wheel-version", "its file name", contents.version, expected.version)
    if metadata.version != expected.version:
        yield _differs(contents, "wheel-version", "METADATA's Version", metadata.version, expected.version)


def _wheel_tags(contents: WheelContents) -> Iterator[Problem]:
    if contents.wheel_tags != contents.tags:
        yield _differs(
            contents, "wheel-tag", "its WHEEL file", " ".join(contents.wheel_tags), " ".join(contents.tags)
        )


def _planned_tags(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    parts = [tag.split("-", 2) for tag in contents.tags]
    planned = (expected.python_tag, expected.abi_tag, expected.platform_tag)
    for index, (what, tag) in enumerate(zip(("Python", "ABI", "platform"), planned, strict=True)):
        found = sorted({part[index] for part in parts})
        if tag is not None and tag not in found:
            yield _differs(contents, "wheel-tag", f"its file name's {what} tag", ".".join(found), tag)


def _prepared(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    if expected.prepared_metadata in (None, contents.metadata.raw):
        return
    yield Problem(
        id="metadata-changed",
        what="METADATA is not the one that was returned before the build",
        remedy="give every build hook the same -C settings and environment, and change nothing in the tree "
        "while it builds",
        why="PEP 517: prepare_metadata_for_build_wheel returns the wheel's own metadata; frontends resolve "
        "dependencies with it",
        origin=str(contents.path),
    )


def _torch_version(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    said = contents.torch_version
    if said is None:
        if contents.has_torch:
            yield _differs(contents, "wheel-version", "torch/version.py", None, expected.version)
        return
    if said.version != expected.version:
        yield _differs(
            contents, "wheel-version", "torch/version.py's __version__", said.version, expected.version
        )
    if said.cuda != expected.cuda:
        yield _differs(
            contents, "wheel-cuda", "torch/version.py's cuda", said.cuda or "None", expected.cuda or "None"
        )


def _differs(contents: WheelContents, id_: str, where: str, found: str | None, planned: str) -> Problem:
    return Problem(
        id=id_,
        what=f"{where} says {found}, planned is {planned}" if found is not None else f"{where} is missing",
        remedy=_REBUILD,
        why="a file of an earlier build was taken over, or the build reads this from elsewhere",
        origin=str(contents.path),
    )
