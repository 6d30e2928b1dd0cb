"""What is worth saying about a request as it stands: what it lacks, and which settings contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel._toml import shipped_toml
from torchwheel.errors import Finding, Problem, TorchwheelError, error, note, warning
from torchwheel.hardware.arch import ArchitectureList, CodeTarget
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.catalogue import gpus
from torchwheel.hardware.runs_on import verdict
from torchwheel.host.model import Host
from torchwheel.host.this import odd_characters
from torchwheel.plan.forwarding import Forwarding
from torchwheel.plan.output import is_only_how
from torchwheel.plan.wheel_settings import wheel_problems
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words, passthrough
from torchwheel.settings.pytorch_env import pytorch_variables, split_options
from torchwheel.settings.value_types import same
from torchwheel.terminal import config_option, listed, shell_word
from torchwheel.tree.model import Generation, Tree
from torchwheel.versions import numbers

_ARCH_LIST = Path(__file__).with_name("arch_list.toml")

# As passthrough.toml calls them.
_BACKENDS = {Generation.SCIKIT_BUILD_CORE: "scikit-build-core", Generation.SETUP_PY: "setuptools"}

_OPTIONS = frozenset({"build-type", "cmake-args", "define"})
"""What a variable becomes that the build takes for an option."""


def request_findings(settings: Settings, tree: Tree, host: Host, ways: Forwarding) -> Iterator[Finding]:
    """Everything that can be said without looking at CUDA."""
    problems = (
        _target(settings, host),
        _submodules(tree),
        _wrapper_metadata(settings, tree),
        _wrapper_backend(settings),
        partial_build(settings),
        of_another_backend(settings, _BACKENDS[tree.generation], f"{tree.name} {tree.version_text}"),
        _unseen_variables(settings),
        wheel_problems(settings, tree, host),
    )
    yield from map(error, chain(*problems))
    yield from _ambient(settings)
    yield from map(warning, _arguments(settings, tree, ways))


def _target(settings: Settings, host: Host) -> Iterator[Problem]:
    if settings.arch is not None:
        yield from _cuda_switched_off(settings)
    elif not settings.target_names:
        yield Problem(
            id="no-target",
            what="no target is named, so it is unknown what hardware to build for",
            remedy="name a GPU with -C target=rtx5070 (the command line: --target rtx5070), or "
            "-C target=native for this machine's, or -C target=cpu; 'torchwheel targets' lists them all",
        )
    elif not settings.is_cpu:
        yield Problem(
            id="native-elsewhere",
            what=f"the target is native, but the plan is for {host.platform_tag}, and not for this machine",
            remedy="name the GPU of that machine, for example -C target=rtx5070",
            origin=settings.entries["target"].origin,
        )


def _wrapper_metadata(settings: Settings, tree: Tree) -> Iterator[Problem]:
    """An error where a wrapper project's ``[project]`` says what its wheel will not say, which no backend may drop.

    Source: https://packaging.python.org/specifications/pyproject-toml/
    """
    if settings.source is None or settings.project is None:
        return
    table = settings.project.table("project")
    unused = [key for key in table if key not in ("dynamic", "name", "version")]
    if canonicalize_name(str(table.get("name", tree.name))) != canonicalize_name(tree.name):
        unused.append("name")
    if table.get("version", settings.version) != settings.version:
        unused.append("version")
    if unused:
        yield Problem(
            id="project-metadata-unused",
            what=f"[project] says {', '.join(sorted(unused))}, but the wheel is the tree's, {tree.name}, and says "
            "something else",
            remedy="take that out of [project]; the version to build as is version under [tool.torchwheel]",
            why="the metadata of a wrapper project's wheel comes from the tree that source names",
            origin="pyproject.toml",
        )


def _wrapper_backend(settings: Settings) -> Iterator[Problem]:
    """An error where a wrapper project configures a backend: the one that is called reads the tree's pyproject.toml."""
    if settings.source is None or settings.project is None:
        return
    tables = [name for name in ("scikit-build", "setuptools") if settings.project.table("tool", name)]
    if tables:
        yield Problem(
            id="wrapper-backend-unused",
            what=f"nothing reads {' and '.join(f'[tool.{name}]' for name in tables)} of this project",
            remedy="take it out; options go to define under [tool.torchwheel], and what is packed is said with -C, as "
            "-C wheel.exclude=",
            why="the backend of the tree that source names builds the wheel, and reads the tree's pyproject.toml",
            origin="pyproject.toml",
        )


