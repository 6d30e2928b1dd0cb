"""setuptools' commands for a setup.py with extensions of PyTorch: labelled, verified wheels, and sdists.

setuptools' entry point ``finalize_distribution_options`` calls :func:`finalize` if a setup.py has imported torchwheel
(``_setuptools_entry_point.py``). If torchwheel's backend runs the setup.py, it finalizes the wheel instead.
Source: https://setuptools.pypa.io/en/latest/userguide/extension.html
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchwheel.extension.described_extensions import OPTIONS, torch_extensions
from torchwheel.extension.handover import errors_handed_over, handover_here, project_here
from torchwheel.extension.options import requested_hardware
from torchwheel.extension.setuptools_ext import (
    BuildExtension,
    TargetedBuild,
    plan_of,
    with_file_names,
)
from torchwheel.extension.wheel_record import (
    is_labelled,
    labelled_version,
    record_if_torch,
    record_of,
    sdist_files,
    sdist_label,
)
from torchwheel.plan.build_plan import hash_facts
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import format_duration, say
from torchwheel.system.files import atomic_write, entries_below
from torchwheel.system.locks import folder_lock
from torchwheel.system.paths import is_dir
from torchwheel.torch_install.cpp_extension import NAME

if TYPE_CHECKING:
    from setuptools import Distribution


_WHEEL, _SDIST, _BUILD_EXT = "bdist_wheel", "sdist", "build_ext"
_COMMANDS = frozenset({_WHEEL, "dist_info", "editable_wheel"})


def finalize(distribution: Distribution) -> None:
    """Label the distribution's version, and finalize its wheel, sdist and metadata.

    A distribution without extensions of PyTorch, and commands for other results, are not changed.
    """
    if not (extensions := torch_extensions(distribution.ext_modules)):
        return
    commands = set(getattr(distribution, "script_args", None) or ())
    # Without arguments no setup.py runs: a build hook of another backend calls a command of its own choice.
    if commands and not _have_own_command(distribution, extensions):
        return
    makes_wheel = handover_here() is None and not commands.isdisjoint(_COMMANDS)
    if _WHEEL in commands:
        _mix_in(distribution, _WHEEL, _FreshWheel)
    if not makes_wheel and _SDIST not in commands:
        return
    labelled: dict[str, type] = {"egg_info": _LabelledVersion, _SDIST: _RecordedSdist}
    with errors_handed_over():
        settings = project_here().settings
        record = None
        if makes_wheel:
            record = record_of(plan_of(distribution, extensions))
            labelled |= {_WHEEL: _LabelledWheel, "dist_info": _LabelledMetadata}
        elif is_labelled(settings):
            record = record_if_torch(lambda: record_of(plan_of(distribution, extensions, install=False)))
    for name, mixed_in in labelled.items():
        _mix_in(distribution, name, mixed_in, torchwheel_record=record)


def refuse_to_ignore_target(distribution: Distribution) -> None:
    """Refuse a setup.py that a hook runs for a target, if PyTorch's own functions describe and build its extensions."""
    if handover_here() is None or not torch_extensions(distribution.ext_modules):
        return
    with errors_handed_over():
        if asked := requested_hardware(project_here()):
            raise refusal("target-ignored", origin=asked.origin, key=asked.key, value=asked.text)


def _have_own_command(distribution: Distribution, extensions: Iterable[Any]) -> bool:
    """Have torchwheel build extensions that its functions made, or whose command is PyTorch's; returns whether it does.

    What torch.utils.cpp_extension describes is complete for setuptools' own command, if it has no CUDA sources.
    """
    command = distribution.get_command_class(_BUILD_EXT)
    if issubclass(command, TargetedBuild):
        return True
    if any(one.__module__ == NAME for one in command.__mro__):
        bases: tuple[type, ...] = (TargetedBuild, command)
    elif OPTIONS.keys().isdisjoint(one.name for one in extensions):
        return False
    else:
        bases = (BuildExtension,) if issubclass(BuildExtension, command) else (command, BuildExtension)
    distribution.cmdclass[_BUILD_EXT] = type(_BUILD_EXT, bases, {})
    return True


def _mix_in(distribution: Distribution, name: str, mixed_in: type, **attributes: Any) -> None:
    # Whatever class it is, because projects replace these commands by their own. The subclass is called like the
    # command, because distutils takes a command's name from its class.
    command = distribution.get_command_class(name)
    distribution.cmdclass[name] = type(name, (mixed_in, command), attributes)


