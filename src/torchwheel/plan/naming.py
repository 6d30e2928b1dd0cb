"""The wheel's name and version: a base from the tree or the user, and a local version label, see docs/settings.md.

The label names the hardware, and every other difference from a plain release build. Every segment has letters and
digits with at least one letter, so that no frontend normalises it
(https://packaging.python.org/specifications/version-specifiers/#local-version-identifiers).

PyTorch takes its version from ``PYTORCH_BUILD_VERSION`` together with ``PYTORCH_BUILD_NUMBER``
(tools/generate_torch_version.py). It is always 1, because a higher number would be appended as ``.postN`` and become
part of the local label.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import WheelVersion, is_relevant
from torchwheel.plan.defines import is_known
from torchwheel.pytorch.releases import build_options
from torchwheel.reporting.errors import Finding, Problem, error, warning
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.components import Component, read_components
from torchwheel.settings.overlays import canonical_name
from torchwheel.settings.value_types import is_same_value, parse_truth
from torchwheel.tree.source_tree import Tree
from torchwheel.versions import wheel_spelling

_COMMIT_LETTERS = 7
_MOST_COMPONENTS = 3
_DIGITS = 6
_LONGEST_NAME = 230
"""Bytes of a wheel's name: file systems allow 255 (NAME_MAX of limits.h), and the temporary name is longer."""
# https://packaging.python.org/specifications/binary-distribution-format/#file-name-convention
_BUILD_TAG = re.compile(r"\d[\w.]*", re.ASCII)

_SWITCH = re.compile(r"^(?:USE|BUILD)_")
_WORD = re.compile(r"[\w.+-]{1,20}", re.ASCII)

_Place = tuple[str, Layer, str]


@dataclass(frozen=True)
class Naming:
    """The name of a wheel to build."""

    hardware: str
    version: WheelVersion
    file: str
    findings: tuple[Finding, ...]


def name_wheel(
    settings: Settings, tree: Tree, host: Host, cuda: str | None, architectures: ArchitectureList | None
) -> Naming:
    known = settings.is_cpu or architectures is not None
    hardware = hardware_label(cuda, architectures) if known else ""
    label = ".".join((hardware, *_build_labels(settings, tree))) if hardware else ""
    version, findings = wheel_version(tree, settings.package_version, settings.local_version, label)
    # The local version label that scikit-build-core adds.
    tag, python = str(settings.passthrough.get("wheel.build-tag", "")), host.python
    name = wheel_spelling(tree.name)
    parts = (name, str(version), tag, python.interpreter_tag, python.abi_tag, host.platform_tag)
    file = f"{'-'.join(filter(None, parts))}.whl"
    return Naming(hardware, version, file, (*findings, *map(error, _problems(settings, version, file, tag))))


def wheel_version(
    tree: Tree, requested: str | None, local_requested: str | None, label: str
) -> tuple[WheelVersion, tuple[Finding, ...]]:
    """Decide the version; ``local_requested`` replaces ``label``.

    The base is the requested one, else the release tag on the tree's commit, else the tree's file and the commit.
    """
    local = label if local_requested is None else local_requested
    if requested is not None:
        return _check_version(WheelVersion(requested, local, "as requested"))
    if tree.release_tag:
        base = tree.release_tag.removeprefix("v")
        return _check_version(WheelVersion(base, local, "the tree's release tag"))
    if tree.commit:
        local = ".".join(filter(None, (f"git{tree.commit[:_COMMIT_LETTERS]}", local)))
    version, findings = _check_version(WheelVersion(tree.version_text, local, tree.version_file), tree)
    if tree.commit_unknown:
        unknown = Problem.of("commit-unknown", tree=tree.root, reason=tree.commit_unknown)
        findings = (warning(unknown), *findings)
    return version, findings


def _problems(settings: Settings, version: WheelVersion, file: str, build_tag: str) -> Iterator[Problem]:
    sdist = settings.project.sdist.version if settings.project and settings.project.sdist else ""
    base, plus, local = sdist.partition("+")
    if plus and sdist != str(version):
        yield Problem.of("version-is-not-the-sdists", sdist=sdist, version=version, base=base, local=local)
    if build_tag and not _BUILD_TAG.fullmatch(build_tag):
        yield Problem.of("bad-build-tag", origin="-C wheel.build-tag", tag=build_tag)
    if len(file.encode()) > _LONGEST_NAME:
        values = {"length": len(file), "beginning": file[:60], "most": _LONGEST_NAME}
        yield Problem.of("wheel-name-too-long", **values)


def _check_version(
    version: WheelVersion, from_tree: Tree | None = None
) -> tuple[WheelVersion, tuple[Finding, ...]]:
    try:
        parsed = Version(str(version))
    # Python raises another ValueError for more than 4,300 digits.
    except ValueError:
        return version, (error(Problem.of("invalid-version", version=version)),)
    normalised = WheelVersion(parsed.public, parsed.local or "", version.base_origin)
    if from_tree is None or not parsed.is_prerelease:
        return normalised, ()
    values = {"file": from_tree.version_file, "version_text": from_tree.version_text}
    problem = Problem.of("prerelease-version", version=normalised, release=parsed.base_version, **values)
    return normalised, (warning(problem),)


