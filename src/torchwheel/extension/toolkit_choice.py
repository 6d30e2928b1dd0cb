"""Which CUDA toolkit a project's extensions are compiled with."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchwheel._dataclass import dataclass
from torchwheel.toolkit.discover import discover_toolkits, toolkit_at

if TYPE_CHECKING:
    from torchwheel.extension.installed_torch import InstalledTorch
    from torchwheel.findings import Finding
    from torchwheel.hardware.arch import ArchitectureList
    from torchwheel.settings import Settings
    from torchwheel.toolkit.model import Toolkit


@dataclass(frozen=True)
class ExtensionToolkit:
    """The choice and what there is to say about it."""

    toolkit: Toolkit | None
    findings: tuple[Finding, ...] = ()


def choose_extension_toolkit(
    settings: Settings,
    torch: InstalledTorch,
    environment: Mapping[str, str],
    architectures: ArchitectureList | None,
) -> ExtensionToolkit:
    """Provisional."""
    if settings.cuda_path is not None:
        return ExtensionToolkit(toolkit_at(settings.cuda_path, settings.entries["cuda-path"].origin))
    packages = [
        Path(sysconfig.get_path("purelib")),
        *(Path(p) for p in sys.path if p.endswith("site-packages")),
    ]
    found = discover_toolkits(environment, site_packages=packages)
    return ExtensionToolkit(next(iter(found), None))
