"""The PyTorch in the frontend's environment, if the build has an isolated one."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchwheel.host.this import is_isolated, site_packages
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, warning
from torchwheel.torch_install.installed_torch import (
    InstalledTorch,
    bound_release,
    locate_torch,
    read_stated_version,
)


def front_end_findings(torch: InstalledTorch, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Warn if the build's PyTorch is not the one that the wheel will probably be used with.

    An isolated environment gets the newest PyTorch that ``build-system.requires`` allows, whatever is installed.
    """
    if not is_isolated():
        return
    for folder in _front_end_folders(environment):
        location = locate_torch([str(folder)])
        if location is None:
            continue
        try:
            stated = read_stated_version(location.root / "version.py")
            own = (bound_release(stated.version or ""), stated.cuda)
        except (TorchwheelError, ValueError):
            continue
        if own != (bound_release(torch.version), torch.cuda):
            values = {
                "built": torch.version,
                "installed": stated.version,
                "folder": folder,
                "release": own[0],
            }
            yield warning(Problem.of("torch-of-another-environment", **values))
        return


def _front_end_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The package folders of pip's own environment, which pip removes from the search path; else of an active one."""
    searched = set(map(Path, sys.path))
    if active := environment.get("VIRTUAL_ENV"):
        yield site_packages(Path(active))
    for name in ("purelib", "platlib"):
        if (folder := Path(sysconfig.get_path(name))) not in searched:
            yield folder