class _LabelledVersion:
    """Mixed into ``egg_info``: adds the label. Its option ``tag_build`` is cleared by the setup.cfg in every sdist."""

    def tagged_version(self: Any) -> str:
        # setuptools calls this again after it has set the result as the distribution's version.
        if not hasattr(self.distribution, "torchwheel_version"):
            settings = project_here().settings
            self.distribution.torchwheel_version = labelled_version(
                super().tagged_version(),  # type: ignore[misc]
                settings.package_version,
                sdist_label(settings, self.torchwheel_record),
            )
        return str(self.distribution.torchwheel_version)


ALONE: set[Path] = set()
"""The projects that nobody else builds in the same folders, or that are locked."""


@contextmanager
def _lock_project() -> Iterator[None]:
    """Lock the project in the current folder against other builds and sdists.

    Another would write its modules into the same ``build``, and its version into the same ``*.egg-info``.
    """
    folder = Path.cwd().resolve()
    if folder in ALONE:
        # A project's own command may call another one.
        yield
        return
    lock = project_here().cache / f"setuptools-{hash_facts(str(folder))}.lock"
    with ExitStack() as held:
        # Errors under the lock are the project's or setuptools' own.
        waiting = f"waiting for another build in {folder} to end"
        with errors_handed_over():
            held.enter_context(folder_lock(folder, lock, lambda: say(waiting)))
        ALONE.add(folder)
        try:
            yield
        finally:
            ALONE.remove(folder)


class _RecordedSdist:
    """Mixed into ``sdist``: records the settings behind its version."""

    def run(self: Any) -> None:
        with _lock_project():
            super().run()  # type: ignore[misc]

    def make_release_tree(self: Any, base_dir: str, files: Any) -> None:
        super().make_release_tree(base_dir, files)  # type: ignore[misc]
        project, record = project_here(), self.torchwheel_record
        # setuptools creates hard links to the user's own files, which must not be written to.
        for name, content in sdist_files(project, self.distribution.get_version(), record).items():
            atomic_write(Path(base_dir, name), content)


class _LabelledMetadata:
    """Mixed into ``dist_info``: adds the requirement on the PyTorch of the build."""

    def run(self: Any) -> None:
        from torchwheel.wheel.rewrite import Relabelling, relabel_metadata  # which build_ext does not need

        super().run()  # type: ignore[misc]
        record = record_of(self.distribution.torchwheel_plan[1])
        relabelling = Relabelling(requires=record.requires, skip_check=record.skip_check)
        relabel_metadata(Path(self.dist_info_dir), relabelling)


class _FreshWheel:
    """Mixed into ``bdist_wheel``: excludes copies of an earlier build.

    setuptools packs everything in its build folders: modules or scripts deleted since, and incomplete copies, which are
    newer than their sources. The objects of PyTorch's extensions are in another folder.
    """

    def run(self: Any) -> None:
        build = self.get_finalized_command("build")
        base = Path(build.build_base).resolve()
        with _lock_project():
            if not self.skip_build:
                for folder in map(Path, (build.build_lib, build.build_scripts, self.bdist_dir)):
                    # A setup.cfg may name any folder.
                    if base in folder.resolve().parents and is_dir(folder):
                        # setuptools does not create a folder a second time.
                        for _, entry in tuple(entries_below(folder)):
                            if not entry.is_dir(follow_symlinks=False):
                                Path(entry.path).unlink()
                # Earlier commands of the command line have also copied into these folders.
                for name in ("build", *(name for name, _ in build.sub_commands)):
                    self.distribution.have_run.pop(name, None)
            super().run()  # type: ignore[misc]


class _LabelledWheel:
    """Mixed into ``bdist_wheel``: finalizes the wheel: requirements, tag, build manifest, verification."""

    def run(self: Any) -> None:
        from torchwheel.extension.extension_wheel import finalize_wheel  # which build_ext does not need

        began = time.monotonic()
        super().run()  # type: ignore[misc]
        # The version already has the label, from egg_info.
        made = self.distribution.torchwheel_plan[1]
        plan = with_file_names(made, self.get_finalized_command(_BUILD_EXT))
        record = replace(record_of(plan), label="")
        files = [Path(path) for command, _, path in self.distribution.dist_files if command == _WHEEL]
        with errors_handed_over(), tempfile.TemporaryDirectory(prefix="torchwheel-") as folder:
            if not files:
                raise refusal("wheel-from-elsewhere", origin=plan.project.folder / "setup.py")
            built = files[-1]
            # Moved away first, so that a wheel that is refused is not left under setuptools' name.
            unfinished = Path(shutil.move(built, folder))
            name = finalize_wheel(record, plan.project, unfinished, built.parent)
        python = self.distribution.dist_files[-1][1]
        self.distribution.dist_files[-1] = (_WHEEL, python, str(built.with_name(name)))
        say(f"{name} took {format_duration(time.monotonic() - began)}")
