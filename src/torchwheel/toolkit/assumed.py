"""A CUDA toolkit on a machine that cannot be looked into: where it would be, and what it would hold."""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import overload

from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit
from torchwheel.versions import major_minor

_VERSION_IN_NAME = re.compile(r"(?<![\d.])\d{2}\.\d+")
_WINDOWS_LIBRARIES = {"win_amd64": "lib/x64", "win_arm64": "lib/arm64"}


@overload
def assumed_toolkit(
    version: str, platform_tag: str, root: str | os.PathLike[str] | None = None
) -> Toolkit: ...


@overload
def assumed_toolkit(
    version: None, platform_tag: str, root: str | os.PathLike[str] | None = None
) -> Toolkit | None: ...


def assumed_toolkit(
    version: str | None, platform_tag: str, root: str | os.PathLike[str] | None = None
) -> Toolkit | None:
    """The toolkit as the installer lays it out, on a machine of that platform.

    Args:
        version: the release, ``"12.9"``; None to read it off the name of ``root``.
        platform_tag: the machine's platform tag, ``win_amd64``.
        root: the toolkit's folder there; None for the installer's own choice.

    Returns:
        The toolkit, or None when ``version`` is None and ``root`` does not tell it.
    """
    version = version or _version_of(root)
    if version is None:
        return None
    windows = platform_tag.startswith("win")
    flavour: type[PurePath] = PureWindowsPath if windows else PurePosixPath
    folder = flavour(os.fspath(root or toolkits().default_root(version, platform_tag)))
    libraries = _WINDOWS_LIBRARIES.get(platform_tag, "lib64")
    return Toolkit(
        root=str(folder),
        version=major_minor(version),
        full_version=version,
        nvcc=str(folder / "bin" / ("nvcc.exe" if windows else "nvcc")),
        include_dirs=(str(folder / "include"),),
        library_dir=str(folder / libraries),
        origin="assumed",
        identity=f"{version}:assumed",
    )


def _version_of(root: str | os.PathLike[str] | None) -> str | None:
    # Split by hand, since the path need not be one of this machine's kind.
    *_, name = re.split(r"[\\/]", os.fspath(root or "").rstrip("\\/"))
    match = _VERSION_IN_NAME.search(name)
    return match[0] if match else None
