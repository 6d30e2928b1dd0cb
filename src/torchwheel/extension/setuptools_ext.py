"""The extension classes of ``torch.utils.cpp_extension`` for setup.py: those of the installed PyTorch.

Changing the import is the whole migration::

    from torchwheel import BuildExtension, CUDAExtension

PyTorch's own file decides how extensions are compiled and linked. torchwheel chooses the target, the toolkit and the
architectures before, runs the compilers, and verifies the modules afterwards.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import Extension as SetuptoolsExtension
from setuptools.command.build_ext import build_ext

from torchwheel.extension.compile.ninja_build import announced_build, run_steps
from torchwheel.extension.compile.torch_steps import UNITY, TorchSteps
from torchwheel.extension.compile.units import unity_groups, unity_text
from torchwheel.extension.cpp_extension_compat import provide_toolkit
from torchwheel.extension.described_extensions import (
    OPTIONS,
    described_setup_py,
    fit_flags,
    own_options,
    uses_torch,
)
from torchwheel.extension.extension_plan import (
    WITH_CUDA,
    Extension,
    ExtensionPlan,
    ExtensionProject,
    Language,
    PlannedExtension,
    Step,
    language_of,
)
from torchwheel.extension.extension_survey import plan_extensions
from torchwheel.extension.handover import (
    errors_handed_over,
    handover_here,
    project_here,
    record_plan,
    show_target,
)
from torchwheel.extension.sources import separate_architectures
from torchwheel.host.compilers import command_words
from torchwheel.host.ninja import find_ninja
from torchwheel.host.programs import find_program
from torchwheel.proof.stable_abi import target_version_macro
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.torch_install.cpp_extension import NAME, cpp_extension
from torchwheel.torch_install.installed_torch import InstalledTorch

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "TargetedBuild", "show_target"]

_STATIC_RUNTIME = ("cudart_static", "dl", "rt", "pthread")


def _module() -> ModuleType | None:
    """The installed PyTorch's module; None where there is none, as for an sdist."""
    try:
        return cpp_extension()
    except TorchwheelError:
        return None


def CppExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> SetuptoolsExtension:
    """Create a C++ extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CppExtension`` takes, and ``stable_abi="2.10"`` and ``unity=True`` besides.
    """
    return _make_extension("CppExtension", name, sources, args, kwargs)


def CUDAExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> SetuptoolsExtension:
    """Create a C++ and CUDA extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CUDAExtension`` takes, and besides: ``stable_abi="2.10"``, ``unity=True``,
    ``front_end="shared"``, ``source_architectures={"sm90/*.cu": "9.0a"}``, and ``cuda_sources=[...]``: sources that are
    compiled, with the macro ``WITH_CUDA`` for all, only where PyTorch has CUDA and the target is not the CPU.
    """
    return _make_extension("CUDAExtension", name, sources, args, kwargs)


