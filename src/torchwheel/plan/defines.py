"""The CMake options of a plan, and how they reach CMake: as a variable, as a config setting (``-D``), or by a file.

The two generations of PyTorch's build differ; ``forwarding.toml`` has the differences, with sources.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import missing_cache, nothing_to_enable
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import REPORT, BuildFolders, Define
from torchwheel.pytorch.releases import BuildOption, bounded_requires, build_options, cmake_below
from torchwheel.reporting.errors import Finding, Problem, error, find_nearest, warning
from torchwheel.reproducible import NvccNaming
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.components import read_components
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.system.toml import read_toml
from torchwheel.tree.cmake_options import quote_bracket
from torchwheel.tree.source_tree import Generation, Tree
from torchwheel.versions import parse_numbers

ATTENTION_POOL = "FLASH_ATTENTION_MAX_JOBS"
"""The depth of flash attention's job pool, in trees that have one."""

# Read by CMake or its own modules, so valid even if the tree does not mention them.
_CMAKE_OWN_PREFIX = "CMAKE_"
_USE_CACHE = "USE_CCACHE"
_CMAKE_OWN_NAMES = frozenset({"BUILD_SHARED_LIBS", "BUILD_TESTING", "Python_EXECUTABLE"})


def defines_for(
    settings: Settings,
    tree: Tree,
    architectures: ArchitectureList | None,
    cuda: Iterable[Define],
    jobs: Jobs,
    python_executable: str,
) -> tuple[Define, ...]:
    """Return the options of the build, sorted by name, without those of :func:`launcher_defines`."""
    defines = {define.name: define for define in _own_defines(settings, architectures, python_executable)}
    for name, setting in settings.defines.items():
        if setting.component and _has_alternative(setting, tree):
            continue
        defines[name] = Define.of(name, cmake_text(setting.value), setting)
    defines.update((define.name, define) for define in cuda)
    if ATTENTION_POOL in tree.known_names and jobs.flash_attention is not None:
        defines.setdefault(ATTENTION_POOL, _attention_pool(settings, jobs))
    return tuple(defines[name] for name in sorted(defines))


def define_findings(
    settings: Settings, tree: Tree, ways: Forwarding, defines: Iterable[Define]
) -> Iterator[Finding]:
    """Warn about options unknown to the tree; report errors for values that cannot be passed to CMake."""
    unknown = [
        setting
        for name, setting in settings.defines.items()
        # No warning for a built-in overlay, because it is written for every release.
        if not is_known(tree, name)
        and not (setting.component and (_has_alternative(setting, tree) or _is_off_already(setting, tree)))
        and setting.layer is not Layer.BUILTIN_OVERLAY
    ]
    if unknown:
        options = "; ".join(_describe_unknown(one, tree) for one in unknown)
        values = {"options": options, "tree": tree.name, "version": tree.version_text}
        yield warning(Problem.of("unknown-options", **values))
    for define in defines:
        if ways.cannot_quote(define.value):
            values = {"name": define.name, "brackets": ways.value_end}
            yield error(Problem.of("value-not-forwarded", origin=define.origin, **values))


def _has_alternative(setting: Setting, tree: Tree) -> bool:
    component = read_components().of_option(setting.name)
    others = component.options if component is not None else ()
    return not is_known(tree, setting.name) and any(is_known(tree, option) for option in others)


def _is_off_already(setting: Setting, tree: Tree) -> bool:
    """Whether a part is to be left out that the tree does not have; some are always built once they lose the option."""
    option = build_options().get(setting.name)
    if setting.value is not False or option is None or not option.unconditional:
        return setting.value is False
    return parse_numbers(tree.version_text, 2) <= parse_numbers(option.last, 2)


def _own_defines(
    settings: Settings, architectures: ArchitectureList | None, python_executable: str
) -> Iterator[Define]:
    yield Define.of("CMAKE_BUILD_TYPE", settings.build_type, settings.entries["build-type"])
    yield Define("Python_EXECUTABLE", python_executable, Layer.DEFAULT, "the interpreter of the build")
    if architectures is not None:
        arch = settings.entries["arch"]
        yield Define.of("TORCH_CUDA_ARCH_LIST", str(architectures), arch)
        # A target sets it itself; an architecture list implies it.
        yield Define("USE_CUDA", "ON", arch.layer, arch.origin)


