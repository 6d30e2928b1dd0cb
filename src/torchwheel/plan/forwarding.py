"""Pass options to CMake: as an environment variable, as a config setting (``-D``), or through a CMake file.

The two generations of PyTorch's build differ; ``forwarding.toml`` has the differences, with sources.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.plan.build_plan import REPORT, BuildFolders, Define
from torchwheel.pytorch.releases import bounded_requires, cmake_below
from torchwheel.reproducible import NvccNaming
from torchwheel.settings import Settings
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.system.toml import read_toml
from torchwheel.tree.cmake_options import quote_bracket
from torchwheel.tree.source_tree import Generation, Tree

BackendSettings = dict[str, "str | list[str]"]

INCLUDE_BEFORE = "CMAKE_PROJECT_INCLUDE_BEFORE"
"""The variable that names a file which CMake includes before ``project()`` (cmake-variables(7))."""


@dataclass(frozen=True)
class Forwarding:
    """The ways to pass options to CMake in one generation of the build.

    Attributes:
        defines: whether any option can be passed as ``-D``.
        value_end: the text that would end a value early on its way to CMake; empty if none does.
    """

    defines: bool
    environment_prefixes: tuple[str, ...]
    environment_suffixes: tuple[str, ...]
    environment_names: frozenset[str]
    value_end: str

    def by_environment(self, option: str) -> bool:
        by_pattern = option.startswith(self.environment_prefixes) or option.endswith(
            self.environment_suffixes
        )
        return by_pattern or option in self.environment_names

    def by_file(self, option: str) -> bool:
        return not self.defines and not self.by_environment(option)

    def cannot_quote(self, value: str) -> bool:
        """Whether a value cannot be passed to CMake unchanged."""
        return bool(self.value_end) and (value + self.value_end).index(self.value_end) < len(value)


@cache
def forwarding_rules(generation: Generation) -> Forwarding:
    table = read_toml(Path(__file__).with_name("forwarding.toml"))[generation.value]
    return Forwarding(
        defines=table["defines"],
        environment_prefixes=tuple(table["environment-prefixes"]),
        environment_suffixes=tuple(table["environment-suffixes"]),
        environment_names=frozenset(table["environment-names"]),
        value_end=table.get("value-end", ""),
    )


def build_requirements(tree: Tree, settings: Settings) -> tuple[str, ...]:
    """Return the build requirements of a tree, limited to the CMake versions that it supports."""
    below = cmake_below(tree.version_text, tree.old_projects)
    return bounded_requires(tree.requires, below, settings.variables)


def cmake_text(value: object) -> str:
    """Format a setting's value as CMake text: booleans as ON and OFF."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


def environment_text(value: str) -> str:
    """Format a CMake value for the environment as in PyTorch's documentation: ON and OFF as 1 and 0."""
    return {"ON": "1", "OFF": "0"}.get(value, value)


# Some kernels are compiled through a generated file that includes them by absolute path. The path would be in the
# object (__FILE__), and a compiler cache would hit in the same folder only. Official wheels have /pytorch too. These
# are not CMAKE_CXX_FLAGS, because torch.__config__ shows those. https://gcc.gnu.org/onlinedocs/gcc/Overall-Options.html
_PATHS_AS_IN_OFFICIAL_WHEELS = (
    "add_compile_options(",
    '  "$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=/pytorch>"',
    '  "$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_BINARY_DIR}=/pytorch/build>")',
)

# A library's build ID depends on the linked run path to the build folder, which installing replaces.
# https://cmake.org/cmake/help/latest/prop_tgt/BUILD_RPATH_USE_ORIGIN.html
_RUN_PATHS_FROM_ORIGIN = "set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)"

# With CCACHE_BASEDIR, ccache compiles with paths relative to the build folder, with links resolved.
_RELATIVE_PATHS = (
    'get_filename_component(torchwheel_build "${CMAKE_BINARY_DIR}" REALPATH)',
    'get_filename_component(torchwheel_source "${CMAKE_SOURCE_DIR}" REALPATH)',
    'file(RELATIVE_PATH torchwheel_source "${torchwheel_build}" "${torchwheel_source}")',
    'string(REGEX REPLACE "/$" "" torchwheel_source "${torchwheel_source}")',
    'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${torchwheel_source}=/pytorch>")',
)

# CMake has no rule variable for a source's name, so each source gets its own option once all are known.
_NAMED_CUDA_SOURCES = r"""
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:{temporary_files}>")
foreach(torchwheel_map IN ITEMS
  "${{CMAKE_SOURCE_DIR}}=/pytorch" "${{CMAKE_BINARY_DIR}}=/pytorch/build" "${{torchwheel_source}}=/pytorch")
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=\"-ffile-prefix-map=${{torchwheel_map}}\">")
endforeach()
function(torchwheel_name_cuda_sources folder)
  get_property(targets DIRECTORY "${{folder}}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources "${{target}}" SOURCES)
    foreach(source IN LISTS sources)
      if(source MATCHES "\\.cu$" AND NOT source MATCHES "[$]<")
        get_filename_component(path "${{source}}" ABSOLUTE BASE_DIR "${{folder}}")
        string(REPLACE "${{CMAKE_BINARY_DIR}}/" "/pytorch/build/" name "${{path}}")
        string(REPLACE "${{CMAKE_SOURCE_DIR}}/" "/pytorch/" name "${{name}}")
        string(REGEX REPLACE "[^A-Za-z0-9_./+-]" "_" name "${{name}}")
        set_property(SOURCE "${{path}}" DIRECTORY "${{folder}}" APPEND PROPERTY COMPILE_OPTIONS "{source}")
      endif()
    endforeach()
  endforeach()
  get_property(folders DIRECTORY "${{folder}}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    torchwheel_name_cuda_sources("${{below}}")
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${{CMAKE_SOURCE_DIR}}" CALL torchwheel_name_cuda_sources "${{CMAKE_SOURCE_DIR}}")
"""

