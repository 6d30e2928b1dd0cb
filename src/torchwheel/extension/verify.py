"""A wheel of extensions against its plan: labels, requirements, and every module's code, symbols and libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from torchwheel.errors import Problem
from torchwheel.extension.stable_abi import limited_api_violations, stable_abi_violations
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.terminal import listed
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.contents import Library, WheelContents
from torchwheel.wheel.linkage import Linkage, platform_problems
from torchwheel.wheel.metadata import missing_bounds
from torchwheel.wheel.objfile import read_linkage
from torchwheel.wheel.verify import Expectation, check_labels, missing_code, unplanned_code

# Formats whose symbols can be read; a module for macOS is proved by its labels alone.
_READABLE = (".so", ".pyd", ".dll")

# Libraries of one Python alone; python3.dll is for all.
_ONE_PYTHON = re.compile(
    r"(?:libpython3\.\d+.*|python3\d+t?\.dll|libtorch_python\.so|torch_python\.dll)", re.IGNORECASE
)

# libcudart.so.13; cudart64_13.dll, and up to CUDA 11 cudart64_110.dll.
_CUDA_RUNTIME = re.compile(r"(?:libcudart\.so\.(?P<elf>\d+).*|cudart64_(?P<pe>\d\d)\d*\.dll)", re.IGNORECASE)

# The function that Python calls in a module, as ELF and PE files name what they export.
# Source: https://docs.python.org/3/extending/building.html
_INIT = re.compile(rb"(?<=\0)PyInit_\w{1,200}(?=\0)")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class ExpectedModule:
    """What an extension module was planned to be.

    Attributes:
        path: its name in the wheel.
        architectures: its device code, of all its sources together; None for none.
        stable_abi: the oldest PyTorch release that it must run with, if it uses the stable ABI alone.
        limited_api: the oldest Python that it must run with, ``3.10``, if it uses the limited API alone.
    """

    path: str
    architectures: ArchitectureList | None
    stable_abi: str | None = None
    limited_api: str | None = None


@dataclass(frozen=True)
class ExpectedExtensionWheel:
    """What a wheel of extensions was planned to be.

    Attributes:
        labels: name, version, tags; and the CUDA toolkit.
        requires: what it must require of others, ``torch>=2.14,<2.15``.
    """

    labels: Expectation
    requires: tuple[str, ...]
    modules: tuple[ExpectedModule, ...]


def verify_extension_contents(
    contents: WheelContents, expected: ExpectedExtensionWheel
) -> tuple[Problem, ...]:
    """Everything in which a wheel differs from what was planned; empty if it is as planned.

    Raises:
        TorchwheelError: a module is damaged.
    """
    problems = [
        *check_labels(contents, expected.labels),
        *(
            Problem(
                id="missing-requirement",
                what=f"METADATA does not require {bound}",
                remedy="build again with torchwheel; if METADATA was changed since, leave that requirement in it",
                why="without it pip installs the wheel beside a PyTorch that its modules do not work with",
                origin=str(contents.path),
            )
            for bound in missing_bounds(contents.metadata.requires_dist, expected.requires)
        ),
    ]
    libraries = {library.path: library for library in contents.libraries}
    with open_wheel(contents.path) as archive:
        for module in expected.modules:
            if module.path in libraries:
                problems += _device_code(contents, libraries[module.path], module)
                problems += _linkage(archive, contents, module, expected.labels.cuda)
            elif not expected.labels.editable:
                problems.append(_absent(contents, module))
    return (*problems, *_code_beside_modules(contents, expected))


def _code_beside_modules(contents: WheelContents, expected: ExpectedExtensionWheel) -> Iterator[Problem]:
    """Device code in files that are no planned module, for architectures that the wheel's name does not say."""
    modules = {module.path for module in expected.modules}
    planned = {label for one in expected.modules if one.architectures for label in one.architectures.labels}
    for library in contents.libraries:
        if library.path in modules:
            continue
        if surplus := [image.label for image in library.images if image.runs and image.label not in planned]:
            yield Problem(
                id="unplanned-device-code",
                what=f"it has code for {', '.join(surplus)}, which was not planned",
                remedy="plan it too, or leave the file out of the wheel",
                why=f"planned: {', '.join(sorted(planned)) or 'no device code'}, and the wheel's name says so",
                origin=f"{contents.path}: {library.path}",
            )


