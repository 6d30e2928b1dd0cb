"""The names of extension modules and their wheel, and its requirement on PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.machine import is_free_threaded
from torchwheel.plan.naming import build_type_labels, hardware_label
from torchwheel.torch_install.installed_torch import bound_release
from torchwheel.versions import parse_numbers

_LIMITED_TAG = "cp310"
"""The tag of the oldest Python for modules with the limited API; also torch.utils.cpp_extension's."""


def module_suffix(suffixes: Sequence[str], *, limited: bool) -> str:
    """The suffix of extension modules, for all Pythons if they use only its limited API.

    Args:
        suffixes: those that a Python can import, its own first.
    """
    # Windows has no suffix with abi3: there a plain .pyd is for all Pythons.
    of_all = next((suffix for suffix in suffixes if "abi3" in suffix), suffixes[-1])
    return of_all if limited else suffixes[0]


def extension_label(
    cuda: str | None,
    architectures: ArchitectureList | None,
    torch_version: str,
    *,
    stable: bool,
    build_type: str = "Release",
    dirty: bool = False,
) -> str:
    """The local version label of an extension's wheel: ``cu130.sm120.torch2.14``, ``cpu.torch2.14``.

    If all its modules use only the stable ABI, they also run with other releases, and the label names none. A nightly's
    date follows the release: ``torch2.16.dev20261101``. The build type follows if it is not Release, and ``dirty`` if
    tracked files differ from the commit.

    Raises:
        ValueError: ``torch_version`` is not a version.
    """
    parts = [hardware_label(cuda, architectures)]
    if not stable:
        parts.append(f"torch{bound_release(torch_version)}")
    parts += build_type_labels(build_type)
    return ".".join([*parts, "dirty"] if dirty else parts)


def labelled_version(version: str, requested: str | None, label: str) -> str:
    """Add a label to a version: ``1.2+own`` and ``cu130.sm120`` make ``1.2+own.cu130.sm120``.

    The label is added only once, because tools may read a version with it from an sdist's PKG-INFO.
    """
    own = Version(version)
    base = requested or own.public
    ends = f".{own.local or ''}".endswith(f".{Version(f'0+{label}').local}") if label else True
    local = ".".join(part for part in (own.local or "", "" if ends else label) if part)
    return str(Version(f"{base}+{local}" if local else base))


def torch_requirements(torch_version: str, stable_abi: str | None) -> tuple[str, ...]:
    """Return the wheel's requirement on PyTorch: ``torch>=2.14,<2.15``, or ``torch>=2.10`` with 2.10's stable ABI.

    The PyTorch that it is built with satisfies it.

    PyTorch's C++ ABI changes with every minor release and is stable within one. ``2.15.0a0`` satisfies neither
    ``>=2.15`` nor ``<2.15``, so a wheel built with a pre-release requires at least the first one of that series. The
    ABI of a nightly may differ from the next one, so a wheel built with ``2.16.0.dev20261101`` requires exactly that.
    Source: https://packaging.python.org/specifications/version-specifiers/#exclusive-ordered-comparison

    Raises:
        ValueError: ``torch_version`` is no version.
    """
    built = Version(torch_version)
    if stable_abi is not None:
        bound = f"torch>={stable_abi}"
        builds = SpecifierSet(f">={stable_abi}").contains(built, prereleases=True)
        return (bound if builds else f"{bound}.dev0",)
    if built.dev:
        return (f"torch=={built.public}",)
    oldest = f"{built.major}.{built.minor}" + (".dev0" if built.is_prerelease else "")
    return (f"torch>={oldest},<{built.major}.{built.minor + 1}",)


def common_stable_abi(releases: Iterable[str | None]) -> str | None:
    """The newest of the minimum releases of stable modules; None if any module is not stable."""
    needed = list(releases)
    found = [release for release in needed if release is not None]
    return max(found, key=parse_numbers) if found and len(found) == len(needed) else None


def python_tags(interpreter_tag: str, abi_tag: str, *, limited_api: bool) -> tuple[str, str]:
    """The Python tag and the ABI tag of an extension's wheel; ``limited_api`` if all its modules use only that.

    Source: https://docs.python.org/3.14/howto/free-threading-extensions.html (Limited C API and Stable ABI)
    """
    if limited_api and not is_free_threaded(abi_tag):
        return _LIMITED_TAG, "abi3"
    return interpreter_tag, abi_tag
