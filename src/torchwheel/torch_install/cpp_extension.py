"""Load the installed PyTorch's ``torch/utils/cpp_extension.py`` without importing PyTorch.

That file decides how extensions are compiled, and differs in every release. It needs little of PyTorch: a stand-in for
the package answers by its version alone, and leaves ``sys.modules`` afterwards, so that a project imports the real one.
What the stand-in lacks is asked of the real one, which is imported then.
"""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import say
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_file
from torchwheel.torch_install.installed_torch import locate_torch, read_stated_version

NAME = "torch.utils.cpp_extension"
_PACKAGE = "torch"

_ABI = re.compile(r"-D_GLIBCXX_USE_CXX11_ABI=([01])\b")
# The key under which modules find each other's pybind11, and the names of its parts in torch._C.
# Source: pybind11 2.13, include/pybind11/detail/internals.h
_KEY = re.compile(rb"__pybind11_internals_v\d+(_[a-z]+)(_lib[a-z]+)(_cxxabi\d+)__")
_KEY_NAMES = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")


class _StandIn(ModuleType):
    """A module of PyTorch that knows some of its names, and gets all others from the real one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if _LOADING:
            # The real one is imported instead, see load_cpp_extension().
            raise AttributeError(f"{self.__name__}.{name} is not known here")
        say(f"importing PyTorch, whose {NAME} asks for {self.__name__}.{name}")
        return getattr(importlib.import_module(self.__name__), name)


_LOADING: dict[str, ModuleType] = {}
"""The stand-ins while the file is loaded."""


def cpp_extension() -> ModuleType:
    """Return ``torch.utils.cpp_extension`` of the installed PyTorch: imported, else loaded from its file."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    location = locate_torch()
    if location is None:
        raise refusal("torch-not-installed")
    if _PACKAGE in sys.modules:
        return importlib.import_module(NAME)
    return load_cpp_extension(location.root)


@cache
def load_cpp_extension(root: Path) -> ModuleType:
    """Load the file of the PyTorch in a folder, once; import the real module if it needs more than the stand-in has."""
    version = read_stated_version(root / "version.py")
    with _standing_in(_stand_ins(root, str(version.version), version.cuda, version.hip)):
        file = root / "utils" / "cpp_extension.py"
        spec = importlib.util.spec_from_file_location(NAME, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                spec.loader.exec_module(module)
        except FileNotFoundError:
            values = {"what": f"{file} is missing", "why": "it describes extensions"}
            raise refusal("torch-unreadable", **values) from None
        except (AttributeError, ImportError) as failure:
            reason = str(failure)
        else:
            return module
    say(f"importing PyTorch, whose {NAME} needs more than its version: {reason}")
    return importlib.import_module(NAME)


def _stand_ins(root: Path, version: str, cuda: str | None, hip: str | None) -> Mapping[str, ModuleType]:
    """Create the stand-ins; modules that need nothing compiled are imported from PyTorch's own files.

    Source: torch/utils/cpp_extension.py and torch/_filelock.py of 2.6.0 to 2.15.0
    """
    compiled, xpu = cuda is not None or hip is not None, root / "lib" / "libtorch_xpu.so"
    names: dict[str, dict[str, Any]] = {
        _PACKAGE: {"__path__": [str(root)], "__version__": version},
        f"{_PACKAGE}.utils": {"__path__": [str(root / "utils")]},
        # No GPU is counted: torchwheel names the architectures.
        f"{_PACKAGE}.cuda": {"_is_compiled": lambda: compiled, "is_available": lambda: compiled},
        f"{_PACKAGE}.xpu": {"_is_compiled": lambda: is_file(xpu), "get_arch_list": list},
        f"{_PACKAGE}.backends": {"__path__": [str(root / "backends")]},
        f"{_PACKAGE}.backends.mps": {"is_built": lambda: sys.platform == "darwin"},
        f"{_PACKAGE}._C": _abi_of(root),
        f"{_PACKAGE}._utils_internal": {"get_file_path": lambda *parts: str(root.parent.joinpath(*parts))},
        # For ``load`` alone, which imports PyTorch.
        f"{_PACKAGE}.utils._filelock": {"FileLock": None},
    }
    modules: dict[str, ModuleType] = {name: _StandIn(name) for name in names}
    for name, module in modules.items():
        vars(module).update(names[name])
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules


def _abi_of(root: Path) -> dict[str, Any]:
    """The values that PyTorch up to 2.8 passes to compilers as macros, so that a module's C++ library and pybind11 fit.

    2.6 and 2.7 state the first in TorchConfig.cmake; where they do not, as in Debian, the real one is asked.
    """
    values: dict[str, Any] = {f"_PYBIND11_{name}": None for name in _KEY_NAMES}
    if stated := _ABI.search(read_beginning(root / "share" / "cmake" / "Torch" / "TorchConfig.cmake")):
        values["_GLIBCXX_USE_CXX11_ABI"] = stated[1] == "1"
    for file in (root / "lib" / f"libtorch_python{suffix}" for suffix in (".so", ".dylib")):
        if is_file(file) and file.stat().st_size:
            with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
                start = text.find(b"__pybind11_internals_v")
                if start >= 0 and (key := _KEY.match(text, start)):
                    parts = zip(_KEY_NAMES, key.groups(), strict=True)
                    values |= {f"_PYBIND11_{name}": part.decode() for name, part in parts}
    return values


@contextmanager
def _standing_in(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Put modules into ``sys.modules``; every module of PyTorch leaves it afterwards."""
    _LOADING.update(modules)
    sys.modules.update(modules)
    try:
        yield
    finally:
        _LOADING.clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]