def partial_build(settings: Settings) -> Iterator[Problem]:
    """An error where only a part is to be built: what else is installed may be as an earlier build left it."""
    part = passthrough().partial
    for key in (key for key in settings.passthrough if passthrough().bare(key) in part):
        yield Problem(
            id="partial-build",
            what="only a part of what CMake describes is to be built or installed",
            remedy="leave it out; for a part alone: configure, and then cmake --build with --target",
            why="what is left out is missing, or is what an earlier build of other sources left",
            origin=f"-C {key}",
        )


def of_another_backend(
    settings: Settings, own: str, project: str, *, has_options: bool = True
) -> Iterator[Problem]:
    """An error where the wrapped backend has no such setting: the wheel would be another than was asked for.

    Args:
        own: the backend, as passthrough.toml calls it.
        project: what it builds.
        has_options: whether an option among CMake's arguments has its own way in.
    """
    for key, value in settings.passthrough.items():
        bare, backend = passthrough().bare(key), passthrough().backend(key)
        heeded = has_options and bare == CMAKE_ARGUMENTS and not split_options(argument_words(value))[1]
        if backend == own or heeded or is_only_how(bare):
            continue
        yield Problem(
            id="setting-of-another-backend",
            what=f"{bare} is a setting of {backend}, and {project} is built by {own}",
            remedy="leave it out",
            why=f"{own} has no such setting, so the wheel would not be what was asked for",
            origin=f"-C {key}",
        )


def _unseen_variables(settings: Settings) -> Iterator[Problem]:
    """Errors where ``env.NAME`` decides what is built: the wheel's name and manifest know the settings alone."""
    yield from refused_variables(settings)
    variables = pytorch_variables()
    for name, setting in settings.variables.items():
        if variables.is_refused(name):
            continue
        # CMake reads variables of its own, such as CMAKE_POLICY_VERSION_MINIMUM.
        rule = None if name.startswith("CMAKE_") and name not in variables.rules else variables.rule(name)
        if rule is None or rule.becomes not in _OPTIONS:
            continue
        key = rule.becomes if rule.flag else f"define.{rule.option or name}"
        # Where the setting is given too, it wins, and that is said.
        if key in settings.entries and not rule.flag:
            continue
        remedy = (
            "give each option with -C define.NAME="
            if rule.becomes == "cmake-args"
            else f"write {config_option(key, rule.flag or setting.text)}"
        )
        yield _unseen(setting, "the wheel's name and manifest would not tell of it", remedy)


def refused_variables(settings: Settings) -> Iterator[Problem]:
    """Errors where ``env.NAME`` is one that no build may obey."""
    variables = pytorch_variables()
    for name, setting in settings.variables.items():
        if variables.is_refused(name):
            yield _unseen(
                setting, variables.reason_ignored(name), "leave it out, and say with -C what it is for"
            )


def _unseen(setting: Setting, why: str, remedy: str) -> Problem:
    return Problem(
        id="unseen-variable",
        what=f"{setting.name} is a variable that the build would obey",
        remedy=remedy,
        why=why,
        origin=setting.origin,
    )


def _cuda_switched_off(settings: Settings) -> Iterator[Problem]:
    """Architectures without a target: nothing else has compared them with USE_CUDA yet."""
    cuda = settings.defines.get("USE_CUDA")
    if cuda is not None and cuda.off:
        arch = settings.entries["arch"]
        yield Problem(
            id="arch-contradicts-cuda",
            what=f"arch is {arch.text} ({arch.origin}), but USE_CUDA is {cuda.text}",
            remedy="leave one of them out, or build without GPUs: -C target=cpu",
            origin=cuda.origin,
        )


