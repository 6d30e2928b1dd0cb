"""setuptools' hooks for a project whose extensions are described by tables in its pyproject.toml.

setuptools reads ``[project]`` and ``[tool.setuptools]`` itself. Its entry points (``_setuptools_entry_point.py``) add
the extensions, the packages and the files while this module is imported: torchwheel's backend runs its hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setuptools import Extension, find_namespace_packages
from setuptools.build_meta import *  # noqa: F403 the hooks

from torchwheel.extension.cpp_extension_compat import provide_toolkit
from torchwheel.extension.described_extensions import DESCRIBED, OPTIONS, setuptools_extension
from torchwheel.extension.extension_plan import Extension as Described
from torchwheel.extension.extension_plan import ExtensionProject
from torchwheel.extension.extension_survey import plan_extensions
from torchwheel.extension.handover import errors_handed_over, handover_here, project_here, record_plan
from torchwheel.extension.options import described_extensions, project_extensions, read_extension_tables
from torchwheel.extension.setuptools_distribution import ALONE
from torchwheel.extension.setuptools_ext import BuildExtension
from torchwheel.system.paths import is_dir
from torchwheel.torch_install.cpp_extension import cpp_extension
from torchwheel.torch_install.installed_torch import locate_torch
from torchwheel.tree.source_files import source_files
from torchwheel.versions import wheel_spelling

_BUILDS, _METADATA = frozenset({"bdist_wheel", "editable_wheel"}), "dist_info"


def add_extensions(distribution: Any) -> None:
    """Add a project's tables to its distribution, and its packages unless it names them."""
    hook = handover_here()
    if hook is None or not distribution.script_args:
        return
    with errors_handed_over():
        project = project_here()
        tables = read_extension_tables(project.pyproject)
        described = everything = described_extensions(tables, project.folder, cuda=True)
        if locate_torch():
            described = project_extensions(project)
        for one in described:
            DESCRIBED[one.name], OPTIONS[one.name] = one, {}
        builds = not _BUILDS.isdisjoint(distribution.script_args)
        if builds or _METADATA in distribution.script_args:
            plan = plan_extensions(project, described, install=builds)
            # For the command that builds them.
            distribution.torchwheel_plan = described, plan
            record_plan(plan, hook)
            plan.stop_on_errors()
    if not builds:
        # Neither needs a toolkit, and an sdist holds all sources.
        files = [file for one in everything for file in (*one.sources, *one.depends)]
        made = [Extension(one.name, list(one.sources), depends=files) for one in described]
    else:
        if any(one.uses_cuda for one in described):
            provide_toolkit(vars(cpp_extension()), asked=True)
        made = [setuptools_extension(one, project, project.torch) for one in described]
    distribution.ext_modules = [*(distribution.ext_modules or ()), *made]
    distribution.cmdclass.setdefault("build_ext", BuildExtension)
    if not project.pyproject.table("tool", "setuptools").keys() & {"packages", "package-dir", "py-modules"}:
        folders = dict(_package_folders(project, described))
        parents = {folder.rpartition("/")[0] for folder in folders.values()}
        # An editable install of packages in one folder is a line of a .pth file, which type checkers understand.
        distribution.package_dir = {"": parents.pop()} if len(parents) == 1 and "" not in parents else folders
        distribution.packages = [
            name
            for package, folder in folders.items()
            for name in (package, *(f"{package}.{below}" for below in find_namespace_packages(folder)))
        ]
    if hook.folder is not None:
        # The checkout stays as it is.
        ALONE.add(project.folder.resolve())
        for command, option in (("egg_info", "egg_base"), ("build", "build_base")):
            folder = hook.folder / command
            folder.mkdir(parents=True, exist_ok=True)
            distribution.get_option_dict(command)[option] = ("torchwheel", str(folder))


def _package_folders(
    project: ExtensionProject, extensions: tuple[Described, ...]
) -> Iterator[tuple[str, str]]:
    own = wheel_spelling(str(project.pyproject.table("project").get("name", "")))
    for name in dict.fromkeys([own, *(one.name.partition(".")[0] for one in extensions if "." in one.name)]):
        folders = (f"{parent}/{name}".lstrip("/") for parent in ("src", "python", ""))
        if name and (folder := next((one for one in folders if is_dir(project.folder / one)), None)):
            yield name, folder


def find_files() -> Iterator[str]:
    """Yield the project's source files, for the sdist and as data of its packages; modules built in place are none."""
    project = project_here()
    modules = tuple(f"/{name.replace('.', '/')}" for name in DESCRIBED)
    for file in source_files(project.folder).files:
        folder, _, name = f"/{file}".rpartition("/")
        built = name.endswith((".so", ".pyd")) and f"{folder}/{name.partition('.')[0]}".endswith(modules)
        if not built and not (project.folder / file).is_relative_to(project.builds_folder):
            yield file
