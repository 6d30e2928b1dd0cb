"""The CMake options of a plan: what the settings say, and what torchwheel adds to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from torchwheel.errors import Finding, Problem, error, nearest, note, warning
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import (
    NO_CACHE,
    changed_cache,
    kept_cache,
    missing_cache,
    missing_kept_cache,
    nothing_to_enable,
)
from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Host
from torchwheel.plan.cuda_variables import CudaVariables
from torchwheel.plan.forwarding import Forwarding, cmake_text
from torchwheel.plan.model import Define
from torchwheel.pytorch.releases import BuildOption, build_options
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.components import components
from torchwheel.tree.model import Tree
from torchwheel.versions import numbers

ATTENTION_POOL = "FLASH_ATTENTION_MAX_JOBS"
"""The depth of the job pool for flash attention's kernels, in trees that have one."""

# Read by CMake itself or by its own modules, so no tree needs to mention them.
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
    launchers: Iterable[Define] = (),
) -> tuple[Define, ...]:
    """All options of the build, sorted by name; ``launchers`` are those of :func:`launcher_defines`."""
    defines = {define.name: define for define in _own(settings, architectures, python_executable)}
    for name, setting in settings.defines.items():
        defines[name] = Define.of(name, cmake_text(setting.value), setting)
    for define in launchers:
        if define.name == _USE_CACHE or define.name not in defines:
            defines[define.name] = define
    if cuda is not None:
        defines.update((define.name, define) for define in cuda.defines())
    if ATTENTION_POOL in tree.known_names and jobs.flash_attention is not None:
        defines.setdefault(ATTENTION_POOL, _attention_pool(settings, jobs))
    return tuple(defines[name] for name in sorted(defines))


