"""A site of wheels: a folder for any web server, with an index for each label and one of wheel variants.

    LABEL/simple/NAME/      the wheels themselves; the index that pip and uv read
    LABEL/constraints.txt   the newest wheels of the label, as versions
    simple/NAME/            wheel variants, and the file that says which GPU takes which
    index.html              for people
    wheels.json             what is in it: read by `torchwheel get --from`, and by the next run

Wheels come first and the pages that name them last, each file at once, so a server may serve the site meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.fleet.site_pages import PageFile, constraints_text, people_page, project_page, root_page
from torchwheel.index.catalogue import (
    CATALOGUE,
    SiteFile,
    SiteWheel,
    catalogue_text,
    parse_catalogue,
    path_of,
)
from torchwheel.reporting.errors import (
    Problem,
    TorchwheelError,
    collect_problems,
    refusal,
    stop_on,
    unreadable_error,
)
from torchwheel.system.files import (
    atomic_replace,
    atomic_write,
    cannot_write,
    file_sha256,
    remove_leftovers,
    write_if_changed,
)
from torchwheel.system.locks import file_lock
from torchwheel.system.paths import is_dir, is_file
from torchwheel.verification.claims import built_with_cuda, check_manifest, check_names, check_record
from torchwheel.verification.verify import read_subject
from torchwheel.versions import parse_numbers
from torchwheel.wheel.archive import parse_file_name
from torchwheel.wheel.variant import (
    index_file_name,
    properties_of,
    variant_file_name,
    variant_label,
    variants_text,
    write_variant,
)

_LOCK = ".torchwheel.lock"
_VARIANTS = "simple"
"""The folder of the index of variants; no local label may be its name."""


@dataclass(frozen=True)
class SiteUpdate:
    """The result of an update.

    Attributes:
        wheels: all wheels of the site.
        added: the paths of new wheels.
        removed: the paths of earlier wheels whose files are missing now.
    """

    wheels: tuple[SiteWheel, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


def update_site(
    site: Path, sources: Iterable[Path], environment: Mapping[str, str], *, variants: bool
) -> SiteUpdate:
    """Add wheels to a site, which is created if needed, and update its pages.

    Args:
        sources: wheels, and folders with wheels.
        environment: may contain SOURCE_DATE_EPOCH.
        variants: whether to add wheel variants; a site with variants always gets them.

    Raises:
        TorchwheelError: a wheel is not what it says, has no local label, or has the name of another one of the site; or
            the site cannot be written. No wheel is added then.
    """
    try:
        site.mkdir(parents=True, exist_ok=True)
        with file_lock(site / _LOCK):
            return _update_wheels(site, tuple(_find_wheels(sources, site)), environment, variants=variants)
    except OSError as error:
        raise TorchwheelError(cannot_write(site / CATALOGUE, error)) from error


def _find_wheels(sources: Iterable[Path], site: Path) -> Iterator[Path]:
    for source in sources:
        if not is_dir(source):
            yield source
        else:
            yield from (path for path in sorted(source.rglob("*.whl")) if site not in path.parents)


def _update_wheels(
    site: Path, sources: Sequence[Path], environment: Mapping[str, str], *, variants: bool
) -> SiteUpdate:
    remembered = _read_last_wheels(site)
    problems: list[Problem] = []
    proved: dict[str, _Proved] = {}
    wheels: dict[str, SiteWheel] = {}
    for file in sorted(site.glob("*/simple/*/*.whl")):
        path = file.relative_to(site).as_posix()
        before = remembered.get(path)
        with collect_problems(problems):
            if path != (place := _path_in_site(file)):
                label = place.partition("/")[0]
                raise refusal("wheel-in-another-place", origin=file, name=file.name, place=label)
        if before is not None and _is_unchanged(file, before.file) and is_file(_metadata_file(file)):
            wheels[path] = before
            continue
        with collect_problems(problems):
            proved[path] = _prove_wheel(file, path)
            if before is not None and proved[path].wheel.file.sha256 != before.file.sha256:
                raise refusal("wheel-has-other-content", origin=file, name=file.name, site=path)
            wheels[path] = replace(proved[path].wheel, variant=before.variant if before else None)
    added = []
    for source in sources:
        with collect_problems(problems):
            path = _path_in_site(source)
            if path in wheels:
                _require_same(source, wheels[path])
            else:
                proved[path] = _prove_wheel(source, path)
                wheels[path] = proved[path].wheel
                added.append(path)
    stop_on(problems)
    for path, one in proved.items():
        if path in added:
            _add_wheel(one.source, site / path, one.wheel.file)
        write_if_changed(_metadata_file(site / path), one.metadata)
    found = list(wheels.values())
    if variants or is_dir(site / _VARIANTS):
        found = [_with_variant(site, wheel, environment) for wheel in _mark_indistinct(found)]
    _write_pages(site, found, list(remembered.values()))
    write_if_changed(site / CATALOGUE, catalogue_text(found))
    write_if_changed(site / "index.html", people_page(found))
    # No page names them any more.
    for path in _paths_of(remembered.values()) - _paths_of(found):
        for file in (site / path, _metadata_file(site / path)):
            file.unlink(missing_ok=True)
    return SiteUpdate(tuple(found), tuple(added), tuple(path for path in remembered if path not in wheels))


def _paths_of(wheels: Iterable[SiteWheel]) -> set[str]:
    """The paths of the wheels, their variants and the files that describe these."""
    wheels = tuple(wheels)
    files = (file for wheel in wheels for file in (wheel.file, wheel.variant) if file is not None)
    return {*(file.path for file in files), *(path for path, _ in _variant_files(wheels))}


def _read_last_wheels(site: Path) -> dict[str, SiteWheel]:
    """Read the wheels of the last run; none if the list is missing or damaged, and then all are verified again."""
    try:
        data = (site / CATALOGUE).read_bytes()
        return {wheel.file.path: wheel for wheel in parse_catalogue(data, str(site / CATALOGUE))}
    except (OSError, TorchwheelError):
        return {}


def _path_in_site(source: Path) -> str:
    """The path of a wheel in the site."""
    parse_file_name(source)
    path = path_of(source.name)
    if path.partition("/")[0] in ("None", _VARIANTS):
        raise refusal("wheel-without-label", origin=source, name=source.name)
    return path


def _is_unchanged(file: Path, known: SiteFile) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (known.size, known.time)


def _require_same(source: Path, wheel: SiteWheel) -> None:
    """Refuse a wheel with the name of one in the site but different content."""
    if _is_unchanged(source, wheel.file):
        return
    try:
        same = source.stat().st_size == wheel.file.size and file_sha256(source).hex() == wheel.file.sha256
    except OSError as error:
        raise unreadable_error(error, str(source)) from None
    if not same:
        raise refusal("wheel-has-other-content", origin=source, name=source.name, site=wheel.file.path)


@dataclass(frozen=True)
class _Proved:
    """A verified wheel, before it is added to the site.

    Attributes:
        metadata: its METADATA.
    """

    source: Path
    wheel: SiteWheel
    metadata: bytes


def _prove_wheel(source: Path, path: str) -> _Proved:
    """Verify a wheel against its name, its metadata and its manifest.

    Raises:
        TorchwheelError: it differs from them, or is damaged.
    """
    try:
        status = source.stat()
        subject = read_subject(source)
        checks = (check_record(subject), check_names(subject), check_manifest(subject))
        stop_on(problem for check in checks for problem in check.problems)
        digest = file_sha256(source).hex()
    except OSError as error:
        raise unreadable_error(error, str(source)) from None
    contents, cuda = subject.contents, built_with_cuda(subject)
    metadata = contents.metadata.raw
    properties, why = properties_of(contents, cuda)
    file = SiteFile(path, status.st_size, status.st_mtime_ns, digest, _hash_data(metadata))
    code = contents.architectures.labels if contents.architectures else ()
    wheel = SiteWheel(file, contents.metadata.requires_python, cuda, code, properties, why)
    return _Proved(source, wheel, metadata)


def _hash_data(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _add_wheel(source: Path, target: Path, proved: SiteFile) -> None:
    """Add a wheel to the site, as a hard link if possible, because PyTorch's take a gigabyte each."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    with atomic_replace(target) as part:
        try:
            # Resolved, because systems differ in how they hard-link a symbolic link.
            os.link(source.resolve(), part)
            same = _is_unchanged(part, proved)
        except OSError:
            shutil.copy2(source, part)
            # The next run knows a verified wheel by this time, which is in the list of the site.
            os.utime(part, ns=(proved.time, proved.time))
            same = file_sha256(part).hex() == proved.sha256
        if not same:
            raise refusal("wheel-has-other-content/meanwhile", origin=source, name=source.name)


