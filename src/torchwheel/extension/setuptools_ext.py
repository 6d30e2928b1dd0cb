"""The door for setup.py: what ``torch.utils.cpp_extension`` offers, argument for argument.

Changing the import is the whole migration::

    from torchwheel import BuildExtension, CUDAExtension
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from setuptools import Extension as SetuptoolsExtension
from setuptools.command.build_ext import build_ext

from torchwheel._files import atomic_copy
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.compile.ninja import build_extensions
from torchwheel.extension.hooks.inner_build import asked_settings, tell_plan
from torchwheel.extension.model import (
    FRONT_ENDS,
    WITH_CUDA,
    Extension,
    ExtensionPlan,
    FrontEnd,
    Language,
    SourceArchitectures,
)
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.survey import builds_cuda, project_settings, survey_extensions
from torchwheel.extension.torch_install.installed_torch import installed_torch
from torchwheel.hardware.arch import parse_architectures
from torchwheel.host.this import this_host
from torchwheel.reporting import report_errors

# Arguments that are torchwheel's own; setuptools warns of what it does not know.
_OWN = ("stable_abi", "unity", "front_end", "source_architectures", "cuda_sources")
_DEVICE_LINK = ("dlink", "dlink_libraries")


class TorchExtension(SetuptoolsExtension):
    """An extension of PyTorch as setuptools knows it, with what torchwheel adds in ``torchwheel_options``."""

    def __init__(
        self, name: str, sources: Sequence[Any], *args: Any, cuda: bool | None, **kwargs: Any
    ) -> None:
        self.torchwheel_options: dict[str, Any] = {key: kwargs.pop(key) for key in _OWN if key in kwargs}
        self.torchwheel_options["cuda"] = cuda
        self.torchwheel_options |= {key: kwargs.pop(key) for key in _DEVICE_LINK if key in kwargs}
        # setuptools itself takes a list; torch.utils.cpp_extension also a table by language.
        self.torchwheel_options["flags"] = kwargs.pop("extra_compile_args", None) or []
        if self.torchwheel_options.get("stable_abi"):
            kwargs["py_limited_api"] = True
        # An sdist holds what an extension depends on, whether or not it is compiled here.
        kwargs["depends"] = [*(kwargs.get("depends") or ()), *self.torchwheel_options.get("cuda_sources", ())]
        kwargs["language"] = "c++"
        super().__init__(name, [os.fspath(source) for source in sources], *args, **kwargs)


def CppExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> TorchExtension:
    """A C++ extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CppExtension`` and :class:`setuptools.Extension` take, and
    ``stable_abi="2.10"`` and ``unity=True`` besides.
    """
    return TorchExtension(name, sources, *args, cuda=False, **kwargs)


def CUDAExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> TorchExtension:
    """A C++ and CUDA extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CUDAExtension`` and :class:`setuptools.Extension` take (``dlink`` and
    ``dlink_libraries`` too), and besides: ``stable_abi="2.10"``, ``unity=True``, ``front_end="shared"``,
    ``source_architectures={"sm90/*.cu": "9.0a"}``, and ``cuda_sources=[...]``: sources that are compiled, with the
    macro ``WITH_CUDA`` for all, only where PyTorch has CUDA and the target is not the CPU.
    """
    return TorchExtension(name, sources, *args, cuda=True, **kwargs)


class BuildExtension(build_ext):
    """The ``build_ext`` command that compiles extensions of PyTorch, all at once."""

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """A subclass with these options: ``no_python_abi_suffix``; ``use_ninja`` is taken and has no effect."""

        class Configured(cls):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, **options})

        return Configured

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = bool(kwargs.pop("no_python_abi_suffix", False))
        kwargs.pop("use_ninja", None)
        super().__init__(*args, **kwargs)

    def run(self) -> None:
        """Build every extension; those that are not PyTorch's in setuptools' own way."""

        with report_errors():
            super().run()

    def build_extensions(self) -> None:
        """Build PyTorch's extensions together, then all others."""
        torch_extensions = [extension for extension in self.extensions if _is_ours(extension)]
        if torch_extensions:
            plan = plan_of(torch_extensions, self)
            self._place(plan, torch_extensions)
        others = [extension for extension in self.extensions if not _is_ours(extension)]
        for extension in others:
            self.build_extension(extension)

    def get_ext_filename(self, fullname: str) -> str:
        """The module's path below the package's root."""
        name = str(super().get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        stem, *middle, suffix = Path(name).name.split(".")
        if self.no_python_abi_suffix and middle:
            return str(Path(name).with_name(f"{stem}.{suffix}"))
        return name

    def _place(self, plan: ExtensionPlan, extensions: Iterable[SetuptoolsExtension]) -> None:
        """Put the modules where setuptools expects them: the build folder, or beside the sources."""

        built = list(build_extensions(plan, dict(os.environ)).values())
        for extension, module in zip(extensions, built, strict=True):
            target = Path(self.get_ext_fullpath(extension.name))
            if not _same(module, target):
                atomic_copy(module, target, with_times=True)


def _same(module: Path, target: Path) -> bool:
    try:
        one, other = module.stat(), target.stat()
    except OSError:
        return False
    return one.st_size == other.st_size and one.st_mtime_ns == other.st_mtime_ns


def _is_ours(extension: SetuptoolsExtension) -> bool:
    return isinstance(extension, TorchExtension)


def plan_of(extensions: Iterable[Any], command: build_ext | None = None) -> ExtensionPlan:
    """The plan for a setup.py's extensions in the current folder.

    Args:
        extensions: the extensions.
        command: the command that builds them; None while there is none.

    Raises:
        TorchwheelError: the settings or the installed PyTorch cannot be read.
    """

    asked = asked_extensions(extensions)
    inputs = survey_extensions(Path.cwd(), asked, asked_settings(), dict(os.environ), install_toolkit=True)
    plan = make_extension_plan(inputs)
    if command is not None:
        plan = with_file_names(plan, command)
    tell_plan(plan)
    return plan


def with_file_names(plan: ExtensionPlan, command: build_ext) -> ExtensionPlan:
    """The plan with the names that a command gives the modules in the wheel.

    With ``no_python_abi_suffix`` they are others than Python's own.
    """

    named = []
    for planned in plan.extensions:
        fullname = command.get_ext_fullname(planned.extension.name)
        name = Path(command.get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        named.append(replace(planned, file_name=name.as_posix()))
    return replace(plan, extensions=tuple(named))


def asked_extensions(extensions: Iterable[Any]) -> list[Extension]:
    """What a setup.py in the current folder says of its extensions, for this PyTorch and the target that is asked for.

    Raises:
        TorchwheelError: the settings or the installed PyTorch cannot be read.
    """
    given = list(extensions)
    cuda = _builds_cuda(given)
    return [described(extension, cuda=cuda) for extension in given]


def _builds_cuda(extensions: Iterable[Any]) -> bool:
    """Whether ``cuda_sources`` are compiled; settings and PyTorch are read for it only where there are any."""
    if not any(extension.torchwheel_options.get("cuda_sources") for extension in extensions):
        return False

    environment = dict(os.environ)
    settings = project_settings(Path.cwd(), asked_settings(), environment, this_host(environment))
    return builds_cuda(settings, installed_torch())


def described(extension: Any, *, cuda: bool) -> Extension:
    """What a setup.py says of an extension, as torchwheel's own value.

    Args:
        extension: the extension as setuptools knows it.
        cuda: whether its ``cuda_sources`` are compiled.
    """
    options = extension.torchwheel_options
    flags = _flags(options["flags"])
    cuda_sources = tuple(os.fspath(path) for path in options.get("cuda_sources", ()))
    compiled = cuda_sources if cuda else ()
    return Extension(
        name=extension.name,
        sources=(*extension.sources, *compiled),
        include_dirs=tuple(os.fspath(folder) for folder in extension.include_dirs),
        library_dirs=tuple(os.fspath(folder) for folder in extension.library_dirs),
        libraries=tuple(extension.libraries),
        runtime_library_dirs=tuple(extension.runtime_library_dirs),
        define_macros=(
            *((name, value) for name, value in extension.define_macros),
            *(((WITH_CUDA, None),) if compiled else ()),
        ),
        undef_macros=tuple(extension.undef_macros),
        extra_objects=tuple(os.fspath(path) for path in extension.extra_objects),
        flags=flags,
        link_flags=tuple(extension.extra_link_args),
        device_link=bool(options.get("dlink")) or "nvcc_dlink" in _table(options["flags"]),
        device_link_flags=tuple(_table(options["flags"]).get("nvcc_dlink", ())),
        device_link_libraries=tuple(options.get("dlink_libraries", ())),
        source_architectures=_source_architectures(extension.name, options.get("source_architectures") or {}),
        cuda=None if cuda_sources else options["cuda"],
        stable_abi=options.get("stable_abi"),
        limited_api=bool(extension.py_limited_api),
        unity=bool(options.get("unity")),
        front_end=_front_end(extension.name, options.get("front_end", "separate")),
        depends=tuple(path for path in map(os.fspath, extension.depends) if path not in cuda_sources),
        origin=f"setup.py, extension {extension.name}",
    )


def _table(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _flags(given: Any) -> dict[Language, tuple[str, ...]]:
    """``extra_compile_args``: a list for every language, or a table by ``cxx`` and ``nvcc``."""
    if not isinstance(given, Mapping):
        return {language: tuple(given) for language in Language}
    cxx, nvcc = tuple(given.get("cxx", ())), tuple(given.get("nvcc", ()))
    return {Language.C: cxx, Language.CXX: cxx, Language.CUDA: nvcc}


def _front_end(name: str, given: Any) -> FrontEnd:
    for known in FRONT_ENDS:
        if given == known:
            return known
    raise TorchwheelError(
        Problem(
            id="ill-typed-value",
            what=f"front_end = {given!r} is not one of {', '.join(FRONT_ENDS)}",
            remedy='leave it out; or write front_end="shared" for one front-end pass for all architectures',
            origin=f"setup.py, extension {name}",
        )
    )


def _source_architectures(name: str, table: Mapping[str, Any]) -> tuple[SourceArchitectures, ...]:
    origin = f"setup.py, extension {name}, source_architectures"
    return tuple(
        SourceArchitectures(pattern, parse_architectures(text, origin), origin)
        for pattern, text in table.items()
    )
