"""The installed PyTorch's ``BuildExtension``, for a target, and the steps of a plan, by that command.

PyTorch's own file decides how extensions are compiled and linked. torchwheel chooses the target, the toolkit and the
architectures before, runs the compilers, and verifies the modules afterwards.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from torchwheel.extension.compile.ninja_build import announced_build, run_steps
from torchwheel.extension.compile.torch_steps import TorchSteps, replaced
from torchwheel.extension.cpp_extension_compat import provide_toolkit
from torchwheel.extension.described_extensions import (
    CppExtension,
    CUDAExtension,
    described_setup_py,
    fit_flags,
    setuptools_extension,
    torch_base,
    torch_extensions,
)
from torchwheel.extension.extension_plan import ExtensionPlan, Flags, PlannedExtension, Step, StepKind
from torchwheel.extension.extension_survey import plan_extensions
from torchwheel.extension.handover import (
    CUDA_HOME,
    errors_handed_over,
    handover_here,
    project_here,
    record_plan,
    show_target,
)
from torchwheel.host.compilers import join_words
from torchwheel.host.ninja import find_ninja
from torchwheel.host.programs import find_program
from torchwheel.torch_install.cpp_extension import NAME, cpp_extension

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "TargetedBuild",
    "described_setup_py",
    "show_target",
    "torch_extensions",
]


class _WithoutTorch(build_ext):
    """The base where there is no PyTorch: every build is refused."""

    @classmethod
    def with_options(cls, **_: Any) -> type[Any]:
        return cls

    def build_extensions(self) -> None:
        with errors_handed_over():
            cpp_extension()


def add_ninja_to_path() -> None:
    """Add ninja's folder to PATH, by which PyTorch finds it."""
    ninja = find_ninja(os.environ)
    if ninja is not None and find_program("ninja", os.environ.get("PATH")) is None:
        os.environ["PATH"] = os.pathsep.join(
            [*filter(None, [os.environ.get("PATH")]), str(Path(ninja).parent)]
        )


class TargetedBuild:
    """Mixed into PyTorch's ``build_ext``: compiles for the target, with torchwheel's executor."""

    _place: Path | None = None
    """The folder that is held while several extensions are built."""

    def run(self: Any) -> None:
        self._built: dict[str, PlannedExtension] = {}
        super().run()  # type: ignore[misc]
        if self._built:
            described, plan = self.distribution.torchwheel_plan
            plan = with_file_names(replace(plan, extensions=tuple(self._built.values())), self)
            self.distribution.torchwheel_plan = described, plan
            record_plan(plan, handover_here())

    def build_extensions(self: Any) -> None:
        """Build one extension after the other, each with all jobs."""
        # PyTorch's own method has compiled one twice and lost another.
        self.parallel = None
        extensions = torch_extensions(self.extensions)
        if not extensions:
            super().build_extensions()  # type: ignore[misc]
            return
        with errors_handed_over():
            plan = plan_of(self.distribution, extensions, self)
            if plan.inputs.toolkit is not None:
                provide_toolkit(self._torch)
        with ExitStack() as building:
            with errors_handed_over():
                building.enter_context(announced_build(plan))
            self._place = plan.folder
            super().build_extensions()  # type: ignore[misc]

    def build_extension(self: Any, ext: Any) -> None:
        if not torch_extensions([ext]):
            super().build_extension(ext)  # type: ignore[misc]
            return
        with errors_handed_over():
            plan = plan_of(self.distribution, torch_extensions(self.extensions), self)
            # One that changes variables for each extension has another plan, in the folder that is held.
            place = self._place or plan.folder
            (described,) = described_setup_py([ext], plan.project)
            planned = next((one for one in plan.extensions if one.extension.name == described.name), None)
            if planned is None or described not in plan.inputs.extensions:
                plan = plan_extensions(plan.project, [described], install=True)
                plan.stop_on_errors()
                (planned,) = plan.extensions
            plan = replace(plan, folder=place)
            folder = place / planned.folder
            steps = self._prepare(ext, plan, planned, folder)
        before, self.build_temp = self.build_temp, str(folder)
        try:
            with steps.replacing(self._torch):
                super().build_extension(ext)  # type: ignore[misc]
        finally:
            self.build_temp = before
        self._built[ext.name] = planned

    @property
    def _torch(self) -> dict[str, Any]:
        """The names of the module of PyTorch's own command; that may be an imported one."""
        methods = (vars(one).get("build_extensions") for one in type(self).__mro__ if one.__module__ == NAME)
        names: dict[str, Any] = next(method.__globals__ for method in methods if method is not None)
        return names

    def _prepare(
        self, ext: Any, plan: ExtensionPlan, planned: PlannedExtension, folder: Path, place: str = ""
    ) -> TorchSteps:
        fit_flags(ext, planned, self._torch["_get_cuda_arch_flags"])

        def run(steps: Sequence[Step]) -> None:
            with errors_handed_over():
                made.write_files()
                run_steps(plan, folder, steps)

        made = TorchSteps(plan, planned, folder, run, place)
        if planned.extension.unity:
            ext.sources = made.join_sources(ext.sources)
        return made


add_ninja_to_path()
_Base: Any = torch_base(_WithoutTorch)


class BuildExtension(TargetedBuild, _Base):  # type: ignore[misc]
    """PyTorch's own ``build_ext``, for the hardware that you name."""


def plan_of(
    distribution: Any, extensions: Iterable[Any], command: Any = None, *, install: bool = True
) -> ExtensionPlan:
    """Plan the extensions of a setup.py in the current folder; the distribution keeps the plan for the next command.

    Args:
        install: whether they will be compiled, and a CUDA toolkit is installed for that; an sdist may leave some out.
    """
    project = project_here()
    described = described_setup_py(extensions, project)
    kept, plan = getattr(distribution, "torchwheel_plan", (None, None))
    if plan is None or kept != described or plan.project != project:
        plan = plan_extensions(project, described, install=install)
    if command is not None:
        plan = with_file_names(plan, command)
    distribution.torchwheel_plan = described, plan
    record_plan(plan, handover_here())
    plan.stop_on_errors()
    return plan


def with_file_names(plan: ExtensionPlan, command: Any) -> ExtensionPlan:
    """Set the module names of a command, which ``no_python_abi_suffix`` changes."""
    named = []
    for planned in plan.extensions:
        *packages, module = command.get_ext_fullname(planned.extension.name).split(".")
        # setuptools uses the suffix of the last module with that last component.
        name = Path(*packages, command.get_ext_filename(module))
        named.append(replace(planned, file_name=name.as_posix()))
    return replace(plan, extensions=tuple(named))


class _Planning(BuildExtension):
    """Keeps the steps of extensions instead of running them."""

    plan: ExtensionPlan
    build: Path | None
    planned: dict[str, PlannedExtension]

    def build_extensions(self) -> None:
        own: dict[str, Any] = {}
        if (toolkit := self.plan.inputs.toolkit) is not None:
            # The plan has checked it, and it may not be there yet.
            own = {CUDA_HOME: toolkit.root, "_check_cuda_version": lambda *_: None}
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
    """Return a plan of tables or of CMake's functions with its steps, by PyTorch's BuildExtension, which runs none.

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
    before = dict(os.environ)
    own = {name: value for name, value in plan.project.environment.items() if name != "CC"}
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