def hardware_label(cuda: str | None, architectures: ArchitectureList | None) -> str:
    """The hardware's label: ``cpu``, ``cu130.sm120`` for CUDA ``"13.0"`` and sm_120, or only ``cu130``."""
    toolkit = () if cuda is None else ("cu" + cuda.replace(".", ""),)
    return ".".join((*toolkit, *(architectures.labels if architectures else ()))) or "cpu"


def _build_labels(settings: Settings, tree: Tree) -> tuple[str, ...]:
    """The segments after the hardware's: profiles, build type, components, and a modified checkout."""
    profiles = {name: _settings_of(name, settings) for name in settings.profile}
    changing = {_place_of(one) for one in settings.entries.values() if _changes_wheel(one, tree)}
    labels = [_label_segment(name) for name, own in profiles.items() if own & changing]
    labels += build_type_labels(settings.build_type)
    given = set().union(*profiles.values())
    changed = sorted({*_changed_components(settings, tree, given), *_changed_options(settings, tree, given)})
    if len(changed) > _MOST_COMPONENTS:
        digest = hashlib.sha256(" ".join(changed).encode()).hexdigest()
        changed = [f"custom{digest[:_DIGITS]}"]
    return tuple(dict.fromkeys([*labels, *changed, *(["dirty"] if tree.dirty else [])]))


def build_type_labels(build_type: str) -> tuple[str, ...]:
    return () if build_type == "Release" else (_label_segment(build_type),)


def _place_of(setting: Setting) -> _Place:
    """The identity of a setting, apart from the ones it replaced."""
    return setting.key, setting.layer, setting.origin


def _settings_of(profile: str, settings: Settings) -> set[_Place]:
    overlays = settings.overlays
    chain = overlays.inheritance_chain(canonical_name(profile), "profile")
    return {_place_of(setting) for setting in overlays.settings(chain, "profile")}


def _changes_wheel(setting: Setting, tree: Tree) -> bool:
    table = setting.key.partition(".")[0]
    if table == "define":
        component = read_components().of_option(setting.name)
        option = build_options().get(setting.name)
        labelled = component.labelled if component else option is None or option.labelled
        return is_known(tree, setting.name) and labelled
    return setting.key == "build-type" or (table == "env" and is_relevant(setting.name))


def _changed_components(settings: Settings, tree: Tree, of_profiles: set[_Place]) -> Iterator[str]:
    """Yield components whose state differs from the built-in targets, the profiles and the tree's default."""
    off = {
        component.name
        for component in read_components()
        if any(settings.defines[one].off for one in component.options if one in settings.defines)
    }
    for component in read_components():
        # The hardware's label shows whether there is CUDA.
        if component.name == "cuda" or not component.labelled:
            continue
        for setting in (settings.defines[o] for o in component.options if o in settings.defines):
            on = not setting.off
            follows = not on and any(off.issuperset(group) for group in component.depends_on)
            if follows or _is_given(setting, of_profiles) or setting.name not in tree.known_names:
                continue
            if on is not _default_state(setting, tree, of_profiles):
                name = _name_in_tree(component, setting.name)
                yield _label_segment(name if on else f"no{name}")
                break


def _name_in_tree(component: Component, option: str) -> str:
    """The name of a component with alternative options that fits the tree's: ``mslk``, ``fbgemm-genai``."""
    names = {_label_segment(name): name for name in (component.name, *component.aliases)}
    of_option = names.get(_label_segment(_SWITCH.sub("", option)), component.name)
    return of_option if len(component.options) > 1 else component.name


def _changed_options(settings: Settings, tree: Tree, of_profiles: set[_Place]) -> Iterator[str]:
    """Yield the tree's options that belong to no component, and whose value differs from its default."""
    for name, setting in settings.defines.items():
        declared, option = tree.options.get(name), build_options().get(name)
        if declared is None or _is_given(setting, of_profiles) or (option and not option.labelled):
            continue
        if name.startswith("CMAKE_") or read_components().of_option(name):
            continue
        if declared.type == "BOOL" and parse_truth(setting.value) is not None:
            if (on := not setting.off) is not _default_state(setting, tree, of_profiles):
                bare = _SWITCH.sub("", name)
                yield _label_segment(bare if on else f"no{bare}")
        elif declared.type in ("BOOL", "STRING") and not is_same_value(setting.text, declared.default):
            word = _WORD.fullmatch(setting.text)
            yield _label_segment(f"{name}{word[0] if word else ''}")


def _is_given(setting: Setting, of_profiles: set[_Place]) -> bool:
    return setting.layer is Layer.BUILTIN_OVERLAY or _place_of(setting) in of_profiles


def _default_state(setting: Setting, tree: Tree, of_profiles: set[_Place]) -> bool | None:
    """The state of an option without the project's and the user's settings; None if unknown."""
    for beaten in setting.replaced:
        if _is_given(beaten, of_profiles):
            return parse_truth(beaten.value)
    option = tree.options.get(setting.name)
    return parse_truth(option.default) if option is not None else None


def _label_segment(name: str) -> str:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters if re.search(r"[a-z]", letters) else f"profile{letters}"
