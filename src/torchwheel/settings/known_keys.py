"""The settings: every key with its type and documentation, in one place.

The readers of all sources, the JSON schema and docs/settings.md are generated from the classes here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Flag, auto
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.reporting.errors import find_nearest
from torchwheel.settings.value_types import (
    ARCHITECTURES,
    BASE_VERSION,
    FLAG,
    LOCAL_LABEL,
    MODULE_NAME,
    NAMES,
    PATH,
    SCALAR,
    TEXT,
    TEXTS,
    VARIABLE_TEXT,
    VERSION_RANGE,
    ValueType,
    choice,
    whole,
)
from torchwheel.versions import ReleaseRange


class Where(Flag):
    PROJECT = auto()  # [tool.torchwheel]
    TARGET = auto()  # a target's table or overlay file, and a [[when]] in one
    PROFILE = auto()  # a profile's overlay file, and a [[when]] in one
    COMMAND = auto()  # -C key=value, and the key's variable


EVERYWHERE = Where.PROJECT | Where.TARGET | Where.PROFILE | Where.COMMAND


@dataclass(frozen=True)
class Key:
    """The description of one key; ``table`` is for one of free names (``define.X``).

    ``example`` is a value as typed after ``-C key=``, for a table ``NAME=value``; ``where`` is unused for the keys of
    headers and extensions.
    """

    type: ValueType
    documentation: str
    example: str
    where: Where = EVERYWHERE
    table: bool = False
    default: object = None
    cmake: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    name: str = ""

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        return f"TORCHWHEEL_{self.attribute.upper()}"

    @property
    def help(self) -> str:
        """The first sentence of the documentation, for the help of a command's option."""
        first = self.documentation.partition(". ")[0].removesuffix(".").replace("`", "")
        return first[0].lower() + first[1:]

    @property
    def example_value(self) -> str:
        """The example's value alone: ``-O2`` of ``CFLAGS=-O2``."""
        return self.example.rpartition("=")[2] if self.table else self.example

    def toml_example(self) -> str:
        entry, value = self.example.rpartition("=")[0], self.example_value
        left = f"{self.name}.{entry}" if self.table else self.name
        return f'{left} = "{value}"' if self.type.quoted else f"{left} = {value}"


def _key_field(*arguments: Any, **more: Any) -> Any:
    """Declare a field of the model; the arguments are those of :class:`Key`."""
    key = Key(*arguments, **more)
    metadata = {"key": key}
    if key.table:
        return field(default_factory=dict, metadata=metadata)
    return field(default=key.default, metadata=metadata)


def _keys_by_name(**keys: Key) -> Mapping[str, Key]:
    named = (replace(key, name=attribute.replace("_", "-")) for attribute, key in keys.items())
    return {key.name: key for key in named}


