"""The wheels that PyTorch publishes, and the device code in them: `published.toml`, checked on loading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.hardware._data_file import DataErrors
from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.hardware.architecture import Architecture
from torchwheel.pytorch._data_fields import read_number, read_source, read_span
from torchwheel.versions import numbers

T = TypeVar("T")

PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64")

_BUILD_KEYS = frozenset({"platform", "label", "since", "until", "code", "removes", "note", "source"})
_PYTHON_KEYS = frozenset({"platforms", "since", "until", "tags", "source"})
_PYPI_KEYS = frozenset({"platform", "since", "until", "label", "source"})
_CUDNN_KEYS = frozenset({"label", "since", "until", "version", "note", "source"})


@dataclass(frozen=True)
class PublishedBuild:
    """One official build of a release for a platform; there is a wheel of it for every one of its Pythons.

    Attributes:
        torch: the release, ``2.14.1``.
        platform: ``linux_x86_64``, ``linux_aarch64`` or ``win_amd64``.
        label: the local version label of its wheels and the name of PyTorch's index, ``cu130`` or ``cpu``.
        on_pypi: whether this is the build that PyPI has, without its label.
        python: ABI tags of the Pythons it is for, ``cp312`` or ``cp314t``.
        code: the device code in it, None for ``cpu``.
        cudnn: the version of cuDNN it comes with, None for ``cpu`` and where no document says.
        note: what else a reader should know; empty if nothing.
        source: the document that says which device code is in it.
    """

    torch: str
    platform: str
    label: str
    on_pypi: bool
    python: tuple[str, ...]
    code: ArchitectureList | None
    cudnn: str | None
    note: str
    source: str

    @property
    def cuda(self) -> str | None:
        """The CUDA version, ``13.0`` of ``cu130``; None of ``cpu``."""
        return cuda_of_label(self.label)

    @property
    def index_hint(self) -> str:
        """Where pip finds it: ``PyPI``, or the label that PyTorch's page names its index by."""
        return "PyPI" if self.on_pypi else self.label


@dataclass(frozen=True)
class PublishedTable:
    """Every known official build, by release and platform, in the order in which to offer them."""

    by_release: Mapping[tuple[str, str], tuple[PublishedBuild, ...]]

    def builds(self, version: str, platform: str) -> tuple[PublishedBuild, ...]:
        """The builds of a release for a platform, whatever the Python; none if none are known."""
        return self.by_release.get((version, platform), ())

    def __iter__(self) -> Iterator[PublishedBuild]:
        return (build for builds in self.by_release.values() for build in builds)


def cuda_of_label(label: str) -> str | None:
    """The CUDA version that a label such as ``cu130`` or ``cu118`` names; None if it names none."""
    digits = label.removeprefix("cu")
    if digits == label or not digits.isdecimal() or len(digits) < 3:
        return None
    return f"{digits[:-1]}.{digits[-1]}"


@dataclass(frozen=True)
class _BuildRow:
    platform: str
    label: str
    since: str
    versions: tuple[str, ...]
    code: ArchitectureList | None
    removes: frozenset[Architecture]
    note: str
    source: str


