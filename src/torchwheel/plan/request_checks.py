"""Checks of a request by itself: what it lacks, and settings that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.hardware.arch import ArchitectureList, CodeTarget, judge_code
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.compilers import holds_flags
from torchwheel.host.machine import Host
from torchwheel.host.this import odd_characters
from torchwheel.plan.defines import Forwarding
from torchwheel.plan.output import is_only_how
from torchwheel.pytorch.releases import build_options
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, note, warning
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import config_option, join_items, shell_word
from torchwheel.settings import Layer, Settings
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words, read_passthrough
from torchwheel.settings.project import NAME_VARIABLE
from torchwheel.settings.pytorch_env import pytorch_variables, split_options
from torchwheel.settings.value_types import is_same_value
from torchwheel.system.toml import shipped_toml
from torchwheel.tree.source_tree import Generation, Tree
from torchwheel.versions import parse_numbers

# Names in passthrough.toml.
_BACKENDS = {Generation.SCIKIT_BUILD_CORE: "scikit-build-core", Generation.SETUP_PY: "setuptools"}

_OPTIONS = frozenset({"build-type", "cmake-args", "define"})
"""What a variable that the build treats as an option becomes."""


def request_findings(settings: Settings, tree: Tree, host: Host, ways: Forwarding) -> Iterator[Finding]:
    problems = (
        _check_target(settings, host),
        _check_submodules(tree),
        _unused_of_wrapper(settings, tree),
        partial_build(settings),
        _partial_wheel(settings),
        of_another_backend(settings, _BACKENDS[tree.generation], f"{tree.name} {tree.version_text}"),
        _unseen_variables(settings),
        _wheel_problems(settings, tree),
        _another_platform(settings, host),
    )
    yield from map(error, chain(*problems))
    yield from _check_ambient(settings)
    yield from map(warning, _not_forwarded(settings, tree, ways))
    yield from map(warning, secrets_in_flags(settings))


def secrets_in_flags(settings: Settings) -> Iterator[Problem]:
    """Report macros and addresses with secrets in flags: the compiler writes them into the libraries."""
    for setting in settings.entries.values():
        if holds_flags(setting.name) and mask(setting.text) != setting.text:
            yield Problem.of("secret-in-flags", origin=setting.origin, flags=mask(setting.text))


def _check_target(settings: Settings, host: Host) -> Iterator[Problem]:
    cuda, arch = settings.defines.get("USE_CUDA"), settings.entries.get("arch")
    if arch is not None:
        # Without a target nothing else compares the two.
        if cuda is not None and cuda.off:
            values = {"arch": arch.text, "origin_of_arch": arch.origin, "value": cuda.text}
            yield Problem.of("arch-contradicts-cuda", origin=cuda.origin, **values)
    elif not settings.target:
        yield Problem.of("no-target")
    elif not settings.is_cpu:
        origin = settings.entries["target"].origin
        yield Problem.of("native-elsewhere", origin=origin, platform=host.platform_tag)


def _unused_of_wrapper(settings: Settings, tree: Tree) -> Iterator[Problem]:
    """Report fields of ``[project]`` that a wrapper's wheel will not have, and settings that its backend never reads.

    Source: https://packaging.python.org/specifications/pyproject-toml/: no backend may drop a field.
    """
    if settings.source is None or settings.project is None:
        return
    table = settings.project.table("project")
    unused = [key for key in table if key not in ("dynamic", "name", "version")]
    if canonicalize_name(str(table.get("name", tree.name))) != canonicalize_name(tree.name):
        unused.append("name")
    if table.get("version", settings.package_version) != settings.package_version:
        unused.append("version")
    if unused:
        keys = ", ".join(sorted(unused))
        yield Problem.of("project-metadata-unused", origin="pyproject.toml", keys=keys, tree=tree.name)
    if used := [one for one in ("scikit-build", "setuptools") if settings.project.table("tool", one)]:
        tables = " and ".join(f"[tool.{one}]" for one in used)
        yield Problem.of("wrapper-backend-unused", origin="pyproject.toml", tables=tables)


def partial_build(settings: Settings) -> Iterator[Problem]:
    """Report settings for a partial build, because the other installed files may be from an earlier build."""
    for key in sorted(settings.passthrough.keys() & read_passthrough().partial):
        yield Problem.of("partial-build", origin=f"-C {key}")


def _partial_wheel(settings: Settings) -> Iterator[Problem]:
    """Report options with which PyTorch builds only a part of itself, under the whole one's name."""
    for name, option in build_options().items():
        setting = settings.defines.get(name)
        if setting is None or option.partial is None or setting.off is option.partial:
            continue
        values = {"option": name, "value": setting.text, "makes": option.makes}
        yield Problem.of("partial-build/option", origin=setting.origin, **values)


