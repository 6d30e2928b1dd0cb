"""What an extension's wheel is called, and which PyTorch it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.plan.version import hardware_label
from torchwheel.versions import numbers

LIMITED_PYTHON = "3.10"
"""The oldest Python that modules with the limited API are built for: the oldest that torchwheel serves."""


def extension_label(
    cuda: str | None, architectures: ArchitectureList | None, torch_version: str, *, stable: bool
) -> str:
    """The local version label of an extension's wheel: ``cu130.sm120.torch2.14``, ``cpu.torch2.14``.

    Args:
        cuda: the toolkit's major and minor version; None where there is none.
        architectures: what is compiled for; None for a build without device code.
        torch_version: the version of the PyTorch that is compiled against, ``2.14.1+cu130``.
        stable: whether all its modules use the stable ABI alone. They run with other releases too, so the
            label names none.

    Raises:
        ValueError: ``torch_version`` is no version.
    """
    hardware = hardware_label(cuda, architectures)
    if stable:
        return hardware
    major, minor = _minor_release(torch_version)
    return f"{hardware}.torch{major}.{minor}"


def torch_requirements(torch_version: str, stable_abi: str | None) -> tuple[str, ...]:
    """What the wheel requires of PyTorch: ``torch>=2.14,<2.15``, or ``torch>=2.10`` with the stable ABI.

    PyTorch's C++ ABI changes with every minor release and is kept within one. ``2.15.0a0`` satisfies neither ``>=2.15``
    nor ``<2.15``, so what is built against a pre-release asks for that series' first one on.
    Source: https://packaging.python.org/specifications/version-specifiers/#exclusive-ordered-comparison

    Args:
        torch_version: the version of the PyTorch that is compiled against, ``2.14.1+cu130``.
        stable_abi: the oldest release to run with, ``2.10``; None for the C++ ABI of ``torch_version``.

    Raises:
        ValueError: ``torch_version`` is no version.
    """

    major, minor = _minor_release(torch_version)
    if stable_abi is not None:
        return (f"torch>={stable_abi}",)
    oldest = f"{major}.{minor}.dev0" if Version(torch_version).is_prerelease else f"{major}.{minor}"
    return (f"torch>={oldest},<{major}.{minor + 1}",)


def common_stable_abi(releases: Iterable[str | None]) -> str | None:
    """The newest of the releases that stable modules need at least; None if any module is not stable."""
    needed = list(releases)
    found = [release for release in needed if release is not None]
    return max(found, key=numbers) if found and len(found) == len(needed) else None


def has_limited_api(abi_tag: str) -> bool:
    """Whether a Python has the limited API, and takes wheels tagged ``abi3``: no free-threaded one, ``cp313t``.

    Source: https://docs.python.org/3.14/howto/free-threading-extensions.html (Limited C API and Stable ABI)
    """
    return re.fullmatch(r"cp\d+td?", abi_tag) is None


def python_tags(interpreter_tag: str, abi_tag: str, *, limited_api: bool) -> tuple[str, str]:
    """The Python tag and the ABI tag of an extension's wheel.

    Args:
        interpreter_tag: of the Python that it is built for, ``cp311``.
        abi_tag: of the same.
        limited_api: whether all its modules use the limited API alone.
    """
    if limited_api and has_limited_api(abi_tag):
        return f"cp{LIMITED_PYTHON.replace('.', '')}", "abi3"
    return interpreter_tag, abi_tag


def _minor_release(torch_version: str) -> tuple[int, int]:
    match numbers(torch_version):
        case major, minor, *_:
            return major, minor
        case _:
            raise ValueError(f"{torch_version!r} is no version of PyTorch")
