"""Targets and profiles: their definitions in overlay files and tables of pyproject.toml, and what names resolve to."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.hardware.gpu_catalogue import KnownGpu, NamedGpu, read_gpus, try_to_detect
from torchwheel.host.machine import Host
from torchwheel.host.this import CONFIG_VARIABLE, config_folder
from torchwheel.reporting.errors import Problem, TorchwheelError, collect_problems, find_nearest, refusal
from torchwheel.settings.known_keys import FILE_HEADER, TABLE_HEADER, Where
from torchwheel.settings.layers import Layer, Setting, Source, Table, read_table, split_header, stack_groups
from torchwheel.system.files import overlays_folder
from torchwheel.system.paths import find_below, is_closed
from torchwheel.system.toml import read_toml

NO_USER_OVERLAYS = Path(os.devnull)
"""Stands in for the user's folder when the user's overlays must not apply."""

CPU = "cpu"
NATIVE = "native"


@dataclass(frozen=True)
class Definition:
    """The definition of a target or profile in one place."""

    name: str
    kind: str
    inherits: str
    settings: tuple[Setting, ...]
    origin: str
    layer: Layer


def gpu_of(name: str) -> KnownGpu | None:
    return None if name in (CPU, NATIVE) else read_gpus().find(name)


def canonical_name(name: str) -> str:
    """The one spelling of a name: the catalogue's for a GPU, else lower case with hyphens."""
    gpu = gpu_of(name)
    return gpu.name if gpu else re.sub(r"[\s_]+", "-", name.strip().lower())


def read_definition(name: str, kind: str, table: Table, source: Source, host: Host) -> Definition:
    header, body = split_header(table, TABLE_HEADER, source.problems)
    return Definition(
        name=name,
        kind=kind,
        inherits=canonical_name(header["inherits"]) if header["inherits"] else "",
        settings=read_table(body, source, host),
        origin=table.origin,
        layer=source.layer,
    )


def _read_overlay(
    file: Path, layer: Layer, label: str, name: str, host: Host, problems: list[Problem]
) -> Definition | None:
    origin = f"{label}/{file.name}" if label else str(file)
    try:
        content = read_toml(file)
    except TorchwheelError as error:
        problems += error.problems
        return None
    header, body = split_header(Table(content, origin, Where.TARGET), FILE_HEADER, problems)
    if not header["kind"]:
        if "kind" not in content:
            problems.append(Problem.of("overlay-without-kind", origin=origin))
        return None
    table = replace(body, where={"target": Where.TARGET, "profile": Where.PROFILE}[header["kind"]])
    return read_definition(name, header["kind"], table, Source(layer, problems, file.parent), host)


