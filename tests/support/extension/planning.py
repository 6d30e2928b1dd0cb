"""Plans of extensions made of nothing but what a test gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchwheel.extension.extension_plan import (
    COMPILING,
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
    Language,
    PlannedExtension,
    Step,
    StepKind,
    language_of,
)
from torchwheel.extension.planning import make_extension_plan
from torchwheel.extension.sources import separate_architectures
from torchwheel.hardware.arch import parse_architectures
from torchwheel.host.machine import Compiler, Host, described_host
from torchwheel.reporting.errors import Finding, Severity
from torchwheel.settings import Layer, load_settings
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.select import Selection
from torchwheel.torch_install.installed_torch import InstalledTorch
from torchwheel.tree.git import Checkout

GIB = 1 << 30
NO_CHECKOUT = Checkout()
PACKAGES = Path("/env/lib/python3.11/site-packages")


LINUX = replace(
    described_host("linux_x86_64", python_version="3.11.7", memory_bytes=64 * GIB, cores=8),
    compilers=(
        Compiler("c", "gcc", "/usr/bin/cc", "", "cc:1:1"),
        Compiler("cxx", "gcc", "/usr/bin/c++", "", "c++:1:1"),
    ),
)

CUDA_13 = Toolkit(
    root="/usr/local/cuda-13.0",
    version="13.0",
    full_version="13.0.88",
    nvcc="/usr/local/cuda-13.0/bin/nvcc",
    include_dirs=("/usr/local/cuda-13.0/include",),
    library_dir="/usr/local/cuda-13.0/lib64",
    origin="CUDA_HOME",
    identity="nvcc:1:1",
)


def installed(release: str = "2.14.1", *, packages: str = str(PACKAGES), **changes: Any) -> InstalledTorch:
    """A PyTorch for CUDA 13.0 as its wheel installs it."""
    facts: dict[str, Any] = {
        "root": Path(packages, "torch"),
        "version": f"{release}+cu130",
        "cuda": "13.0",
        "hip": None,
        "has_headers": True,
        "nvidia_library_dirs": (Path(packages, "nvidia/cu13/lib"),),
        "identity": f"{release}+cu130",
    }
    return InstalledTorch(**{**facts, **changes})


def cpu_torch(version: str = "2.14.1") -> InstalledTorch:
    """A PyTorch without CUDA."""
    return installed(version, version=f"{version}+cpu", cuda=None, nvidia_library_dirs=())


def inputs(
    folder: Path,
    *extensions: Extension,
    config: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    host: Host = LINUX,
    module_suffixes: tuple[str, ...] = (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so"),
    torch: InstalledTorch | None = None,
    torch_architectures: str | None = "7.5;8.0;9.0;12.0",
    toolkit: Toolkit | None = CUDA_13,
    toolkit_findings: tuple[Finding, ...] = (),
    unanswered: Mapping[str, str] | None = None,
    checkout: Checkout = NO_CHECKOUT,
    project: str = "/home/me/my project",
    cache: str = "/cache",
) -> ExtensionInputs:
    """What a plan is made from; ``folder`` is the test's own and holds no settings."""
    settings = load_settings(folder, config or {}, environment or {}, host, folder / "overlays")
    request = BuildRequest(Path(project), {}, {"TORCHWHEEL_CACHE_DIR": cache, **(environment or {})})
    chosen = Selection(toolkit, Layer.DEFAULT, "test", toolkit_findings, (), there=toolkit is not None)
    cxx = host.find_compiler("cxx")
    return ExtensionInputs(
        project=ExtensionProject(request, host, settings),
        torch=torch or installed(),
        torch_architectures=parse_architectures(torch_architectures) if torch_architectures else None,
        selection=chosen if any(extension.uses_cuda for extension in extensions) else None,
        unanswered=unanswered or {},
        cxx=cxx,
        extensions=extensions,
        checkout=checkout,
        module_suffixes=module_suffixes,
    )


def errors(made: ExtensionPlan) -> list[Finding]:
    return [finding for finding in made.findings if finding.severity is Severity.ERROR]


def plan(folder: Path, *extensions: Extension, **keywords: Any) -> ExtensionPlan:
    """The plan of these extensions."""
    return make_extension_plan(inputs(folder, *extensions, **keywords))


def stepped(made: ExtensionPlan) -> ExtensionPlan:
    """A plan with steps in little, where no PyTorch is there whose own command makes them."""

    def steps(planned: PlannedExtension) -> Iterator[Step]:
        one = planned.extension
        for source in one.sources:
            kind = COMPILING[language_of(source) or Language.CXX]
            own = separate_architectures(one, source) or planned.usual
            architectures = own if kind is StepKind.COMPILE_CUDA else None
            command = ("cc", *(architectures.for_nvcc() if architectures else ()), "-c", f"source/{source}")
            output = f"objects/{source}.o"
            yield Step(kind, (f"source/{source}",), output, command, f"{output}.d", architectures, (source,))
        yield Step(StepKind.LINK, (), Path(planned.file_name).name, ("cc", "-shared"))

    return replace(made, extensions=tuple(replace(one, steps=tuple(steps(one))) for one in made.extensions))