def _submodules(tree: Tree) -> Iterator[Problem]:
    missing = tree.missing_submodules
    if not missing:
        return
    yield Problem(
        id="missing-submodules",
        what=f"{len(missing)} of the tree's submodules are not there: {listed(missing)}",
        why="PyTorch's CMake fetches them only when all are missing; with some missing it fails halfway",
        remedy=f"git -C {shell_word(str(tree.root))} submodule update --init --recursive",
        origin=str(tree.root / ".gitmodules"),
    )


def _ambient(settings: Settings) -> Iterator[Finding]:
    """Variables that were there anyway: those that beat a setting, those that lost, those not taken over."""
    beaten = [f"{s.key} is {s.shown} ({s.origin}), not {o.shown} ({o.origin})" for s, o in _beaten(settings)]
    if beaten:
        yield warning(
            Problem(
                id="ambient-decides",
                what="variables in the environment outrank what was requested: " + "; ".join(beaten),
                why="the environment lies above overlays and pyproject.toml, and only -C above the environment",
                remedy="unset them, or repeat with -C what you want",
            )
        )
    lost = [f"{o.origin}={o.shown} ({s.key} is {s.shown}: {s.origin})" for s, o in _overruled(settings)]
    if lost:
        yield note(
            Problem(
                id="ambient-overruled",
                what="variables in the environment are overruled, and do not reach the build: "
                + "; ".join(lost),
                remedy="",
            )
        )
    yield from kept_out(settings)
    refused = pytorch_variables().is_refused
    told = settings.ignored_variables.items()
    if ignored := [f"{name} ({reason})" for name, reason in told if not refused(name)]:
        yield note(
            Problem(
                id="ignored-variables",
                what="variables that look like PyTorch's are not taken over: " + ", ".join(ignored),
                remedy="if one is meant for the build, give it with -C define. and its name",
            )
        )


def moved_cache(asked: Path, cache: Path) -> Iterator[Finding]:
    """A note that the cache folder is not where it was asked for."""
    if cache != asked:
        yield note(
            Problem(
                id="cache-moved",
                what=f"builds lie in {cache}, because the path {asked} has {odd_characters(asked)!r} in it",
                why="CMake, ninja, compilers or a shell take such a character for their own",
                remedy="name another folder with TORCHWHEEL_CACHE_DIR= if that one is too small",
            )
        )


def shared_cache(writers: str) -> Iterator[Finding]:
    """An error where others can write to the cache folder.

    Args:
        writers: who and where, as :func:`torchwheel.host.private_folder.other_writers` returns it.
    """
    if writers:
        yield error(
            Problem(
                id="cache-not-private",
                what=f"others decide what is in torchwheel's cache folder: {writers}",
                why="a build runs the environments in it and hands over its objects and wheels",
                remedy="1. name a folder of your own with TORCHWHEEL_CACHE_DIR=, or -C build-dir= if that is the one\n"
                "2. or take the permission away: chmod -R go-w, on the folder that is named\n"
                "3. if you trust everybody who can write there: -C skip-check=cache-not-private",
            )
        )


def kept_out(settings: Settings) -> Iterator[Finding]:
    """A warning about the variables that no build may obey: they would change the wheel behind its name's back."""
    refused = pytorch_variables().is_refused
    told = settings.ignored_variables.items()
    if kept := [f"{name} ({reason})" for name, reason in told if refused(name)]:
        yield warning(
            Problem(
                id="variables-kept-out",
                what=f"variables in the environment do not reach the build: {', '.join(kept)}",
                remedy="unset them, and say with -C what they are for",
            )
        )


