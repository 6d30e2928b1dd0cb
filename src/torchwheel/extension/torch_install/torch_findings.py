"""What is wrong with an installed PyTorch that extensions are to be built against, though it can be read."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from torchwheel.errors import Problem
from torchwheel.extension.torch_install.installed_torch import InstalledTorch, TorchOrigin
from torchwheel.findings import Finding, error, warning

_CORE = ("c10", "torch", "torch_cpu")


def torch_findings(torch: InstalledTorch) -> tuple[Finding, ...]:
    """Headers and libraries that are missing, and metadata of another version."""
    found = (_headers(torch), _libraries(torch), _metadata(torch))
    return tuple(finding for finding in found if finding is not None)


def _headers(torch: InstalledTorch) -> Finding | None:
    if torch.include_dirs:
        return None
    return error(
        Problem(
            id="torch-without-headers",
            what=f"PyTorch {torch.version} in {torch.root} has no headers",
            remedy=_complete(torch),
            why="extensions are compiled against them: torch/include, with c10/macros/Macros.h",
        )
    )


def _libraries(torch: InstalledTorch) -> Finding | None:
    missing = [name for name in _CORE if name not in torch.libraries]
    if not missing:
        return None
    return error(
        Problem(
            id="torch-without-libraries",
            what=f"PyTorch {torch.version} in {torch.root} lacks libraries: {', '.join(missing)}",
            remedy=_complete(torch),
            why="extensions are linked against them",
        )
    )


def _complete(torch: InstalledTorch) -> str:
    if torch.origin is TorchOrigin.SYSTEM:
        return "install the package with its development files too: on Debian and Ubuntu, apt-get install libtorch-dev"
    if torch.origin in (TorchOrigin.EDITABLE, TorchOrigin.BUILD_TREE):
        return "finish the build of that source tree"
    return "install PyTorch again: pip install --force-reinstall --no-deps torch"


def _metadata(torch: InstalledTorch) -> Finding | None:
    stated = torch.distribution_version
    if stated is None or _same_version(stated, torch.version):
        return None
    return warning(
        Problem(
            id="torch-version-mismatch",
            what=f"PyTorch is {torch.version} by its version.py and {stated} by its metadata",
            remedy="install PyTorch again, so that only one is there: pip install --force-reinstall torch",
            why="files of two installations are mixed, or the wheel was changed; the extension is built for "
            f"{torch.version}",
            origin=str(torch.distribution),
        )
    )


def _same_version(stated: str, version: str) -> bool:
    """Whether two versions agree; a label that only one of them has does not tell them apart."""

    if stated == version:
        return True
    try:
        one, other = Version(stated), Version(version)
    except InvalidVersion:
        return False
    labels = {one.local, other.local} - {None}
    return one.public == other.public and len(labels) < 2
