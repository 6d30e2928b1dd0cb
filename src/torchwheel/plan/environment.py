"""The environment variables of a plan's inner build, and the options by which PyTorch and CMake find CUDA.

PyTorch finds CUDA through several unrelated CMake modules. Its own FindCUDA reads the environment variables
CUDA_PATH, CUDA_BIN_PATH and CUDA_TOOLKIT_ROOT, nvcc on PATH, or -DCUDA_TOOLKIT_ROOT_DIR; enable_language(CUDA)
reads CUDACXX or -DCMAKE_CUDA_COMPILER; FindCUDAToolkit reads CUDAToolkit_ROOT; setup.py reads CUDA_HOME
(https://github.com/pytorch/pytorch/tree/v2.6.0/cmake/Modules_CUDA_fix, pytorch issue 8092).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath

from torchwheel.host.compiler_cache import cache_variables
from torchwheel.host.compilers import command_words, join_words
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host, Language
from torchwheel.host.programs import program_stem
from torchwheel.plan.build_plan import BuildFolders, Define, Variable, WheelVersion
from torchwheel.plan.defines import INCLUDE_BEFORE, Forwarding, environment_text
from torchwheel.reporting.errors import Finding, Problem, warning
from torchwheel.reporting.terminal import config_option
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.settings.value_types import is_same_value
from torchwheel.toolkit.assemble import linked_toolkit
from torchwheel.toolkit.cuda_toolkit import Toolkit, path_of
from torchwheel.toolkit.select import Selection
from torchwheel.versions import major_minor

SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")
"""Variables in which the toolkit's folders come first, before the requested value."""

PIN_VARIABLE = "DESIRED_CUDA"
"""PyTorch chooses the NCCL that it clones by it: cmake/PreBuildSteps.cmake, tools/build_pytorch_libs.py."""

_COMPILER_DEFINE = "CMAKE_CUDA_COMPILER"
COMPILER_VARIABLE = "CUDACXX"
"""CMake's variable for nvcc."""
_FIND_CUDA_COMPILER = "CUDA_NVCC_EXECUTABLE"
"""FindCUDA's own option for nvcc; without it the build uses CUDACXX."""


@dataclass(frozen=True)
class CudaVariables:
    """A toolkit and its compiler, for every module that searches for them.

    Attributes:
        visible: the toolkit for the build, which may be a stand-in.
        compiler: the compiler's setting: the user's own, or the toolkit's nvcc.
        find_cuda: the replacement of a user's CUDA_NVCC_EXECUTABLE that the toolkit outranks.
    """

    toolkit: Toolkit
    visible: Toolkit
    selection: Selection
    compiler: Setting | None
    find_cuda: Setting | None

    def defines(self) -> Iterator[Define]:
        for name in ("CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT"):
            yield Define(name, _for_cmake(self.visible.root), self.selection.layer, self.selection.origin)
        for name, setting in ((_COMPILER_DEFINE, self.compiler), (_FIND_CUDA_COMPILER, self.find_cuda)):
            # Skip a command line: CMake splits the variable's value itself, but -D accepts only a path.
            if setting is not None and not (setting.name == COMPILER_VARIABLE and " " in setting.text):
                yield Define.of(name, _for_cmake(setting.text), setting)

    def variables(self, host: Host) -> Iterator[Variable]:
        layer, origin = self.selection.layer, self.selection.origin
        for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_BIN_PATH", "CUDA_TOOLKIT_ROOT", "CUDAToolkit_ROOT"):
            yield Variable(name, self.visible.root, layer, origin)
        yield Variable(PIN_VARIABLE, major_minor(self.toolkit.version), layer, origin)
        yield Variable("PATH", self.visible.bin_dir, layer, origin, prepend=True)
        if host.system == "Linux" and self.visible.library_dir is not None:
            yield Variable("LD_LIBRARY_PATH", self.visible.library_dir, layer, origin, prepend=True)
        if self.compiler is not None:
            yield Variable.of(COMPILER_VARIABLE, self.compiler.text, self.compiler)

    def findings(self) -> Iterator[Finding]:
        """Warn about a compiler that is not the toolkit's."""
        for setting in filter(None, (self.compiler, self.find_cuda)):
            if not any(_belongs_to(setting.text, one) for one in (self.toolkit, self.visible)):
                values = {"compiler": setting.text, "root": self.toolkit.root, "name": setting.name}
                yield warning(Problem.of("nvcc-elsewhere", origin=setting.origin, **values))