def _make_extension(
    function: str, name: str, sources: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SetuptoolsExtension:
    options, module = own_options(kwargs), _module()
    cuda_sources = list(options.get("cuda_sources") or ())
    stable = options.get("stable_abi")
    if stable is not None or kwargs.get("py_limited_api"):
        # A free-threaded Python has none, and its module is named otherwise.
        options["limited_api"] = True
    if cuda_sources:
        # An sdist contains an extension's dependencies, whether or not it is compiled here.
        kwargs["depends"] = [*(kwargs.get("depends") or ()), *cuda_sources]
    if module is not None:
        if function == "CUDAExtension" or cuda_sources:
            with errors_handed_over():
                project = project_here()
            # The plan reports one that asks for CUDA where there is none.
            options["cuda"] = function == "CUDAExtension" and not cuda_sources
            with_cuda = project.torch.hip is not None or project.builds_cuda
            function = "CUDAExtension" if with_cuda else "CppExtension"
        if cuda_sources and function == "CUDAExtension":
            sources = [*sources, *cuda_sources]
            kwargs["define_macros"] = [*(kwargs.get("define_macros") or ()), (WITH_CUDA, None)]
        if function == "CUDAExtension":
            provide_toolkit(vars(module), asked=True)
    extension = make_torch_extension(
        function, name, [os.fspath(one) for one in sources], kwargs, *args, stable_abi=stable
    )
    # Cython makes a new extension of setuptools' own arguments.
    OPTIONS[name] = options
    return extension


def make_torch_extension(
    function: str,
    name: str,
    sources: Sequence[str],
    options: dict[str, Any],
    *args: Any,
    stable_abi: str | None,
) -> SetuptoolsExtension:
    """Create an extension by a function of PyTorch's; a plain one where there is no PyTorch."""
    module = _module()
    if stable_abi is not None:
        options["py_limited_api"] = True
    if module is None:
        others = {key: options[key] for key in options.keys() - {"dlink", "dlink_libraries"}}
        extension = SetuptoolsExtension(name, list(sources), *args, **others)
    else:
        extension = getattr(module, function)(name, list(sources), *args, **options)
    if stable_abi is not None:
        _make_stable(extension, str(stable_abi), cuda=function == "CUDAExtension")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # setuptools would name the module for all Pythons, but free-threaded ones have no limited API.
        extension.py_limited_api = False
    return extension


def setuptools_extension(one: Extension, project: ExtensionProject, torch: InstalledTorch) -> Any:
    """Create the setuptools extension of a described one, by PyTorch's own function."""
    own = command_words(project.settings.env.get("CUDAFLAGS", ""), project.host.system)
    options: dict[str, Any] = {
        # PyTorch's function adds to them.
        **deepcopy(dict(one.arguments)),
        "extra_compile_args": {
            "cxx": list(one.flags.get(Language.CXX, ())),
            "nvcc": [*one.flags.get(Language.CUDA, ()), *own],
        },
        "extra_link_args": [*_run_path(one, project, torch), *one.arguments.get("extra_link_args", ())],
        "depends": list(one.depends),
        "py_limited_api": one.wants_limited_api,
    }
    return make_torch_extension(
        "CUDAExtension" if one.uses_cuda else "CppExtension",
        one.name,
        one.sources,
        options,
        stable_abi=one.stable_abi,
    )


def _run_path(one: Extension, project: ExtensionProject, torch: InstalledTorch) -> Iterator[str]:
    """The library folders beside the installed module, so that it can be imported before PyTorch is."""
    if project.host.system == "Windows":
        return
    origin = "@loader_path" if project.host.system == "Darwin" else "$ORIGIN"
    up = "/".join([origin, *[".."] * one.name.count(".")])
    for folder in (torch.root / "lib", *(torch.nvidia_library_dirs if one.uses_cuda else ())):
        yield f"-Wl,-rpath,{up}/{folder.relative_to(torch.root.parent).as_posix()}"


def _make_stable(extension: Any, release: str, *, cuda: bool) -> None:
    """Have an extension use only the stable ABI of a release, with CUDA's runtime linked into it."""
    try:
        macro, _, value = target_version_macro(release).partition("=")
    except ValueError:
        # The plan reports it.
        return
    extension.define_macros.append((macro, value))
    if cuda:
        # torch/csrc/stable/accelerator.h and c/shim.h need it for their CUDA parts.
        extension.define_macros.append(("USE_CUDA", None))
    runtime = _STATIC_RUNTIME if os.name == "posix" else _STATIC_RUNTIME[:1]
    libraries = [[one] if one != "cudart" else runtime for one in extension.libraries]
    extension.libraries = [name for names in libraries for name in names]


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
        """Build all extensions, and record those that were built."""
        self._built: dict[str, PlannedExtension] = {}
        super().run()  # type: ignore[misc]
        if self._built:
            described, plan = self.distribution.torchwheel_plan
            plan = with_file_names(replace(plan, extensions=tuple(self._built.values())), self)
            self.distribution.torchwheel_plan = described, plan
            record_plan(plan, handover_here())

    def build_extensions(self: Any) -> None:
        """Build the extensions one after the other, each with all jobs."""
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
            ext.sources, made.unity = _join_sources(ext.sources, planned, made)
        return made


def _join_sources(
    sources: Sequence[str], planned: PlannedExtension, steps: TorchSteps
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Join sources to unity files; returns the sources to compile, and what each unity file includes."""
    kinds: dict[str, object] = {
        one: (language, separate_architectures(planned.extension, one))
        for one in sources
        if (language := language_of(one)) is not None
    }
    alone = [one for one in sources if one not in kinds]
    unity: dict[str, tuple[str, ...]] = {}
    folder = f"{steps.place}{UNITY}"
    for group in unity_groups(kinds):
        if len(group) == 1:
            alone += group
            continue
        suffix = ".cu" if language_of(group[0]) is Language.CUDA else ".cpp"
        file = steps.folder / folder / f"unity-{len(unity)}{suffix}"
        steps.texts[file] = unity_text(map(steps.plan.layout.spell, group), folder)
        unity[str(file)] = group
    return [*alone, *unity], unity


add_ninja_to_path()
_Base: Any = getattr(_module(), "BuildExtension", _WithoutTorch)


class BuildExtension(TargetedBuild, _Base):  # type: ignore[misc]
    """PyTorch's own ``build_ext``, for the hardware that you name."""


def torch_extensions(extensions: Iterable[Any] | None) -> list[Any]:
    """Return the extensions that have PyTorch's headers or libraries, whoever made them."""
    module = _module()
    root = Path(module.TORCH_LIB_PATH).parent if module else None
    return [one for one in extensions or () if uses_torch(one, root)]


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
    """Set the module names of a command in the plan.

    With ``no_python_abi_suffix`` they differ from Python's own.
    """
    named = []
    for planned in plan.extensions:
        *packages, module = command.get_ext_fullname(planned.extension.name).split(".")
        # setuptools uses the suffix of the last module with that last component.
        name = Path(*packages, command.get_ext_filename(module))
        named.append(replace(planned, file_name=name.as_posix()))
    return replace(plan, extensions=tuple(named))
