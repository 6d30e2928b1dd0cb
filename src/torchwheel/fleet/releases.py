"""Which wheels of a site installers are offered: a release is offered as a whole, or not yet.

A release is one version of a project; the commit in the label tells apart nightlies of one version. A release that
lacks a wheel that the one before it had would move a machine to another kind of wheel, such as a GPU to the CPU. So it
is held back until the wheel is there, or somebody decides otherwise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import NormalizedName
from packaging.version import Version

from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.hardware.runs_on import judge_code
from torchwheel.index.catalogue import SiteWheel
from torchwheel.reporting.terminal import join_items
from torchwheel.wheel.objfile import without_libc

_CPYTHON = re.compile(r"cp(?P<major>\d)(?P<minor>\d{1,3})(?P<free_threaded>t?)")

COMPLETE, YANKED = "complete", "yanked"
"""Decisions about a release; another one says what it lacks of its plan."""
LACKS = "the release lacks "

Release = tuple[NormalizedName, Version, str]
"""Name, version without label, and the commit of a nightly."""


@dataclass(frozen=True)
class PlannedWheel:
    """A wheel that a fleet is to have, as a job of `torchwheel matrix` plans it."""

    gpus: tuple[NamedGpu, ...]
    python: str
    platform: str

    def is_in(self, wheels: Iterable[SiteWheel]) -> bool:
        python = f"cp{self.python.replace('.', '')}"
        tag = Tag(python.rstrip("t"), python, self.platform)
        return any(_is_for(tag, wheel) and self._runs(wheel) for wheel in wheels)

    def _runs(self, wheel: SiteWheel) -> bool:
        code = wheel.architectures.targets if wheel.architectures else ()
        return bool(code) is bool(self.gpus) and all(
            judge_code(code, gpu.compute_capability).how.runs for gpu in self.gpus
        )

    def __str__(self) -> str:
        gpus = join_items([gpu.name for gpu in self.gpus]) or "the CPU"
        return f"{gpus}, Python {self.python} on {self.platform}"


def release_of(wheel: SiteWheel) -> Release:
    return wheel.name, Version(wheel.version.public), wheel.commit


def decide_releases(
    wheels: Iterable[SiteWheel],
    decisions: Mapping[Release, str],
    planned: Mapping[Release, Sequence[PlannedWheel]],
) -> tuple[SiteWheel, ...]:
    """Return the wheels of a site, each with why installers are not offered it.

    Args:
        decisions: what somebody decides now, ``COMPLETE`` or ``YANKED``; earlier decisions are in the wheels.
        planned: what a release must have instead of what the one before it had.
    """
    releases: dict[Release, list[SiteWheel]] = defaultdict(list)
    for wheel in wheels:
        releases[release_of(wheel)].append(wheel)
    projects: dict[str, list[list[SiteWheel]]] = defaultdict(list)
    for release, own in releases.items():
        decision = decisions.get(release) or next((one.decision for one in own if one.decision), "")
        if jobs := planned.get(release):
            decision = _describe_lack([str(job) for job in jobs if not job.is_in(own)]) or COMPLETE
        projects[release[0]].append([replace(one, decision=decision) for one in own])
    return tuple(wheel for project in projects.values() for wheel in _decide_project(project))


def _decide_project(releases: list[list[SiteWheel]]) -> Iterator[SiteWheel]:
    """Yield the wheels of a project, whose releases are decided in the order of their versions and builds."""
    releases.sort(key=lambda own: (release_of(own[0])[1], max(wheel.built for wheel in own)))
    decided: list[SiteWheel] = []
    before: list[SiteWheel] = []
    for own in releases:
        held = _why_held(own, before)
        if not held:
            # Of nightlies with one version, installers would take the commit that sorts last.
            decided = [_supersede(older, own[0]) for older in decided]
            before = own
        decided += (replace(wheel, held=held) for wheel in own)
    offered = [wheel for wheel in decided if not wheel.held]
    for wheel in decided:
        # Code that no other wheel has takes no machine away from another wheel.
        alone = wheel.held.startswith(LACKS) and _has_code_of_its_own(wheel, offered)
        yield replace(wheel, held="") if alone else wheel


def _why_held(own: Sequence[SiteWheel], before: Sequence[SiteWheel]) -> str:
    decision = own[0].decision
    if decision:
        return {COMPLETE: "", YANKED: "withdrawn"}.get(decision, decision)
    return _describe_lack(
        [
            f"{wheel.label or wheel.name} for {tag}"
            for wheel in before
            for tag in sorted(wheel.tags, key=str)
            if not any(one.label == wheel.label and _is_for(tag, one) for one in own)
        ]
    )


def _describe_lack(missing: Sequence[str]) -> str:
    return f"{LACKS}{join_items(tuple(dict.fromkeys(missing)))}" if missing else ""


def _has_code_of_its_own(wheel: SiteWheel, offered: Iterable[SiteWheel]) -> bool:
    others = [one for one in offered if all(_is_for(tag, one) for tag in wheel.tags)]
    return not {label for one in others for label in one.code}.issuperset(wheel.code)


def _supersede(older: SiteWheel, newer: SiteWheel) -> SiteWheel:
    superseded = not older.held and release_of(older)[:2] == release_of(newer)[:2]
    return replace(older, held=f"superseded by {newer.version}") if superseded else older


def _is_for(tag: Tag, wheel: SiteWheel) -> bool:
    """Whether a machine that takes a tag takes a wheel; every manylinux counts as Linux."""
    platform = without_libc(tag.platform)
    taken = {Tag(tag.interpreter, tag.abi, platform)}
    if python := _CPYTHON.fullmatch(tag.abi):
        version = int(python["major"]), int(python["minor"])
        taken.update(cpython_tags(version, [tag.abi], [platform]))
        taken.update(compatible_tags(version, tag.interpreter, [platform]))
    return any(Tag(one.interpreter, one.abi, without_libc(one.platform)) in taken for one in wheel.tags)
