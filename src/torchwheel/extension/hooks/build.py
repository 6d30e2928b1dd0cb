"""What the hooks of ``torchwheel.extension.backend`` do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_copy, file_lock, write_if_changed
from torchwheel.errors import TorchwheelError
from torchwheel.extension.cmake.configure import CMAKE_PACKAGE, built_plan
from torchwheel.extension.cmake.project import cmake_project_text, wheel_packages
from torchwheel.extension.hooks.finalize import finalize_metadata, finalize_wheel
from torchwheel.extension.hooks.inner_backend import build_environment, hook, require_tools
from torchwheel.extension.hooks.inner_build import inner_build
from torchwheel.extension.hooks.project import Asked, Way, asked_of_project, scikit_build_table
from torchwheel.extension.model import Extension, ExtensionPlan
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.project_extensions import extensions_of_tables
from torchwheel.extension.survey import survey_extensions
from torchwheel.extension.tables import has_extension_tables, read_extension_tables
from torchwheel.findings import stop_on_errors
from torchwheel.host.model import Host
from torchwheel.host.this import this_host
from torchwheel.survey import ConfigSettings

_BUILD, _SOURCE = "cmake", "cmake-source"
_LIMITED = "cp310"


@dataclass(frozen=True)
class _Prepared:
    """What is known before the inner backend runs.

    Attributes:
        asked: what is asked for.
        host: this machine.
        plan: the plan; of a project with tables it is whole, of others it lacks the extensions, which nobody knows
            before their CMakeLists.txt or setup.py has run.
    """

    asked: Asked
    host: Host
    plan: ExtensionPlan

    @property
    def folder(self) -> Path:
        """The folder that is kept from build to build."""
        if self.asked.way is Way.TABLES:
            return self.plan.folder
        settings = self.asked.settings
        labels = (
            settings.architectures.labels if settings.architectures else ("cpu",) if settings.is_cpu else ()
        )
        return self.plan.folder.with_name("-".join([self.plan.folder.name, *labels]))


def build_wheel(
    project: Path,
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    wheel_directory: Path,
    metadata_directory: Path | None,
    *,
    editable: bool,
) -> str:
    """Build a wheel; returns its file name.

    Raises:
        TorchwheelError: nothing can be built, or what was built is not what was planned.
    """

    prepared = _prepare(project, config_settings, environment)
    asked = prepared.asked
    name = "build_editable" if editable else "build_wheel"
    with _inner(prepared) as (inner, temporary):
        built = Path(temporary, hook(asked.way, name)(temporary, inner.config, None))
        plan = inner.plan()
        if plan is None:
            atomic_copy(built, wheel_directory / built.name)
            return built.name
        return finalize_wheel(
            plan, asked, prepared.host, built, wheel_directory, metadata_directory, editable=editable
        )


def prepare_metadata(
    project: Path,
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    metadata_directory: Path,
    *,
    editable: bool,
) -> str:
    """Write the metadata of a project with tables; returns the name of the ``.dist-info`` folder.

    Raises:
        TorchwheelError: nothing can be built.
    """

    prepared = _prepare(project, config_settings, environment)
    kind = "editable" if editable else "wheel"
    with _inner(prepared) as (inner, _):
        made = hook(prepared.asked.way, f"prepare_metadata_for_build_{kind}")(
            str(metadata_directory), inner.config
        )
    return finalize_metadata(prepared.plan, metadata_directory / made)


def build_sdist(
    project: Path,
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    sdist_directory: Path,
) -> str:
    """Write the source distribution; returns its file name. It needs no PyTorch, and has no label.

    Raises:
        TorchwheelError: the settings are wrong, or the inner backend is missing.
    """
    asked = asked_of_project(project, config_settings, environment)
    with inner_build(asked.own):
        name: str = hook(asked.way, "build_sdist")(str(sdist_directory), dict(asked.inner))
    return name


def metadata_is_cheap(project: Path) -> bool:
    """Whether metadata can be had without building: where tables say what the extensions are."""

    try:
        return has_extension_tables(project)
    except TorchwheelError:
        return False


def _prepare(
    project: Path, config_settings: ConfigSettings | None, environment: Mapping[str, str]
) -> _Prepared:
    asked = asked_of_project(project, config_settings, environment)
    extensions: tuple[Extension, ...] = ()
    if asked.way is Way.TABLES:
        extensions = extensions_of_tables(read_extension_tables(project), project, asked.own, environment)
    plan = make_extension_plan(
        survey_extensions(project, extensions, asked.own, environment, install_toolkit=True)
    )
    stop_on_errors(plan.findings, plan.settings.skip_check)
    if asked.way is not Way.SETUP_PY:
        require_tools(environment)
    return _Prepared(asked, this_host(environment), plan)


class _Inner:
    """The inner backend's settings, and afterwards what it has built."""

    def __init__(self, prepared: _Prepared, config: dict[str, Any], plans: list[ExtensionPlan]) -> None:
        self.config = config
        self._prepared = prepared
        self._plans = plans

    def plan(self) -> ExtensionPlan | None:
        """The plan of what was built; None for a package without extensions of PyTorch."""
        asked = self._prepared.asked
        if asked.way is Way.TABLES:
            return self._prepared.plan
        if asked.way is Way.CMAKE:
            return built_plan(self._prepared.folder / _BUILD, asked.environment)
        return self._plans[-1] if self._plans else None


@contextmanager
def _inner(prepared: _Prepared) -> Iterator[tuple[_Inner, str]]:
    """The surroundings in which a hook of the inner backend is called, with a folder for what it makes."""

    folder = prepared.folder
    asked = prepared.asked
    with (
        file_lock(folder / "backend.lock"),
        build_environment(asked, prepared.host, prepared.plan.jobs.max_jobs, str(folder / _BUILD)),
        inner_build(asked.own) as running,
    ):
        temporary = tempfile.mkdtemp(prefix="wheel-", dir=folder)
        try:
            yield _Inner(prepared, _inner_config(prepared), running.plans), temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _inner_config(prepared: _Prepared) -> dict[str, Any]:
    """The ``-C`` values for the inner backend; what the user gives it goes before torchwheel's own choice."""
    asked, folder = prepared.asked, prepared.folder
    if asked.way is Way.SETUP_PY:
        return dict(asked.inner)
    config: dict[str, Any] = {
        "cmake.define.TorchWheel_ROOT": str(CMAKE_PACKAGE),
        "cmake.define.TORCHWHEEL_PROJECT_DIR": str(asked.project),
        "cmake.define.TORCHWHEEL_CONFIG_SETTINGS": asked.own_text,
        "cmake.build-type": prepared.plan.settings.build_type,
    }
    if asked.way is Way.TABLES:
        config |= _generated_project(prepared)
    return {**config, **asked.inner, "build-dir": str(folder / _BUILD)}


def _generated_project(prepared: _Prepared) -> dict[str, Any]:
    """Write a CMake project for tables, beside the build folder, and tell scikit-build-core of it."""

    plan, asked = prepared.plan, prepared.asked
    source = prepared.folder / _SOURCE
    write_if_changed(source / "CMakeLists.txt", cmake_project_text(plan))
    config: dict[str, Any] = {"cmake.source-dir": str(source)}
    wheel = scikit_build_table(asked.project).get("wheel", {})
    if "packages" not in wheel and (packages := wheel_packages(plan, asked.project)):
        config["wheel.packages"] = list(packages)
    if all(planned.extension.limited_api for planned in plan.extensions):
        config["wheel.py-api"] = _LIMITED
    return config
