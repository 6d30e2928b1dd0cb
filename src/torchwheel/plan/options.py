"""The CMake options of a plan: what the settings say, and what torchwheel adds to them."""

from __future__ import annotations

from collections.abc import Iterable

from torchwheel.errors import Problem
from torchwheel.findings import Finding, warning
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.model import Host
from torchwheel.plan.cuda import ToolkitChoice
from torchwheel.plan.forwarding import cmake_text
from torchwheel.plan.model import Define
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.tree.model import Tree

# Read by CMake itself or by its own modules, so no tree needs to mention them.
_CMAKE_OWN_PREFIX = "CMAKE_"
_CMAKE_OWN_NAMES = frozenset(
    {"BUILD_SHARED_LIBS", "BUILD_TESTING", "Python_EXECUTABLE", "CUDA_TOOLKIT_ROOT_DIR"}
)


def defines_for(
    settings: Settings,
    host: Host,
    tree: Tree,
    architectures: ArchitectureList | None,
    choice: ToolkitChoice | None,
    python_executable: str,
) -> tuple[tuple[Define, ...], tuple[Finding, ...]]:
    """All options of the build, sorted by name, with findings about options that the tree does not know."""
    defines: dict[str, Define] = {}
    unknown: list[Setting] = []
    for name, setting in settings.defines.items():
        # A component that the tree does not have is off already: nothing to warn of.
        harmless = setting.component and setting.value is False
        if not harmless and not _is_known(tree, name):
            unknown.append(setting)
        defines[name] = Define(
            name, cmake_text(setting.value), setting.layer, setting.origin, setting.replaced
        )
    for define in _added(settings, host, architectures, choice, python_executable):
        # A user who names one of these knows why.
        defines.setdefault(define.name, define)
    findings = (_unknown_options(unknown, tree),) if unknown else ()
    return tuple(defines[name] for name in sorted(defines)), findings


def _is_known(tree: Tree, name: str) -> bool:
    return name.startswith(_CMAKE_OWN_PREFIX) or name in _CMAKE_OWN_NAMES or name in tree.known_names


def _added(
    settings: Settings,
    host: Host,
    architectures: ArchitectureList | None,
    choice: ToolkitChoice | None,
    python_executable: str,
) -> Iterable[Define]:
    build_type = settings.entries["build-type"]
    yield Define(
        "CMAKE_BUILD_TYPE", settings.build_type, build_type.layer, build_type.origin, build_type.replaced
    )
    yield Define("Python_EXECUTABLE", python_executable, Layer.DEFAULT, "the interpreter of the build")
    if architectures is not None:
        arch = settings.entries.get("arch") or settings.entries["target"]
        yield Define(
            "TORCH_CUDA_ARCH_LIST", architectures.for_torch(), arch.layer, arch.origin, arch.replaced
        )
    if choice is not None and choice.toolkit is not None:
        toolkit = choice.toolkit
        yield Define("CUDA_TOOLKIT_ROOT_DIR", toolkit.root, choice.layer, choice.origin)
        yield Define("CUDAToolkit_ROOT", toolkit.root, choice.layer, choice.origin)
        if toolkit.nvcc is not None:
            yield Define("CMAKE_CUDA_COMPILER", toolkit.nvcc, choice.layer, choice.origin)


def _unknown_options(unknown: Iterable[Setting], tree: Tree) -> Finding:
    places = ", ".join(f"{s.key.removeprefix('define.')} ({s.origin})" for s in unknown)
    return warning(
        Problem(
            id="unknown-options",
            what=f"this tree's CMake files do not mention: {places}",
            why=f"{tree.name} {tree.version_text} cannot act on an option that it never reads",
            remedy="check the spelling; 'torchwheel components' lists what this tree has",
        )
    )
