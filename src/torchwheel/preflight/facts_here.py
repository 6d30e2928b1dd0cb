"""What doctor knows of the machine it runs on: files are read, programs are asked all at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchwheel.hardware.detect import detect_gpus
from torchwheel.host.compilers import compiler_version
from torchwheel.host.model import Compiler, Host
from torchwheel.host.this import this_host
from torchwheel.plan.model import Plan
from torchwheel.preflight import probes
from torchwheel.preflight.facts import HostFacts, ToolkitFacts
from torchwheel.preflight.libraries import find_libraries
from torchwheel.preflight.probing import Question, ask_together
from torchwheel.preflight.reported_variables import reported
from torchwheel.preflight.toolkit_facts import read_toolkit_facts
from torchwheel.survey import cache_folder
from torchwheel.toolkit.discover import discover_toolkits, nvcc_version
from torchwheel.toolkit.model import Toolkit

_SECONDS = 1.4
"""After this, what has not answered counts as unknown; doctor promises to take less than two seconds."""
_TOOLS = ("cmake", "ninja", "git")
# What releases of PyTorch import while they are built: their pyproject.toml and requirements-build.txt.
_PACKAGES = (
    "cmake",
    "ninja",
    "numpy",
    "packaging",
    "pyyaml",
    "requests",
    "scikit-build-core",
    "setuptools",
    "six",
    "typing-extensions",
    "wheel",
)


def read_facts(environment: Mapping[str, str], plan: Plan | None = None, *, quick: bool = False) -> HostFacts:
    """Describe this machine.

    Args:
        environment: the environment variables.
        plan: the build that the facts are for; without one, what any build could want to know.
        quick: leave out what only doctor looks at: GPUs, driver, network, further toolkits and compilers.
    """
    host = plan.host if plan else this_host(environment)
    toolkits = _toolkits(environment, plan, quick=quick)
    others = () if quick else probes.other_compilers(environment)
    answers = ask_together(_questions(environment, host, toolkits, others, quick=quick), _SECONDS)
    folder = plan.folders.root.parent if plan else cache_folder(environment) / "builds"
    return HostFacts(
        host=replace(host, compilers=_versions(host.compilers, answers)),
        toolkits=tuple(_toolkit_facts(toolkit, answers) for toolkit in toolkits),
        other_compilers=tuple(c for c in _versions(others, answers) if c.version),
        driver=answers.get("driver"),
        gpus=answers.get("gpus"),
        libraries=find_libraries(environment, toolkits, host),
        tools={name: answers[name] for name in _TOOLS if name in answers},
        python_headers=probes.python_headers(),
        packages=probes.installed_packages(_names(plan)),
        build_folder=str(folder),
        free_disk_bytes=probes.free_disk(folder),
        environment=reported(environment),
        online=answers.get("online"),
        visual_studio=answers.get("studio"),
        long_paths=probes.long_paths(),
    )


def _toolkits(environment: Mapping[str, str], plan: Plan | None, *, quick: bool) -> tuple[Toolkit, ...]:
    chosen = (plan.toolkit,) if plan and plan.toolkit and Path(plan.toolkit.root).is_dir() else ()
    if quick:
        return chosen
    found = discover_toolkits(environment)
    roots = {toolkit.root for toolkit in found}
    return (*(toolkit for toolkit in chosen if toolkit.root not in roots), *found)


def _questions(
    environment: Mapping[str, str],
    host: Host,
    toolkits: Iterable[Toolkit],
    others: Iterable[Compiler],
    *,
    quick: bool,
) -> dict[str, Question]:
    questions: dict[str, Question] = {name: partial(probes.tool, name, environment) for name in _TOOLS}
    for compiler in (*host.compilers, *others):
        questions[f"compiler {compiler.path}"] = partial(compiler_version, compiler)
    for toolkit in toolkits:
        questions[f"nvcc {toolkit.root}"] = partial(nvcc_version, toolkit)
    if sys.platform == "win32":
        questions["studio"] = partial(probes.visual_studio, environment)
    if not quick:
        questions["gpus"] = partial(detect_gpus, environment)
        questions["driver"] = partial(probes.driver, environment)
        questions["online"] = partial(probes.online, environment)
    return questions


def _versions(compilers: Iterable[Compiler], answers: Mapping[str, str]) -> tuple[Compiler, ...]:
    return tuple(
        replace(compiler, version=answers.get(f"compiler {compiler.path}") or compiler.version)
        for compiler in compilers
    )


def _toolkit_facts(toolkit: Toolkit, answers: Mapping[str, str]) -> ToolkitFacts:
    return read_toolkit_facts(toolkit, answers.get(f"nvcc {toolkit.root}"))


def _names(plan: Plan | None) -> tuple[str, ...]:
    required = [canonicalize_name(Requirement(text).name) for text in plan.build_requires] if plan else []
    return tuple(sorted({*_PACKAGES, *required}))