def _absent(contents: WheelContents, module: ExpectedModule) -> Problem:
    present = ", ".join(library.path for library in contents.libraries) or "none"
    return Problem(
        id="missing-module",
        what=f"the module {module.path} is not in the wheel",
        remedy="include the package that it belongs to: `packages` of setuptools, `wheel.packages` of "
        "scikit-build-core, or the extension's name",
        why=f"libraries in the wheel: {present}",
        origin=str(contents.path),
    )


def _device_code(contents: WheelContents, library: Library, module: ExpectedModule) -> Iterator[Problem]:
    origin = f"{contents.path}: {library.path}"
    if module.architectures is None:
        surplus = tuple(image for image in library.images if image.runs)
    else:
        surplus = unplanned_code(library.images, module.architectures)
        if missing := missing_code(library.images, module.architectures):
            present = ", ".join(image.label for image in library.images if image.runs) or "none"
            yield Problem(
                id="missing-device-code",
                what=f"it has no code for {', '.join(missing)}",
                remedy="delete the build folder and build again; leave -gencode, -arch and -code out of the "
                "extension's flags",
                why=f"{', '.join(module.architectures.labels)} was planned; it has {present}",
                origin=origin,
            )
    if surplus:
        labels = ", ".join(image.label for image in surplus)
        yield Problem(
            id="unplanned-device-code",
            what=f"it has code for {labels}, which was not planned",
            remedy="plan it too, or find the object file or static library that brings it along",
            why=f"planned: {', '.join(module.architectures.labels) if module.architectures else 'no device code'}",
            origin=origin,
        )


def _linkage(
    archive: WheelArchive, contents: WheelContents, module: ExpectedModule, cuda: str | None
) -> Iterator[Problem]:
    platforms = sorted({tag.rpartition("-")[2] for tag in contents.tags})
    if not module.path.lower().endswith(_READABLE) or any(tag.startswith("macosx") for tag in platforms):
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
    for tag in platforms:
        yield from platform_problems(linkage, tag, origin)


def _init_function(stream: BinaryIO, name: str, origin: str) -> Iterator[Problem]:
    """Whether Python finds a module's function; a library for ``torch.ops.load_library`` has none at all."""
    own, others = f"PyInit_{name}".encode() + b"\0", set[bytes]()
    stream.seek(0)
    before = b""
    while chunk := stream.read(_CHUNK):
        text = before + chunk
        if own in text:
            return
        others.update(_INIT.findall(text))
        before = text[-256:]
    if others and name.isascii():
        yield Problem(
            id="module-not-importable",
            what=f"it has {listed(sorted(other.decode() for other in others))}, and Python looks for PyInit_{name}",
            remedy=f"let the module be called {name} in its source as well: TORCH_EXTENSION_NAME, which the compiler "
            "is told, in PYBIND11_MODULE",
            why="the module could not be imported under the extension's name",
            origin=origin,
        )


def library_problems(
    linkage: Linkage, *, limited_api: bool, cuda: str | None, origin: str
) -> tuple[Problem, ...]:
    """The libraries that a module must not name.

    Args:
        cuda: version of the CUDA toolkit that was planned, ``13.0``; None for a build without CUDA.
    """
    problems = list(_cuda_runtime(linkage.libraries, cuda, origin))
    if limited_api:
        problems += _one_python(linkage.libraries, origin)
    return tuple(problems)


def _one_python(libraries: Sequence[str], origin: str) -> Iterator[Problem]:
    found = [library for library in libraries if _ONE_PYTHON.fullmatch(library)]
    if found:
        yield Problem(
            id="linked-with-one-python",
            what=f"it is linked with {', '.join(found)}, which belongs to one version of Python",
            remedy="leave it out of the libraries and link flags; on Windows compile every source with "
            "Py_LIMITED_API defined, which chooses python3.dll",
            why="the tag abi3 says that it runs with every Python from the tag's on",
            origin=origin,
        )


def _cuda_runtime(libraries: Sequence[str], cuda: str | None, origin: str) -> Iterator[Problem]:
    planned = None if cuda is None else cuda.partition(".")[0]
    for library in libraries:
        match = _CUDA_RUNTIME.fullmatch(library)
        if match and (match["elf"] or match["pe"]) != planned:
            yield Problem(
                id="other-cuda-runtime",
                what=f"it is linked with {library}, and was planned "
                + ("without CUDA" if cuda is None else f"with CUDA {cuda}"),
                remedy="name the folder of the toolkit's own libraries first in library_dirs, or remove the other "
                "toolkit's from library_dirs, LIBRARY_PATH and LDFLAGS",
                why="CUDA's runtimes of different major versions do not work together in one process",
                origin=origin,
            )
