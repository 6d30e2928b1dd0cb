"""A wheel of extensions against its plan: labels, requirements, and every module's code, symbols and libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.extension.proving.expectation import ExpectedExtensionWheel, ExpectedModule
from torchwheel.extension.proving.linked_libraries import library_problems
from torchwheel.extension.stable.symbols import limited_api_violations, stable_abi_violations
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.contents import Library, WheelContents, inspect_wheel
from torchwheel.wheel.metadata import missing_bounds
from torchwheel.wheel.objfile import read_linkage
from torchwheel.wheel.platform_level import platform_problems
from torchwheel.wheel.verify import check_labels, missing_code, unplanned_code

# Formats whose symbols can be read; a module for macOS is proved by its labels alone.
_READABLE = (".so", ".pyd", ".dll")


def verify_extension_wheel(path: Path, expected: ExpectedExtensionWheel) -> tuple[Problem, ...]:
    """Everything in which a wheel differs from what was planned; empty if it is as planned.

    Raises:
        TorchwheelError: the file is no wheel, or damaged.
    """
    return verify_extension_contents(inspect_wheel(path), expected)


def verify_extension_contents(
    contents: WheelContents, expected: ExpectedExtensionWheel
) -> tuple[Problem, ...]:
    """The same as :func:`verify_extension_wheel`, of a wheel that has been looked into."""
    problems = [*check_labels(contents, expected.labels), *_requirements(contents, expected)]
    if expected.labels.editable:
        return tuple(problems)
    libraries = {library.path: library for library in contents.libraries}
    with open_wheel(contents.path) as archive:
        for module in expected.modules:
            if module.path in libraries:
                problems += _device_code(contents, libraries[module.path], module)
                problems += _linkage(archive, contents, module, expected.labels.cuda)
            else:
                problems.append(_absent(contents, module))
    return tuple(problems)


def _requirements(contents: WheelContents, expected: ExpectedExtensionWheel) -> Iterator[Problem]:
    for bound in missing_bounds(contents.metadata.requires_dist, expected.requires):
        yield Problem(
            id="missing-requirement",
            what=f"METADATA does not require {bound}",
            remedy="build again with torchwheel; if METADATA was changed since, leave that requirement in it",
            why="without it pip installs the wheel beside a PyTorch that its modules do not work with",
            origin=str(contents.path),
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
            yield Problem(
                id="missing-device-code",
                what=f"it has no code for {', '.join(missing)}",
                remedy="delete the build folder and build again; leave -gencode, -arch and -code out of the "
                "extension's flags",
                why=f"{', '.join(module.architectures.labels)} was planned; it has {_labels(library)}",
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


def _labels(library: Library) -> str:
    return ", ".join(image.label for image in library.images if image.runs) or "none"


def _linkage(
    archive: WheelArchive, contents: WheelContents, module: ExpectedModule, cuda: str | None
) -> Iterator[Problem]:
    platforms = sorted({tag.rpartition("-")[2] for tag in contents.tags})
    if not module.path.lower().endswith(_READABLE) or any(tag.startswith("macosx") for tag in platforms):
        return
    origin = f"{contents.path}: {module.path}"
    with archive.unpacked(module.path) as stream:
        linkage = read_linkage(stream, origin)
    yield from library_problems(linkage, limited_api=module.limited_api is not None, cuda=cuda, origin=origin)
    if module.stable_abi is not None:
        yield from stable_abi_violations(linkage, module.stable_abi, origin)
    if module.limited_api is not None:
        yield from limited_api_violations(linkage, module.limited_api, origin)
    for tag in platforms:
        yield from platform_problems(linkage, tag, origin)
