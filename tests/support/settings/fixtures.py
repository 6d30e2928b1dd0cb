"""Loading settings from nothing but what a test gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from refusals import error_of
from settings.loading import Load, Refuse
from torchwheel.host.machine import Host, described_host
from torchwheel.reporting.errors import Problem
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.config_settings import ConfigValue


@pytest.fixture(scope="session")
def linux() -> Host:
    return described_host("linux_x86_64", python_version="3.11.7")


@pytest.fixture(scope="session")
def windows() -> Host:
    return described_host("win_amd64", python_version="3.11.7")


@pytest.fixture(scope="session")
def spark() -> Host:
    return described_host("linux_aarch64", python_version="3.12.3")


@pytest.fixture
def load(tmp_path: Path, linux: Host) -> Load:
    def load(
        pyproject: str = "",
        config: Mapping[str, ConfigValue] | None = None,
        environment: Mapping[str, str] | None = None,
        overlays: Mapping[str, str] | None = None,
        host: Host | None = None,
        **options: Any,
    ) -> Settings:
        project, folder = tmp_path / "projekt ü", tmp_path / "overlays"
        project.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        (project / "pyproject.toml").write_text(pyproject, encoding="utf-8")
        for name, text in (overlays or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        return load_settings(project, config, environment or {}, host or linux, folder, **options)

    return load


@pytest.fixture
def refuse(load: Load) -> Refuse:
    def refuse(**sources: Any) -> tuple[Problem, ...]:
        return error_of(load, **sources).problems

    return refuse
