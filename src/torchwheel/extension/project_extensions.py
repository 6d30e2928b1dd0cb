"""From a project's tables to its extensions: what the installed PyTorch and the target have to do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchwheel.extension.model import Extension
from torchwheel.extension.survey import builds_cuda, project_settings
from torchwheel.extension.tables import ExtensionTable, described_extensions
from torchwheel.extension.torch_install.installed_torch import installed_torch
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.this import this_host
from torchwheel.settings.resolve import architectures_of
from torchwheel.survey import ConfigSettings


def extensions_of_tables(
    tables: Sequence[ExtensionTable],
    project: Path,
    config_settings: ConfigSettings,
    environment: Mapping[str, str],
) -> tuple[Extension, ...]:
    """The extensions that tables describe, for this PyTorch and the target that is asked for.

    Raises:
        TorchwheelError: the settings are wrong, PyTorch is not installed, or a pattern or target is unknown.
    """

    host = this_host(environment)
    settings = project_settings(project, config_settings, environment, host)
    cuda = builds_cuda(settings, installed_torch())
    defaults: dict[str, ArchitectureList] = {}
    if cuda and settings.architectures is None:
        for table in tables:
            if table.targets:
                origin = f"{table.origin} targets"
                found = architectures_of(table.targets, origin, settings)
                defaults |= {table.name: found} if found is not None else {}
    return described_extensions(tables, project, cuda=cuda, defaults=defaults)
