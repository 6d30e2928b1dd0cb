"""What a wheel, a library or an installed torch holds, and how it runs on a GPU, by what gets loaded there.

A driver loads a library without code for its GPU; only its kernels fail. So what a wheel needs is inferred: code for
a GPU would be useless beside a library that is needed and does not run there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

from torchwheel.hardware.arch import CodeTarget, HowItRuns, Verdict, capabilities_in, judge_code
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus, read_gpus, try_to_detect
from torchwheel.pytorch.releases import optional_part
from torchwheel.reporting.errors import Problem, collect_problems, refusal, stop_on
from torchwheel.reporting.terminal import join_items
from torchwheel.system.paths import is_dir, is_file
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.wheel.archive import find_altered, open_wheel
from torchwheel.wheel.bounded_file import open_stream
from torchwheel.wheel.contents import (
    AMD_CODE,
    Library,
    TorchVersion,
    WheelContents,
    inspect_archive,
    may_hold_code,
    parse_torch_version,
    read_library,
    runnable_architectures,
)
from torchwheel.wheel.fatbinary import (
    CodeImage,
    ImageKind,
    compiled_files,
    prevalent_images,
)
from torchwheel.wheel.objfile import read_sections, without_libc

# A library with so many times fewer compiled files than the largest decides nothing: Paddle's libwarpctc has 2 beside
# 666; but attention kernels have three times as many as all others together (vLLM, sgl-kernel).
_SMALL = 10
_OPAQUE_BYTES, _OPAQUE_SHARE = 64 << 20, 1000
# sm100/common_ops.so, kernels_sm90a.so, libbitsandbytes_cuda124.so, libfoo-cu13.so
_ALTERNATIVE = re.compile(r"(?:^|(?<=/)|[_-])(?P<kind>cuda|cu|sm)_?(?P<number>\d{1,4})[af]?(?=[/._-])")
# The folder in which auditwheel puts the libraries of others.
_BUNDLED = re.compile(r"(?:^|/)[^/]+\.libs/")


@dataclass(frozen=True)
class LibraryVerdict:
    """How the device code of one library runs on a GPU.

    Attributes:
        verdict: how most of its code runs; a few kernels' files with other code do not decide.
        used_by: what of torch it is for, where torch loads it for that alone.
        reach: the known compute capabilities that its machine code runs on, or its PTX where it has nothing else.
        is_opaque: whether it is large and hardly any of it is device code that is read: cuFFT 11.4 keeps its kernels
            in 290 MB of another form, beside one image for 5.2.
    """

    path: str
    verdict: Verdict
    used_by: str | None
    reach: frozenset[Architecture]
    files: int
    is_opaque: bool

    @property
    def runs(self) -> bool:
        return self.verdict.how.runs


@dataclass(frozen=True)
class _Part:
    """A library, or several of which one is loaded: by the GPU, or by the CUDA of PyTorch."""

    libraries: tuple[LibraryVerdict, ...]
    by_cuda: bool = False
    unfit: tuple[LibraryVerdict, ...] = ()
    """Those for a CUDA that does not compile for the GPU."""

    @cached_property
    def best(self) -> LibraryVerdict:
        return min(self.libraries, key=lambda one: one.verdict.how.rank)

    @property
    def runs(self) -> bool:
        return self.best.runs

    @cached_property
    def reach(self) -> frozenset[Architecture]:
        return _union(self.libraries)

    @property
    def name(self) -> str:
        return self.best.used_by or join_items([one.path for one in self.libraries])


@dataclass(frozen=True)
class Suitability:
    """How everything that was inspected runs on a GPU.

    Attributes:
        how: how the worst of what is needed runs; the best of it where `is_known` is false.
        without: what does not run where the rest does: parts of torch, or libraries.
        libraries: with device code: first those that decide, then the others, the worst ones first.
        cuda: the CUDA releases whose libraries run, where the wheel has one for each release and not all run.
        unfit: the paths of those that do not.
    """

    gpu: NamedGpu
    how: HowItRuns
    is_known: bool
    without: tuple[str, ...]
    reason: str
    libraries: tuple[LibraryVerdict, ...]
    cuda: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()


def judge_libraries(libraries: Sequence[Library], gpu: NamedGpu, *, all_needed: bool = False) -> Suitability:
    """How the device code in all libraries runs; in PyTorch itself all are needed that it does not load on use."""
    needed, rest = _split_needed(list(_parts_of(libraries, gpu.compute_capability)), all_needed=all_needed)
    ordered = tuple(one for group in (needed, rest) for one in _worst_first(group))
    ordered += tuple(one for part in (*needed, *rest) for one in part.unfit)
    if not needed:
        sentence = judge_code((), gpu.compute_capability).sentence
        if any(library.amd_bytes for library in libraries):
            return Suitability(gpu, HowItRuns.NO, True, (), f"{sentence}; it holds {AMD_CODE}", ())
        sentence += "" if all_needed else ", but it may compile some, as Triton does"
        return Suitability(gpu, HowItRuns.NO, all_needed, (), sentence, ())
    running = [part for part in needed if part.runs]
    failing = [part for part in needed if not part.runs]
    doubt = _undecided(running) or ("" if all_needed else _doubt(needed, rest, gpu.compute_capability))
    if doubt:
        how = min((part.best.verdict.how for part in needed), key=lambda one: one.rank)
        return Suitability(gpu, how, False, (), doubt, ordered)
    if not running or (all_needed and failing):
        reason = _reason(ordered[:1], ordered)
        if not all_needed and _is_disjoint(failing) and not any(one.runs for one in ordered):
            paths = join_items([one.path for one in ordered])
            count = f"none of the {len(ordered)} libraries with device code"
            reason = f"{count} runs on {gpu.compute_capability}: {paths}; its Python code may still run"
        return Suitability(gpu, HowItRuns.NO, True, (), reason, ordered)
    lacking = [*failing, *(part for part in rest if not part.runs)]
    shown = [ordered[0] if ordered[0].runs else running[0].best, *(part.best for part in lacking)]
    how = max((part.best.verdict.how for part in running), key=lambda one: one.rank)
    by_cuda = [one for part in running if part.by_cuda for one in (*part.libraries, *part.unfit)]
    unfit = [one for one in by_cuda if not one.runs]
    cuda = tuple(dict.fromkeys(_cuda_of(one.path) for one in by_cuda if unfit and one.runs))
    without, reason = tuple(part.name for part in lacking), _reason([*shown, *unfit], ordered)
    return Suitability(gpu, how, True, without, reason, ordered, cuda, tuple(one.path for one in unfit))


def _reason(shown: Sequence[LibraryVerdict], every: Sequence[LibraryVerdict]) -> str:
    """Why these run or do not, each sentence once; with their names where there are others."""
    paths: dict[str, list[str]] = {}
    for one in shown:
        paths.setdefault(one.verdict.sentence, []).append(one.path)
    alone = len(every) == 1
    return "; ".join(text if alone else f"{join_items(found)}: {text}" for text, found in paths.items())


def _worst_first(parts: Sequence[_Part]) -> list[LibraryVerdict]:
    return sorted((one for part in parts for one in part.libraries), key=lambda one: -one.verdict.how.rank)


def _parts_of(libraries: Sequence[Library], gpu: Architecture) -> Iterator[_Part]:
    """Libraries with device code, those whose paths differ in an architecture or a CUDA alone as one part."""
    groups: dict[str, list[LibraryVerdict]] = {}
    for library in libraries:
        # Without their sizes, most of thousands of cubins are the same.
        if code := tuple(replace(image, stored_size=0) for image in library.images if image.runs):
            stored = sum(image.stored_size for image in library.images)
            one = LibraryVerdict(
                library.path,
                _weigh_images(code, gpu),
                optional_part(library.path),
                _reach(code),
                compiled_files(code),
                library.size >= _OPAQUE_BYTES and stored * _OPAQUE_SHARE < library.size,
            )
            groups.setdefault(_ALTERNATIVE.sub("", library.path), []).append(one)
    for group in groups.values():
        kinds = {match["kind"] for one in group for match in _ALTERNATIVE.finditer(one.path)}
        if len(group) == 1 or "sm" in kinds:
            yield _Part(tuple(group))
        else:
            # A PyTorch that runs on the GPU has a CUDA that compiles for it.
            fit = [one for one in group if _is_compiled_by(one.path, gpu)]
            yield _Part(tuple(fit or group), True, tuple(one for one in group if fit and one not in fit))


def _cuda_of(path: str) -> str:
    """The CUDA release that the path of a library names: 12.8 for ``libfoo_cuda128.so``."""
    number = [match["number"] for match in _ALTERNATIVE.finditer(path)][-1]
    return f"{number[:2]}.{number[2:]}".rstrip(".")


def _is_compiled_by(path: str, gpu: Architecture) -> bool:
    """Whether a CUDA that a path names compiles machine code that runs on a GPU; true where it names none known."""
    numbers = tuple(match["number"] for match in _ALTERNATIVE.finditer(path))
    releases = [one for one in read_toolkits() if one.version.replace(".", "").startswith(numbers)]
    code = {CodeTarget(one, sass=True, ptx=False) for release in releases for one in release.architectures}
    return not code or judge_code(code, gpu).how.runs


def _split_needed(parts: Sequence[_Part], *, all_needed: bool) -> tuple[list[_Part], list[_Part]]:
    """The parts that decide, and the rest: loaded on use, somebody else's, small, or for fewer GPUs than another."""
    chosen = _prefer(parts, lambda part: part.best.used_by is None)
    if not all_needed:
        chosen = _prefer(chosen, lambda part: not _BUNDLED.search(part.best.path))
        most = max((part.best.files for part in chosen), default=0)
        chosen = [part for part in chosen if part.best.files * _SMALL >= most]
        # A wheel may hold thousands of cubins, but these are for few sets of GPUs.
        reaches = {part.reach for part in chosen}
        widest = {one for one in reaches if not any(one < other for other in reaches)}
        chosen = [part for part in chosen if part.reach in widest]
    decides = set(map(id, chosen))
    return chosen, [part for part in parts if id(part) not in decides]


