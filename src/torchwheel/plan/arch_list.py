"""Whether a tree can be told the architectures, and whether they serve the GPUs that the targets name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Finding, error
from torchwheel.hardware.arch import ArchitectureList, CodeTarget
from torchwheel.hardware.catalogue import gpus
from torchwheel.hardware.runs_on import verdict
from torchwheel.settings import Setting, Settings
from torchwheel.tree.model import Tree
from torchwheel.versions import numbers


def architecture_findings(
    settings: Settings, tree: Tree, architectures: ArchitectureList
) -> Iterator[Finding]:
    """Errors where TORCH_CUDA_ARCH_LIST cannot say what is asked for, and where a target cannot run the wheel."""
    origin = settings.entries["arch"].origin
    try:
        architectures.for_torch()
    except TorchwheelError as refusal:
        yield from (error(replace(problem, origin=origin)) for problem in refusal.problems)
    yield from (error(problem) for problem in _refused_suffixes(tree, architectures, origin))
    yield from (error(problem) for problem in _idle_gpus(settings, architectures))


@cache
def _first_with_suffix() -> Mapping[str, str]:
    """Suffix -> the first minor version of PyTorch that takes it."""
    table = read_toml(Path(__file__).with_name("arch_list.toml"))["suffix"]
    return {suffix: entry["since"] for suffix, entry in table.items()}


def _refused_suffixes(tree: Tree, architectures: ArchitectureList, origin: str) -> Iterator[Problem]:
    version = numbers(tree.version_text, 2)
    for suffix, since in _first_with_suffix().items():
        refused = [a.dotted for a in architectures.architectures if a.suffix == suffix]
        if not refused or not version or version >= numbers(since, 2):
            continue
        yield Problem(
            id="tree-lacks-suffix",
            what=f"PyTorch {tree.version_text} does not take {', '.join(refused)} in TORCH_CUDA_ARCH_LIST",
            why=f"its CMake files know the suffix {suffix!r} from PyTorch {since} on",
            remedy=f"leave the suffix out: -C arch='{_without(suffix, architectures)}'",
            origin=origin,
        )


def _without(suffix: str, architectures: ArchitectureList) -> ArchitectureList:
    return ArchitectureList.of(
        replace(target, architecture=target.architecture.capability)
        if target.architecture.suffix == suffix
        else target
        for target in architectures.targets
    )


def _idle_gpus(settings: Settings, architectures: ArchitectureList) -> Iterator[Problem]:
    """The targets' own GPUs that the architectures do not serve, because something else set them."""

    setting = settings.entries["arch"]
    for name in settings.target_names:
        gpu = gpus().find(name)
        if gpu is None:
            continue
        answer = verdict(architectures.targets, gpu.compute_capability)
        if not answer.how.runs:
            own = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            added = ArchitectureList.of([*architectures.targets, own])
            yield Problem(
                id="target-cannot-run",
                what=f"the wheel will not run on {gpu.title}, the target: it is compiled for {architectures}",
                why=answer.sentence,
                remedy=f"{_without_setting(setting)}, or ask for both: -C arch='{added}'",
                origin=setting.origin,
            )


def _without_setting(setting: Setting) -> str:
    return (
        f"unset {setting.origin.removeprefix('variable ')}" if setting.ambient else "leave arch to the target"
    )
