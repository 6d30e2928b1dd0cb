"""Planned builds on described machines, put together in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchwheel.host.machine import Compiler, described_host
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.preflight.facts import HostFacts, Installed, ToolkitFacts
from torchwheel.preflight.registry import Context
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.settings import load_settings
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.cmake_options import Option
from torchwheel.tree.source_tree import Generation, Tree

GIB = 1 << 30
NO_OVERLAYS = Path(__file__).parent / "no-user-overlays"
MENTIONED = frozenset(
    {"cublas", "cufft", "curand", "cusolver", "cusparse", "nvrtc", "USE_FLASH_ATTENTION", "libuv"}
)
OPTIONS = ("USE_CUDA", "USE_CUDNN", "USE_NCCL", "USE_SYSTEM_NCCL", "USE_DISTRIBUTED", "BLAS")
GCC = Compiler("cxx", "gcc", "/usr/bin/g++", "12.2.0", "g++")
CL = Compiler("cxx", "msvc", r"C:\VC\bin\cl.exe", "19.38.33130", "cl")


def tree(version: str = "2.9.1", **changes: Any) -> Tree:
    """A PyTorch tree that lies nowhere."""
    scikit = tuple(int(part) for part in version.split(".")[:2]) >= (2, 14)
    options = {name: Option(name, "BOOL", name, "ON", "", "CMakeLists.txt", 1) for name in OPTIONS}
    base = Tree(
        root=Path("/src/pytorch"),
        name="torch",
        version_text=version,
        generation=Generation.SCIKIT_BUILD_CORE if scikit else Generation.SETUP_PY,
        backend="scikit_build_core.build" if scikit else "setuptools.build_meta",
        backend_path=(),
        requires=("scikit-build-core>=1.0",) if scikit else ("setuptools>=70", "pyyaml"),
        options=options,
        known_names=MENTIONED | frozenset(OPTIONS),
        minimum_cmake="3.27",
        commit="d38164a545b4a4e4e0cf73ce67173f70574890b6",
        release_tag=f"v{version}",
    )
    return replace(base, **changes)


def toolkit(version: str = "12.8", platform: str = "linux_x86_64", **changes: Any) -> ToolkitFacts:
    """An installed toolkit with everything in it."""
    found = replace(assumed_toolkit(version, platform), origin="CUDA_HOME")
    return replace(ToolkitFacts(found), **changes)


def context(
    config: Mapping[str, str] | None = None,
    *,
    platform: str = "linux_x86_64",
    python: str = "3.12.4",
    source: Tree | None = None,
    toolkits: tuple[ToolkitFacts, ...] | None = None,
    compiler: Compiler | None = GCC,
    memory: int = 64 * GIB,
    glibc: str | None = "2.36",
    managed: bool = True,
    named: bool = False,
    environment: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    tree_facts: TreeFacts | None = None,
) -> Context:
    """A build that nothing stands in the way of, but for what is changed."""
    variables = dict(environment or {})
    windows = platform.startswith("win")
    host = replace(
        described_host(
            platform,
            python_version=python,
            memory_bytes=memory,
            cores=16,
            compilers=(compiler,) if compiler else (),
            glibc=None if windows else glibc,
        ),
        here=True,
    )
    found = (toolkit(platform=platform),) if toolkits is None else toolkits
    path = {"cuda-path": found[0].toolkit.root} if named else {}
    asked = {"target": "rtx5070", **path, **(config or {})}
    settings = load_settings(None, asked, variables, host, NO_OVERLAYS)
    plan = make_plan(
        Inputs(
            settings=settings,
            tree=source or tree(),
            host=host,
            toolkits=Candidates(
                named=found[0].toolkit if named else None, installed=tuple(item.toolkit for item in found)
            ),
            cache=Path("/cache"),
            environment=Path("/cache/environments/one") if managed else None,
            python_executable="python3",
        )
    )
    base = HostFacts(
        host=host,
        toolkits=found,
        driver="580.95.05",
        gpus=(),
        libraries={"cudnn": Installed("9.10.2", "/usr/include/cudnn_version.h"), "nccl": Installed("2.27.3")},
        tools={"cmake": Installed("3.31.6"), "ninja": Installed("1.11.1"), "git": Installed("2.39.5")},
        python_headers=True,
        packages={"setuptools": "80.9.0", "pyyaml": "6.0.2"},
        build_folder=r"C:\tw" if windows else "/cache/builds",
        free_disk_bytes=200 * GIB,
        environment=variables,
        online=True,
    )
    sizes = TreeFacts(cxx_bytes=26_000_000, cuda_bytes=2_800_000)
    return Context(plan, replace(base, **(facts or {})), tree_facts or sizes)
