"""The machine code of a wheel against the architectures that were planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchwheel.errors import Problem
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.wheel.archive import name_some
from torchwheel.wheel.binary import CodeImage
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.extras import is_documented_extra
from torchwheel.wheel.fatbinary import ImageKind


def check_device_code(contents: WheelContents, planned: ArchitectureList | None) -> tuple[Problem, ...]:
    """Everything in which the machine code differs from the plan.

    Every planned SASS and PTX must be in some library, and nothing else in any, except what
    :func:`documented_extras` lists. Relocatable PTX counts where it was planned (a driver can link it), and
    no
    relocatable code counts as unplanned: the CUDA toolkit's static libraries bring it along.

    Args:
        contents: the wheel.
        planned: None if no device code is wanted.
    """
    if planned is None:
        return tuple(_not_wanted(contents))
    if not any(image.runs for image in contents.images):
        return (_no_code(contents, planned),)
    return (*_missing(contents, planned), *_unplanned(contents, planned))


def documented_extras(contents: WheelContents, planned: ArchitectureList) -> tuple[CodeImage, ...]:
    """The machine code that was not planned, and that PyTorch's build is known to add for single kernels."""
    return tuple(
        image
        for image in unplanned_code(contents.images, planned)
        if is_documented_extra(image.architecture, planned.architectures)
    )


def missing_code(images: Iterable[CodeImage], planned: ArchitectureList) -> tuple[str, ...]:
    """The labels of planned code that is not among the images.

    Relocatable PTX counts: a driver can link it.
    """
    found = {image.label for image in images if image.runs or image.kind is ImageKind.PTX}
    return tuple(label for label in planned.labels if label not in found)


def unplanned_code(images: Iterable[CodeImage], planned: ArchitectureList) -> tuple[CodeImage, ...]:
    """The images that run and were not planned."""
    wanted = set(planned.labels)
    return tuple(image for image in images if image.runs and image.label not in wanted)


def _missing(contents: WheelContents, planned: ArchitectureList) -> Iterator[Problem]:
    missing = missing_code(contents.images, planned)
    if missing:
        present = ", ".join(image.label for image in contents.images if image.runs)
        yield Problem(
            id="missing-device-code",
            what=f"no library has code for {', '.join(missing)}",
            remedy="look for TORCH_CUDA_ARCH_LIST and CMAKE_CUDA_ARCHITECTURES in the CMakeCache.txt of the "
            "build directory that `torchwheel plan` names; delete that directory and build again",
            why=f"the plan asks for {', '.join(planned.labels)}, the wheel has {present}",
            origin=str(contents.path),
        )


def _unplanned(contents: WheelContents, planned: ArchitectureList) -> Iterator[Problem]:
    extras = set(documented_extras(contents, planned))
    surplus = [image for image in unplanned_code(contents.images, planned) if image not in extras]
    if surplus:
        labels = tuple(image.label for image in surplus)
        yield Problem(
            id="unplanned-device-code",
            what=f"there is code for {', '.join(labels)}, which was not planned: {_where(contents, labels)}",
            remedy=f"plan it too (-C arch={_wider(planned, surplus)!r}), or find the static library that "
            "brings it along, or the call of nvcc without -arch",
            why=f"the plan asks for {', '.join(planned.labels)} only, and the wheel's name says so",
            origin=str(contents.path),
        )


def _wider(planned: ArchitectureList, surplus: Iterable[CodeImage]) -> str:
    items = [*planned.labels, *(image.label for image in surplus)]
    return ",".join(items)


def _no_code(contents: WheelContents, planned: ArchitectureList) -> Problem:
    return Problem(
        id="no-device-code",
        what=f"no library has any device code; {', '.join(planned.labels)} was planned",
        remedy="look for USE_CUDA in the CMakeCache.txt of the build directory that `torchwheel plan` names: "
        "configuring has switched it off, and the log beside it says why",
        origin=str(contents.path),
    )


def _not_wanted(contents: WheelContents) -> Iterator[Problem]:
    labels = tuple(image.label for image in contents.images if image.runs)
    if labels:
        yield Problem(
            id="unplanned-device-code",
            what=f"a build without CUDA was planned, and there is code for {', '.join(labels)}: "
            f"{_where(contents, labels)}",
            remedy="delete the build directory that `torchwheel plan` names, and build again; to have CUDA, "
            "name a GPU with -C target=NAME",
            origin=str(contents.path),
        )


def _where(contents: WheelContents, labels: tuple[str, ...]) -> str:
    return name_some(
        [
            library.path
            for library in contents.libraries
            if any(image.runs and image.label in labels for image in library.images)
        ]
    )
