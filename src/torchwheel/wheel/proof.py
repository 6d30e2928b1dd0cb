"""A wheel against its plan: file name, metadata, versions and machine code must all say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.architecture import Architecture
from torchwheel.pytorch.releases import optional_part
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import config_option, join_items
from torchwheel.system.toml import shipped_toml
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.fatbinary import CodeImage, ImageKind, compiled_files, prevalent_images

_EXTRAS = Path(__file__).with_name("extras.toml")  # machine code that PyTorch's build adds by itself


@dataclass(frozen=True)
class Expectation:
    """What a wheel was planned to be; an editable one holds no code, no ``torch/version.py``, and may have any tag."""

    name: str
    version: str
    cuda: str | None
    architectures: ArchitectureList | None
    python_tag: str | None = None
    abi_tag: str | None = None
    platform_tag: str | None = None
    prepared_metadata: bytes | None = None
    debug: bool | None = None
    editable: bool = False


def verify_wheel(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    """Everything in which a wheel differs from what was planned."""
    yield from check_labels(contents, expected)
    if not expected.editable:
        yield from _torch_version(contents, expected)
        yield from check_device_code(contents, expected.architectures)


def check_labels(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    """Where the wheel's file name, METADATA, WHEEL and ``torch/version.py`` differ from what was planned."""
    planned = {
        "wheel-name": canonicalize_name(expected.name),
        "wheel-version": expected.version,
        "wheel-tag": " ".join(contents.tags),
    }
    own = (("wheel-name", contents.name), ("wheel-version", contents.version))
    named = ((id_, "its file name", found) for id_, found in own)
    for id_, where, found in (*named, *stated_names(contents)):
        if found != planned[id_]:
            yield _difference_problem(contents, id_, where, found, planned[id_])
    # PEP 517 wants both to be identical: a frontend has resolved dependencies by the prepared one.
    if expected.prepared_metadata not in (None, bytes(contents.metadata)):
        yield Problem.of("metadata-changed", origin=contents.path)
    if not expected.editable:
        yield from _planned_tags(contents, expected)


def stated_names(contents: WheelContents) -> Iterator[tuple[str, str, str | None]]:
    name, version = map(contents.metadata.single, ("Name", "Version"))
    yield "wheel-name", "METADATA's Name", canonicalize_name(name) if name else None
    yield "wheel-version", "METADATA's Version", version
    yield "wheel-tag", "its WHEEL file", " ".join(contents.wheel_tags)
    if contents.torch_version is not None:
        yield "wheel-version", "torch/version.py's __version__", contents.torch_version.version
    elif contents.has_torch:
        yield "wheel-version", "torch/version.py", None