# The cache does not show what a plain set() makes of an option. Deferred twice, so that it follows the tree's own
# deferred calls. https://cmake.org/cmake/help/latest/command/cmake_language.html
_FINAL_VALUES = r"""
function(torchwheel_write_values)
  foreach(torchwheel_name IN ITEMS {names})
    string(REGEX REPLACE [[(["\])]] [[\\\1]] torchwheel_value "${{${{torchwheel_name}}}}")
    string(APPEND torchwheel_values "${{torchwheel_comma}}\n\"${{torchwheel_name}}\": \"${{torchwheel_value}}\"")
    set(torchwheel_comma ",")
  endforeach()
  file(WRITE "${{CMAKE_BINARY_DIR}}/{file}" "{{${{torchwheel_values}}\n}}\n")
endfunction()
cmake_language(DEFER DIRECTORY "${{CMAKE_SOURCE_DIR}}" CALL cmake_language DEFER CALL torchwheel_write_values)
"""


def cmake_file(
    values: Mapping[str, str],
    include_first: str | None = None,
    *,
    reported: Collection[str] = (),
    maps_paths: bool = False,
    launcher: Sequence[str] = (),
    compiler_launcher: str = "",
    reproducible: bool = False,
    nvcc: NvccNaming | None = None,
) -> str:
    """Return a CMake file with the options that the generation's build cannot forward in another way.

    CMake includes it before every ``project()``; like ``-D`` it sets the options once, so that changes by the tree
    persist. ``include_first`` is the user's own file to include there; CMake writes the final values of the
    ``reported`` options into ``REPORT`` in the build directory; with ``maps_paths`` objects do not contain the path of
    their folder; ``launcher`` is the command before each compiler and linker, and before ``compiler_launcher``, which
    replaces no launcher of the user's. With ``reproducible`` no run path leads into the build folder either; ``nvcc``
    has nvcc's arguments then.
    """
    lines = [f"include({quote_bracket(include_first)})"] if include_first else []
    # The user's own file precedes the guard, because CMake would include it before every project().
    lines.append("include_guard(GLOBAL)")
    lines += [
        f'set({name} {quote_bracket(value)} CACHE STRING "" FORCE)' for name, value in sorted(values.items())
    ]
    lines += _PATHS_AS_IN_OFFICIAL_WHEELS if maps_paths else ()
    lines += [_RUN_PATHS_FROM_ORIGIN] if reproducible else []
    lines += _RELATIVE_PATHS if reproducible and maps_paths else ()
    if reproducible and nvcc is not None:
        source = nvcc.source.format(name="${name}")
        lines.append(_NAMED_CUDA_SOURCES.strip().format(temporary_files=nvcc.temporary_files, source=source))
    # https://cmake.org/cmake/help/latest/prop_gbl/RULE_LAUNCH_COMPILE.html: part of a command line, unchanged.
    lines += [
        f"set_property(GLOBAL PROPERTY RULE_LAUNCH_{rule} {quote_bracket(shlex.join(launcher))})"
        for rule in ("COMPILE", "LINK")
        if launcher
    ]
    lines += [
        f'set(CMAKE_{one}_COMPILER_LAUNCHER {quote_bracket(compiler_launcher)} CACHE STRING "")'
        for one in ("C", "CXX", "CUDA")
        if compiler_launcher
    ]
    lines.append(link_inputs_text().rstrip())
    if reported:
        names = " ".join(map(quote_bracket, sorted(reported)))
        lines.append(_FINAL_VALUES.strip().format(names=names, file=REPORT))
    return "\n".join(lines) + "\n"


def link_inputs_text() -> str:
    return Path(__file__).with_name("link_inputs.cmake").read_text(encoding="utf-8")


def requested_settings(settings: Settings) -> BackendSettings:
    """Return the user's settings for the tree's own backend, with the other arguments of CMAKE_ARGS.

    ``-C cmake.args`` comes after them, because CMake uses the last of contradicting arguments.
    """
    requested: BackendSettings = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in settings.passthrough.items()
    }
    if settings.cmake_args:
        requested[CMAKE_ARGUMENTS] = [
            *settings.cmake_args,
            *argument_words(requested.get(CMAKE_ARGUMENTS, [])),
        ]
    return requested


def backend_settings(
    requested: BackendSettings,
    build_type: str,
    ways: Forwarding,
    defines: Iterable[Define],
    folders: BuildFolders,
) -> BackendSettings:
    """Return all config settings for the tree's backend: the user's (:func:`requested_settings`), then the plan's."""
    if not ways.defines:
        return {key: value for key, value in requested.items() if key != CMAKE_ARGUMENTS}
    return {
        **requested,
        "build-dir": str(folders.build),
        "cmake.build-type": build_type,
        **{f"cmake.define.{define.name}": define.value for define in defines},
        f"cmake.define.{INCLUDE_BEFORE}": folders.defines_file.as_posix(),
    }
