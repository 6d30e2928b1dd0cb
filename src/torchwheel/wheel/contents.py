"""Everything that is known about one wheel: names, tags, metadata, versions and device code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from packaging.utils import canonicalize_name

from torchwheel.hardware.arch import ArchitectureList, CodeTarget
from torchwheel.reporting.errors import Finding, refusal
from torchwheel.wheel.archive import (
    WheelArchive,
    find_remarks,
    open_package,
    parse_file_name,
    plain_file_name,
)
from torchwheel.wheel.bounded_file import VERSION_FILE_BYTES, Allowance, open_stream
from torchwheel.wheel.fatbinary import START_BYTES, CodeImage, ImageKind, combine, is_code, read_code
from torchwheel.wheel.manifest import find_manifest
from torchwheel.wheel.metadata import MetadataText, read_metadata_text

_LIBRARY = re.compile(r"\.(?:so|pyd|dll|exe|dylib)(?:\.\d+)*$", re.IGNORECASE)
# Files that are not opened to see whether they hold code, which are nearly all of PyTorch's 13,000.
_SOURCE_SUFFIXES = frozenset((
    ".c", ".cc", ".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".json", ".md", ".py", ".pyi", ".txt", ".yaml",
))  # fmt: skip
_TORCH_VERSION = "torch/version.py"
AMD_CODE = "AMD code, not read here"


@dataclass(frozen=True)
class TorchVersion:
    version: str | None
    cuda: str | None
    git_version: str | None
    debug: bool | None
    hip: str | None = None


@dataclass(frozen=True)
class Library:
    """A shared library or program in a wheel; code for AMD's GPUs is not read."""

    path: str
    size: int
    images: tuple[CodeImage, ...]
    amd_bytes: int = 0


@dataclass(frozen=True)
class WheelContents:
    """One wheel, or an installed package, whose ``site`` is the folder that it is installed into."""

    path: Path
    name: str
    version: str
    tags: tuple[str, ...]
    wheel: MetadataText
    metadata: MetadataText
    has_torch: bool
    torch_version: TorchVersion | None
    libraries: tuple[Library, ...]
    files: frozenset[str]
    manifest: dict[str, Any] | None = None
    remarks: tuple[Finding, ...] = ()
    site: Path | None = None

    @property
    def kind(self) -> str:
        return "wheel" if self.site is None else "package"

    @property
    def plan(self) -> dict[str, Any]:
        """The plan's part of its build manifest; empty where torchwheel did not build it."""
        return dict(self.manifest["plan"]) if self.manifest else {}

    @property
    def wheel_tags(self) -> tuple[str, ...]:
        return tuple(sorted(self.wheel.values("Tag")))

    @property
    def generator(self) -> str:
        return next(iter(self.wheel.values("Generator")), "")

    @property
    def images(self) -> tuple[CodeImage, ...]:
        return combine(image for library in self.libraries for image in library.images)

    @property
    def device_code(self) -> str:
        code = self.architectures.labels if self.architectures else ()
        amd = [AMD_CODE] if any(one.amd_bytes for one in self.libraries) else []
        return ", ".join([*code, *amd]) or "no device code"

    @property
    def architectures(self) -> ArchitectureList | None:
        return runnable_architectures(self.images)

    def described(self) -> dict[str, Any]:
        """What a build manifest says of the wheel itself."""
        code = ((one.path, [image.document() for image in one.images]) for one in self.libraries)
        return {
            "wheel": {"name": self.name, "version": self.version, "tags": list(self.tags)},
            "machine_code": [{"library": path, "images": images} for path, images in code if images],
        }


def runnable_architectures(code: Iterable[CodeImage]) -> ArchitectureList | None:
    targets = [
        CodeTarget(image.architecture, sass=image.kind is ImageKind.SASS, ptx=image.kind is ImageKind.PTX)
        for image in code
        if image.runs
    ]
    return ArchitectureList.of(targets) if targets else None


def inspect_wheel(path: Path) -> WheelContents:
    """Look into a wheel or an installed package, which need not be trusted."""
    with open_package(path) as archive:
        return inspect_archive(archive)


def inspect_archive(archive: WheelArchive) -> WheelContents:
    """Look into an open wheel, or into an installed package, which has its names in METADATA and WHEEL alone."""
    path = archive.path
    metadata, wheel = (read_metadata_text(archive, name) for name in ("METADATA", "WHEEL"))
    if archive.site is None:
        name, version, tags = parse_file_name(path.with_name(plain_file_name(path.name)))
    else:
        name, version = canonicalize_name(metadata.single("Name") or ""), metadata.single("Version") or ""
        tags = tuple(sorted(wheel.values("Tag")))
    torch_version = None
    if _TORCH_VERSION in archive.members:
        source = archive.read(_TORCH_VERSION, VERSION_FILE_BYTES)
        torch_version = parse_torch_version(source, f"{path}: {_TORCH_VERSION}")
    allowance, read = Allowance(), []
    for library in sorted(
        name for name in archive.members if may_hold_code(name, partial(archive.start, name))
    ):
        with archive.unpacked(library) as stream:
            read.append(read_library(library, stream, f"{path}: {library}", allowance))
    return WheelContents(
        path=path,
        name=name,
        version=version,
        tags=tags,
        wheel=wheel,
        metadata=metadata,
        has_torch="torch/__init__.py" in archive.members,
        torch_version=torch_version,
        libraries=tuple(read),
        files=frozenset(archive.members),
        manifest=find_manifest(archive),
        remarks=find_remarks(archive) if archive.site is None else (),
        site=archive.site,
    )


def may_hold_code(name: str, read: Callable[[int], bytes]) -> bool:
    """Whether a file may hold device code, by its name, or else by its beginning."""
    if _LIBRARY.search(name):
        return True
    return PurePosixPath(name).suffix.lower() not in _SOURCE_SUFFIXES and is_code(read(START_BYTES))


def read_library(
    name: str, source: Path | BinaryIO, origin: str = "", allowance: Allowance | None = None
) -> Library:
    with open_stream(source, origin) as (stream, shown):
        images, amd_bytes = read_code(stream, shown, allowance)
        return Library(name, stream.seek(0, 2), images, amd_bytes)


def parse_torch_version(source: bytes, origin: str) -> TorchVersion:
    """Read the assignments of constants in a ``version.py``; nothing is executed."""
    try:
        tree = ast.parse(source)
    # CPython reports zero bytes as ValueError in some releases, and deep nesting as either of the last two.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise refusal("malformed-version-file", origin=origin, reason=error) from None
    constants = dict(_constants(tree))
    texts = {name: value for name, value in constants.items() if isinstance(value, str)}
    version, cuda, git_version, hip = map(texts.get, ("__version__", "cuda", "git_version", "hip"))
    debug = constants.get("debug")
    return TorchVersion(version, cuda, git_version, debug if isinstance(debug, bool) else None, hip)


def _constants(tree: ast.Module) -> Iterator[tuple[str, object]]:
    for statement in tree.body:
        match statement:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value))
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value))
            ):
                yield name, value