def load_published(path: Path, versions: Sequence[str]) -> PublishedTable:
    """Read and check a file like `published.toml`.

    Args:
        path: the file.
        versions: every known release, oldest first.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    rows = [_build_row(row, versions, errors) for row in data.get("build", [])]
    _check_order(rows, versions, errors)
    _check_losses(rows, errors)
    pythons = _pythons(data.get("python", []), versions, errors)
    pypi = _pypi(data.get("pypi", []), versions, errors)
    cudnn = _cudnn(data.get("cudnn", []), versions, errors)
    _check_references(rows, pythons, pypi, cudnn, errors)
    errors.raise_if_any()
    return PublishedTable(_by_release(rows, pythons, pypi, cudnn))


def _build_row(row: Mapping[str, Any], versions: Sequence[str], errors: DataErrors) -> _BuildRow:
    entry = f"build {row.get('label')!r} for {row.get('platform')!r} since {row.get('since')!r}"
    errors.unknown_keys(row, _BUILD_KEYS, entry)
    label = errors.field(row, "label", str, entry)
    if label != "cpu" and cuda_of_label(label) is None:
        errors.add(f"{entry}: 'label' is {label!r}", "write it as in 'cu130' or 'cpu'")
    code = _code(errors.field(row, "code", str, entry, default=""), entry, errors)
    if (label == "cpu") is not ("code" not in row):
        errors.add(f"{entry}: a build has 'code' if, and only if, it is for CUDA", "name its device code")
    return _BuildRow(
        platform=_platform(errors.field(row, "platform", str, entry), entry, errors),
        label=label,
        since=str(row.get("since", "")),
        versions=read_span(row, versions, entry, errors),
        code=code,
        removes=frozenset(errors.architecture(text, entry) for text in errors.strings(row, "removes", entry)),
        note=errors.field(row, "note", str, entry, default=""),
        source=read_source(row, entry, errors),
    )


def _platform(platform: str, entry: str, errors: DataErrors) -> str:
    if platform not in PLATFORMS:
        errors.add(f"{entry}: there is no platform {platform!r}", f"use one of {', '.join(PLATFORMS)}")
    return platform


def _code(text: str, entry: str, errors: DataErrors) -> ArchitectureList | None:
    if not text:
        return None
    try:
        return parse_architectures(text)
    except TorchwheelError as error:
        for problem in error.problems:
            errors.add(f"{entry}: {problem.what}", problem.remedy)
        return None


def _check_order(rows: list[_BuildRow], versions: Sequence[str], errors: DataErrors) -> None:
    """Rows are sorted by platform, label and release, and no two speak of the same build."""
    positions = [
        (PLATFORMS.index(row.platform), row.label, versions.index(row.versions[0]))
        for row in rows
        if row.platform in PLATFORMS and row.versions
    ]
    if positions != sorted(positions):
        errors.add("the builds are out of order", "sort them by platform, label and 'since'")
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        keys = {(row.platform, row.label, version) for version in row.versions}
        for platform, label, version in sorted(keys & seen):
            errors.add(
                f"build {label!r} for {platform!r}: {version} is in two entries", "end the first one before"
            )
        seen |= keys


def _check_losses(rows: list[_BuildRow], errors: DataErrors) -> None:
    """A newer build has the machine code of the one before it, but for what its entry says it removes."""
    before: dict[tuple[str, str], frozenset[Architecture]] = {}
    for row in rows:
        if row.code is None:
            continue
        has = frozenset(target.architecture for target in row.code.targets if target.sass)
        lost = before.get((row.platform, row.label), frozenset()) - has
        if lost != row.removes:
            listed = ", ".join(repr(architecture.dotted) for architecture in sorted(lost))
            errors.add(
                f"build {row.label!r} for {row.platform!r} since {row.since!r}: loses {_dotted(lost)}, "
                f"and 'removes' says {_dotted(row.removes)}",
                f"write removes = [{listed}]" if lost else "leave 'removes' out",
            )
        before[row.platform, row.label] = has


def _dotted(architectures: Iterable[Architecture]) -> str:
    return ", ".join(architecture.dotted for architecture in sorted(architectures)) or "nothing"


def _pythons(
    rows: list[Mapping[str, Any]], versions: Sequence[str], errors: DataErrors
) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in rows:
        entry = f"python since {row.get('since')!r}"
        errors.unknown_keys(row, _PYTHON_KEYS, entry)
        read_source(row, entry, errors)
        tags = errors.strings(row, "tags", entry)
        span = read_span(row, versions, entry, errors)
        for platform in errors.strings(row, "platforms", entry):
            _platform(platform, entry, errors)
            _put_span(found, platform, span, tags, entry, errors)
    return found


def _pypi(
    rows: list[Mapping[str, Any]], versions: Sequence[str], errors: DataErrors
) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        entry = f"pypi for {row.get('platform')!r} since {row.get('since')!r}"
        errors.unknown_keys(row, _PYPI_KEYS, entry)
        read_source(row, entry, errors)
        platform = _platform(errors.field(row, "platform", str, entry), entry, errors)
        label = errors.field(row, "label", str, entry)
        _put_span(found, platform, read_span(row, versions, entry, errors), label, entry, errors)
    return found


def _cudnn(
    rows: list[Mapping[str, Any]], versions: Sequence[str], errors: DataErrors
) -> dict[tuple[str, str], str | None]:
    found: dict[tuple[str, str], str | None] = {}
    for row in rows:
        entry = f"cudnn of {row.get('label')!r} since {row.get('since')!r}"
        errors.unknown_keys(row, _CUDNN_KEYS, entry)
        read_source(row, entry, errors)
        label = errors.field(row, "label", str, entry)
        version = read_number(row, "version", entry, errors)
        if "version" not in row and not errors.field(row, "note", str, entry, default=""):
            errors.add(f"{entry}: has no 'version'", "name it, or say in 'note' why it is not known")
        _put_span(found, label, read_span(row, versions, entry, errors), version, entry, errors)
    return found


def _put_span(
    found: dict[tuple[str, str], T],
    name: str,
    span: tuple[str, ...],
    value: T,
    entry: str,
    errors: DataErrors,
) -> None:
    for version in span:
        if (version, name) in found:
            errors.add(f"{entry}: {version} is in two entries for {name!r}", "end the first one before")
        found[version, name] = value


def _check_references(
    rows: list[_BuildRow],
    pythons: Mapping[tuple[str, str], tuple[str, ...]],
    pypi: Mapping[tuple[str, str], str],
    cudnn: Mapping[tuple[str, str], str | None],
    errors: DataErrors,
) -> None:
    builds = {(version, row.platform, row.label) for row in rows for version in row.versions}
    for version, platform in sorted({(version, platform) for version, platform, _ in builds}):
        if (version, platform) not in pythons:
            errors.add(f"no [[python]] says which Pythons {version} is for on {platform}")
    for (version, platform), label in pypi.items():
        if (version, platform, label) not in builds:
            errors.add(f"pypi for {platform!r}: there is no build {label!r} of {version}")
    labels = {(version, label) for version, _, label in builds if label != "cpu"}
    for version, label in sorted(cudnn.keys() - labels):
        errors.add(f"cudnn of {label!r}: there is no such build of {version}")
    for version, label in sorted(labels - cudnn.keys()):
        errors.add(f"no [[cudnn]] says which cuDNN {label!r} of {version} comes with")


def _by_release(
    rows: list[_BuildRow],
    pythons: Mapping[tuple[str, str], tuple[str, ...]],
    pypi: Mapping[tuple[str, str], str],
    cudnn: Mapping[tuple[str, str], str | None],
) -> dict[tuple[str, str], tuple[PublishedBuild, ...]]:
    found: dict[tuple[str, str], list[PublishedBuild]] = {}
    for row in rows:
        for version in row.versions:
            build = PublishedBuild(
                torch=version,
                platform=row.platform,
                label=row.label,
                on_pypi=pypi.get((version, row.platform)) == row.label,
                python=pythons[version, row.platform],
                code=row.code,
                cudnn=cudnn.get((version, row.label)),
                note=row.note,
                source=row.source,
            )
            found.setdefault((version, row.platform), []).append(build)
    return {key: tuple(sorted(builds, key=_offer_order)) for key, builds in found.items()}


def _offer_order(build: PublishedBuild) -> tuple[bool, tuple[int, ...]]:
    return not build.on_pypi, tuple(-number for number in numbers(build.cuda or "0"))
