"""The commands of a plan's extensions, by PyTorch's own BuildExtension, which runs none of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from setuptools import Distribution

from torchwheel.extension.cpp_extension_compat import provide_toolkit
from torchwheel.extension.extension_plan import ExtensionPlan, Step, StepKind
from torchwheel.extension.setuptools_ext import BuildExtension, TargetedBuild


class _Planning(BuildExtension):
    """Keeps the steps of extensions instead of running them."""

    plan: ExtensionPlan
    steps: dict[str, list[Step]]

    def build_extensions(self) -> None:
        if self.plan.inputs.toolkit is not None:
            provide_toolkit(self._torch)
        super(TargetedBuild, self).build_extensions()

    def build_extension(self, ext: Any) -> None:
        found = self.steps.setdefault(ext.name, [])
        planned = next(one for one in self.plan.extensions if one.extension.name == ext.name)
        made = self._prepare(ext, self.plan, planned, self.folder_of(self.plan, ext.name))
        made.run = found.extend
        output = f"{Path(self.get_ext_fullpath(ext.name)).name}"

        def link(command: Sequence[str], **_: Any) -> None:
            spelled = made.spelled([*map(str, command)])
            words = tuple(output if word.endswith(f"{os.sep}{output}") else word for word in spelled)
            found.append(Step(StepKind.LINK, tuple(step.output for step in found), output, words))

        # setuptools from 81 on calls the second.
        self.compiler.spawn = self.compiler.call = link
        with made.replacing(self._torch):
            super(TargetedBuild, self).build_extension(ext)


def with_steps(plan: ExtensionPlan, extensions: Iterable[Any]) -> ExtensionPlan:
    """Return a plan with the steps of its extensions.

    Args:
        extensions: setuptools' extensions of the plan.
    """
    if not plan.extensions:
        return plan
    with tempfile.TemporaryDirectory(prefix="torchwheel-") as folder:
        distribution = Distribution({"name": "planned", "ext_modules": list(extensions)})
        command = _Planning(distribution)
        command.plan, command.steps = plan, {}
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
    planned = (
        replace(one, steps=tuple(command.steps.get(one.extension.name, ()))) for one in plan.extensions
    )
    return replace(plan, extensions=tuple(planned))