def _another_platform(settings: Settings, host: Host) -> Iterator[Problem]:
    """Report a cross build, which would take hours: the wheel's tags and its compilers are this platform's."""
    for option, own in (("CMAKE_SYSTEM_NAME", host.system), ("CMAKE_SYSTEM_PROCESSOR", host.machine)):
        setting = settings.defines.get(option)
        if setting is not None and _machine(setting.text) != _machine(own):
            values = {"option": option, "value": setting.text, "platform": host.platform_tag}
            yield Problem.of("another-platform", origin=setting.origin, **values)


def _machine(name: str) -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())


def _not_forwarded(settings: Settings, tree: Tree, ways: Forwarding) -> Iterator[Problem]:
    """Report arguments of CMake, and a name for the wheel, that the tree's own backend does not read."""
    if settings.cmake_args and not ways.defines:
        arguments, backend = " ".join(settings.cmake_args), tree.generation.value
        values = {"arguments": arguments, "backend": backend, "version": tree.version_text}
        yield Problem.of("arguments-not-forwarded", origin="variable CMAKE_ARGS", **values)
    setting = settings.variables.get(NAME_VARIABLE)
    if setting is not None and tree.generation is not Generation.SETUP_PY and setting.text != tree.name:
        yield Problem.of("name-not-read", origin=setting.origin, name=NAME_VARIABLE, wheel=tree.name)


def of_another_backend(
    settings: Settings, own: str, project: str, *, has_options: bool = True
) -> Iterator[Problem]:
    """Report settings of another backend, because without them the wheel would not be the requested one.

    With ``has_options`` those among CMake's arguments are passed on.
    """
    for key, value in settings.passthrough.items():
        backend = read_passthrough().find_backend(key)
        heeded = has_options and key == CMAKE_ARGUMENTS and not split_options(argument_words(value))[1]
        if not (backend == own or heeded or is_only_how(key)):
            values = {"setting": key, "backend": backend, "project": project, "own": own}
            yield Problem.of("setting-of-another-backend", origin=f"-C {key}", **values)


def _unseen_variables(settings: Settings) -> Iterator[Problem]:
    """Report ``env.NAME`` that changes the wheel, because its name and manifest show only settings."""
    yield from refused_variables(settings)
    variables = pytorch_variables()
    for name, setting in settings.variables.items():
        if variables.is_refused(name):
            continue
        # CMake reads its own variables, such as CMAKE_POLICY_VERSION_MINIMUM.
        is_cmakes = name.startswith("CMAKE_") and name not in variables.rules
        rule = None if is_cmakes else variables.find_rule(name)
        if rule is None or rule.becomes not in _OPTIONS:
            continue
        key = rule.becomes if rule.flag else f"define.{rule.option or name}"
        # If the setting is given too, it wins, with a warning.
        if key in settings.entries and not rule.flag:
            continue
        id = "unseen-variable/arguments" if rule.becomes == "cmake-args" else "unseen-variable"
        why = "the wheel's name and manifest would not show it"
        option = config_option(key, rule.flag or setting.text)
        yield Problem.of(id, origin=setting.origin, name=name, why=why, option=option)


def refused_variables(settings: Settings) -> Iterator[Problem]:
    """Report ``env.NAME`` with a variable that must not reach a build."""
    variables = pytorch_variables()
    for name, setting in settings.variables.items():
        if variables.is_refused(name):
            reason = variables.reason_ignored(name)
            yield Problem.of("unseen-variable/refused", origin=setting.origin, name=name, why=reason)


def _check_submodules(tree: Tree) -> Iterator[Problem]:
    if missing := tree.missing_submodules:
        values = {"count": len(missing), "names": join_items(missing), "tree": shell_word(str(tree.root))}
        yield Problem.of("missing-submodules", origin=tree.root / ".gitmodules", **values)


def _check_ambient(settings: Settings) -> Iterator[Finding]:
    """Report ambient variables that override a setting, that a setting overrides, or that are ignored."""
    beaten, lost = list[str](), list[str]()
    for one in settings.entries.values():
        ambient = [other for other in one.replaced if other.ambient]
        requested = [other for other in one.replaced if not other.ambient and other.layer > Layer.DEFAULT]
        for other in requested[:1] if one.ambient else ambient:
            if is_same_value(one.value, other.value):
                continue
            if one.ambient:
                beaten.append(f"{one.key} is {one.shown} ({one.origin}), not {other.shown} ({other.origin})")
            else:
                lost.append(f"{other.origin}={other.shown} ({one.key} is {one.shown}: {one.origin})")
    if beaten:
        yield warning(Problem.of("ambient-decides", settings="; ".join(beaten)))
    if lost:
        yield note(Problem.of("ambient-overruled", variables="; ".join(lost)))
    yield from refused_variable_findings(settings)
    if ignored := _ignored_variables(settings, refused=False):
        yield note(Problem.of("ignored-variables", variables=ignored))