def _prefer(parts: Sequence[_Part], is_better: Callable[[_Part], bool]) -> list[_Part]:
    return [part for part in parts if is_better(part)] or list(parts)


def _undecided(running: Sequence[_Part]) -> str:
    """Which library of several that are loaded by PyTorch's CUDA runs, as a sentence; empty where all do."""
    found = []
    for part in running:
        if part.by_cuda and not all(one.runs for one in part.libraries):
            every = join_items([one.path for one in part.libraries])
            able = join_items([one.path for one in part.libraries if one.runs])
            found.append(f"one of {every} is loaded, and of these {able} runs")
    return "; ".join(found)


def _is_disjoint(parts: Sequence[_Part]) -> bool:
    """Whether no GPU runs two of several parts, so that nothing needs them all."""
    return len(parts) > 1 and sum(len(part.reach) for part in parts) == len(_union(parts))


def _doubt(parts: Sequence[_Part], rest: Sequence[_Part], gpu: Architecture) -> str:
    """What is not known here of what is needed, as a sentence; empty where nothing is in doubt."""
    running = [part for part in parts if part.runs]
    failing = [part for part in parts if not part.runs]
    if not running and (opaque := [part.name for part in failing if part.best.is_opaque]):
        return f"hardly any of {join_items(opaque)} is device code of a known form; it may hold kernels in another"
    if not running and _is_disjoint(failing):
        running = [part for part in rest if part.runs]
    else:
        # Those for other GPUs alone are not needed: a wheel that needed both would run nowhere.
        reached = _union(running)
        failing = [part for part in failing if part.reach & reached]
    if not (running and failing):
        return ""
    runs, fails = (join_items([part.name for part in some]) for some in (running, failing))
    return f"{runs} runs on {gpu}, and {fails} does not"