def cuda_variables(settings: Settings, selection: Selection | None, cache: Path) -> CudaVariables | None:
    """The options and variables of the selected toolkit; None in a build without one.

    The user's compiler is used unless a higher layer named the toolkit: PyTorch refuses two CUDA versions in one build.
    """
    if selection is None or selection.toolkit is None:
        return None
    toolkit, visible = selection.toolkit, linked_toolkit(selection.toolkit, cache)
    named = (settings.defines.get(_COMPILER_DEFINE), settings.variables.get(COMPILER_VARIABLE))
    find_cuda = settings.defines.get(_FIND_CUDA_COMPILER)

    def choose(*named: Setting | None) -> Setting | None:
        """The user's compiler, highest layer first, or the toolkit's."""
        others = (one for one in named if one is not None and not _names_nvcc(one.text, toolkit.nvcc))
        by_path = (replace(one, value=_with_path(one.text, toolkit.nvcc)) for one in others)
        requested = sorted(by_path, key=lambda setting: setting.layer, reverse=True)
        if requested and (requested[0].layer >= selection.layer or visible.nvcc is None):
            return requested[0]
        if visible.nvcc is None:
            return None
        return Setting("nvcc", visible.nvcc, selection.layer, selection.origin, replaced=tuple(requested))

    return CudaVariables(
        toolkit=toolkit,
        visible=visible,
        selection=selection,
        compiler=choose(*named),
        find_cuda=choose(find_cuda) if find_cuda is not None else None,
    )


def _names_nvcc(text: str, nvcc: str | None) -> bool:
    """Whether a compiler is only another name of the toolkit's nvcc, which the build is given by its path.

    CMake would search other folders of ``PATH`` before, and beside a link elsewhere it does not find the toolkit.
    """
    return nvcc is not None and (
        text == program_stem(nvcc) or os.path.realpath(text) == os.path.realpath(nvcc)
    )


def _with_path(text: str, nvcc: str | None) -> str:
    windows = nvcc is not None and isinstance(path_of(nvcc), PureWindowsPath)
    words = command_words(text, "Windows" if windows else "Linux")
    if nvcc is None or len(words) < 2 or not _names_nvcc(words[0], nvcc):
        return text
    return join_words([nvcc, *words[1:]], windows=windows)


def _for_cmake(path: str) -> str:
    """Use CMake's slashes in a path: a backslash is an escape in FindCUDA's macros and CMake 3.25's own files."""
    spelled = path_of(path)
    return spelled.as_posix() if isinstance(spelled, PureWindowsPath) else path


def _belongs_to(compiler: str, toolkit: Toolkit) -> bool:
    """Whether a compiler (a path or a command), or what a link by its name leads to, is in the toolkit's folder."""
    system = "Windows" if isinstance(path_of(toolkit.root), PureWindowsPath) else "Linux"
    real = Path(os.path.realpath(toolkit.root))
    return any(
        path_of(toolkit.root) in path_of(program).parents or real in Path(os.path.realpath(program)).parents
        for program in (compiler, *command_words(compiler, system)[:1])
    )


_PREPROCESSOR = "CPPFLAGS"
_COMPILERS: dict[str, Language] = {"CC": "c", "CXX": "cxx"}

JOB_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
"""The number of jobs, for PyTorch's build and for ``cmake --build``, in that order."""

VERSION_VARIABLES = ("PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER")
"""The wheel's version, and a number that would be appended to it."""


def variables_for(
    settings: Settings,
    host: Host,
    ways: Forwarding,
    defines: Iterable[Define],
    cuda: CudaVariables | None,
    version: WheelVersion,
    jobs: Jobs,
) -> tuple[Variable, ...]:
    variables = {
        name: Variable.of(name, setting.text, setting) for name, setting in settings.variables.items()
    }
    name, number = VERSION_VARIABLES
    # setup.py would pass every CMAKE_ variable on as an option, and CMake would warn that it is unused.
    of_jobs = [one for one in JOB_VARIABLES if ways.defines or not one.startswith("CMAKE_")]
    planned = [
        *(
            _decided_variable(one, str(jobs.max_jobs), settings.entries.get("jobs"), jobs.reason)
            for one in of_jobs
        ),
        _decided_variable(name, str(version), settings.entries.get("package-version"), version.base_origin),
        Variable(number, "1", Layer.DEFAULT, "a higher one would become part of the local label"),
        *option_variables(ways, defines),
        *(cuda.variables(host) if cuda is not None else ()),
    ]
    for variable in planned:
        there = variables.get(variable.name) if variable.prepend else None
        # Settings outrank requested variables, because otherwise the build would choose between two values.
        if there is not None:
            separator = ";" if host.system == "Windows" else ":"
            variable = replace(there, value=f"{variable.value}{separator}{there.value}")
        variables[variable.name] = variable
    return tuple(variables.values())


