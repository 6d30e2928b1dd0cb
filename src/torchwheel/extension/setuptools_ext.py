"""The extension classes of ``torch.utils.cpp_extension`` for setup.py, with the same arguments.

Changing the import is the whole migration::

    from torchwheel import BuildExtension, CUDAExtension
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools import Distribution
from setuptools import Extension as SetuptoolsExtension
from setuptools.command import build_ext as setuptools_build_ext
from setuptools.command.build_ext import build_ext

from torchwheel.extension.compile.ninja_build import build_extensions
from torchwheel.extension.extension_plan import Extension, ExtensionPlan, ExtensionProject, Language
from torchwheel.extension.extension_survey import plan_extensions
from torchwheel.extension.handover import (
    errors_handed_over,
    handover_here,
    project_here,
    record_plan,
    show_target,
    with_variables,
)
from torchwheel.extension.options import (
    ExtensionOptions,
    Spelling,
    described_extensions,
    read_values,
    refuse_to_leave_out,
    repeated_names,
)
from torchwheel.extension.project_changes import changed_nvcc_flags
from torchwheel.extension.sources import is_source_file
from torchwheel.reporting.errors import Problem, refusal, stop_on
from torchwheel.settings.known_keys import Key
from torchwheel.system.files import atomic_copy
from torchwheel.system.paths import exists, is_file

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "show_target"]

# torchwheel's own options; setuptools warns about unknown ones.
_OWN = ("stable-abi", "unity", "front-end", "architectures", "cuda-sources")
_DEVICE_LINK = ("dlink", "dlink_libraries")
_LINK_TIME = ("-dlto", "--dlink-time-opt")
# Attributes of the command, with values for all extensions from setup.cfg, the command line, setup() and setuptools'
# build_clib; those of its compiler, which setuptools sets from them and projects change; and those of an extension.
# Source: run in https://github.com/pypa/distutils/blob/main/distutils/command/build_ext.py
_OF_ALL = (
    ("include_dirs", "include_dirs", "include_dirs"), ("define", "macros", "define_macros"),
    ("undef", "", "undef_macros"), ("libraries", "libraries", "libraries"),
    ("library_dirs", "library_dirs", "library_dirs"), ("rpath", "runtime_library_dirs", "runtime_library_dirs"),
    ("link_objects", "objects", "extra_objects"),
)  # fmt: skip
# What undoes a flag of torchwheel's own that a project takes from setuptools' compiler.
_UNDONE = {"-DNDEBUG": "-UNDEBUG", "-fwrapv": "-fno-wrapv"}
_TEXTS = (
    "include_dirs", "library_dirs", "libraries", "runtime_library_dirs", "extra_objects", "extra_link_args",
    "undef_macros", "depends",
)  # fmt: skip


class _TorchLibrary(str):
    """The name of a library that every extension is linked with; a project may replace or remove it in the list."""

    __slots__ = ()


# Source: torch/utils/cpp_extension.py 2.14.1 (CppExtension, CUDAExtension)
_LIBRARIES = ("c10", "torch", "torch_cpu")
_PYTHON_LIBRARY = "torch_python"
_CUDA_LIBRARIES = ("cudart", "c10_cuda", "torch_cuda")


def _argument_name(key: str) -> str:
    return "source_architectures" if key == "architectures" else key.replace("-", "_")


def _format_example(key: Key) -> str:
    pattern, _, value = key.example.rpartition("=")
    text = f'"{key.example}"' if key.type.quoted else key.example.replace("true", "True")
    return (
        f'{_argument_name(key.name)}={{{pattern}: "{value}"}}'
        if key.table
        else f"{_argument_name(key.name)}={text}"
    )


SETUP_PY = Spelling("an argument of an extension", _argument_name, _format_example)


class TorchExtension(SetuptoolsExtension):
    """setuptools' extension, with torchwheel's additions in ``torchwheel_options``.

    Cython makes a new one of an extension's class and setuptools' own arguments.
    """

    _cuda = False

    def __init__(self, name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> None:
        own = (*map(_argument_name, _OWN), *_DEVICE_LINK)
        self.torchwheel_options: dict[str, Any] = {key: kwargs.pop(key) for key in own if key in kwargs}
        self.torchwheel_options["cuda"] = self._cuda
        kwargs["libraries"] = self._with_torch_libraries(
            kwargs.get("libraries") or [], limited_api=bool(kwargs.get("py_limited_api"))
        )
        # setuptools itself accepts a list; torch.utils.cpp_extension also a table by language.
        flags = kwargs.pop("extra_compile_args", None) or []
        if self.torchwheel_options.get("stable_abi"):
            kwargs["py_limited_api"] = True
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # setuptools would name the module for all Pythons, but free-threaded ones have no limited API.
            self.torchwheel_options["limited_api"] = kwargs.pop("py_limited_api", False)
        # An sdist contains an extension's dependencies, whether or not it is compiled here.
        kwargs["depends"] = [*(kwargs.get("depends") or ()), *self.torchwheel_options.get("cuda_sources", ())]
        # As in torch.utils.cpp_extension; Cython generates C++ for it.
        kwargs["language"] = "c++"
        super().__init__(name, [os.fspath(source) for source in sources], *args, **kwargs)
        # A project's own command may change it.
        self.extra_compile_args = flags

    def _with_torch_libraries(self, given: Any, *, limited_api: bool) -> Any:
        """Add the names of PyTorch's libraries to a list of libraries, as torch.utils.cpp_extension does."""
        names = [*_LIBRARIES, *(() if limited_api else (_PYTHON_LIBRARY,))]
        names += _CUDA_LIBRARIES if self._cuda else ()
        self.torchwheel_options["torch_libraries"] = names
        # Cython passes on what an extension has; what is no list is reported later.
        if not isinstance(given, (list, tuple)) or any(isinstance(name, _TorchLibrary) for name in given):
            return given
        return [*given, *map(_TorchLibrary, names)]


