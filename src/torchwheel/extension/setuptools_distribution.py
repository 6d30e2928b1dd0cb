"""What setuptools' own backend makes of a setup.py with extensions of PyTorch: wheels that are labelled and proved.

setuptools calls :func:`finalize` for every distribution (its entry point ``finalize_distribution_options``). Where
torchwheel's backend runs the setup.py, that finishes the wheel instead.
Source: https://setuptools.pypa.io/en/latest/userguide/extension.html
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.handover import handover_here
from torchwheel.extension.model import ExtensionPlan
from torchwheel.extension.record import finalize_wheel, labelled_version, record_of
from torchwheel.extension.setuptools_ext import plan_of, with_file_names
from torchwheel.reporting import report_errors
from torchwheel.wheel.relabel import Relabelling, relabel_metadata

if TYPE_CHECKING:
    from setuptools import Distribution


_COMMANDS = frozenset({"bdist_wheel", "dist_info", "editable_wheel"})


def finalize(distribution: Distribution) -> None:
    """Let the distribution's version carry the plan's label, and its wheel and metadata say what they hold.

    A distribution without extensions of PyTorch, and a command that makes no wheel, are left alone at no cost.
    """
    extensions = [
        module for module in distribution.ext_modules or () if hasattr(module, "torchwheel_options")
    ]
    if not extensions or not _COMMANDS.intersection(getattr(distribution, "script_args", None) or ()):
        return
    if handover_here() is not None:
        return
    with report_errors():
        plan = plan_of(distribution, extensions)
        plan.stop_on_errors()
    labelled = {"egg_info": _LabelledVersion, "bdist_wheel": _LabelledWheel, "dist_info": _LabelledMetadata}
    for name, mixed_in in labelled.items():
        command = distribution.get_command_class(name)
        distribution.cmdclass[name] = type(name, (mixed_in, command), {})


def _plan(command: Any) -> ExtensionPlan:
    plan: ExtensionPlan = command.distribution.torchwheel_plan[1]
    return plan


class _LabelledVersion:
    """Mixed into ``egg_info``, which determines the version: it gets the plan's label.

    Not by its option ``tag_build``: the setup.cfg that is in every sdist of setuptools sets that to nothing.
    """

    def tagged_version(self: Any) -> str:
        # setuptools asks again after it has made the answer the distribution's version.
        if not hasattr(self.distribution, "torchwheel_version"):
            plan = _plan(self)
            self.distribution.torchwheel_version = labelled_version(
                super().tagged_version(),  # type: ignore[misc]
                plan.project.settings.version,
                plan.local_version,
            )
        return str(self.distribution.torchwheel_version)


class _LabelledMetadata:
    """Mixed into ``dist_info``: the metadata requires the PyTorch that was compiled against."""

    def run(self: Any) -> None:
        super().run()  # type: ignore[misc]
        relabel_metadata(Path(self.dist_info_dir), Relabelling(requires=_plan(self).requires))


class _LabelledWheel:
    """Mixed into ``bdist_wheel``: the wheel gets its requirements, tag and build manifest, and is proved."""

    def run(self: Any) -> None:
        super().run()  # type: ignore[misc]
        # The version carries the label already: setuptools put it there.
        plan = with_file_names(_plan(self), self.get_finalized_command("build_ext"))
        record = replace(record_of(plan), label="")
        made = [Path(path) for command, _, path in self.distribution.dist_files if command == "bdist_wheel"]
        with report_errors(), tempfile.TemporaryDirectory(prefix="torchwheel-") as folder:
            if not made:
                raise TorchwheelError(
                    Problem(
                        id="wheel-from-elsewhere",
                        what="the project's own bdist_wheel command made no wheel of the extensions that were to be "
                        "compiled",
                        why="some projects download a wheel that their authors compiled, which is not for this plan",
                        remedy="have it compile; its setup.py names the environment variable for that, often "
                        "NAME_FORCE_BUILD=TRUE",
                        origin=str(plan.project.folder / "setup.py"),
                    )
                )
            built = made[-1]
            unfinished = Path(shutil.move(built, folder))
            name = finalize_wheel(record, plan.project, unfinished, built.parent)
        self.distribution.dist_files[-1] = (
            "bdist_wheel",
            self.distribution.dist_files[-1][1],
            str(built.with_name(name)),
        )