@dataclass(frozen=True)
class Overlays:
    """All definitions of targets and profiles.

    ``folders`` are those of files, each with its layer and its name in messages, lowest first; ``problems`` gets the
    problems of a file whenever its definitions are asked for.
    """

    folders: tuple[tuple[Path, Layer, str], ...]
    tables: Mapping[str, Definition]
    host: Host
    problems: list[Problem]
    _read: dict[str, tuple[tuple[Definition, ...], list[Problem]]] = field(default_factory=dict)

    def definitions(self, name: str, kind: str) -> tuple[Definition, ...]:
        """The definitions of a canonical name, lowest layer first."""
        found, problems = self._described(name)
        self.problems.extend(problems)
        return tuple(item for item in found if item.kind == kind)

    def _described(self, name: str) -> tuple[tuple[Definition, ...], list[Problem]]:
        if name not in self._read:
            problems: list[Problem] = []
            found: list[Definition | None] = []
            for folder, layer, label in self.folders:
                files = (file for file in find_below(folder, "*.toml") if canonical_name(file.stem) == name)
                # Several files may spell one name; which one wins must not depend on the alphabet.
                if file := min(files, key=lambda file: (file.stem != name, file), default=None):
                    found.append(_read_overlay(file, layer, label, name, self.host, problems))
            found.append(self.tables.get(name))
            self._read[name] = tuple(item for item in found if item), problems
        return self._read[name]

    def inheritance_chain(self, name: str, kind: str) -> tuple[str, ...]:
        """A name with its ancestors, the most remote first.

        A GPU without a parent inherits from the target of its architecture, such as ``sm120``, if there is one.
        """
        chain = [name]
        while child := next(
            (one for one in reversed(self.definitions(chain[0], kind)) if one.inherits), None
        ):
            parent = child.inherits
            if parent in chain:
                circle = " -> ".join(reversed([parent, *chain]))
                raise refusal("circular-inheritance", origin=child.origin, name=parent, chain=circle)
            if not self.has_name(parent, kind):
                id = "unknown-target/parent" if kind == "target" else "unknown-profile/parent"
                advice = self.suggest_name(parent, kind)
                raise refusal(id, origin=child.origin, name=parent, child=child.name, advice=advice)
            chain.insert(0, parent)
        gpu = gpu_of(chain[0]) if kind == "target" else None
        shared = f"sm{gpu.compute_capability.number}" if gpu else ""
        return (shared, *chain) if self.definitions(shared, kind) else tuple(chain)

    def has_name(self, name: str, kind: str) -> bool:
        return bool(self.definitions(name, kind)) or (kind == "target" and gpu_of(name) is not None)

    def settings(self, chain: Iterable[str], kind: str) -> tuple[Setting, ...]:
        """Merge the settings of a chain of names; in each layer the later names override the earlier."""
        layers: dict[Layer, list[tuple[Setting, ...]]] = {}
        for name in chain:
            for definition in self.definitions(name, kind):
                layers.setdefault(definition.layer, []).append(definition.settings)
        return tuple(setting for groups in layers.values() for setting in stack_groups(groups))

    def names(self, kind: str) -> tuple[str, ...]:
        """Every defined name of a kind; files that cannot be read are ignored."""
        files = {
            canonical_name(file.stem) for folder, *_ in self.folders for file in find_below(folder, "*.toml")
        }
        described = sorted(files | self.tables.keys())
        return tuple(name for name in described if any(one.kind == kind for one in self._described(name)[0]))

    def suggest_name(self, name: str, kind: str) -> str:
        known = self.names(kind)
        other = "target" if kind == "profile" else "profile"
        if self.has_name(name, other):
            return f"it is a {other}: write -C {other}={name}"
        # A GPU is suggested by the catalogue alone, which does not change the architecture.
        own = known if kind == "profile" else [CPU, NATIVE, *(one for one in known if gpu_of(one) is None)]
        if meant := find_nearest(name, own):
            return f"did you mean {meant}?"
        if kind == "profile":
            return f"choose from: {', '.join(known)}"
        if gpu := read_gpus().nearest(name):
            return gpu.suggestion
        return (
            "choose from those that `torchwheel gpus` lists; of an NVIDIA GPU that is missing there, "
            "give the compute capability, as in -C arch=12.0"
        )


def user_overlays_folder(environment: Mapping[str, str]) -> Path | None:
    folder = config_folder(environment)
    if folder and CONFIG_VARIABLE in environment and is_closed(folder):
        reason = os.strerror(errno.EACCES)
        raise refusal("not-readable/named", origin=f"variable {CONFIG_VARIABLE}", path=folder, reason=reason)
    return folder / "overlays" if folder else None


def read_overlays(
    tables: Mapping[str, Definition], user_folder: Path | None, host: Host, problems: list[Problem]
) -> Overlays:
    """The shipped overlays, those in the user's folder, and the project's target tables."""
    own = [(user_folder, Layer.USER_OVERLAY, "")] if user_folder is not None else []
    return Overlays(((overlays_folder(), Layer.BUILTIN_OVERLAY, "overlays"), *own), tables, host, problems)


Detect = Callable[[], Sequence[NamedGpu]]


@dataclass(frozen=True)
class Target:
    """A target, resolved; ``cpu`` and an unresolved ``native`` have no architectures, and ``settings`` no ``arch``."""

    name: str
    architectures: ArchitectureList | None = None
    arch_origin: str = ""
    settings: tuple[Setting, ...] = ()