def _beaten(settings: Settings) -> Iterator[tuple[Setting, Setting]]:
    """Ambient settings, each with the highest requested setting that it beats and contradicts."""
    for setting in settings.entries.values():
        requested = [other for other in setting.replaced if not other.ambient and other.layer > Layer.DEFAULT]
        if setting.ambient and requested and not same(setting.value, requested[0].value):
            yield setting, requested[0]


def _overruled(settings: Settings) -> Iterator[tuple[Setting, Setting]]:
    """Settings that were requested, each with the ambient settings that it beats and contradicts."""
    for setting in settings.entries.values():
        for other in setting.replaced:
            if other.ambient and not setting.ambient and not same(setting.value, other.value):
                yield setting, other


def _arguments(settings: Settings, tree: Tree, ways: Forwarding) -> Iterator[Problem]:
    if settings.cmake_args and not ways.defines:
        yield Problem(
            id="arguments-not-forwarded",
            what=f"CMAKE_ARGS holds what does not reach CMake: {' '.join(settings.cmake_args)}",
            why=f"the {tree.generation.value} of PyTorch {tree.version_text} passes options to CMake, and no "
            "other arguments",
            remedy="give options as -D, a generator as CMAKE_GENERATOR",
            origin="variable CMAKE_ARGS",
        )


def architecture_findings(
    settings: Settings, tree: Tree, architectures: ArchitectureList
) -> Iterator[Finding]:
    """Errors where TORCH_CUDA_ARCH_LIST cannot say what is requested, and where a target cannot run the wheel."""
    origin = settings.entries["arch"].origin
    try:
        architectures.for_torch()
    except TorchwheelError as failure:
        yield from (error(replace(problem, origin=origin)) for problem in failure.problems)
    yield from (error(problem) for problem in _not_taken_by(tree, architectures, origin))
    yield from (error(problem) for problem in _idle_gpus(settings, architectures))


@dataclass(frozen=True)
class RefusedArchitectures:
    """Architectures of a list that the CMake files of a release do not take.

    Attributes:
        form: what they have in common.
        since: the first minor version of PyTorch that takes it.
        instead: what else can be done than building that.
    """

    architectures: tuple[str, ...]
    form: str
    since: str
    instead: str


def refused_architectures(version: str, code: ArchitectureList) -> Iterator[RefusedArchitectures]:
    """What of a list PyTorch's own parser of TORCH_CUDA_ARCH_LIST learnt only after a release."""
    release = numbers(version, 2)
    for entry in shipped_toml(_ARCH_LIST)["form"]:
        suffix = entry.get("suffix")
        if suffix is None:
            refused = [a for a in code.architectures if a >= Architecture.of(entry["least"])]
            form, instead = f"compute capabilities as large as {entry['least']}", ""
        else:
            refused = [a for a in code.architectures if a.suffix == suffix]
            form = f"the suffix {suffix!r}"
            instead = f"leave the suffix out: {config_option('arch', str(code.without_suffix(suffix)))}, or "
        if refused and release and release < numbers(entry["since"], 2):
            yield RefusedArchitectures(tuple(a.dotted for a in refused), form, entry["since"], instead)


def _not_taken_by(tree: Tree, architectures: ArchitectureList, origin: str) -> Iterator[Problem]:
    for refused in refused_architectures(tree.version_text, architectures):
        yield Problem(
            id="tree-lacks-architecture",
            what=f"PyTorch {tree.version_text} does not take {', '.join(refused.architectures)} in "
            "TORCH_CUDA_ARCH_LIST",
            why=f"its CMake files know {refused.form} from PyTorch {refused.since} on",
            remedy=f"{refused.instead}build PyTorch {refused.since} or later",
            origin=origin,
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
                remedy=f"{_without_setting(setting)}, or ask for both: {config_option('arch', str(added))}",
                origin=setting.origin,
            )


def _without_setting(setting: Setting) -> str:
    return (
        f"unset {setting.origin.removeprefix('variable ')}" if setting.ambient else "leave arch to the target"
    )
