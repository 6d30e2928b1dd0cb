"""From the names of targets and profiles to what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.settings.definitions import Definition, OverlayFolder, canonical_name
from torchwheel.settings.layers import Layer, Setting, stack
from torchwheel.settings.spelling import nearest

if TYPE_CHECKING:
    from torchwheel.hardware.arch import ArchitectureList
    from torchwheel.hardware.detect import DetectedGpu
    from torchwheel.host.model import Host

CPU = "cpu"
NATIVE = "native"

Detect = Callable[[], "Sequence[DetectedGpu]"]


@dataclass(frozen=True)
class Target:
    """A target, resolved.

    Attributes:
        name: canonical name.
        title: what it is, in a few words; may be empty.
        architectures: what it is compiled for; None for ``cpu`` and for a ``native`` nobody has looked up.
        arch_origin: where the architectures come from.
        settings: what overlays and the project's table say, without ``arch``.
    """

    name: str
    title: str
    architectures: ArchitectureList | None
    arch_origin: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Library:
    """Everything that is said of targets and profiles, layer by layer.

    Attributes:
        folders: overlay folders, lowest layer first.
        tables: the project's target tables, by canonical name.
        host: the machine that conditions ask about.
        problems: what turns out wrong on reading.
    """

    folders: tuple[OverlayFolder, ...]
    tables: Mapping[str, Definition]
    host: Host
    problems: list[Problem]
    _read: dict[str, tuple[Definition, ...]] = field(default_factory=dict)

    def definitions(self, name: str, kind: str) -> tuple[Definition, ...]:
        """What is said of a name, lowest layer first."""
        if name not in self._read:
            read = [folder.read(name, self.host, self.problems) for folder in self.folders]
            found = [definition for definition in [*read, self.tables.get(name)] if definition]
            self._read[name] = tuple(found)
        return tuple(item for item in self._read[name] if item.kind == kind)

    def chain(self, name: str, kind: str) -> tuple[str, ...]:
        """A name with what it inherits from, the remotest ancestor first."""
        chain = [name]
        while parent := self._parent(chain[0], kind):
            if parent in chain:
                raise TorchwheelError(
                    _circular([parent, *chain], self.definitions(chain[0], kind)[-1].origin)
                )
            chain.insert(0, parent)
        return tuple(chain)

    def settings(self, chain: Iterable[str], kind: str) -> tuple[Setting, ...]:
        """The settings of a chain of names; in each layer the later names lie over the earlier."""
        layers: dict[Layer, list[tuple[Setting, ...]]] = {}
        for name in chain:
            for definition in self.definitions(name, kind):
                layers.setdefault(definition.layer, []).append(definition.settings)
        return tuple(setting for groups in layers.values() for setting in stack(groups))

    def names(self, kind: str) -> tuple[str, ...]:
        """Every name of a kind that something is said of."""
        spelled = {canonical_name(name) for folder in self.folders for name in folder.names()}
        return tuple(name for name in sorted({*spelled, *self.tables}) if self.definitions(name, kind))

    def _parent(self, name: str, kind: str) -> str:
        parents = [item.inherits for item in self.definitions(name, kind) if item.inherits]
        return parents[-1] if parents else ""


def resolve_targets(
    asked: Setting, library: Library, detect: Detect | None, problems: list[Problem]
) -> tuple[Target, ...]:
    """The targets that a ``target`` setting names; problems instead of those that cannot be found."""
    found: dict[str, Target] = {}
    for name in asked.value:
        try:
            for target in _resolve(name, asked.origin, library, detect):
                found.setdefault(target.name, target)
        except TorchwheelError as error:
            problems += error.problems
    if CPU in found and len(found) > 1:
        problems.append(_cpu_and_others(asked))
        return ()
    return tuple(found.values())


def resolve_profiles(
    asked: Setting, library: Library, problems: list[Problem]
) -> Iterator[tuple[Setting, ...]]:
    """The settings of each profile that a ``profile`` setting names, in that order."""
    for spelled in asked.value:
        name = canonical_name(spelled)
        if not library.definitions(name, "profile"):
            problems.append(_unknown_profile(spelled, library, asked.origin))
            continue
        try:
            yield library.settings(library.chain(name, "profile"), "profile")
        except TorchwheelError as error:
            problems += error.problems


def _resolve(name: str, origin: str, library: Library, detect: Detect | None) -> Iterator[Target]:
    canonical = canonical_name(name)
    if canonical != NATIVE:
        yield _named(name, canonical, origin, library)
    elif detect is None:
        yield Target(NATIVE, "the GPUs of this machine", None, "", ())
    else:
        detected = detect()
        if not detected:
            raise TorchwheelError(_no_gpu_found(origin))
        for gpu in detected:
            yield _detected(gpu, library)


def _detected(gpu: DetectedGpu, library: Library) -> Target:
    from torchwheel.hardware.arch import ArchitectureList, CodeTarget
    from torchwheel.hardware.catalogue import gpus

    name = canonical_name(gpu.name)
    if gpus().find(gpu.name) or library.definitions(name, "target"):
        return _named(gpu.name, name, NATIVE, library)
    architectures = ArchitectureList.of([CodeTarget(gpu.compute_capability, sass=True, ptx=False)])
    return Target(name, gpu.name, architectures, f"compute capability of {gpu.name}", ())


def _named(spelled: str, name: str, origin: str, library: Library) -> Target:
    from torchwheel.hardware.catalogue import gpus

    gpu = gpus().find(name)
    definitions = library.definitions(name, "target")
    if not definitions and not gpu:
        raise TorchwheelError(_unknown_target(spelled, library, origin))
    chain = library.chain(name, "target")
    settings = tuple(item for item in library.settings(chain, "target") if item.key != "arch")
    title = next((item.title for item in reversed(definitions) if item.title), gpu.title if gpu else "")
    if CPU in chain:
        return Target(name, title, None, "", settings)
    architectures, arch_origin = _architectures(chain, library)
    return Target(name, title, architectures, arch_origin, settings)


def _architectures(chain: tuple[str, ...], library: Library) -> tuple[ArchitectureList, str]:
    from torchwheel.hardware.arch import ArchitectureList, CodeTarget
    from torchwheel.hardware.catalogue import gpus

    for name in reversed(chain):
        for definition in reversed(library.definitions(name, "target")):
            if arch := definition.setting("arch"):
                return arch.value, arch.origin
        if gpu := gpus().find(name):
            capability = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            return ArchitectureList.of([capability]), f"compute capability of {name}"
    raise TorchwheelError(_no_architecture(chain, library))


def _unknown_target(name: str, library: Library, origin: str) -> Problem:
    from torchwheel.hardware.arch import parse_architectures
    from torchwheel.hardware.catalogue import gpus

    candidates = gpus().candidates(name)
    if candidates:
        listed = ", ".join(f"{gpu.name} ({gpu.title})" for gpu in candidates)
        return Problem(
            id="ambiguous-target",
            what=f'"{name}" may be any of several GPUs',
            remedy=f"choose from: {listed}",
            origin=origin,
        )
    try:
        parse_architectures(name)
    except TorchwheelError:
        meant = nearest(name, [CPU, NATIVE, *library.names("target")]) or gpus().nearest(name)
        remedy = f'write "{meant}"' if meant else "give its architecture instead, for example -C arch=12.0"
    else:
        remedy = f"it is an architecture: write -C arch={name}"
    return Problem(id="unknown-target", what=f'there is no target "{name}"', remedy=remedy, origin=origin)


def _unknown_profile(name: str, library: Library, origin: str) -> Problem:
    known = library.names("profile")
    meant = nearest(name, known)
    return Problem(
        id="unknown-profile",
        what=f'there is no profile "{name}"',
        remedy=f'write "{meant}"' if meant else f"choose from: {', '.join(known)}",
        origin=origin,
    )


def _no_architecture(chain: tuple[str, ...], library: Library) -> Problem:
    name = chain[-1]
    first = next((item for item in library.definitions(chain[0], "target")), None)
    unknown_parent = first is None
    what = f'there is no target "{chain[0]}" for {name} to inherit from' if unknown_parent else ""
    return Problem(
        id="unknown-target" if unknown_parent else "target-without-architecture",
        what=what or f"the target {name} is no known GPU and does not say what to compile for",
        remedy='give it arch = "12.0", or inherits = "rtx5070"',
        origin=library.definitions(name, "target")[-1].origin,
    )


def _circular(chain: list[str], origin: str) -> Problem:
    return Problem(
        id="circular-inheritance",
        what=f"{chain[0]} inherits from itself: {' -> '.join(reversed(chain))}",
        remedy="remove one inherits",
        origin=origin,
    )


def _cpu_and_others(asked: Setting) -> Problem:
    return Problem(
        id="cpu-among-gpus",
        what=f"target names cpu beside GPUs: {asked.text}",
        remedy="leave cpu out: a wheel for GPUs runs on the CPU too",
        origin=asked.origin,
    )


def _no_gpu_found(origin: str) -> Problem:
    return Problem(
        id="no-gpu-found",
        what="the target is native, but this machine shows no NVIDIA GPU",
        remedy="name the GPU to build for, for example -C target=rtx5070, or build without: -C target=cpu",
        why="nvidia-smi is missing, or lists none",
        origin=origin,
    )
