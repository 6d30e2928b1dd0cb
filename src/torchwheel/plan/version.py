"""The version of the wheel: a base from the tree or the user, and the local label.

PyTorch takes its version from ``PYTORCH_BUILD_VERSION`` together with ``PYTORCH_BUILD_NUMBER``
(tools/generate_torch_version.py). A number above 1 would be appended as ``.postN``, which after a
local label becomes part of that label, so it is always 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from torchwheel.errors import Problem
from torchwheel.findings import Finding, error, warning
from torchwheel.settings import Settings
from torchwheel.tree.model import Tree

_COMMIT_LETTERS = 7


@dataclass(frozen=True)
class WheelVersion:
    """The version a wheel will carry.

    Attributes:
        base: the public version, e.g. ``2.14.1``.
        local: the local version label, e.g. ``cu130.sm120``; empty for none.
        base_origin: where the base came from, in words.
    """

    base: str
    local: str
    base_origin: str

    def __str__(self) -> str:
        return f"{self.base}+{self.local}" if self.local else self.base


def wheel_version(
    tree: Tree, requested: str | None, local_requested: str | None, label: str
) -> tuple[WheelVersion, tuple[Finding, ...]]:
    """Decide the version.

    The base is the requested version, else the release tag that the tree's commit carries, else
    ``version.txt`` with the commit in the local part. ``local_requested`` replaces ``label``.
    """
    local = label if local_requested is None else local_requested
    if requested is not None:
        return _checked(WheelVersion(requested, local, "as requested"), None)
    if tree.release_tag:
        return _checked(
            WheelVersion(tree.release_tag.removeprefix("v"), local, "the tree's release tag"), None
        )
    if tree.commit:
        commit = f"git{tree.commit[:_COMMIT_LETTERS]}"
        local = f"{commit}.{local}" if local else commit
    version, findings = _checked(WheelVersion(tree.version_text, local, "version.txt"), tree)
    return version, (*([warning(_commit_unknown(tree))] if tree.commit_unknown else ()), *findings)


def sdist_problems(settings: Settings, version: WheelVersion) -> Iterator[Problem]:
    """That the wheel's version is not that of the sdist that it is built from, and that has a local label."""
    sdist = settings.project.sdist if settings.project else None
    if sdist is None or "+" not in sdist.version or sdist.version == str(version):
        return
    base, _, local = sdist.version.partition("+")
    yield Problem(
        id="version-is-not-the-sdists",
        what=f"the sdist is {sdist.version}, but the wheel would be {version}",
        why="front ends refuse a wheel whose version is not that of its sdist",
        remedy=f"leave out what differs, or keep the name: -C version={base} -C local-version={local}",
    )


_LONGEST_NAME = 230
"""Bytes of a wheel's name: file systems take 255, and until it is complete it has some more (NAME_MAX of limits.h)."""


def name_problems(wheel_name: str) -> Iterator[Problem]:
    """That no file can have the wheel's name, which would be found out after the build."""
    if len(wheel_name.encode()) > _LONGEST_NAME:
        yield Problem(
            id="wheel-name-too-long",
            what=f"the wheel's name would be {len(wheel_name)} characters long: {wheel_name[:60]}…",
            why=f"file systems take names of 255 bytes, and torchwheel writes to a longer one first, so "
            f"{_LONGEST_NAME} are left",
            remedy="choose a shorter label with -C local-version=",
        )


def _commit_unknown(tree: Tree) -> Problem:
    return Problem(
        id="commit-unknown",
        what=f"git cannot say which commit and which release {tree.root} is: {tree.commit_unknown}",
        why="the wheel is then named by version.txt alone, which says a release's number and no commit",
        remedy="make 'git status' work there, or name the version with -C version=",
    )


def _checked(version: WheelVersion, from_tree: Tree | None) -> tuple[WheelVersion, tuple[Finding, ...]]:
    try:
        parsed = Version(str(version))
    except InvalidVersion:
        problem = Problem(
            id="invalid-version",
            what=f"'{version}' is not a version that pip accepts (PEP 440)",
            remedy="name one with -C version=, for example -C version=2.14.1",
        )
        return version, (error(problem),)
    normalised = WheelVersion(parsed.public, parsed.local or "", version.base_origin)
    if from_tree is None or not parsed.is_prerelease:
        return normalised, ()
    release = parsed.base_version
    problem = Problem(
        id="prerelease-version",
        what=f"the wheel will be called {normalised}, which satisfies neither torch=={release} nor torch>={release}",
        why=f"version.txt says {from_tree.version_text}; packages that ask for torch>={release} make pip replace "
        "this wheel",
        remedy=f"-C version={release}, if this source is that release",
    )
    return normalised, (warning(problem),)