def _metadata_file(wheel: Path) -> Path:
    """The path where installers look for METADATA. Source: https://peps.python.org/pep-0658/."""
    return wheel.with_name(f"{wheel.name}.metadata")


def _mark_indistinct(wheels: Sequence[SiteWheel]) -> Iterator[SiteWheel]:
    """Yield the wheels, each with the reason why an installer cannot tell it from a better one, if it cannot.

    No installer reads the ABI dependencies yet by which PEP 850 tells apart builds for two releases of PyTorch.
    """
    best: dict[object, SiteWheel] = {}
    labels: dict[object, object] = {}
    for wheel in sorted(wheels, key=_sort_key):
        if wheel.properties is not None:
            best.setdefault(_selection_key(wheel), wheel)
    for wheel in wheels:
        if wheel.properties is None:
            yield wheel
            continue
        first = best[_selection_key(wheel)]
        release = wheel.name, wheel.version.public, variant_label(wheel.label, wheel.properties)
        why = f"an installer cannot tell it from {first.file.name}" if first is not wheel else ""
        if not why and labels.setdefault(release, wheel.properties) != wheel.properties:
            why = "another wheel with this label has other device code"
        yield replace(wheel, no_variant=why)


def _sort_key(wheel: SiteWheel) -> tuple[tuple[int, ...], int, str]:
    """The sort key: the newest PyTorch first, then the shortest label."""
    torch = parse_numbers(wheel.label.partition("torch")[2])
    return tuple(-number for number in torch), len(wheel.label), wheel.file.path