def _planned_tags(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    parts = [tag.split("-", 2) for tag in contents.tags]
    planned = (expected.python_tag, expected.abi_tag, expected.platform_tag)
    for index, (what, tag) in enumerate(zip(("Python", "ABI", "platform"), planned, strict=True)):
        found = sorted({part[index] for part in parts})
        if tag is None and "any" in found and contents.libraries:
            tag = "that of a platform"
        if tag is not None and found != [tag]:
            # A setup.py has no settings of scikit-build-core.
            by_setuptools = contents.generator.startswith(("setuptools", "bdist_wheel"))
            id = "wheel-tag/setuptools" if by_setuptools else "wheel-tag"
            yield _difference_problem(contents, id, f"its file name's {what} tag", ".".join(found), tag)


def _torch_version(contents: WheelContents, expected: Expectation) -> Iterator[Problem]:
    said = contents.torch_version
    lacking = [] if contents.has_torch else ["the package torch"]
    lacking += [] if contents.libraries else ["any library or extension module"]
    if lacking:
        yield Problem.of("wheel-empty", origin=contents.path, missing=" and ".join(lacking))
    if said is None:
        return
    where = "torch/version.py's "
    if said.cuda != expected.cuda:
        cudas = said.cuda or "None", expected.cuda or "None"
        yield _difference_problem(contents, "wheel-cuda", f"{where}cuda", *cudas)
    if None not in (said.debug, expected.debug) and said.debug != expected.debug:
        debugs = str(said.debug), str(expected.debug)
        yield _difference_problem(contents, "wheel-build-type", f"{where}debug", *debugs)


def _difference_problem(
    contents: WheelContents, id_: str, where: str, found: str | None, planned: str
) -> Problem:
    key = id_ if found is not None else f"{id_}/missing"
    return Problem.of(key, origin=contents.path, where=where, found=found, planned=planned)


def check_device_code(contents: WheelContents, planned: ArchitectureList | None) -> Iterator[Problem]:
    """Everything in which the machine code differs from the plan.

    Every planned SASS and PTX must be in each library that holds device code, and nothing else in any, except
    documented extras. A library that torch loads for one optional part alone may have less: NVIDIA and PyTorch compile
    such for fewer architectures. No relocatable code counts as unplanned: the CUDA toolkit's static libraries bring it
    along.
    """
    if planned is not None and not any(image.runs for image in contents.images):
        yield Problem.of("no-device-code", origin=contents.path, planned=", ".join(planned.labels))
    elif planned is not None:
        yield from _find_missing(contents, planned)
    yield from _find_unplanned(contents, planned)


def is_documented_extra(found: Architecture, planned: Iterable[Architecture]) -> bool:
    """Whether code for ``found`` is no surprise in a wheel for ``planned``."""
    # For single kernels whose instructions only these forms have.
    if found.suffix:
        return any(found.major == architecture.major for architecture in planned)
    wanted = {architecture.capability.dotted for architecture in planned}
    extras = shipped_toml(_EXTRAS)["extra"]
    return any(row["planned"] in wanted and row["found"] == found.dotted for row in extras)


def missing_code(images: Iterable[CodeImage], planned: ArchitectureList) -> tuple[str, ...]:
    """The labels of planned code that is not among the images; relocatable PTX counts: a driver can link it."""
    found = {image.label for image in images if image.runs or image.kind is ImageKind.PTX}
    return tuple(label for label in planned.labels if label not in found)


def _find_missing(contents: WheelContents, planned: ArchitectureList) -> Iterator[Problem]:
    for library in contents.libraries:
        if not any(image.runs for image in library.images) or optional_part(library.path) is not None:
            continue
        relocatable = (image for image in library.images if not image.runs)
        prevalent = prevalent_images(library.images)
        if missing := missing_code((*prevalent, *relocatable), planned):
            files = compiled_files(library.images)
            present = (
                image.label if image in prevalent else f"{image.label} (in {image.count} of {files} files)"
                for image in library.images
                if image.runs
            )
            labels = {"missing": missing, "planned": planned.labels, "present": present}
            values = {name: ", ".join(some) for name, some in labels.items()}
            yield Problem.of("missing-device-code", origin=contents.path, library=library.path, **values)


def _find_unplanned(contents: WheelContents, planned: ArchitectureList | None) -> Iterator[Problem]:
    labels = [image.label for image in contents.images if image.runs and not _is_planned(image, planned)]
    if not labels:
        return
    holders = [
        library.path
        for library in contents.libraries
        if any(image.runs and image.label in labels for image in library.images)
    ]
    values = {"origin": contents.path, "found": ", ".join(labels), "where": join_items(holders)}
    if planned is None:
        yield Problem.of("unplanned-device-code/cpu", **values)
    else:
        option = config_option("arch", ",".join([*planned.labels, *labels]))
        yield Problem.of("unplanned-device-code", **values, planned=", ".join(planned.labels), option=option)


def _is_planned(image: CodeImage, planned: ArchitectureList | None) -> bool:
    return planned is not None and (
        image.label in planned.labels or is_documented_extra(image.architecture, planned.architectures)
    )