@dataclass(frozen=True, kw_only=True)
class SettingsModel:
    source: Path | None = _key_field(
        PATH,
        "Wrapper projects: the PyTorch source tree, relative to the project. The tree is never written to.",
        "../pytorch",
        where=Where.PROJECT,
    )
    target: tuple[str, ...] = _key_field(
        NAMES,
        "The hardware to build for: a GPU by name or alias, several (`a100,t4`), `native` for the GPUs of "
        "this machine, `cpu`, or a target of your own. In a pyproject.toml that also has "
        "`[tool.torchwheel.target.NAME]` tables TOML leaves no room for this key: write `default-target`.",
        "rtx5070",
        where=Where.PROJECT | Where.COMMAND,
        default=(),
    )
    profile: tuple[str, ...] = _key_field(
        NAMES,
        "Profiles laid over the target, in this order: `minimal`, `debug`, or your own. Empty for none.",
        "minimal",
        where=Where.PROJECT | Where.TARGET | Where.COMMAND,
        default=(),
    )
    arch: ArchitectureList | None = _key_field(
        ARCHITECTURES,
        "The architectures to compile device code for, in any spelling (`12.0`, `sm_120`, `9.0+PTX`), where "
        "the target's compute capability is not what you want.",
        "9.0+PTX",
        where=Where.PROJECT | Where.TARGET | Where.COMMAND,
        cmake=("TORCH_CUDA_ARCH_LIST",),
    )
    extensions_from: str | None = _key_field(
        choice("setup.py", "cmake"),
        "Extensions: what describes them where a project has a setup.py beside its CMakeLists.txt. Without this, a "
        "setup.py that names `ext_modules` does.",
        "cmake",
        where=Where.PROJECT | Where.COMMAND,
    )
    cuda: ReleaseRange | None = _key_field(
        VERSION_RANGE,
        "The CUDA toolkits that may be used: a version range such as `>=12.8,<13`, or a version: `12.9` is "
        "any 12.9 release.",
        "12.9",
    )
    cuda_path: str | None = _key_field(
        PATH,
        "The CUDA toolkit to use, instead of the newest one found that fits.",
        "/usr/local/cuda-13.0",
        cmake=("CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT"),
    )
    cuda_from: str = _key_field(
        choice("auto", "system", "pypi", path_key="cuda-path"),
        "Where the CUDA toolkit comes from: one that is installed (`system`), the packages that PyPI has from CUDA 13 "
        "on (`pypi`), or PyPI where no installed one fits (`auto`). A folder is given as `cuda-path`.",
        "pypi",
        default="auto",
    )
    enable: tuple[str, ...] = _key_field(
        NAMES, "Components to build, by name; `torchwheel components` lists them.", "nccl,gloo", default=()
    )
    disable: tuple[str, ...] = _key_field(
        NAMES, "Components to leave out, by name.", "distributed,tests", default=()
    )
    define: Mapping[str, bool | int | str] = _key_field(
        SCALAR,
        "CMake options by their own names, for what no component covers.",
        "USE_NATIVE_ARCH=true",
        table=True,
        also=("cmake.define",),
    )
    env: Mapping[str, str] = _key_field(
        VARIABLE_TEXT, "Environment variables of the build.", "CFLAGS=-O2", table=True
    )
    jobs: int | None = _key_field(
        whole(1, 1024),
        "How many compilers may run at once, instead of what memory and cores allow.",
        "8",
    )
    package_version: str | None = _key_field(
        BASE_VERSION,
        "The version to build as, without a local label, instead of the tree's own.",
        "2.14.1",
    )
    local_version: str | None = _key_field(
        LOCAL_LABEL,
        "The local version label, instead of the one made from CUDA version and architectures; empty for none.",
        "cu130.sm120",
    )
    build_type: str = _key_field(
        choice("Release", "Debug", "RelWithDebInfo", "RelWithAssert", "MinSizeRel"),
        "CMake's build type.",
        "RelWithDebInfo",
        default="Release",
        cmake=("CMAKE_BUILD_TYPE",),
        also=("cmake.build-type",),
    )
    build_dir: str | None = _key_field(
        PATH,
        "The folder to build in, instead of one in the cache for each combination of settings and tools.",
        "/var/tmp/torch-build",
    )
    build_env: str = _key_field(
        choice("auto", "managed", "current"),
        "Where the tree's own build requirements come from: an environment that torchwheel keeps from build "
        "to build (`managed`), the one it runs in (`current`), or whichever is needed (`auto`).",
        "managed",
        default="auto",
    )
    compiler_cache: str = _key_field(
        choice("auto", "ccache", "sccache", "none"),
        "What answers for a compiler that has compiled the same before: `auto` is ccache, else sccache, where one "
        "is on `PATH`. How often it answered is said after every build. See [compiler caches](compiler-caches.md).",
        "sccache",
        default="auto",
    )
    skip_check: tuple[str, ...] = _key_field(
        NAMES,
        "Findings to let pass although they would stop the build, by the id in square brackets.",
        "toolkit-outside-range",
        default=(),
    )
    traceback: bool = _key_field(
        FLAG,
        "Show Python tracebacks with errors.",
        "true",
        where=Where.PROJECT | Where.COMMAND,
        default=False,
    )


TABLE_HEADER = _keys_by_name(
    title=Key(TEXT, "What the target or profile is, in a few words.", "GeForce RTX 5070"),
    inherits=Key(TEXT, "The target (or for a profile: the profile) that this one is laid over.", "rtx5070"),
)
"""The keys of a target's table or an overlay file that are not settings."""

