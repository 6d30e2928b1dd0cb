"""From the names of targets and profiles to what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.hardware.catalogue import gpus
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.model import Host
from torchwheel.settings.definitions import CPU, NATIVE, Definition, OverlayFolder, canonical_name, gpu_of
from torchwheel.settings.layers import Layer, Setting, stack
from torchwheel.settings.spelling import nearest

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
        """A name with what it inherits from, the remotest ancestor first.

        Raises:
            TorchwheelError: an ancestor does not exist, or is the name itself.
        """
        chain = [name]
        while heir := self._heir(chain[0], kind):
            parent = heir.inherits
            if parent in chain:
                raise TorchwheelError(_circular([parent, *chain], heir.origin))
            if not self.knows(parent, kind):
                raise TorchwheelError(_unknown_parent(heir, self))
            chain.insert(0, parent)
        return tuple(chain)

    def knows(self, name: str, kind: str) -> bool:
        """Whether there is a target or profile of that canonical name."""
        return bool(self.definitions(name, kind)) or (kind == "target" and gpu_of(name) is not None)

    def settings(self, chain: Iterable[str], kind: str) -> tuple[Setting, ...]:
        """The settings of a chain of names; in each layer the later names lie over the earlier."""
        layers: dict[Layer, list[tuple[Setting, ...]]] = {}
        for name in chain:
            for definition in self.definitions(name, kind):
                layers.setdefault(definition.layer, []).append(definition.settings)
        return tuple(setting for groups in layers.values() for setting in stack(groups))

    def names(self, kind: str) -> tuple[str, ...]:
        """Every name of a kind that something is said of; a file that cannot be read counts for nothing."""
        quiet = replace(self, problems=[], _read={})
        spelled = {canonical_name(name) for folder in self.folders for name in folder.names()}
        return tuple(name for name in sorted({*spelled, *self.tables}) if quiet.definitions(name, kind))

    def _heir(self, name: str, kind: str) -> Definition | None:
        """The definition that says what a name inherits; the highest layer's, None if none does."""
        return next((item for item in reversed(self.definitions(name, kind)) if item.inherits), None)


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
    name = canonical_name(gpu.name)
    if library.knows(name, "target"):
        return _named(gpu.name, name, NATIVE, library)
    architectures = ArchitectureList.of([CodeTarget(gpu.compute_capability, sass=True, ptx=False)])
    return Target(name, gpu.name, architectures, f"compute capability of {gpu.name}", ())


def _named(spelled: str, name: str, origin: str, library: Library) -> Target:
    if not library.knows(name, "target"):
        raise TorchwheelError(_unknown_target(spelled, library, origin))
    gpu = gpu_of(name)
    definitions = library.definitions(name, "target")
    chain = library.chain(name, "target")
    settings = tuple(item for item in library.settings(chain, "target") if item.key != "arch")
    title = next((item.title for item in reversed(definitions) if item.title), gpu.title if gpu else "")
    if CPU in chain:
        return Target(name, title, None, "", settings)
    architectures, arch_origin = _architectures(chain, library)
    return Target(name, title, architectures, arch_origin, settings)


def _architectures(chain: tuple[str, ...], library: Library) -> tuple[ArchitectureList, str]:
    for name in reversed(chain):
        for definition in reversed(library.definitions(name, "target")):
            if arch := definition.setting("arch"):
                return arch.value, arch.origin
        if gpu := gpu_of(name):
            capability = CodeTarget(gpu.compute_capability, sass=True, ptx=False)
            return ArchitectureList.of([capability]), f"compute capability of {name}"
    raise TorchwheelError(_no_architecture(chain[-1], library))


def _unknown_target(name: str, library: Library, origin: str) -> Problem:
    what = f'there is no target "{name}"'
    if candidates := gpus().candidates(name):
        what = f'"{name}" may be any of several GPUs'
        remedy = f"choose from: {', '.join(f'{gpu.name} ({gpu.title})' for gpu in candidates)}"
    else:
        remedy = _remedy(name, "target", library)
        with suppress(TorchwheelError):
            parse_architectures(name)
            remedy = f"it is an architecture: write -C arch={name}"
    return Problem(id="unknown-target", what=what, remedy=remedy, origin=origin)


def _unknown_profile(name: str, library: Library, origin: str) -> Problem:
    return Problem(
        id="unknown-profile",
        what=f'there is no profile "{name}"',
        remedy=_remedy(name, "profile", library),
        origin=origin,
    )


def _unknown_parent(heir: Definition, library: Library) -> Problem:
    return Problem(
        id=f"unknown-{heir.kind}",
        what=f'there is no {heir.kind} "{heir.inherits}" for {heir.name} to inherit from',
        remedy=_remedy(heir.inherits, heir.kind, library),
        origin=heir.origin,
    )


def _remedy(name: str, kind: str, library: Library) -> str:
    """What to write instead of a name that nothing has."""

    known = library.names(kind)
    if kind == "profile":
        meant, otherwise = nearest(name, known), f"choose from: {', '.join(known)}"
    else:
        meant = nearest(name, [CPU, NATIVE, *known]) or gpus().nearest(name)
        otherwise = "give its architecture instead, for example -C arch=12.0"
    return f'write "{meant}"' if meant else otherwise


def _no_architecture(name: str, library: Library) -> Problem:
    return Problem(
        id="target-without-architecture",
        what=f"the target {name} is no known GPU and does not say what to compile for",
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
