"""What an extension's wheel is called, and which PyTorch it asks for."""

from __future__ import annotations

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.plan.version import hardware_label
from torchwheel.pytorch.version import release_number


def extension_label(
    cuda: str | None, architectures: ArchitectureList | None, torch_release: str, *, stable: bool
) -> str:
    """The local version label of an extension's wheel: ``cu130.sm120.torch2.14``, ``cpu.torch2.14``.

    Args:
        cuda: the toolkit's major and minor version; None where there is none.
        architectures: what is compiled for; None for a build without device code.
        torch_release: the PyTorch that is compiled against, ``2.14.1``.
        stable: whether all its modules use the stable ABI alone. They run with other releases too, so the
            label names none.

    Raises:
        ValueError: ``torch_release`` is no version.
    """
    hardware = hardware_label(cuda, architectures)
    if stable:
        return hardware
    major, minor = _minor_release(torch_release)
    return f"{hardware}.torch{major}.{minor}"


def torch_requirements(torch_release: str, stable_abi: str | None) -> tuple[str, ...]:
    """What the wheel requires of PyTorch: ``torch>=2.14,<2.15``, or ``torch>=2.10`` with the stable ABI.

    PyTorch's C++ ABI changes with every minor release and is kept within one. ``2.15.0a0`` satisfies neither ``>=2.15``
    nor ``<2.15``, so what is built against a pre-release asks for that series' first one on.
    Source: https://packaging.python.org/specifications/version-specifiers/#exclusive-ordered-comparison

    Args:
        torch_release: the PyTorch that is compiled against, ``2.14.1``.
        stable_abi: the oldest release to run with, ``2.10``; None for the C++ ABI of ``torch_release``.

    Raises:
        ValueError: ``torch_release`` is no version.
    """
    from packaging.version import Version

    major, minor = _minor_release(torch_release)
    if stable_abi is not None:
        return (f"torch>={stable_abi}",)
    oldest = f"{major}.{minor}.dev0" if Version(torch_release).is_prerelease else f"{major}.{minor}"
    return (f"torch>={oldest},<{major}.{minor + 1}",)


def _minor_release(torch_release: str) -> tuple[int, int]:
    number = release_number(torch_release)
    if number is None:
        raise ValueError(f"{torch_release!r} is no version of PyTorch")
    return number[:2]
