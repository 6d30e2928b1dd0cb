"""What a wheel, a library or an installed torch holds, and how it runs on a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.hardware.arch import capabilities_in
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.detect import detect_gpus
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.hardware.runs_on import HowItRuns, Verdict, judge_code
from torchwheel.host.programs import NoAnswer
from torchwheel.pytorch.published import optional_part
from torchwheel.reporting.errors import Problem, TorchwheelError, collect_problems, refusal, stop_on
from torchwheel.reporting.terminal import join_items
from torchwheel.system.paths import is_dir, is_file
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.contents import (
    SOURCE_SUFFIXES,
    Library,
    TorchVersion,
    WheelContents,
    inspect_wheel,
    is_library_name,
    parse_torch_version,
    read_library,
    runnable_architectures,
)
from torchwheel.wheel.fatbinary import START_BYTES, CodeImage, is_code, prevalent_images
from torchwheel.wheel.manifest import read_manifest
from torchwheel.wheel.objfile import read_sections
from torchwheel.wheel.record import find_altered

_WORST_FIRST = tuple(reversed(HowItRuns))


@dataclass(frozen=True)
class Inspected:
    """What was found.

    Attributes:
        kind: ``wheel``, ``library`` or ``package``.
        libraries: shared libraries and programs with their device code.
        name: the distribution's name; known of a wheel only, as the three below.
        tags: its expanded tags.
        manifest: its build manifest, if torchwheel built it.
        torch: what ``torch/version.py`` says; None where there is none.
        remarks: what a wheel may hold and is a reason to look closer, in sentences.
        is_intact: whether every file of a wheel is what its RECORD says.
        contents: all that is known of a wheel.
    """

    path: Path
    kind: str
    libraries: tuple[Library, ...]
    name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    manifest: dict[str, Any] | None = None
    torch: TorchVersion | None = None
    remarks: tuple[str, ...] = ()
    is_intact: bool = True
    contents: WheelContents | None = None


# libbitsandbytes_cuda124.so, libfoo-cu13.so, kernels_sm90a.so
_ALTERNATIVE = re.compile(r"[_-](?:cuda|cu|sm)_?\d{1,4}[af]?(?=[._-])")
_BEST_FIRST = tuple(HowItRuns)


@dataclass(frozen=True)
class NamedGpu:
    """A GPU by the name that the user gave it, or its bare compute capability."""

    name: str
    capability: Architecture


@dataclass(frozen=True)
class LibraryVerdict:
    """How the device code of one library runs on a GPU.

    Attributes:
        verdict: how most of its code runs; a few kernels' files with other code do not decide.
        used_by: what of torch it is for, where torch loads it for that alone; None where nothing goes without it.
    """

    path: str
    verdict: Verdict
    used_by: str | None


@dataclass(frozen=True)
class Suitability:
    """How everything that was inspected runs on a GPU.

    Attributes:
        libraries: the verdict on each library that has device code: first those that decide, then the others,
            the worst ones first.
    """

    gpu: NamedGpu
    libraries: tuple[LibraryVerdict, ...]

    @property
    def how(self) -> HowItRuns:
        """How the library runs that decides: the worst of those without which nothing runs.

        Of alternatives, of which one is loaded, the best decides; whether it is the one is another question.
        """
        groups = self._alternatives
        deciding = [
            one.verdict.how
            for one in self.libraries
            if one not in (two for group in groups for two in group) and one.used_by is None
        ]
        deciding += [min((one.verdict.how for one in group), key=_BEST_FIRST.index) for group in groups]
        if not deciding and self.libraries:
            deciding = [self.libraries[0].verdict.how]
        return max(deciding, key=_BEST_FIRST.index, default=HowItRuns.NO)

    @property
    def is_known(self) -> bool:
        """Whether the answer does not hang on which of several alternative libraries is loaded."""
        return not self.how.runs or not any(self._undecided)

    @property
    def _alternatives(self) -> tuple[tuple[LibraryVerdict, ...], ...]:
        """Libraries whose names differ in a version of CUDA or an architecture alone."""
        groups: dict[str, list[LibraryVerdict]] = {}
        for one in self.libraries:
            groups.setdefault(_ALTERNATIVE.sub("", one.path), []).append(one)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    @property
    def _undecided(self) -> tuple[tuple[LibraryVerdict, ...], ...]:
        """The alternatives of which some run and others do not."""
        return tuple(
            group for group in self._alternatives if len({one.verdict.how.runs for one in group}) > 1
        )

    @property
    def without(self) -> tuple[str, ...]:
        """What of torch does not run where the rest does."""
        if not self.how.runs:
            return ()
        return tuple(one.used_by for one in self._failing if one.used_by is not None)

    @property
    def reason(self) -> str:
        """Why, in sentences; they name the library where there are several."""
        if not self.libraries:
            return judge_code((), self.gpu.capability).sentence
        if not self.is_known:
            return "; ".join(
                f"one of {join_items([one.path for one in group])} is loaded, and of these "
                f"{join_items([one.path for one in group if one.verdict.how.runs])} runs"
                for group in self._undecided
            )
        shown = [self.libraries[0], *(self._failing if self.how.runs else ())]
        several = len(self.libraries) > 1
        return "; ".join(
            f"{one.path}: {one.verdict.sentence}" if several else one.verdict.sentence for one in shown
        )

    @property
    def _failing(self) -> tuple[LibraryVerdict, ...]:
        return tuple(one for one in self.libraries if not one.verdict.how.runs)


def inspect(path: Path) -> Inspected:
    """Inspect a wheel, a library or the folder of an installed torch.

    Raises:
        TorchwheelError: it is none of these, or damaged.
    """
    if is_dir(path):
        return _inspect_package(path)
    return _inspect_wheel(path) if path.suffix.lower() == ".whl" else _inspect_library(path)


def judge_suitability(inspected: Inspected, gpu: NamedGpu) -> Suitability:
    """How the device code in all libraries runs on a GPU."""
    found = [
        LibraryVerdict(library.path, _weigh_images(code, gpu.capability), optional_part(library.path))
        for library in inspected.libraries
        if (code := [image for image in library.images if image.runs])
    ]
    found.sort(key=lambda one: (one.used_by is not None, _WORST_FIRST.index(one.verdict.how)))
    return Suitability(gpu, tuple(found))


def _weigh_images(read_images: Sequence[CodeImage], gpu: Architecture) -> Verdict:
    """How most of a library runs."""
    files = max(image.count for image in read_images)
    answer = _judge_images(prevalent_images(read_images), gpu)
    few = [(image, one) for image in read_images if (one := _judge_images([image], gpu)).how.runs]
    if answer.how.runs or not few:
        return answer
    image, alone = max(few, key=lambda pair: pair[0].count)
    but = f"{alone.image}, which does, is in {image.count} of {files} compiled files"
    return Verdict(HowItRuns.NO, answer.gpu, None, f"{answer.sentence}; {but}")


def _judge_images(read_images: Sequence[CodeImage], gpu: Architecture) -> Verdict:
    code = runnable_architectures(read_images)
    return judge_code(code.targets if code else (), gpu)


def named_gpus(names: Iterable[str], environment: dict[str, str]) -> tuple[NamedGpu, ...]:
    """The GPUs of these names, which may also be compute capabilities, or ``native``.

    Raises:
        TorchwheelError: names are unknown or ambiguous, or there is no GPU here; all of them at once.
    """
    found: dict[NamedGpu, None] = {}
    problems: list[Problem] = []
    for name in names:
        with collect_problems(problems):
            found.update(dict.fromkeys(_named_gpus(name, environment)))
    stop_on(problems)
    return tuple(found)


def _named_gpus(name: str, environment: dict[str, str]) -> Sequence[NamedGpu]:
    if name == "native":
        return _detected_gpus(environment)
    known = read_gpus()
    if known.find(name) is None:
        if capabilities := capabilities_in(name):
            return [NamedGpu(one.dotted, one) for one in capabilities]
        if not (known.find_candidates(name) or known.refusal(name) or known.nearest(name)):
            raise refusal("unknown-gpu/inspect", origin="--gpu", name=name)
    gpu = known.resolve(name, "--gpu")
    return (NamedGpu(gpu.name, gpu.compute_capability),)


def _detected_gpus(environment: dict[str, str]) -> tuple[NamedGpu, ...]:
    why = "nvidia-smi is missing, or lists none"
    try:
        detected = detect_gpus(environment)
    except NoAnswer as failure:
        detected, why = (), str(failure)
    if not detected:
        raise refusal("no-gpu-found", origin="--gpu native", why=why)
    return tuple(NamedGpu(gpu.name, gpu.compute_capability) for gpu in detected)


def _inspect_wheel(path: Path) -> Inspected:
    contents = inspect_wheel(path)
    with open_wheel(path) as archive:
        changed = tuple(problem.what for problem in find_altered(archive))
    return Inspected(
        path=path,
        kind="wheel",
        libraries=contents.libraries,
        name=contents.name,
        version=contents.version,
        tags=contents.tags,
        manifest=read_manifest(path),
        torch=contents.torch_version,
        remarks=(*changed, *(remark.problem.what for remark in contents.remarks)),
        is_intact=not changed,
        contents=contents,
    )


def _inspect_library(path: Path) -> Inspected:
    library = read_library(path.name, path)
    with path.open("rb") as stream:
        if not (library.images or library.amd_bytes or read_sections(stream, str(path))):
            raise TorchwheelError(_nothing_to_inspect(path))
    return Inspected(path, "library", (library,))


def _inspect_package(folder: Path) -> Inspected:
    version_file = folder / "version.py"
    if not is_file(version_file):
        raise TorchwheelError(_nothing_to_inspect(folder))
    torch = parse_torch_version(version_file.read_bytes(), str(version_file))
    return Inspected(folder, "package", tuple(_libraries_in(folder)), torch=torch)


def _libraries_in(folder: Path) -> Iterator[Library]:
    for path in sorted(folder.rglob("*")):
        # A library would also count once for every link to it.
        if path.is_symlink() or not is_file(path) or path.suffix.lower() in SOURCE_SUFFIXES:
            continue
        if is_library_name(path.name) or is_code(_read_beginning(path)):
            yield read_library(path.relative_to(folder).as_posix(), path)


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(START_BYTES)


def _nothing_to_inspect(path: Path) -> Problem:
    return Problem.of("nothing-to-inspect/folder" if is_dir(path) else "nothing-to-inspect", path=path)