def _union(parts: Sequence[_Part | LibraryVerdict]) -> frozenset[Architecture]:
    return frozenset().union(*(part.reach for part in parts))


@cache
def _reach(code: tuple[CodeImage, ...]) -> frozenset[Architecture]:
    images = prevalent_images(code)
    sass = [image for image in images if image.kind is ImageKind.SASS] or images
    return frozenset(
        known.capability for known in known_architectures() if _judge_images(sass, known.capability).how.runs
    )


@cache
def _weigh_images(read_images: tuple[CodeImage, ...], gpu: Architecture) -> Verdict:
    answer = _judge_images(prevalent_images(read_images), gpu)
    few = [(image, one) for image in read_images if (one := _judge_images([image], gpu)).how.runs]
    if answer.how.runs or not few:
        return answer
    image, alone = max(few, key=lambda pair: pair[0].count)
    but = f"{alone.image}, which does, is in {image.count} of {compiled_files(read_images)} compiled files"
    return Verdict(HowItRuns.NO, answer.gpu, None, f"{answer.sentence}; {but}")


def _judge_images(read_images: Sequence[CodeImage], gpu: Architecture) -> Verdict:
    code = runnable_architectures(read_images)
    return judge_code(code.targets if code else (), gpu)


@dataclass(frozen=True)
class Inspected:
    path: Path
    kind: str
    libraries: tuple[Library, ...]
    torch: TorchVersion | None = None
    remarks: tuple[str, ...] = ()
    is_intact: bool = True
    contents: WheelContents | None = None