FILE_HEADER = _keys_by_name(
    kind=Key(choice("target", "profile"), "Whether the file describes a target or a profile.", "target"),
    source=Key(NAMES, "Where the knowledge in the file comes from.", "https://docs.nvidia.com/cuda"),
)
"""The further keys of an overlay file, which a table of pyproject.toml does not need."""

EXTENSION_KEYS = _keys_by_name(
    name=Key(MODULE_NAME, "The module's dotted name, as Python imports it.", "texture_kernels._C"),
    sources=Key(
        TEXTS,
        "Source files, relative to the project: C++ (also `.c`) and CUDA by their suffixes, or patterns with `*` and "
        "`**`, of whose matches only source files count.",
        '["csrc/**/*.cpp", "csrc/**/*.cu"]',
    ),
    cuda_sources=Key(
        TEXTS,
        "Further sources, compiled only where the installed PyTorch has CUDA and the target is not `cpu`; "
        "all sources then see the macro `WITH_CUDA`.",
        '["csrc/cuda/*.cu"]',
        default=(),
    ),
    architectures=Key(
        ARCHITECTURES,
        "Architectures of the CUDA sources that a pattern matches, whatever the target; the first match counts.",
        '"sm90/*.cu"=9.0a',
        table=True,
    ),
    cxx_flags=Key(TEXTS, "Further flags for C++.", '["-Wextra"]', default=()),
    nvcc_flags=Key(TEXTS, "Further flags for CUDA.", '["--use_fast_math"]', default=()),
    link_flags=Key(TEXTS, "Further flags for linking.", '["-Wl,--gc-sections"]', default=()),
    include_dirs=Key(TEXTS, "Folders of headers.", '["include"]', default=()),
    library_dirs=Key(TEXTS, "Folders of libraries.", '["/opt/codec/lib"]', default=()),
    libraries=Key(
        TEXTS, "Libraries to link, by their names without prefix and suffix.", '["cublas"]', default=()
    ),
    define=Key(
        SCALAR,
        "Preprocessor macros; `true` defines one without a value, `false` undefines it.",
        "TILE=16",
        table=True,
    ),
    stable_abi=Key(
        TEXT,
        "The oldest PyTorch release to run with, for an extension that uses PyTorch's stable ABI alone.",
        "2.10",
    ),
    limited_api=Key(
        FLAG,
        "Whether the extension uses Python's limited API alone, so that one wheel works with all Pythons; "
        "`stable-abi` implies it.",
        "true",
        default=False,
    ),
    unity=Key(
        FLAG,
        "Whether sources are compiled together, so that headers are parsed once for many of them.",
        "true",
        default=False,
    ),
    front_end=Key(
        choice("separate", "shared"),
        "`shared` compiles device code once, for the oldest architecture, and assembles machine code for all of them "
        "from that: quicker, but without the instructions and code paths that newer architectures have. "
        "Architectures with a suffix stay separate.",
        "shared",
        default="separate",
    ),
    device_link=Key(
        FLAG,
        "Whether relocatable device code (`-rdc=true` in `nvcc-flags`) is linked in a step of its own.",
        "true",
        default=False,
    ),
    device_link_libraries=Key(
        TEXTS, "Static libraries with relocatable device code.", '["nvshmem_device"]', default=()
    ),
    depends=Key(
        TEXTS,
        "Files that every source is compiled again for when they change; headers need not be named.",
        '["csrc/table.inc"]',
        default=(),
    ),
)
"""One ``[[tool.torchwheel.extension]]``: an extension module of a project that builds on PyTorch."""


@cache
def all_keys() -> Mapping[str, Key]:
    return _keys_by_name(**{item.name: item.metadata["key"] for item in fields(SettingsModel)})


def nearest_key(name: str, siblings: Collection[str]) -> str | None:
    """The setting, option or variable of a setting that a wrong name probably means; None for none."""
    if name.casefold() == "version":
        return next((one for one in siblings if one.casefold().replace("_", "-") == "package-version"), None)
    return find_nearest(name, siblings)


def keys_for(where: Where) -> dict[str, Key]:
    return {name: key for name, key in all_keys().items() if where in key.where}


@cache
def cmake_aliases() -> Mapping[str, str]:
    """CMake variable -> the setting that means the same."""
    return {variable: name for name, key in all_keys().items() for variable in key.cmake}
