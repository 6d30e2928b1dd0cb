"""The CMake options of a plan: those of the settings, and those that torchwheel adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import missing_cache, nothing_to_enable
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import Define
from torchwheel.plan.environment import CudaVariables
from torchwheel.plan.forwarding import Forwarding, cmake_text
from torchwheel.pytorch.releases import BuildOption, build_options
from torchwheel.reporting.errors import Finding, Problem, error, find_nearest, warning
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.components import read_components
from torchwheel.tree.source_tree import Tree
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
    cuda: CudaVariables | None,
    jobs: Jobs,
    python_executable: str,
) -> tuple[Define, ...]:
    """Return the options of the build, sorted by name, without those of :func:`launcher_defines`."""
    defines = {define.name: define for define in _own_defines(settings, architectures, python_executable)}
    for name, setting in settings.defines.items():
        if setting.component and _has_alternative(setting, tree):
            continue
        defines[name] = Define.of(name, cmake_text(setting.value), setting)
    if cuda is not None:
        defines.update((define.name, define) for define in cuda.defines())
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
        yield warning(
            Problem.of(
                "unknown-options",
                options="; ".join(_describe_unknown(s, tree) for s in unknown),
                tree=tree.name,
                version=tree.version_text,
            )
        )
    for define in defines:
        if ways.cannot_quote(define.value):
            yield error(
                Problem.of(
                    "value-not-forwarded", origin=define.origin, name=define.name, brackets=ways.value_end
                )
            )


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
    """Return the pool's depth, which changes from run to run and so is not compared with an older CMake cache.

    It is passed as an option as well, because PyTorch reads the environment only without a CMake cache.
    """
    requested = settings.variables.get(ATTENTION_POOL)
    if requested is not None:
        return Define.of(ATTENTION_POOL, requested.text, requested, expected=False)
    return Define(ATTENTION_POOL, str(jobs.flash_attention), Layer.DEFAULT, jobs.reason, expected=False)


def is_known(tree: Tree, name: str) -> bool:
    return name.startswith(_CMAKE_OWN_PREFIX) or name in _CMAKE_OWN_NAMES or name in tree.known_names


def unpublished_options(settings: Settings, tree: Tree) -> frozenset[str]:
    """Find the requested options that no release of PyTorch is known to have: their values may be secrets."""
    return frozenset(
        name
        for name, setting in settings.defines.items()
        if not (is_known(tree, name) or setting.component or name in build_options())
        and setting.layer is not Layer.BUILTIN_OVERLAY
    )


def _describe_unknown(setting: Setting, tree: Tree) -> str:
    """Describe an option with its origin, and if known the name that was meant or the releases that have it."""
    place = f"{setting.name} ({setting.origin})"
    elsewhere = build_options().get(setting.name)
    if elsewhere is not None:
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
    """Describe the other releases that have the option; empty if none is known, or if this one has it too."""
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