def switched_off(settings: Settings) -> bool:
    """Whether PyTorch's own option disables the compiler cache, and no setting overrides it."""
    option = settings.defines.get(_USE_CACHE)
    return settings.compiler_cache == "auto" and option is not None and option.off


def _is_enabled(settings: Settings) -> bool:
    """Whether the user set PyTorch's own option for a compiler cache; torchwheel's overlays set it only by default."""
    option = settings.defines.get(_USE_CACHE)
    return option is not None and option.on and option.layer is not Layer.BUILTIN_OVERLAY


def cache_findings(settings: Settings, host: Host, found: str | None) -> Iterator[Finding]:
    """Report that a requested compiler cache is missing; the caches of a described machine are unknown."""
    setting = settings.entries["compiler-cache"]
    yield from map(error, missing_cache(settings.compiler_cache, found, setting.origin))
    if settings.compiler_cache == "auto" and _is_enabled(settings) and found is None and host.here:
        yield warning(nothing_to_enable(_USE_CACHE, settings.defines[_USE_CACHE].origin))


def launcher_defines(
    settings: Settings, tree: Tree, host: Host, cache: str | None, defines: Iterable[Define], *, cuda: bool
) -> tuple[Define, ...]:
    """Keep the tree from searching for a compiler cache: it would find one installed since, and compile all again.

    On Windows, which cannot start a script as a program, the cache itself is the launcher, by its name.
    """
    setting, found = settings.entries["compiler-cache"], list[Define]()
    if settings.compiler_cache != "auto" or (host.here and _USE_CACHE in tree.known_names):
        found.append(Define.of(_USE_CACHE, "OFF", setting))
    launched = any(compiler.launcher for compiler in host.compilers)
    if cache is not None and host.system == "Windows" and not launched:
        # A launcher that the user names stays, but the tree must not search for another one.
        named = {define.name for define in defines}
        names = (f"CMAKE_{one}_COMPILER_LAUNCHER" for one in ("C", "CXX", *(("CUDA",) if cuda else ())))
        found += [Define.of(name, cache, setting) for name in names if name not in named]
    return tuple(found)


def _attention_pool(settings: Settings, jobs: Jobs) -> Define:
    # Its depth changes from run to run and so is not compared with an older CMake cache. It is an option as well,
    # because PyTorch reads the environment only without a CMake cache.
    if requested := settings.variables.get(ATTENTION_POOL):
        return Define.of(ATTENTION_POOL, requested.text, requested, expected=False)
    return Define(ATTENTION_POOL, str(jobs.flash_attention), Layer.DEFAULT, jobs.reason, expected=False)


def is_known(tree: Tree, name: str) -> bool:
    return name.startswith(_CMAKE_OWN_PREFIX) or name in _CMAKE_OWN_NAMES or name in tree.known_names


def unpublished_options(settings: Settings, tree: Tree) -> frozenset[str]:
    """The requested options that no release of PyTorch is known to have: their values may be secrets."""
    return frozenset(
        name
        for name, setting in settings.defines.items()
        if not (is_known(tree, name) or setting.component or name in build_options())
        and setting.layer is not Layer.BUILTIN_OVERLAY
    )


def _describe_unknown(setting: Setting, tree: Tree) -> str:
    """An option with its origin, and if known the name that was meant or the releases that have it."""
    place = f"{setting.name} ({setting.origin})"
    if elsewhere := build_options().get(setting.name):
        had = _describe_support(elsewhere, tree)
        instead = f" ({elsewhere.instead})" if elsewhere.instead else ""
        return f"{place}, which {had}{instead}" if had else place
    component = read_components().of_option(setting.name)
    for other in component.options if component is not None else ():
        if other in tree.options:
            return f"{place}, did you mean {other}?"
        dropped = build_options().get(other)
        had = _describe_support(dropped, tree) if dropped is not None else ""
        if had:
            return f"{place}, which no PyTorch is known to have; {other} is one that {had}"
    meant = find_nearest(setting.name, tree.options)
    return f"{place}, did you mean {meant}?" if meant else place


