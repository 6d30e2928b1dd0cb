"""What setuptools' own backend makes of a setup.py with extensions of PyTorch: wheels that are labelled and proved.

setuptools calls :func:`finalize` for every distribution (its entry point ``finalize_distribution_options``). Where
torchwheel's backend runs the setup.py, that finishes the wheel instead.
Source: https://setuptools.pypa.io/en/latest/userguide/extension.html
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setuptools import Distribution

    from torchwheel.extension.model import ExtensionPlan

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
    from torchwheel.cli.report import told_to_user
    from torchwheel.extension.inner_build import is_running
    from torchwheel.extension.setuptools_door import plan_of
    from torchwheel.findings import stop_on_errors

    if is_running():
        return
    with told_to_user():
        plan = plan_of(extensions)
        stop_on_errors(plan.findings, plan.settings.skip_check)
    if plan.local_version:
        options = distribution.get_option_dict("egg_info")
        options["tag_build"] = ("torchwheel", f"+{plan.local_version}")
    for name, labelled in (("bdist_wheel", _LabelledWheel), ("dist_info", _LabelledMetadata)):
        command = distribution.get_command_class(name)
        distribution.cmdclass[name] = type(name, (labelled, command), {"torchwheel_plan": plan})


class _LabelledMetadata:
    """Mixed into ``dist_info``: the metadata requires the PyTorch that was compiled against."""

    torchwheel_plan: ExtensionPlan

    def run(self: Any) -> None:
        from torchwheel.wheel.relabel import Relabelling, relabel_metadata

        super().run()  # type: ignore[misc]
        relabel_metadata(Path(self.dist_info_dir), Relabelling(requires=self.torchwheel_plan.requires))


class _LabelledWheel:
    """Mixed into ``bdist_wheel``: the wheel gets its requirements, tag and build manifest, and is proved."""

    torchwheel_plan: ExtensionPlan

    def run(self: Any) -> None:
        from torchwheel._dataclass import replace
        from torchwheel.cli.report import told_to_user
        from torchwheel.extension.finish import finish_wheel
        from torchwheel.extension.project import Asked, Way
        from torchwheel.host import this_host

        super().run()  # type: ignore[misc]
        environment = dict(os.environ)
        # The version carries the label already: setuptools put it there.
        plan = replace(self.torchwheel_plan, local_version="")
        asked = Asked(plan.project, Way.SETUP_PY, plan.settings, {}, {}, environment)
        (built,) = (
            Path(path) for command, _, path in self.distribution.dist_files if command == "bdist_wheel"
        )
        with told_to_user(), tempfile.TemporaryDirectory(prefix="torchwheel-") as folder:
            unfinished = Path(shutil.move(built, folder))
            name = finish_wheel(
                plan, asked, this_host(environment), unfinished, built.parent, None, editable=False
            )
        self.distribution.dist_files[-1] = (
            "bdist_wheel",
            self.distribution.dist_files[-1][1],
            str(built.with_name(name)),
        )
