"""Verify a wheel of extensions against its plan: labels, requirements, each module's code, symbols and libraries."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.proof.stable_abi import limited_api_violations, stable_abi_violations
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import join_items
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.contents import Library, WheelContents
from torchwheel.wheel.metadata import missing_bounds
from torchwheel.wheel.objfile import Linkage, read_linkage
from torchwheel.wheel.proof import Expectation, check_labels, missing_code

# Formats whose symbols can be read; for a module for macOS only the labels are verified.
_READABLE = (".so", ".pyd", ".dll")

# Libraries of one Python only; python3.dll is for all.
_ONE_PYTHON = re.compile(
    r"(?:libpython3\.\d+.*|python3\d+t?\.dll|libtorch_python\.so|torch_python\.dll)", re.IGNORECASE
)

# libcudart.so.13; cudart64_13.dll, and up to CUDA 11 cudart64_110.dll.
_CUDA_RUNTIME = re.compile(r"(?:libcudart\.so\.(?P<elf>\d+).*|cudart64_(?P<pe>\d\d)\d*\.dll)", re.IGNORECASE)

# The function that Python calls in a module, as an exported name in ELF and PE files.
# Source: https://docs.python.org/3/extending/building.html
_INIT = re.compile(rb"(?<=\0)PyInit_\w{1,200}(?=\0)")


@dataclass(frozen=True)
class ExpectedModule:
    """A planned extension module.

    Attributes:
        stable_abi: the oldest PyTorch release that it must run with, if it uses only the stable ABI.
        limited_api: the oldest Python that it must run with, ``3.10``, if it uses only the limited API.
    """

    path: str
    architectures: ArchitectureList | None
    stable_abi: str | None = None
    limited_api: str | None = None


def planned_modules(extensions: Mapping[str, Any]) -> tuple[ExpectedModule, ...]:
    """Read a manifest's part about extensions."""
    return tuple(
        ExpectedModule(
            path=one["file"],
            architectures=parse_architectures(one["architectures"]) if one["architectures"] else None,
            stable_abi=one["stable_abi"],
            # The oldest Python for modules with the limited API: the oldest that torchwheel supports.
            limited_api="3.10" if one["limited_api"] else None,
        )
        for one in extensions["modules"]
    )


def verify_extension_contents(
    contents: WheelContents, labels: Expectation, requires: Sequence[str], modules: Sequence[ExpectedModule]
) -> tuple[Problem, ...]:
    """Report every difference between a wheel and its plan."""
    problems = [*check_labels(contents, labels)]
    for bound in missing_bounds(contents.metadata.requires_dist, requires):
        problems.append(Problem.of("missing-requirement", origin=contents.path, requirement=bound))
    missing = {module.path: module for module in modules}
    named = sorted({label for one in modules if one.architectures for label in one.architectures.labels})
    with open_wheel(contents.path) as archive:
        for library in contents.libraries:
            module = missing.pop(library.path, None)
            problems += _device_code(library, module, named, f"{contents.path}: {library.path}")
            if module is not None:
                problems += _linkage_problems(archive, contents, module, labels.cuda)
    if not labels.editable:
        present = ", ".join(library.path for library in contents.libraries) or "none"
        for path in missing:
            problems.append(Problem.of("missing-module", origin=contents.path, module=path, present=present))
    return tuple(problems)


def _device_code(
    library: Library, module: ExpectedModule | None, named: Sequence[str], origin: str
) -> Iterator[Problem]:
    """Report what a module has more or less than planned, and in other files code that the wheel's name lacks."""
    architectures = module.architectures if module else None
    wanted = named if module is None else architectures.labels if architectures else ()
    code = [image.label for image in library.images if image.runs]
    values = {"origin": origin, "planned": ", ".join(wanted) or "no device code"}
    if architectures and (missing := missing_code(library.images, architectures)):
        present = ", ".join(code) or "none"
        yield Problem.of(
            "missing-device-code/extension", missing=", ".join(missing), present=present, **values
        )
    if surplus := [label for label in code if label not in wanted]:
        key = "unplanned-device-code/extension" if module else "unplanned-device-code/file"
        yield Problem.of(key, found=", ".join(surplus), **values)


def _linkage_problems(
    archive: WheelArchive, contents: WheelContents, module: ExpectedModule, cuda: str | None
) -> Iterator[Problem]:
    if not module.path.lower().endswith(_READABLE) or any("-macosx" in tag for tag in contents.tags):
        return
    origin = f"{contents.path}: {module.path}"
    with archive.unpacked(module.path) as stream:
        linkage = read_linkage(stream, origin)
        yield from _init_function(stream, PurePosixPath(module.path).name.partition(".")[0], origin)
    yield from library_problems(linkage, limited_api=module.limited_api is not None, cuda=cuda, origin=origin)
    if module.stable_abi is not None:
        yield from stable_abi_violations(linkage, module.stable_abi, origin)
    if module.limited_api is not None:
        yield from limited_api_violations(linkage, module.limited_api, origin)


def _init_function(stream: BinaryIO, name: str, origin: str) -> Iterator[Problem]:
    """Check that Python finds a module's function; a library for ``torch.ops.load_library`` has none at all."""
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        missing = content.find(f"PyInit_{name}\0".encode()) < 0
        found = {function.decode() for function in _INIT.findall(content)} if missing else ()
    # The function of a module with other letters starts with PyInitU_ (PEP 489).
    if found and name.isascii():
        yield Problem.of("module-not-importable", origin=origin, found=join_items(sorted(found)), name=name)


def library_problems(
    linkage: Linkage, *, limited_api: bool, cuda: str | None, origin: str
) -> Iterator[Problem]:
    """Report libraries that a module must not depend on."""
    planned = None if cuda is None else cuda.partition(".")[0]
    for library in linkage.libraries:
        match = _CUDA_RUNTIME.fullmatch(library)
        if match and (match["elf"] or match["pe"]) != planned:
            own = "without CUDA" if cuda is None else f"with CUDA {cuda}"
            yield Problem.of("other-cuda-runtime", origin=origin, library=library, planned=own)
    found = [library for library in linkage.libraries if _ONE_PYTHON.fullmatch(library)]
    if limited_api and found:
        yield Problem.of("linked-with-one-python", origin=origin, libraries=", ".join(found))
