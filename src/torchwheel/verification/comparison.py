"""Compare two wheels, or a wheel with an installed package: what they are, what was asked for, and what is inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torchwheel.plan.output import is_only_how, recorded_settings
from torchwheel.proof.loading import read_files
from torchwheel.reporting.terminal import file_size
from torchwheel.verification.claims import built_with_cuda
from torchwheel.wheel.archive import WheelArchive, open_package, read_record
from torchwheel.wheel.contents import Library, WheelContents, inspect_wheel
from torchwheel.wheel.metadata import parse_requirements
from torchwheel.wheel.objfile import read_comment

_DIST_INFO = re.compile(r"^[^/]+\.dist-info/")
# What an installer writes besides, and what differs in any two wheels.
_NOT_CONTENT = {
    f"*.dist-info/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
}
_COMPILERS = (
    "python", "cmake", "generator", "tree_backend", "c_compiler", "cxx_compiler", "cuda_compiler", "cuda",
)  # fmt: skip
_COMPILER = "C++ compiler"
_DECISIVE = ("device code", "CUDA", "name", "version", "debug")


@dataclass(frozen=True)
class Side:
    """One of the two; ``files`` are digest and bytes by path, in which ``*.dist-info`` stands for that folder."""

    contents: WheelContents
    files: Mapping[str, tuple[str, int]]
    size: int
    packed: int | None
    compiler: str


class Change(NamedTuple):
    """A value that differs; None where a side has none, or where it is not known here."""

    name: str
    before: str | None
    after: str | None


class LibraryChange(NamedTuple):
    """A library whose content differs; None where a side has none of it."""

    path: str
    before: Library | None
    after: Library | None

    @property
    def growth(self) -> int:
        """By how many bytes the two sizes differ."""
        before, after = (library.size if library else 0 for library in (self.before, self.after))
        return abs(after - before)


@dataclass(frozen=True)
class Comparison:
    """What differs between two sides.

    Attributes:
        settings, options: empty where a side has no build manifest.
        options: CMake options, as CMake took them or as they were requested.
        needed: libraries that one side's library names and the other's does not, by path.
        libraries: those whose sizes differ most first.
        added, removed, changed: other files.
    """

    before: Side
    after: Side
    names: tuple[Change, ...]
    settings: tuple[Change, ...]
    options: tuple[Change, ...]
    compilers: tuple[Change, ...]
    requirements: tuple[Change, ...]
    needed: tuple[Change, ...]
    libraries: tuple[LibraryChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether every file has the same content, whatever the wheels are called."""
        return not (self.libraries or self.added or self.removed or self.changed)

    @property
    def headline(self) -> str:
        """A summary of the differences, the most important first."""
        decisive = [change for change in self.names if change.name in _DECISIVE and not _is_label(change)]
        parts = [f"{one.name} {one.before or 'none'} -> {one.after or 'none'}" for one in decisive]
        parts += [_COMPILER for change in self.compilers if change.name == _COMPILER]
        files = [*self.added, *self.removed, *self.changed]
        counted: tuple[tuple[Sequence[object], str, str], ...] = (
            (self.options, "CMake option", "CMake options"),
            (self.settings, "setting", "settings"),
            (self.requirements, "requirement", "requirements"),
            (self.libraries, "library", "libraries"),
            (files, "other file", "other files"),
        )
        parts += [f"{len(some)} {one if len(some) == 1 else more}" for some, one, more in counted if some]
        parts += ["every file has the same content"] if self.is_same else []
        return "; ".join([*parts, *self._sizes()])

    def _sizes(self) -> Iterator[str]:
        packed = (self.before.packed, self.after.packed)
        sizes = (self.before.size, self.after.size) if None in packed else packed
        before, after = (size or 0 for size in sizes)
        if before != after:
            more = "larger" if after > before else "smaller"
            yield f"{file_size(abs(after - before))} {more} ({file_size(before)} -> {file_size(after)})"


