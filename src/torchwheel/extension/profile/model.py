"""What is measured when the sources of extensions are compiled, as frozen values. All times are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from torchwheel.extension.model import Language


class PhaseKind(Enum):
    """What a compiler does in a phase; the value is its name in tables and documents. Templates belong to parsing."""

    PREPROCESS = "preprocessing"
    FRONT_END = "parsing"
    DEVICE = "device code"
    HOST = "host compiler"
    GENERATE = "optimizing"
    ASSEMBLE = "assembling"


@dataclass(frozen=True)
class Phase:
    """One phase of a compile, as the compiler names and times it, for ``compute_90``, ``sm_90`` or none."""

    kind: PhaseKind
    name: str
    seconds: float
    architecture: str = ""


@dataclass(frozen=True)
class Compile:
    """One command that compiles.

    Attributes:
        extension: what the object belongs to; empty if unknown.
        sources: the project's files in it, as the project names them: several in a unity file.
        path: the file as the command spells it.
        command: program and arguments, without a compiler cache in front.
        folder: where it runs, relative to the build folder.
    """

    extension: str
    sources: tuple[str, ...]
    language: Language
    path: str
    command: tuple[str, ...]
    folder: str = "."

    @property
    def name(self) -> str:
        return " ".join(self.sources)


@dataclass(frozen=True)
class Compiles:
    """All compiles of a project, and where they run.

    Attributes:
        folder: the build folder; None for a fresh one with ``links`` and ``generated`` in it.
        links: name in that folder -> where it leads.
        generated: files there: path -> content.
        jobs: how many compilers a build runs at once.
    """

    project: Path
    folder: Path | None
    compiles: tuple[Compile, ...]
    links: Mapping[str, Path] = field(default_factory=dict)
    generated: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1


@dataclass(frozen=True)
class Usage:
    """What a process took, together with those that it started.

    Attributes:
        seconds: from its start to its end.
        processor_seconds: of all cores; None on Windows.
        peak_bytes: memory of the largest of the processes; None on Windows.
    """

    seconds: float
    processor_seconds: float | None = None
    peak_bytes: int | None = None

    @property
    def cost(self) -> float:
        """Processor time where it is known: other work on the machine changes it little."""
        return self.seconds if self.processor_seconds is None else self.processor_seconds

    @property
    def shortest(self) -> float:
        """How soon it ends at best: what waits for other work costs less, what runs in parallel ends sooner."""
        return min(self.seconds, self.cost)


@dataclass(frozen=True)
class HeaderText:
    """The text that one header brings into a source, with everything that it includes in turn.

    Attributes:
        name: as an ``#include`` spells it: ``torch/extension.h``.
        lines: those that are not blank after preprocessing.
        size: their bytes.
    """

    name: str
    lines: int
    size: int


@dataclass(frozen=True)
class SourceText:
    """A source after preprocessing; ``lines`` are those that are not blank, ``size`` their bytes.

    Attributes:
        headers: headers of others that the project's own files include, in order. What several of them
            include belongs to the first; what the compiler includes by itself belongs to none.
    """

    headers: tuple[HeaderText, ...]
    lines: int
    size: int

    def share(self, header: HeaderText) -> float:
        """The part of the text that a header brings, from 0 to 1."""
        return header.size / self.size if self.size else 0.0


@dataclass(frozen=True)
class SourceProfile:
    """What one compile costs.

    Attributes:
        phases: of it, scaled so that their sum is its cost; empty where the compiler reports none.
        text: the source after preprocessing; None for cl, whose line markers do not nest.
        headers_seconds: what its headers cost without its own code; None if not measured.
        front_end_passes: how often a front end reads the headers.
    """

    compile: Compile
    usage: Usage
    phases: tuple[Phase, ...]
    text: SourceText | None
    headers_seconds: float | None
    front_end_passes: int

    def seconds_of(self, kind: PhaseKind) -> float:
        return sum(phase.seconds for phase in self.phases if phase.kind is kind)

    @property
    def dominating(self) -> PhaseKind | None:
        return max((phase.kind for phase in self.phases), key=self.seconds_of, default=None)


@dataclass(frozen=True)
class HeaderCost:
    """What one header costs when nothing else is included.

    Attributes:
        seconds: what one source pays for it; None where it does not compile alone.
    """

    name: str
    language: Language
    seconds: float | None
    sources: tuple[str, ...]

    @property
    def together(self) -> float | None:
        """What all its sources pay."""
        return None if self.seconds is None else self.seconds * len(self.sources)


@dataclass(frozen=True)
class AdviceRule:
    """One way to compile faster; ``advice.toml`` says what the fields mean."""

    id: str
    kind: str
    title: str
    text: str
    elsewhere: str
    source: str
    language: Language | None = None
    headers: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saving:
    """A change that was measured to pay.

    Attributes:
        reckoning: how ``seconds`` came about, with its figures.
    """

    rule: AdviceRule
    seconds: float
    sources: tuple[str, ...]
    reckoning: str


@dataclass(frozen=True)
class Profile:
    """What a project's compiles cost; sources and headers dearest first, savings largest first.

    Attributes:
        savings: they overlap, so they do not add up.
        seconds: what all compiles cost together.
        jobs: how many compilers a build runs at once.
        fitting_jobs: how many of the dearest would fit into memory and cores; None where either is unknown.
    """

    project: Path
    sources: tuple[SourceProfile, ...]
    headers: tuple[HeaderCost, ...]
    savings: tuple[Saving, ...]
    seconds: float
    jobs: int
    fitting_jobs: int | None

    @property
    def shortest_build(self) -> float:
        """No build with ``jobs`` is shorter: the work is shared at best, and one source is not divided."""
        longest = max((source.usage.shortest for source in self.sources), default=0.0)
        return max(longest, self.seconds / self.jobs)
