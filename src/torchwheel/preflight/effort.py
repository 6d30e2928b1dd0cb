"""Estimate a build's time and disk space, with the basis of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.tree_facts import source_sizes
from torchwheel.progress.build_record import BuildRecord, read_build_record
from torchwheel.progress.estimate import kind_of
from torchwheel.reporting.terminal import count_noun, file_size, format_duration, format_estimate, format_gib
from torchwheel.system.toml import shipped_toml

_TIMES = Path(__file__).with_name("time_estimate.toml")
# A measurement of this very build is better.
_OWN = (0.8, 1.5)


@dataclass(frozen=True)
class Effort:
    """Seconds that a build takes, at least and at most, where they are from, and bytes on the disk."""

    least: float
    most: float
    basis: str
    disk: int

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        again = shipped_toml(_TIMES)["again"]["seconds"]
        measured = f"about {format_duration(again)} if nothing changed (measured on PyTorch 2.6.0)"
        return (
            ("time", f"{self.span}: {self.basis}"),
            *([("rebuild", measured)] if self.least > 2 * again else []),
            ("disk", f"up to {format_gib(self.disk)} per target; rebuilding needs no more"),
        )

    @property
    def span(self) -> str:
        """``1 h 30 min to 7 h``."""
        least, most = (format_estimate(one) for one in (self.least, self.most))
        return least if least == most else f"{least} to {most}"

    def document(self) -> dict[str, Any]:
        return {
            "seconds": {"least": round(self.least), "most": round(self.most)},
            "basis": self.basis,
            "disk_bytes": self.disk,
        }


def read_effort(plan: Plan, *, here: bool) -> Effort | None:
    """Estimate a planned build from its tree and, if it is for this machine, from the last build in its folder."""
    last = read_build_record(plan.folders.record) if here else None
    return estimate_effort(plan, source_sizes(plan.tree.root), last)


def estimate_effort(plan: Plan, sources: tuple[int, int], last: BuildRecord | None = None) -> Effort | None:
    """Estimate a planned build from the bytes of its C++ and CUDA sources; None if they are unknown."""
    cxx_bytes, cuda_bytes = sources
    if not cxx_bytes:
        return None
    debug = plan.settings.debug_information
    disk = disk_estimate(cxx_bytes, cuda_bytes, plan.architecture_count, debug=debug)
    measured = _from_record(plan, last) if last else None
    return Effort(*(measured or _from_sizes(plan, cxx_bytes, cuda_bytes)), disk)


def _from_sizes(plan: Plan, cxx_bytes: int, cuda_bytes: int) -> tuple[float, float, str]:
    times, jobs, count = shipped_toml(_TIMES), plan.jobs, plan.architecture_count
    cxx = cxx_bytes / 1e6 * (kind_of("any.cpp.o").rate or 0.0)
    cuda = cuda_bytes / 1e6 * (kind_of("any.cu.o").rate or 0.0) if count else 0.0
    minimal = "minimal" in plan.settings.profile
    more = times["minimal" if minimal else "components"]["most"]
    fixed, added = times["fixed"]["seconds"], times["architecture"]
    of_cxx, of_cuda = min(jobs.max_jobs, jobs.cxx), min(jobs.max_jobs, jobs.cuda or jobs.max_jobs)
    least, most = (
        fixed + factor * (cxx / of_cxx + cuda * (1 + share * (count - 1)) / of_cuda)
        for factor, share in ((1.0, added["least"]), (more, added["most"]))
    )
    sources = f"{file_size(cxx_bytes)} of C and C++"
    if count:
        sources += f" and {file_size(cuda_bytes)} of CUDA for {count_noun(count, 'architecture')}"
    basis = f"{count_noun(jobs.running, 'job')}, {sources}; a guess from PyTorch 2.6.0, "
    basis += "measured without CUDA in the profile minimal"
    return least, most, basis + ("" if minimal else ", and this build has more components")


def _from_record(plan: Plan, own: BuildRecord) -> tuple[float, float, str] | None:
    """Estimate the time from the last build in this folder; None if it tells nothing."""
    jobs, again = plan.jobs.running, shipped_toml(_TIMES)["again"]["seconds"]
    took, whole = sum(step.seconds for step in own.steps), own.updated - own.started
    made = f"{count_noun(len(own.steps), 'step')} of this build took {format_duration(took, coarse=True)} together"
    steps = own.total - own.finished
    if own.state == "done":
        least, most = min(again, whole), max(whole, took / jobs * _OWN[1])
        return least, most, f"it was finished here, {made}, and what has not changed is kept"
    if own.left is None or steps <= 0:
        return None
    # The build's own last estimate is best, because it knows the remaining files.
    each = own.left * own.build.jobs / jobs
    return each * _OWN[0], each * _OWN[1], f"{made}; {steps:,} {'is' if steps == 1 else 'are'} left"


def disk_estimate(
    cxx_bytes: int, cuda_bytes: int, architectures: int, *, debug: bool, built_share: float = 0.0
) -> int:
    """Estimate the bytes that a build still takes on disk; new objects replace the ``built_share`` of 0 to 1."""
    data = shipped_toml(Path(__file__).with_name("disk_estimate.toml"))
    objects = cxx_bytes * data["cxx"]["factor"] + cuda_bytes * data["cuda"]["factor"] * architectures
    objects *= (data["debug"]["factor"] if debug else 1) * (1 - built_share)
    return int(objects) + (int(data["reserve"]["mib"]) << 20)