def resolve_targets(
    named: Setting, overlays: Overlays, detect: Detect | None, problems: list[Problem]
) -> tuple[Target, ...]:
    """Resolve the targets that a ``target`` setting names; unknown ones are added to ``problems``."""
    found: dict[str, Target] = {}
    for name in named.value:
        with collect_problems(problems):
            for target in _resolve_name(name, named.origin, overlays, detect):
                found.setdefault(target.name, target)
    if CPU in found and len(found) > 1:
        problems.append(Problem.of("cpu-among-gpus", origin=named.origin, targets=named.text))
        return ()
    return tuple(found.values())


def resolve_profiles(
    named: Setting, overlays: Overlays, problems: list[Problem]
) -> Iterator[tuple[Setting, ...]]:
    for spelled in named.value:
        name = canonical_name(spelled)
        if not overlays.definitions(name, "profile"):
            advice = overlays.suggest_name(spelled, "profile")
            problems.append(Problem.of("unknown-profile", origin=named.origin, name=spelled, advice=advice))
            continue
        with collect_problems(problems):
            yield overlays.settings(overlays.inheritance_chain(name, "profile"), "profile")


def _resolve_name(name: str, origin: str, overlays: Overlays, detect: Detect | None) -> Iterator[Target]:
    canonical = canonical_name(name)
    if canonical != NATIVE:
        yield _target_of_name(name, canonical, origin, overlays)
    elif detect is None:
        yield Target(NATIVE)
    else:
        detected, why = try_to_detect(detect)
        if not detected:
            raise refusal("no-gpu-found/target", origin=origin, why=why)
        for gpu in detected:
            canonical = canonical_name(gpu.name)
            if overlays.has_name(canonical, "target"):
                yield _target_of_name(gpu.name, canonical, NATIVE, overlays)
            else:
                yield Target(canonical, _machine_code(gpu), f"compute capability of {gpu.name}")


def _machine_code(gpu: NamedGpu | KnownGpu) -> ArchitectureList:
    return ArchitectureList.of([CodeTarget(gpu.compute_capability, sass=True, ptx=False)])


def _target_of_name(spelled: str, name: str, origin: str, overlays: Overlays) -> Target:
    if not overlays.has_name(name, "target"):
        raise TorchwheelError(_unknown_target(spelled, overlays, origin))
    chain = overlays.inheritance_chain(name, "target")
    settings = tuple(item for item in overlays.settings(chain, "target") if item.key != "arch")
    if CPU in chain:
        return Target(name, settings=settings)
    return Target(name, *_find_architectures(chain, overlays), settings)


def _find_architectures(chain: tuple[str, ...], overlays: Overlays) -> tuple[ArchitectureList, str]:
    for name in reversed(chain):
        for definition in reversed(overlays.definitions(name, "target")):
            if arch := next((setting for setting in definition.settings if setting.key == "arch"), None):
                return arch.value, arch.origin
        if gpu := gpu_of(name):
            return _machine_code(gpu), f"compute capability of {name}"
    origin = overlays.definitions(chain[-1], "target")[-1].origin
    raise refusal("target-without-architecture", origin=origin, name=chain[-1])


def _unknown_target(name: str, overlays: Overlays, origin: str) -> Problem:
    if candidates := read_gpus().find_candidates(name):
        listed = ", ".join(gpu.described for gpu in candidates)
        return Problem.of("unknown-target/ambiguous", origin=origin, name=name, candidates=listed)
    advice, words = read_gpus().refusal(name), name.split()
    are_targets = (overlays.has_name(canonical_name(word), "target") for word in words)
    if not advice and len(words) > 1 and all(are_targets):
        advice = f'write "{",".join(words)}": commas separate targets'
    if not advice:
        with suppress(TorchwheelError):
            parse_architectures(name)
            return Problem.of("unknown-target/architecture", origin=origin, name=name)
    advice = advice or overlays.suggest_name(name, "target")
    return Problem.of("unknown-target", origin=origin, name=name, advice=advice)