def inspect(path: Path) -> Inspected:
    if is_dir(path):
        return _inspect_package(path)
    return _inspect_wheel(path) if path.suffix.lower() == ".whl" else _inspect_library(path)


def judge_suitability(inspected: Inspected, gpu: NamedGpu, *, all_needed: bool = False) -> Suitability:
    all_needed = all_needed or inspected.torch is not None or inspected.kind == "library"
    answer = judge_libraries(inspected.libraries, gpu, all_needed=all_needed)
    tags = inspected.contents.tags if inspected.contents else ()
    platforms = sorted({without_libc(tag.rpartition("-")[2]) for tag in tags})
    if (known := read_gpus().find_elsewhere(gpu.name, platforms)) is None:
        return answer
    would = "would run" if answer.how.runs else "would not run either"
    code = f"its code {would}" if answer.is_known else "whether its code would run is not known here"
    only = f"{known.title} is in {' and '.join(known.platforms)} machines only; {code}: {answer.reason}"
    why = f"the wheel is for {' and '.join(platforms)}, and {only}"
    return Suitability(gpu, HowItRuns.NO, True, (), why, answer.libraries)


def named_gpus(names: Iterable[str], environment: dict[str, str]) -> tuple[NamedGpu, ...]:
    found: dict[NamedGpu, None] = {}
    problems: list[Problem] = []
    for name in names:
        with collect_problems(problems):
            found.update(dict.fromkeys(_named_gpus(name, environment)))
    stop_on(problems)
    return tuple(found)


def _named_gpus(name: str, environment: dict[str, str]) -> Sequence[NamedGpu]:
    if name == "native":
        detected, why = try_to_detect(lambda: detect_gpus(environment))
        if not detected:
            raise refusal("no-gpu-found", origin="--gpu native", why=why)
        return detected
    known = read_gpus()
    if known.find(name) is None:
        if capabilities := capabilities_in(name):
            return [NamedGpu(one.dotted, one) for one in capabilities]
        if not (known.find_candidates(name) or known.refusal(name) or known.nearest(name)):
            raise refusal("unknown-gpu/inspect", origin="--gpu", name=name)
    gpu = known.resolve(name, "--gpu")
    is_alias = known.spelling.key(name) in map(known.spelling.key, gpu.aliases)
    return (NamedGpu(name if is_alias else gpu.name, gpu.compute_capability),)


def _inspect_wheel(path: Path) -> Inspected:
    with open_wheel(path) as archive:
        contents = inspect_archive(archive)
        changed = tuple(problem.what for problem in find_altered(archive))
    remarks = (*changed, *(remark.problem.what for remark in contents.remarks))
    torch = contents.torch_version
    return Inspected(path, "wheel", contents.libraries, torch, remarks, not changed, contents)


def _inspect_library(path: Path) -> Inspected:
    library = read_library(path.name, path)
    with path.open("rb") as stream:
        if not (library.images or library.amd_bytes or read_sections(stream, str(path))):
            raise refusal("nothing-to-inspect", path=path)
    return Inspected(path, "library", (library,))


def _inspect_package(folder: Path) -> Inspected:
    version_file = folder / "version.py"
    if not is_file(version_file):
        raise refusal("nothing-to-inspect/folder", path=folder)
    torch = parse_torch_version(version_file.read_bytes(), str(version_file))
    return Inspected(folder, "package", tuple(_libraries_in(folder)), torch=torch)


def _libraries_in(folder: Path) -> Iterator[Library]:
    for path in sorted(folder.rglob("*")):
        # A library would also count once for every link to it.
        if not path.is_symlink() and is_file(path) and may_hold_code(path.name, partial(_read_start, path)):
            yield read_library(path.relative_to(folder).as_posix(), path)


def _read_start(path: Path, size: int) -> bytes:
    with open_stream(path, "") as (stream, _):
        return stream.read(size)