def variable_findings(settings: Settings, variables: Iterable[Variable]) -> Iterator[Finding]:
    for variable in variables:
        requested = settings.variables.get(variable.name)
        if requested is None or variable.name in SEARCH_PATHS:
            continue
        named = variable.origin == requested.origin or _names_nvcc(requested.text, variable.value)
        if variable.name == COMPILER_VARIABLE and named:
            continue
        # ``cu126``, ``12.6`` and ``12.6.3`` are all of CUDA 12.6.
        digits, own = (re.sub(r"\D", "", text) for text in (requested.text, variable.value))
        if variable.name == PIN_VARIABLE and digits.startswith(own):
            continue
        if not is_same_value(variable.value, requested.value):
            yield warning(_overruled_variable(variable, requested))


def with_folders(
    variables: Iterable[Variable],
    settings: Settings,
    host: Host,
    folders: BuildFolders,
    cache: str | None,
    *,
    included: bool,
    maps_paths: bool,
) -> tuple[Variable, ...]:
    """Add the variables that name the build's own folders; sorted by name.

    With ``included`` one names ``folders.defines_file`` for CMake to include; with ``maps_paths`` compilers outside
    CMake get the flags that keep the folder's path out of objects.
    """
    own = [folders.root] if folders.staged else [folders.source, folders.root]
    # The cache folder also has environments and toolkits, which are the same in another home.
    bases = [folders.cache, *own] if folders.staged and folders.cache in folders.root.parents else own
    cache_settings = cache_variables(settings.compiler_cache, cache, bases, windows=host.system == "Windows")
    reason = "compiler cache hits from another folder"
    added = {name: Variable(name, value, Layer.DEFAULT, reason) for name, value in cache_settings.items()}
    every = added | {variable.name: variable for variable in variables}
    if included:
        file, origin = folders.defines_file.as_posix(), "torchwheel's own file for CMake"
        every[INCLUDE_BEFORE] = Variable(INCLUDE_BEFORE, file, Layer.DEFAULT, origin)
    if maps_paths:
        # setuptools compiles torch._C itself, with Python's own flags, which may include debug information. Unlike
        # CMake it reads this variable.
        flag = shlex.quote(f"-ffile-prefix-map={folders.source}=/pytorch")
        there = every.get(_PREPROCESSOR)
        value = f"{there.value} {flag}" if there else flag
        every[_PREPROCESSOR] = Variable(_PREPROCESSOR, value, Layer.DEFAULT, "SOURCE_DATE_EPOCH")
    return tuple(_with_quoted_program(every[name], host) for name in sorted(every))


def _with_quoted_program(variable: Variable, host: Host) -> Variable:
    """Quote a compiler's path with blanks, because setuptools reads the variable as a command line."""
    compiler = host.find_compiler(_COMPILERS[variable.name]) if variable.name in _COMPILERS else None
    if compiler is None or host.system == "Windows" or str(Path(variable.value).absolute()) != compiler.path:
        return variable
    return replace(variable, value=shlex.quote(variable.value))


def _overruled_variable(variable: Variable, requested: Setting) -> Problem:
    rule = pytorch_variables().find_rule(variable.name)
    key = rule.becomes if rule is not None else "env"
    setting = f"{key}.{variable.name}" if key in ("define", "env") else key
    leave_out, option = requested.ambient or key == "env", config_option(setting, requested.text)
    id = "variable-overruled" if leave_out else "variable-overruled/setting"
    values = {"name": variable.name, "value": variable.value, "origin_of_value": variable.origin}
    return Problem.of(id, origin=requested.origin, requested=requested.text, option=option, **values)


def option_variables(ways: Forwarding, defines: Iterable[Define]) -> Iterator[Variable]:
    """The variables by which a build reads options."""
    for define in defines:
        if ways.by_environment(define.name):
            yield Variable.of(define.name, environment_text(define.value), define)


def _decided_variable(name: str, value: str, setting: Setting | None, reason: str) -> Variable:
    """Return a variable with a setting as its source, or without one with ``reason``."""
    return Variable.of(name, value, setting) if setting else Variable(name, value, Layer.DEFAULT, reason)