def compare(before: Path, after: Path) -> Comparison:
    """Compare two wheels or installed packages; both are read at the same time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        one, other = pool.map(_read_side, (before, after))
    libraries = tuple(sorted(_library_changes(one, other), key=lambda change: (-change.growth, change.path)))
    before_plan, after_plan = one.contents.plan, other.contents.plan
    settings, options = (
        _find_changes(read(before_plan), read(after_plan)) if before_plan and after_plan else ()
        for read in (_list_settings, _list_options)
    )
    every, both = one.files.keys() | other.files.keys(), one.files.keys() & other.files.keys()
    paths = sorted(every - _NOT_CONTENT - {change.path for change in libraries})
    return Comparison(
        before=one,
        after=other,
        names=_find_changes(_compared_names(one), _compared_names(other)),
        settings=settings,
        options=options,
        compilers=_find_changes(_list_compilers(one), _list_compilers(other)),
        requirements=_find_changes(_list_requirements(one), _list_requirements(other)),
        needed=tuple(_needed_changes(one, other, libraries)),
        libraries=libraries,
        added=tuple(path for path in paths if path not in one.files),
        removed=tuple(path for path in paths if path not in other.files),
        changed=tuple(path for path in paths if path in both and one.files[path] != other.files[path]),
    )


def _read_side(path: Path) -> Side:
    contents = inspect_wheel(path)
    with open_package(path) as archive:
        rows, compiler = read_record(archive), _written_by_compiler(archive)
    files = {
        # The folder's name has the version, so every file in it would differ between two releases.
        _DIST_INFO.sub("*.dist-info/", row.path): (row.digest, int(row.size) if row.size.isdecimal() else 0)
        for row in rows
        # Scripts that an installer makes lie outside, and what Python compiled has no hash.
        if row.digest and not row.path.startswith("..")
    }
    size = sum(length for _, length in files.values())
    packed = path.stat().st_size if contents.site is None else None
    return Side(contents, files, size, packed, compiler)


def _written_by_compiler(archive: WheelArchive) -> str:
    """What the compiler says of itself in the small library that it alone has made."""
    # A library of PyTorch's with code of the C++ compiler and nothing of third parties, and small.
    for name in ("torch/lib/libc10.so", "torch/lib/libtorch.so"):
        if name in archive.members:
            with archive.unpacked(name) as stream:
                return read_comment(stream)
    return ""


def _compared_names(side: Side) -> dict[str, str | None]:
    contents, manifest, plan = side.contents, side.contents.manifest, side.contents.plan
    torch, code = contents.torch_version, contents.architectures
    source, extensions = plan.get("source", {}), plan.get("extensions", {})
    return {
        "device code": " ".join(code.labels) if code else None,
        "CUDA": built_with_cuda(contents),
        "name": contents.name,
        "version": contents.version,
        "tags": " ".join(contents.tags),
        "Requires-Python": contents.metadata.single("Requires-Python"),
        "torch": torch.version if torch else extensions.get("torch", {}).get("version"),
        "commit": (torch.git_version if torch else None) or source.get("commit"),
        "debug": str(torch.debug).lower() if torch and torch.debug is not None else None,
        "target": ", ".join(plan.get("target", ())) or None,
        "profile": ", ".join(plan.get("profile", ())) or None,
        "built by": f"torchwheel {manifest['torchwheel']}" if manifest else contents.generator or None,
    }


def _is_label(change: Change) -> bool:
    versions = ((value or "").partition("+")[0] for value in (change.before, change.after))
    return change.name == "version" and len(set(versions)) == 1


def _list_settings(plan: Mapping[str, Any]) -> dict[str, str]:
    # The names have the target and the profile already.
    others = ((key, value) for key, value in recorded_settings(plan).items() if not is_only_how(key))
    return {key: value for key, value in others if key not in ("target", "profile")}


def _list_options(plan: Mapping[str, Any]) -> dict[str, str]:
    options = plan.get("options", {})
    switched_off = dict.fromkeys(options.get("switched_off", ()), "OFF (by CMake)")
    return {**options.get("requested", {}), **options.get("effective", {}), **switched_off}


def _list_compilers(side: Side) -> dict[str, str | None]:
    chain = {_COMPILER: side.compiler, **side.contents.plan.get("toolchain", {})}
    return {name: chain[name] for name in (_COMPILER, *_COMPILERS) if chain.get(name)}


def _list_requirements(side: Side) -> dict[str, str]:
    """Requirements by distribution and marker; those that are no such as they stand."""
    texts = side.contents.metadata.requires_dist
    parsed = parse_requirements(texts)
    found = {text: text for text in texts if text not in parsed}
    for requirement in parsed.values():
        marker = f"; {requirement.marker}" if requirement.marker else ""
        found[f"{requirement.name}{marker}"] = str(requirement.specifier) or "any"
    return found


def _find_changes(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> tuple[Change, ...]:
    changes = (Change(name, one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other]))
    return tuple(change for change in changes if change.before != change.after)


def _library_changes(one: Side, other: Side) -> Iterator[LibraryChange]:
    found = [{library.path: library for library in side.contents.libraries} for side in (one, other)]
    for path in sorted(found[0].keys() | found[1].keys()):
        before, after = (libraries.get(path) for libraries in found)
        if before is None or after is None or one.files.get(path) != other.files.get(path):
            yield LibraryChange(path, before, after)


def _needed_changes(one: Side, other: Side, changes: Sequence[LibraryChange]) -> Iterator[Change]:
    paths = [change.path for change in changes if change.before and change.after]
    if not paths:
        return
    files = (read_files(side.contents).values() for side in (one, other))
    found = [{file.member: file.linkage.libraries for file in some} for some in files]
    for path in paths:
        before, after = (libraries.get(path, ()) for libraries in found)
        gone = ", ".join(name for name in before if name not in after)
        new = ", ".join(name for name in after if name not in before)
        if gone or new:
            yield Change(path, gone or None, new or None)