def _describe_support(option: BuildOption, tree: Tree) -> str:
    """The other releases that have the option; empty if none is known, or if this one has it too."""
    release = parse_numbers(tree.version_text, 2)
    if not release:
        return ""
    if release < parse_numbers(option.first, 2):
        return f"PyTorch has from {option.first} on"
    if release <= parse_numbers(option.last, 2):
        return ""
    if option.until is not None:
        return f"PyTorch had until {option.until}"
    return (
        f"PyTorch dropped by {option.lacked_from}" if option.lacked_from else f"PyTorch had in {option.last}"
    )


BackendSettings = dict[str, "str | list[str]"]

INCLUDE_BEFORE = "CMAKE_PROJECT_INCLUDE_BEFORE"
"""The variable that names a file which CMake includes before ``project()`` (cmake-variables(7))."""


@dataclass(frozen=True)
class Forwarding:
    """The ways to pass options to CMake in one generation of the build; with ``defines`` any option as ``-D``.

    ``value_end`` is the text that would end a value early on its way to CMake; empty if none does.
    """

    defines: bool
    environment_prefixes: tuple[str, ...]
    environment_suffixes: tuple[str, ...]
    environment_names: frozenset[str]
    value_end: str

    def by_environment(self, option: str) -> bool:
        by_prefix = option.startswith(self.environment_prefixes)
        return by_prefix or option.endswith(self.environment_suffixes) or option in self.environment_names

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
    """The build requirements of a tree, limited to the CMake versions that it supports."""
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
    """A CMake file with the options that the generation's build cannot forward in another way.

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
    lines += _path_texts(nvcc, maps_paths=maps_paths, reproducible=reproducible)
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
    lines.append(_text_of("link_inputs"))
    if reported:
        # The cache does not show what a plain set() makes of an option. Deferred twice, so that it follows the tree's
        # own deferred calls. https://cmake.org/cmake/help/latest/command/cmake_language.html
        names = " ".join(map(quote_bracket, sorted(reported)))
        lines.append(_text_of("final_values", NAMES=names, FILE=REPORT))
    return "\n".join(lines) + "\n"


def _path_texts(nvcc: NvccNaming | None, *, maps_paths: bool, reproducible: bool) -> Iterator[str]:
    """Yield what keeps folders' paths out of objects and libraries."""
    if maps_paths:
        # Some kernels are compiled through a generated file that includes them by absolute path. The path would be in
        # the object (__FILE__), and a compiler cache would hit in the same folder only. Official wheels have /pytorch
        # too. These are not CMAKE_CXX_FLAGS, because torch.__config__ shows those.
        # https://gcc.gnu.org/onlinedocs/gcc/Overall-Options.html
        yield _text_of("official_paths")
    if reproducible:
        # A library's build ID depends on the linked run path to the build folder, which installing replaces.
        # https://cmake.org/cmake/help/latest/prop_tgt/BUILD_RPATH_USE_ORIGIN.html
        yield "set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)"
    if reproducible and maps_paths:
        # With CCACHE_BASEDIR, ccache compiles with paths relative to the build folder, with links resolved.
        yield _text_of("relative_paths")
    if reproducible and nvcc is not None:
        # CMake has no rule variable for a source's name, so each source gets its own option once all are known.
        source = nvcc.source.format(name="${name}")
        yield _text_of("named_cuda_sources", TEMPORARY_FILES=nvcc.temporary_files, SOURCE=source)


def _text_of(name: str, **values: str) -> str:
    """The text of a CMake file beside this one, with ``@NAME@`` replaced as by CMake's ``configure_file``."""
    text = Path(__file__).with_name(f"{name}.cmake").read_text(encoding="utf-8").rstrip()
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def requested_settings(settings: Settings) -> BackendSettings:
    """Return the user's settings for the tree's own backend, with the other arguments of CMAKE_ARGS.

    ``-C cmake.args`` comes after them, because CMake uses the last of contradicting arguments.
    """
    requested: BackendSettings = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in settings.passthrough.items()
    }
    if settings.cmake_args:
        words = argument_words(requested.get(CMAKE_ARGUMENTS, []))
        requested[CMAKE_ARGUMENTS] = [*settings.cmake_args, *words]
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
