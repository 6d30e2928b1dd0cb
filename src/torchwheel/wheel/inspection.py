"""What a wheel, a library or an installed torch holds, and how it runs on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.hardware.arch import capabilities_in
from torchwheel.hardware.detect import detect_gpus
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.reporting.errors import Problem, TorchwheelError, collect_problems, refusal, stop_on
from torchwheel.system.paths import is_dir, is_file
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.contents import (
    SOURCE_SUFFIXES,
    Library,
    TorchVersion,
    WheelContents,
    inspect_archive,
    is_library_name,
    parse_torch_version,
    read_library,
)
from torchwheel.wheel.fatbinary import START_BYTES, is_code
from torchwheel.wheel.manifest import find_manifest
from torchwheel.wheel.objfile import read_sections
from torchwheel.wheel.record import find_altered
from torchwheel.wheel.suitability import NamedGpu, Suitability, judge_libraries


@dataclass(frozen=True)
class Inspected:
    """What was found.

    Attributes:
        remarks: what a wheel may hold and is a reason to look closer, in sentences.
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


def inspect(path: Path) -> Inspected:
    """Inspect a wheel, a library or the folder of an installed torch."""
    if is_dir(path):
        return _inspect_package(path)
    return _inspect_wheel(path) if path.suffix.lower() == ".whl" else _inspect_library(path)


def judge_suitability(inspected: Inspected, gpu: NamedGpu, *, all_needed: bool = False) -> Suitability:
    """How the device code in all libraries runs on a GPU.

    Args:
        all_needed: whether to require every library, as is done for PyTorch itself; see `judge_libraries`.
    """
    return judge_libraries(
        inspected.libraries,
        gpu,
        all_needed=all_needed or inspected.torch is not None or inspected.kind == "library",
    )


def named_gpus(names: Iterable[str], environment: dict[str, str]) -> tuple[NamedGpu, ...]:
    """The GPUs of these names, which may also be compute capabilities, or ``native``."""
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
    with open_wheel(path) as archive:
        contents, manifest = inspect_archive(archive), find_manifest(archive)
        changed = tuple(problem.what for problem in find_altered(archive))
    return Inspected(
        path=path,
        kind="wheel",
        libraries=contents.libraries,
        name=contents.name,
        version=contents.version,
        tags=contents.tags,
        manifest=manifest,
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