def moved_cache(asked: Path, cache: Path) -> Iterator[Finding]:
    if cache != asked:
        yield note(Problem.of("cache-moved", cache=cache, asked=asked, characters=odd_characters(asked)))


def shared_cache(writers: str) -> Iterator[Finding]:
    """Report who else can write to the cache folder, as :func:`torchwheel.host.this.other_writers` describes them."""
    if writers:
        yield error(Problem.of("cache-not-private", writers=writers))


def refused_variable_findings(settings: Settings) -> Iterator[Finding]:
    """Warn about ignored variables that would change the wheel without a trace in its name."""
    if kept := _ignored_variables(settings, refused=True):
        yield warning(Problem.of("variables-kept-out", variables=kept))


def _ignored_variables(settings: Settings, *, refused: bool) -> str:
    found = settings.ignored_variables.items()
    is_refused = pytorch_variables().is_refused
    return ", ".join(f"{name} ({reason})" for name, reason in found if is_refused(name) is refused)


def architecture_findings(
    settings: Settings, tree: Tree, architectures: ArchitectureList
) -> Iterator[Finding]:
    """Report architectures that TORCH_CUDA_ARCH_LIST cannot express, and targets that cannot run the wheel."""
    origin = settings.entries["arch"].origin
    try:
        architectures.for_torch()
    except TorchwheelError as failure:
        yield from (error(replace(problem, origin=origin)) for problem in failure.problems)
    yield from map(error, _not_taken_by(tree, architectures, origin))
    yield from map(error, _idle_gpus(settings, architectures))


def _not_taken_by(tree: Tree, code: ArchitectureList, origin: str) -> Iterator[Problem]:
    """Report architectures that PyTorch's parser of TORCH_CUDA_ARCH_LIST accepts only after a release."""
    release = parse_numbers(tree.version_text, 2)
    for entry in shipped_toml(Path(__file__).with_name("arch_list.toml"))["form"]:
        suffix = entry.get("suffix")
        if suffix is None:
            refused = [a.dotted for a in code.architectures if a >= Architecture.of(entry["least"])]
            form, instead = f"compute capabilities as large as {entry['least']}", ""
        else:
            refused = [a.dotted for a in code.architectures if a.suffix == suffix]
            form = f"the suffix {suffix!r}"
            instead = f"leave the suffix out: {config_option('arch', str(code.without_suffix(suffix)))}, or "
        if refused and release and release < parse_numbers(entry["since"], 2):
            values = {"form": form, "since": entry["since"], "instead": instead, "version": tree.version_text}
            architectures = ", ".join(refused)
            yield Problem.of("tree-lacks-architecture", origin=origin, architectures=architectures, **values)


def _idle_gpus(settings: Settings, architectures: ArchitectureList) -> Iterator[Problem]:
    """Report GPUs of the targets that the architectures do not support, because another setting chose these."""
    setting = settings.entries["arch"]
    for name in settings.target:
        gpu = read_gpus().find(name)
        if gpu is None:
            continue
        answer = judge_code(architectures.targets, gpu.compute_capability)
        if not answer.how.runs:
            own = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            added = str(ArchitectureList.of([*architectures.targets, own]))
            unset = f"unset {setting.origin.removeprefix('variable ')}"
            without = unset if setting.ambient else "leave arch to the target"
            values = {"gpu": gpu.title, "architectures": architectures, "reason": answer.sentence}
            option = config_option("arch", added)
            yield Problem.of(
                "target-cannot-run", origin=setting.origin, without=without, option=option, **values
            )


# scikit-build-core's settings by which a wheel gets other tags, or goes without torch.
_RENAMING = frozenset({"wheel.install-dir", "wheel.platlib", "wheel.py-api", "wheel.tags"})
# bdist_wheel's options, which may be abbreviated.
_NAMES_WHEEL = re.compile(r"(?<!\S)--(?:build-n|plat-n|python-t|py-l|univ)[\w-]*(?:[= ][\w.]+)?")


def _wheel_problems(settings: Settings, tree: Tree) -> Iterator[Problem]:
    """Report settings of a tree's own backend with which its wheel would fail verification, after the compile."""
    for key, value in settings.passthrough.items():
        text = " ".join(value) if isinstance(value, list) else str(value)
        if tree.generation is not Generation.SCIKIT_BUILD_CORE:
            others = _NAMES_WHEEL.findall(text)
        else:
            others = [text] if text and key in _RENAMING else []
        if others:
            yield Problem.of("wheel-tag/planned", origin=f"-C {key}", given=" ".join(others))
