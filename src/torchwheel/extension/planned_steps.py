"""The commands of a plan's extensions, by PyTorch's own BuildExtension, which runs none of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from setuptools import Distribution

from torchwheel.extension.compile.torch_steps import replaced
from torchwheel.extension.extension_plan import (
    ExtensionPlan,
    Flags,
    PlannedExtension,
    Step,
    StepKind,
)
from torchwheel.extension.handover import CUDA_HOME
from torchwheel.extension.setuptools_ext import (
    BuildExtension,
    TargetedBuild,
    add_ninja_to_path,
    setuptools_extension,
)
from torchwheel.host.compilers import join_words
from torchwheel.torch_install.cpp_extension import cpp_extension

_CHECK = "_check_cuda_version"


class _Planning(BuildExtension):
    """Keeps the steps of extensions instead of running them."""

    plan: ExtensionPlan
    build: Path | None
    planned: dict[str, PlannedExtension]

    def build_extensions(self) -> None:
        own: dict[str, Any] = {}
        if (toolkit := self.plan.inputs.toolkit) is not None:
            # The plan has checked it, and it may not be there yet.
            own = {CUDA_HOME: toolkit.root, _CHECK: lambda *_: None}
        with replaced(self._torch, own):
            super(TargetedBuild, self).build_extensions()

    def build_extension(self, ext: Any) -> None:
        planned = next(one for one in self.plan.extensions if one.extension.name == ext.name)
        folder, place = self.plan.folder / planned.folder, ""
        if self.build is not None:
            folder, place = self.build, f"{self.plan.below}/{planned.folder}/"
        found: list[Step] = []
        made = self._prepare(ext, self.plan, planned, folder, place)
        made.run = found.extend
        if self.build is not None:
            made.write_files()
        file = Path(self.get_ext_fullpath(ext.name)).name
        flags = Flags()

        def link(command: Sequence[str], **_: Any) -> None:
            nonlocal flags
            output, objects = f"{place}{file}", [step.output for step in found]
            spelled = made.spelled([*map(str, command)])
            words = tuple(output if word.endswith(f"{os.sep}{file}") else word for word in spelled)
            found.append(Step(StepKind.LINK, tuple(objects), output, words))
            files = {*objects, output, "-o"}
            first = next((number for number, word in enumerate(words) if word in files), len(words))
            libraries = tuple(word for word in words[first:] if word not in files)
            flags = Flags(made.spelled(made.flags), words[1:first], libraries)

        # setuptools from 81 on calls the second.
        self.compiler.spawn = self.compiler.call = link
        with made.replacing(self._torch):
            super(TargetedBuild, self).build_extension(ext)
        self.planned[ext.name] = replace(planned, steps=tuple(found), flags=flags)


def with_described_steps(plan: ExtensionPlan, build: Path | None = None) -> ExtensionPlan:
    """Return a plan of tables or of CMake's functions with its steps.

    Args:
        build: the folder of CMake's build, where they run; None for a folder of each extension.
    """
    toolkit, project = plan.inputs.toolkit, plan.project
    own = {CUDA_HOME: toolkit.root if toolkit else None}
    with _surroundings(plan), replaced(vars(cpp_extension()), own):
        made = [setuptools_extension(one.extension, project, plan.inputs.torch) for one in plan.extensions]
        for extension in made:
            extension.sources = [os.path.normpath(project.folder / source) for source in extension.sources]
        return with_steps(plan, made, build)


def with_steps(plan: ExtensionPlan, extensions: Iterable[Any], build: Path | None = None) -> ExtensionPlan:
    """Return a plan with the steps of its extensions, which setuptools has under the same names."""
    if not plan.extensions:
        return plan
    with tempfile.TemporaryDirectory(prefix="torchwheel-") as folder:
        distribution = Distribution({"name": "planned", "ext_modules": list(extensions)})
        command = _Planning(distribution)
        command.plan, command.build, command.planned = plan, build, {}
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
    extended = tuple(command.planned.get(one.extension.name, one) for one in plan.extensions)
    return replace(plan, extensions=extended)


@contextmanager
def _surroundings(plan: ExtensionPlan) -> Iterator[None]:
    """Set the variables by which setuptools and PyTorch find the compilers of a plan."""
    project, before = plan.project, dict(os.environ)
    own = {name: value for name, value in project.environment.items() if name != "CC"}
    if (cxx := plan.inputs.cxx) is not None:
        own["CXX"] = join_words(cxx.command, windows=plan.host_is_windows)
    os.environ.clear()
    os.environ.update(own)
    add_ninja_to_path()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