def _selection_key(wheel: SiteWheel) -> object:
    """Everything by which an installer chooses between wheels with one name."""
    return wheel.name, wheel.version.public, wheel.tags, tuple(sorted((wheel.properties or {}).items()))


def _with_variant(site: Path, wheel: SiteWheel, environment: Mapping[str, str]) -> SiteWheel:
    """Create a wheel's variant, unless it must not have one."""
    if wheel.no_variant or wheel.properties is None:
        return replace(wheel, variant=None)
    label, public = variant_label(wheel.label, wheel.properties), wheel.version.public
    path = f"{_VARIANTS}/{wheel.name}/{variant_file_name(wheel.file.name, public, label)}"
    target = site / path
    before = wheel.variant
    if before and before.path == path and _is_unchanged(target, before) and is_file(_metadata_file(target)):
        return wheel
    target.parent.mkdir(parents=True, exist_ok=True)
    metadata = write_variant(site / wheel.file.path, target, public, {label: wheel.properties}, environment)
    atomic_write(_metadata_file(target), metadata)
    status = target.stat()
    digest = file_sha256(target).hex()
    return replace(
        wheel, variant=SiteFile(path, status.st_size, status.st_mtime_ns, digest, _hash_data(metadata))
    )


def _write_pages(site: Path, wheels: Sequence[SiteWheel], before: Sequence[SiteWheel]) -> None:
    """Write all indexes; a project that has no wheels any more gets an empty page.

    Args:
        before: the wheels of the last run.
    """
    files: dict[str, dict[str, list[PageFile]]] = defaultdict(lambda: defaultdict(list))
    for wheel in before:
        files[f"{wheel.label}/simple"].setdefault(wheel.name, [])
        if wheel.variant is not None:
            files[_VARIANTS].setdefault(wheel.name, [])
    for wheel in wheels:
        files[f"{wheel.label}/simple"][wheel.name].append(PageFile.of(wheel, wheel.file))
        if wheel.variant is not None:
            files[_VARIANTS][wheel.name].append(PageFile.of(wheel, wheel.variant))
    for path, text in _variant_files(wheels):
        write_if_changed(site / path, text)
        folder, _, name = path.rpartition("/")
        files[_VARIANTS][folder.rpartition("/")[2]].append(
            PageFile(name, len(text), _hash_data(text.encode()), None, None)
        )
    for index, projects in files.items():
        for name, own in projects.items():
            for file, text in project_page(name, own).items():
                write_if_changed(site / index / name / file, text)
        for file, text in root_page([name for name, own in projects.items() if own]).items():
            write_if_changed(site / index / file, text)
    for label in {wheel.label for wheel in (*wheels, *before)}:
        own_wheels = [wheel for wheel in wheels if wheel.label == label]
        write_if_changed(site / label / "constraints.txt", constraints_text(own_wheels))


def _variant_files(wheels: Sequence[SiteWheel]) -> Iterator[tuple[str, str]]:
    """Yield path and text of the lists of each release's variants."""
    releases: dict[str, dict[str, Mapping[str, tuple[str, ...]]]] = defaultdict(dict)
    for wheel in wheels:
        if wheel.variant is not None and wheel.properties is not None:
            distribution, public = wheel.file.name.partition("-")[0], wheel.version.public
            path = f"{_VARIANTS}/{wheel.name}/{index_file_name(distribution, public)}"
            releases[path][variant_label(wheel.label, wheel.properties)] = wheel.properties
    return ((path, variants_text(variants)) for path, variants in releases.items())