def define_findings(
    settings: Settings, tree: Tree, ways: Forwarding, defines: Iterable[Define]
) -> Iterator[Finding]:
    """A warning about options that the tree does not know, an error about values that CMake cannot be given."""
    unknown = [
        setting
        for name, setting in settings.defines.items()
        # A component that the tree does not have is off already, and a built-in overlay is written for every release:
        # nothing to warn of.
        if not is_known(tree, name)
        and not (setting.component and setting.value is False)
        and setting.layer is not Layer.BUILTIN_OVERLAY
    ]
    if unknown:
        yield warning(
            Problem.of(
                "unknown-options",
                options="; ".join(_hint(s, tree) for s in unknown),
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


def _own(
    settings: Settings, architectures: ArchitectureList | None, python_executable: str
) -> Iterator[Define]:
    yield Define.of("CMAKE_BUILD_TYPE", settings.build_type, settings.entries["build-type"])
    yield Define("Python_EXECUTABLE", python_executable, Layer.DEFAULT, "the interpreter of the build")
    if architectures is not None:
        arch = settings.entries["arch"]
        yield Define.of("TORCH_CUDA_ARCH_LIST", str(architectures), arch)
        # A target says so itself; an architecture list alone means it no less.
        yield Define("USE_CUDA", "ON", arch.layer, arch.origin)


def switched_off(settings: Settings) -> bool:
    """Whether PyTorch's own option says that there is to be no compiler cache, and no setting says otherwise."""
    option = settings.defines.get(_USE_CACHE)
    return settings.compiler_cache == "auto" and option is not None and option.off


@dataclass(frozen=True)
class CacheChoice:
    """The compiler cache of a build folder.

    Attributes:
        cache: its name; None for none.
        begun: what the folder was begun with, a name or ``none``; None where nothing was built there.
        stand_in: whether a script has to take its place.
    """

    cache: str | None
    begun: str | None = None
    stand_in: bool = False

    @property
    def changed(self) -> bool:
        """Whether the objects in the folder were compiled otherwise."""
        return self.begun not in (None, self.cache or NO_CACHE)


def choose_cache(
    settings: Settings, host: Host, found: str | None, here: Collection[str], begun: str | None
) -> CacheChoice:
    """Choose the compiler cache of a build folder: what is asked for, else what the folder was begun with.

    With another one all commands would be others, and ninja would compile everything again.

    Args:
        found: the cache that is chosen where nothing was built yet.
        here: the caches that are on PATH.
        begun: what the folder was begun with.
    """
    if switched_off(settings):
        return CacheChoice(None, begun)
    if begun is None or settings.compiler_cache != "auto" or any(one.launcher for one in host.compilers):
        return CacheChoice(found, begun)
    kept = None if begun == NO_CACHE else begun
    if kept is None:
        return CacheChoice(found if _is_enabled(settings) else None, begun)
    if kept == found or kept in here:
        return CacheChoice(kept, begun)
    # Windows starts programs only, no scripts.
    return CacheChoice(found, begun) if host.system == "Windows" else CacheChoice(kept, begun, stand_in=True)


def _is_enabled(settings: Settings) -> bool:
    """Whether PyTorch's own option asks for a compiler cache; an overlay of torchwheel's does so where there is one."""
    option = settings.defines.get(_USE_CACHE)
    return option is not None and option.on and option.layer is not Layer.BUILTIN_OVERLAY


def cache_findings(
    settings: Settings, host: Host, found: str | None, choice: CacheChoice
) -> Iterator[Finding]:
    """Say that a compiler cache is asked for and not there, or that the folder keeps another one.

    Of a machine that is only described it is not known which caches are there.
    """
    setting = settings.entries["compiler-cache"]
    yield from map(error, missing_cache(settings.compiler_cache, found, setting.origin))
    if settings.compiler_cache == "auto" and _is_enabled(settings) and choice.cache is None and host.here:
        yield warning(nothing_to_enable(_USE_CACHE, settings.defines[_USE_CACHE].origin))
    if choice.changed:
        yield warning(changed_cache(choice.begun or NO_CACHE, choice.cache))
    elif choice.stand_in and choice.cache:
        yield warning(missing_kept_cache(choice.cache))
    elif choice.begun and choice.cache != found and not switched_off(settings):
        yield note(kept_cache(choice.cache, found))


def launcher_defines(
    settings: Settings, tree: Tree, host: Host, cache: str | None, *, cuda: bool
) -> Iterator[Define]:
    """What puts the compiler cache before the compilers, and keeps the tree from looking for one itself.

    It is named, not its path: in another place it is no other command to ninja and no other build directory. A tree
    that looked for itself would find one that was installed since, and compile everything again.
    """
    setting = settings.entries["compiler-cache"]
    if settings.compiler_cache != "auto" or (host.here and _USE_CACHE in tree.known_names):
        yield Define.of(_USE_CACHE, "OFF", setting)
    if cache is None or any(compiler.launcher for compiler in host.compilers):
        return
    for language in ("C", "CXX", *(("CUDA",) if cuda else ())):
        yield Define.of(f"CMAKE_{language}_COMPILER_LAUNCHER", cache, setting)


def _attention_pool(settings: Settings, jobs: Jobs) -> Define:
    """The pool's depth, which changes from run to run and so need not be what an older CMake cache holds.

    It is given as an option as well as in the environment, which PyTorch reads only where there is no cache.
    """
    requested = settings.variables.get(ATTENTION_POOL)
    if requested is not None:
        return Define.of(ATTENTION_POOL, requested.text, requested, expected=False)
    return Define(ATTENTION_POOL, str(jobs.flash_attention), Layer.DEFAULT, jobs.reason, expected=False)


def is_known(tree: Tree, name: str) -> bool:
    """Whether an option can have any effect on a build of the tree."""
    return name.startswith(_CMAKE_OWN_PREFIX) or name in _CMAKE_OWN_NAMES or name in tree.known_names


def _hint(setting: Setting, tree: Tree) -> str:
    """The option with its origin, and where that is known the name that was meant or the releases that have it."""
    place = f"{setting.name} ({setting.origin})"
    elsewhere = build_options().get(setting.name)
    if elsewhere is not None:
        had = _had(elsewhere, tree)
        instead = f" ({elsewhere.instead})" if elsewhere.instead else ""
        return f"{place}, which {had}{instead}" if had else place
    component = components().of_option(setting.name)
    for other in component.options if component is not None else ():
        if other in tree.options:
            return f"{place}, did you mean {other}?"
        dropped = build_options().get(other)
        had = _had(dropped, tree) if dropped is not None else ""
        if had:
            return f"{place}, which no PyTorch is known to have; {other} is one that {had}"
    meant = nearest(setting.name, tree.options)
    return f"{place}, did you mean {meant}?" if meant else place


def _had(option: BuildOption, tree: Tree) -> str:
    """Which other releases than the tree's have the option; empty where it is known of none, or of this one too."""
    release = numbers(tree.version_text, 2)
    if not release:
        return ""
    if release < numbers(option.first, 2):
        return f"PyTorch has from {option.first} on"
    if release <= numbers(option.last, 2):
        return ""
    if option.until is not None:
        return f"PyTorch had until {option.until}"
    return (
        f"PyTorch dropped by {option.lacked_from}" if option.lacked_from else f"PyTorch had in {option.last}"
    )