class CudaTorchExtension(TorchExtension):
    """One with CUDA's headers and libraries."""

    _cuda = True


def CppExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> TorchExtension:
    """A C++ extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CppExtension`` and :class:`setuptools.Extension` take, and
    ``stable_abi="2.10"`` and ``unity=True`` besides.
    """
    return TorchExtension(name, sources, *args, **kwargs)


def CUDAExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> TorchExtension:
    """A C++ and CUDA extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CUDAExtension`` and :class:`setuptools.Extension` take (``dlink`` and
    ``dlink_libraries`` too), and besides: ``stable_abi="2.10"``, ``unity=True``, ``front_end="shared"``,
    ``source_architectures={"sm90/*.cu": "9.0a"}``, and ``cuda_sources=[...]``: sources that are compiled, with the
    macro ``WITH_CUDA`` for all, only where PyTorch has CUDA and the target is not the CPU.
    """
    return CudaTorchExtension(name, sources, *args, **kwargs)


class BuildExtension(build_ext):
    """The ``build_ext`` command that compiles all extensions of PyTorch at once."""

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return a subclass with options: ``no_python_abi_suffix``, and ``use_ninja``.

        torch.utils.cpp_extension compiles C as C++ with ninja, and as C without. Otherwise ``use_ninja`` has no effect.
        """

        class Configured(cls):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, **options})

        return Configured

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = bool(kwargs.pop("no_python_abi_suffix", False))
        self.use_ninja = bool(kwargs.pop("use_ninja", True))
        self._collected: list[TorchExtension] = []
        super().__init__(*args, **kwargs)

    def run(self) -> None:
        """Build all extensions."""
        super().run()
        self._build_collected()

    def copy_extensions_to_source(self) -> None:
        """Copy all modules beside the sources."""
        self._build_collected()
        super().copy_extensions_to_source()

    def build_extensions(self) -> None:
        """Build PyTorch's extensions together, then all others, in setuptools' own way."""
        if mixed := [one.name for one in self.extensions if _is_made_by_torch(one)]:
            with errors_handed_over():
                raise refusal("mixed-extension-classes", origin="setup.py", extensions=", ".join(mixed))
        for extension in self.extensions:
            if isinstance(extension, TorchExtension):
                # A project's own command may override it to add macros and flags.
                self.build_extension(extension)
        self._build_collected()
        for extension in self.extensions:
            if not isinstance(extension, TorchExtension):
                self.build_extension(extension)

    def build_extension(self, ext: Any) -> None:
        """Build one extension; one of PyTorch's is built with the others, unless a project overrides this method."""
        if not isinstance(ext, TorchExtension):
            super().build_extension(ext)
            return
        if any(_is_cython(source) for source in ext.sources) and _has_cython():
            from Cython.Build import cythonize  # a build requirement of such a project alone

            folders = list(_as_paths(ext.include_dirs))
            ext.sources = cythonize([ext], force=self.force, include_path=folders)[0].sources
        if self._is_overridden:
            # What follows may use the module, or go on without it.
            self._build_together([ext])
        self._collected.append(ext)

    @property
    def _is_overridden(self) -> bool:
        return type(self).build_extension is not BuildExtension.build_extension

    def _build_collected(self) -> None:
        """Build the collected extensions; a project's own command may have called :meth:`build_extension` itself."""
        collected = list(self._collected)
        self._collected.clear()
        if collected and self._is_overridden:
            with errors_handed_over():
                # The plan of all of them is the wheel's.
                plan_of(self.distribution, collected, self)
        elif collected:
            self._build_together(collected)

    def _build_together(self, extensions: Sequence[TorchExtension]) -> None:
        with errors_handed_over():
            self._add_what_is_for_all(extensions)
            self._place_modules(plan_of(self.distribution, extensions, self), extensions)

    def _add_what_is_for_all(self, extensions: Iterable[TorchExtension]) -> None:
        # setuptools adds Python's own folders, which are in the commands anyway, so only what differs counts.
        usual = build_ext(Distribution())
        usual.ensure_finalized()
        compiling, linking, linker = self._changed_commands()
        for name, of_compiler, of_extension in _OF_ALL:
            known = getattr(usual, name) or ()
            for_all = [*(getattr(self, name) or ()), *(getattr(self.compiler, of_compiler, None) or ())]
            added = list(dict.fromkeys(one for one in for_all if one not in known))
            for extension in extensions:
                own = getattr(extension, of_extension)
                setattr(extension, of_extension, [*own, *(one for one in added if one not in own)])
        for extension in extensions:
            extension.torchwheel_options["compiler_flags"] = compiling
            extension.torchwheel_options["linker_flags"] = linking
            extension.torchwheel_options["linker"] = linker

    def _changed_commands(self) -> tuple[list[str], list[str], str]:
        """Return a project's changes of setuptools' compiler: flags for compiling, for linking, and what links."""
        # The compiler class for MSVC has no such commands.
        if not hasattr(self.compiler, "compiler_so"):
            return [], [], ""
        usual = type(self.compiler)()
        setuptools_build_ext.customize_compiler(usual)  # type: ignore[attr-defined]
        compiling = [word for word in self.compiler.compiler_so[1:] if word not in usual.compiler_so]
        compiling += [
            undone
            for word, undone in _UNDONE.items()
            if word in set(usual.compiler_so) - set(self.compiler.compiler_so)
        ]
        levels = [word for word in usual.compiler_so if word.startswith("-O")]
        if levels and not any(word.startswith("-O") for word in self.compiler.compiler_so):
            # A project that removed the level means none, and would get the build type's.
            compiling.append("-O0")
        # setuptools links C++ with the compiler of C++, and newer ones with flags for C++ alone.
        of_linker = "linker_so_cxx" if hasattr(usual, "linker_so_cxx") else "linker_so"
        known = getattr(usual, of_linker)
        linking = [word for word in getattr(self.compiler, of_linker)[1:] if word not in known]
        linker = self.compiler.compiler_cxx[0]
        return compiling, linking, "" if linker == usual.compiler_cxx[0] else linker

    def get_ext_filename(self, fullname: str) -> str:
        """The module's path below the package's root."""
        name = str(super().get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        stem, *middle, suffix = Path(name).name.split(".")
        if self.no_python_abi_suffix and middle:
            return str(Path(name).with_name(f"{stem}.{suffix}"))
        return name

    def _place_modules(self, plan: ExtensionPlan, extensions: Iterable[SetuptoolsExtension]) -> None:
        """Copy the modules to setuptools' places: the build folder, or beside the sources."""

        def place_modules(modules: Mapping[str, Path]) -> None:
            for extension, module in zip(extensions, modules.values(), strict=True):
                # setuptools uses the suffix of the last module with that last component.
                name = Path(self.get_ext_filename(self.get_ext_fullname(extension.name))).name
                target = Path(self.get_ext_fullpath(extension.name)).with_name(name)
                if not _is_same_file(module, target):
                    atomic_copy(module, target, with_times=True)

        build_extensions(plan, plan.project.environment, place_modules)


def _has_cython() -> bool:
    return find_spec("Cython") is not None


def _is_cython(source: Any) -> bool:
    return Path(source).suffix == ".pyx"


def _generated_source(source: str) -> str:
    """Return what Cython generates of one of its sources, as setuptools does where it is installed or has run."""
    if not _is_cython(source):
        return source
    generated = Path(source).with_suffix(".cpp")
    return str(generated) if _has_cython() or is_file(generated) else source


def _is_made_by_torch(extension: Any) -> bool:
    """Whether an extension comes from torch.utils.cpp_extension, which links these libraries by name."""
    return not isinstance(extension, TorchExtension) and {"c10", "torch"} <= set(extension.libraries)


def _is_same_file(module: Path, target: Path) -> bool:
    try:
        one, other = module.stat(), target.stat()
    except OSError:
        return False
    # A placed module has the time of its original, see _place_modules().
    return one.st_size == other.st_size and one.st_mtime_ns == other.st_mtime_ns


def plan_of(distribution: Any, extensions: Iterable[Any], command: build_ext | None = None) -> ExtensionPlan:
    """Plan the extensions of a setup.py in the current folder; the distribution keeps the plan for the next command.

    Raises:
        TorchwheelError: the settings or the installed PyTorch cannot be read.
    """
    project = project_here()
    described = setup_py_extensions(extensions, project, c_as_cxx=compiles_c_as_cxx(distribution, command))
    kept, plan = getattr(distribution, "torchwheel_plan", (None, None))
    files = {file for extension in described for file in extension.needed_files}
    missing = frozenset(file for file in files if not is_source_file(file, project.folder))
    if plan is None or kept != described or (missing and command is not None):
        # Missing files may still be generated by the project's own commands.
        plan = plan_extensions(
            project, described, install=True, missing_files=missing if command else frozenset()
        )
    if handover_here() is None:
        plan = replace(
            plan, findings=tuple(replace(f, problem=with_variables(f.problem)) for f in plan.findings)
        )
    if command is not None:
        plan = with_file_names(plan, command)
    distribution.torchwheel_plan = described, plan
    record_plan(plan)
    return plan


def compiles_c_as_cxx(distribution: Any, command: build_ext | None = None) -> bool:
    """Whether C sources are compiled by the C++ compiler: by torch.utils.cpp_extension with ninja."""
    own = command or distribution.get_command_class("build_ext")(distribution)
    # On Windows torch.utils.cpp_extension leaves the language to cl, which goes by the suffix.
    return os.name != "nt" and getattr(own, "use_ninja", True)


def with_file_names(plan: ExtensionPlan, command: build_ext) -> ExtensionPlan:
    """Set the module names of a command in the plan.

    With ``no_python_abi_suffix`` they differ from Python's own.
    """
    named = []
    for planned in plan.extensions:
        fullname = command.get_ext_fullname(planned.extension.name)
        name = Path(command.get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        named.append(replace(planned, file_name=name.as_posix()))
    return replace(plan, extensions=tuple(named))


def setup_py_extensions(
    extensions: Iterable[Any], project: ExtensionProject, *, c_as_cxx: bool = False
) -> tuple[Extension, ...]:
    """Read the extensions of a setup.py, for this PyTorch and the requested target.

    Args:
        c_as_cxx: whether C sources are compiled as C++.

    Raises:
        TorchwheelError: arguments are wrong; it lists all problems. Or PyTorch, which is read only for extensions with
            ``cuda_sources``, cannot be read.
    """
    given = list(extensions)
    problems = [problem for extension in given for problem in _ill_typed(extension)]
    problems += repeated_names([extension.name for extension in given], "setup.py")
    stop_on(problems)
    options = [_read_options(extension, project.folder, problems) for extension in given]
    stop_on(problems)
    cuda = any("cuda-sources" in one.values for one in options) and project.builds_cuda
    refuse_to_leave_out(options, project)
    described = described_extensions(options, project.folder, cuda=cuda, defaults={})
    return tuple(
        replace(_with_setuptools_arguments(extension, one), c_as_cxx=c_as_cxx)
        for extension, one in zip(given, described, strict=True)
    )


def _ill_typed(extension: Any) -> Iterator[Problem]:
    """Report arguments of setuptools and torch.utils.cpp_extension that are not lists of texts or paths."""
    given = extension.torchwheel_options
    flags = extension.extra_compile_args
    values = {name: getattr(extension, name) for name in _TEXTS}
    values |= (
        {f'extra_compile_args["{key}"]': value for key, value in flags.items()}
        if isinstance(flags, Mapping)
        else {"extra_compile_args": flags}
    )
    values["dlink_libraries"] = given.get("dlink_libraries", ())
    macros = extension.define_macros
    if not all(isinstance(macro, (list, tuple)) and len(macro) in (1, 2) for macro in macros):
        yield Problem.of(
            "ill-typed-value/macros", origin=f"setup.py, extension {extension.name}", value=macros
        )
    if not all(re.split(r"[./\\]", extension.name)):
        yield Problem.of(
            "ill-typed-value/module-name", origin=f"setup.py, extension {extension.name}", name=extension.name
        )
    for name, value in values.items():
        # A text is a collection of texts, too: each of its letters would be a library.
        several = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
        listed = several and all(isinstance(one, (str, os.PathLike)) for one in value)
        if not listed:
            yield Problem.of(
                "ill-typed-value/texts", origin=f"setup.py, extension {extension.name}", key=name, value=value
            )


def _read_options(extension: Any, project: Path, problems: list[Problem]) -> ExtensionOptions:
    origin = f"setup.py, extension {extension.name}"
    given = extension.torchwheel_options
    own = {
        key: _paths_as_text(given[_argument_name(key)])
        for key in _OWN
        if given.get(_argument_name(key)) is not None
    }
    cuda_sources = own.get("cuda-sources", ())
    values = {
        "name": extension.name,
        # setuptools' build_ext sorts them, too; static initialisers run in the order of linking.
        "sources": tuple(sorted(map(_generated_source, _as_paths(extension.sources)))),
        "include-dirs": _as_paths(extension.include_dirs),
        "library-dirs": _as_paths(extension.library_dirs),
        "libraries": tuple(name for name in extension.libraries if not isinstance(name, _TorchLibrary)),
        "link-flags": tuple(extension.extra_link_args),
        "limited-api": bool(given.get("limited_api", extension.py_limited_api)),
        # setuptools builds where one is missing, and so does torch.utils.cpp_extension.
        "depends": tuple(
            path
            for path in _as_paths(extension.depends)
            if path not in cuda_sources and exists(project / path)
        ),
        **read_values(own, origin, SETUP_PY, problems),
    }
    return ExtensionOptions(values, origin, SETUP_PY)


def _with_setuptools_arguments(extension: Any, described: Extension) -> Extension:
    """Add the arguments of setuptools and torch.utils.cpp_extension that are not torchwheel's own options."""
    given = extension.torchwheel_options
    flags = extension.extra_compile_args if isinstance(extension.extra_compile_args, Mapping) else {}
    by_language = _flags_by_language(extension.extra_compile_args)
    changed = changed_nvcc_flags()
    by_language[Language.CUDA] = (*changed.added, *by_language[Language.CUDA])
    kept = {name for name in extension.libraries if isinstance(name, _TorchLibrary)}
    for language in (Language.C, Language.CXX):
        by_language[language] = (*given.get("compiler_flags", ()), *by_language[language])
    return replace(
        described,
        runtime_library_dirs=tuple(extension.runtime_library_dirs),
        define_macros=(
            *((name, None if value is None else str(value)) for name, value in _defined(extension)),
            *described.define_macros,
        ),
        undef_macros=(
            *extension.undef_macros,
            *(macro[0] for macro in extension.define_macros if len(macro) == 1),
        ),
        extra_objects=_as_paths(extension.extra_objects),
        flags=by_language,
        link_flags=(*described.link_flags, *given.get("linker_flags", ())),
        linker=given.get("linker", ""),
        left_out_flags=changed.left_out,
        left_out_libraries=tuple(name for name in given["torch_libraries"] if name not in kept),
        device_link=bool(given.get("dlink")) or "nvcc_dlink" in flags,
        device_link_flags=(*flags.get("nvcc_dlink", ()), *_link_time_flags(by_language[Language.CUDA])),
        device_link_libraries=tuple(given.get("dlink_libraries", ())),
        cuda=given["cuda"] and not given.get("cuda_sources"),
        may_be_empty=True,
    )


def _link_time_flags(given: Sequence[str]) -> tuple[str, ...]:
    """Return the option with which nvcc links sources that are optimized when they are linked.

    torch.utils.cpp_extension passes it always; without such sources it changes nothing, and needs a library that not
    every toolkit has.
    """
    return ("-dlto",) if any(flag in _LINK_TIME or "lto_" in flag for flag in given) else ()


def _defined(extension: Any) -> Iterator[tuple[str, Any]]:
    """Yield the macros with their values; setuptools undefines one that is alone in its tuple."""
    yield from (tuple(macro) for macro in extension.define_macros if len(macro) == 2)


def _as_paths(given: Iterable[Any]) -> tuple[str, ...]:
    return tuple(os.fspath(path) for path in given)


def _paths_as_text(given: Any) -> Any:
    """Convert the paths in an argument's value to text."""
    if isinstance(given, (list, tuple)):
        return [os.fspath(item) if isinstance(item, os.PathLike) else item for item in given]
    return given


def _flags_by_language(given: Any) -> dict[Language, tuple[str, ...]]:
    """Read ``extra_compile_args``: a list for every language, or a table by ``cxx`` and ``nvcc``."""
    if not isinstance(given, Mapping):
        return {language: tuple(given) for language in Language}
    cxx, nvcc = tuple(given.get("cxx", ())), tuple(given.get("nvcc", ()))
    return {Language.C: cxx, Language.CXX: cxx, Language.CUDA: nvcc}
