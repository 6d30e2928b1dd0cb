"""A site of wheels: a folder for any web server, with an index for each label and one of wheel variants.

    LABEL/simple/NAME/        the wheels themselves; the index that pip and uv read
    LABEL/constraints.txt     the newest wheels of the label, as versions
    companions/simple/NAME/   wheels without a label, which every index lists
    simple/NAME/              wheel variants, and the file that says which GPU takes which
    index.html                for people
    wheels.json             what is in it: read by `torchwheel get --from`, and by the next run

Wheels come first and the pages that name them last, each file at once, so a server may serve the site meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchwheel.fleet.site_pages import PageFile, newest_versions, people_page, project_page, root_page
from torchwheel.index.catalogue import (
    CATALOGUE,
    COMPANIONS,
    COMPLETE,
    YANKED,
    PlannedWheel,
    Release,
    SiteFile,
    SiteWheel,
    catalogue_text,
    decide_releases,
    parse_catalogue,
    path_of,
    release_of,
)
from torchwheel.reporting.errors import (
    Problem,
    TorchwheelError,
    collect_problems,
    reading,
    refusal,
    stop_on,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import (
    atomic_replace,
    atomic_write,
    cannot_write,
    file_sha256,
    remove_leftovers,
    write_if_changed,
)
from torchwheel.system.locks import file_lock
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.verification.claims import built_with_cuda, run_checks
from torchwheel.versions import parse_numbers
from torchwheel.wheel.archive import open_wheel, parse_file_name, read_record
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.variant import (
    index_file_name,
    properties_of,
    variant_file_name,
    variant_label,
    variants_text,
    write_variant,
)

_LOCK = ".torchwheel.lock"
_VARIANTS = "simple"  # the folder of the index of variants; no local label may be its name


@dataclass(frozen=True)
class SiteUpdate:
    """The result of an update: all wheels of the site, and the paths of new ones and of those that are missing now."""

    wheels: tuple[SiteWheel, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Choices:
    """What somebody decides about a site.

    Attributes:
        variants: whether to add wheel variants; a site with variants always gets them.
        partial: whether the releases of the new wheels are offered whatever they lack.
        planned: the wheels that each of these releases must have, instead of those of the release before.
        promoted, yanked: the releases that are offered from now on, or not any more, as requirements.
    """

    variants: bool = False
    partial: bool = False
    planned: tuple[PlannedWheel, ...] = ()
    promoted: tuple[Requirement, ...] = ()
    yanked: tuple[Requirement, ...] = ()


def update_site(
    site: Path, sources: Iterable[Path], environment: Mapping[str, str], choices: Choices
) -> SiteUpdate:
    try:
        _require_site(site, sources := tuple(sources))
        wheels = _find_wheels(sources, site)
        site.mkdir(parents=True, exist_ok=True)
        with file_lock(site / _LOCK):
            return _update_wheels(site, wheels, environment, choices)
    except OSError as error:
        raise TorchwheelError(cannot_write(site / CATALOGUE, error)) from error


def _require_site(site: Path, sources: Sequence[Path]) -> None:
    """Refuse a folder that holds something else, before anything in it is touched."""
    if site in sources:
        raise refusal("not-a-folder-for-a-site/source", origin=site)
    if not exists(site):
        if not sources:
            raise refusal("not-a-site", origin=site)
    # A first run that was interrupted leaves the lock alone.
    elif not exists(site / CATALOGUE) and not exists(site / _LOCK) and (found := sorted(site.iterdir())):
        raise refusal("not-a-folder-for-a-site", origin=site, found=join_items([path.name for path in found]))


def _find_wheels(sources: Iterable[Path], site: Path) -> list[Path]:
    found: list[Path] = []
    problems: list[Problem] = []
    for source in sources:
        with collect_problems(problems):
            _stat(source)
            wheels = [source]
            if is_dir(source):
                wheels = [path for path in sorted(source.rglob("*.whl")) if site not in path.parents]
            if not wheels:
                raise refusal("no-wheels-in-folder", origin=source)
            found += wheels
    stop_on(problems)
    return found


def _stat(source: Path) -> os.stat_result:
    with reading(source):
        return source.stat()


def _update_wheels(
    site: Path, sources: Sequence[Path], environment: Mapping[str, str], choices: Choices
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
        if before is not None and is_file(_metadata_file(file)) and (now := _renew(file, before.file)):
            wheels[path] = replace(before, file=now)
            continue
        with collect_problems(problems):
            if before is not None:
                raise refusal("wheel-has-other-content", origin=file, name=file.name, site=path)
            proved[path] = _prove_wheel(file, path, environment)
            wheels[path] = proved[path].wheel
    added, offered = [], set()
    for source in sources:
        with collect_problems(problems):
            path = _path_in_site(source)
            if path in wheels:
                known = proved[path].source if path in added else site / path
                _require_same(source, known, wheels[path])
            else:
                proved[path] = _prove_wheel(source, path, environment)
                wheels[path] = proved[path].wheel
                added.append(path)
            offered.add(release_of(wheels[path]))
    with collect_problems(problems):
        decisions = _collect_decisions(choices, offered, wheels.values())
    problems += _find_mixed(wheels.values())
    stop_on(problems)
    for path, one in proved.items():
        if path in added:
            _add_wheel(one.source, site / path, one.wheel.file)
        write_if_changed(_metadata_file(site / path), one.metadata)
    planned = {release: choices.planned for release in offered if choices.planned}
    found = decide_releases(wheels.values(), decisions, planned)
    if choices.variants or is_dir(site / _VARIANTS):
        found = [_with_variant(site, wheel, environment) for wheel in _mark_indistinct(found)]
    _write_pages(site, found, list(remembered.values()))
    write_if_changed(site / CATALOGUE, catalogue_text(found))
    write_if_changed(site / "index.html", people_page([wheel for wheel in found if not wheel.held]))
    # No page names them any more.
    for path in _paths_of(remembered.values()) - _paths_of(found):
        for file in (site / path, _metadata_file(site / path)):
            file.unlink(missing_ok=True)
    return SiteUpdate(tuple(found), tuple(added), tuple(path for path in remembered if path not in wheels))


def _collect_decisions(
    choices: Choices, offered: Iterable[Release], wheels: Iterable[SiteWheel]
) -> dict[Release, str]:
    decisions = dict.fromkeys(offered, COMPLETE) if choices.partial else {}
    known = {release_of(wheel): wheel.version for wheel in wheels}
    for decision, requirements in ((COMPLETE, choices.promoted), (YANKED, choices.yanked)):
        for requirement in requirements:
            named = [
                release
                for release, version in known.items()
                if release[0] == canonicalize_name(requirement.name)
                and requirement.specifier.contains(version, prereleases=True)
            ]
            if not named:
                raise refusal("no-such-release", origin=str(requirement), wanted=requirement)
            decisions.update(dict.fromkeys(named, decision))
    return decisions


def _find_mixed(wheels: Collection[SiteWheel]) -> Iterator[Problem]:
    """A companion's project has no labels: beside wheels with labels, installers would mix them."""
    labelled = {wheel.name for wheel in wheels if wheel.label}
    for wheel in wheels:
        if not wheel.label and wheel.name in labelled:
            yield Problem.of("wheel-without-label", origin=wheel.file.name, name=wheel.file.name)


def _paths_of(wheels: Collection[SiteWheel]) -> set[str]:
    files = (file for wheel in wheels for file in (wheel.file, wheel.variant) if file is not None)
    return {file.path for file in files} | _variant_files(wheels).keys()


def _read_last_wheels(site: Path) -> dict[str, SiteWheel]:
    """Read the wheels of the last run; none if the list is missing, and then all are verified again."""
    try:
        data = (site / CATALOGUE).read_bytes()
    except FileNotFoundError:
        return {}
    return {wheel.file.path: wheel for wheel in parse_catalogue(data, str(site / CATALOGUE))}


def _path_in_site(source: Path) -> str:
    parse_file_name(source)
    return path_of(source.name)


def _is_unchanged(file: Path, known: SiteFile) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (known.size, known.time)


def _renew(file: Path, known: SiteFile) -> SiteFile | None:
    """Return what is known of a file of the site, with its time now; None if its content is another one."""
    if _is_unchanged(file, known):
        return known
    status = file.stat()
    same = status.st_size == known.size and file_sha256(file).hex() == known.sha256
    return replace(known, time=status.st_mtime_ns) if same else None


def _require_same(source: Path, known: Path, wheel: SiteWheel) -> None:
    if _is_unchanged(source, wheel.file):
        return
    same = _stat(source).st_size == wheel.file.size
    if same:
        # RECORD has the hashes of all files, and those of the known wheel were compared with it.
        with open_wheel(source) as one, open_wheel(known) as other:
            same = read_record(one) == read_record(other)
    if not same:
        raise refusal("wheel-has-other-content", origin=source, name=source.name, site=wheel.file.path)


@dataclass(frozen=True)
class _Proved:
    source: Path
    wheel: SiteWheel
    metadata: bytes


def _prove_wheel(source: Path, path: str, environment: Mapping[str, str]) -> _Proved:
    """Verify a wheel as `torchwheel verify --no-install` does."""
    with reading(source):
        contents = inspect_wheel(source)
        checks = run_checks(contents, environment, install=False)
        stop_on([problem for check in checks for problem in check.problems])
        metadata = bytes(contents.metadata)
        file = _describe_file(source, path, metadata)
    cuda = built_with_cuda(contents)
    properties, why = properties_of(contents, cuda)
    code = contents.architectures.labels if contents.architectures else ()
    with open_wheel(source) as archive:
        year, *rest = max(info.date_time for info in archive.members.values())
    built = f"{year}-{'-'.join(f'{number:02d}' for number in rest)}"
    requires_python = contents.metadata.single("Requires-Python")
    wheel = SiteWheel(file, requires_python, cuda, code, properties, why, built=built)
    return _Proved(source, wheel, metadata)


def _describe_file(file: Path, path: str, metadata: bytes) -> SiteFile:
    # The time first: a file that changes while it is hashed then differs from its entry.
    status = file.stat()
    hashes = file_sha256(file).hex(), hashlib.sha256(metadata).hexdigest()
    return SiteFile(path, status.st_size, status.st_mtime_ns, *hashes)


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
    """Yield the wheels, each with the reason why an installer cannot tell it from a better one, if it cannot."""
    # No installer reads the ABI dependencies yet by which PEP 850 tells apart builds for two releases of PyTorch.
    best: dict[object, SiteWheel] = {}
    labels: dict[object, object] = {}
    for wheel in sorted(wheels, key=_sort_key):
        if wheel.properties is not None and wheel.label and not wheel.held:
            best.setdefault(_selection_key(wheel), wheel)
    for wheel in wheels:
        if wheel.properties is None or not wheel.label or wheel.held:
            why = wheel.held or wheel.no_variant if wheel.label else "without a label it is no variant"
            yield replace(wheel, no_variant=why, variant=None)
            continue
        first = best[_selection_key(wheel)]
        release = wheel.name, wheel.version.public, _label_of(wheel)
        why = f"an installer cannot tell it from {first.file.name}" if first is not wheel else ""
        if not why and labels.setdefault(release, wheel.properties) != wheel.properties:
            why = "another wheel with this label has other device code"
        yield replace(wheel, no_variant=why)


def _label_of(wheel: SiteWheel) -> str:
    """The label of a wheel's variant; with the commit of a nightly, because its file name must be its own."""
    return variant_label(wheel.version.local or "", wheel.properties or {})


def _sort_key(wheel: SiteWheel) -> tuple[tuple[int, ...], int, str]:
    torch = parse_numbers(wheel.label.partition("torch")[2])
    return tuple(-number for number in torch), len(wheel.label), wheel.file.path


def _selection_key(wheel: SiteWheel) -> object:
    """Everything by which an installer chooses between wheels with one name."""
    return wheel.name, wheel.version.public, wheel.tags, tuple(sorted((wheel.properties or {}).items()))


def _with_variant(site: Path, wheel: SiteWheel, environment: Mapping[str, str]) -> SiteWheel:
    if wheel.no_variant or wheel.properties is None:
        return replace(wheel, variant=None)
    label, public = _label_of(wheel), wheel.version.public
    # A nightly for the CPU, whose label cannot have its commit; the newest has the greatest build number.
    is_nightly = wheel.commit and not wheel.properties
    build = f"{wheel.built.replace('-', '')}{wheel.commit}" if is_nightly else ""
    path = f"{_VARIANTS}/{wheel.name}/{variant_file_name(wheel.file.name, public, label, build)}"
    target = site / path
    before = wheel.variant
    if before and before.path == path and _is_unchanged(target, before) and is_file(_metadata_file(target)):
        return wheel
    target.parent.mkdir(parents=True, exist_ok=True)
    properties = {label: wheel.properties}
    metadata = write_variant(site / wheel.file.path, target, public, properties, environment, build)
    atomic_write(_metadata_file(target), metadata)
    return replace(wheel, variant=_describe_file(target, path, metadata))


def _write_pages(site: Path, wheels: Sequence[SiteWheel], before: Sequence[SiteWheel]) -> None:
    """A project that has no wheels any more gets an empty page."""
    files: dict[str, dict[str, list[PageFile]]] = defaultdict(lambda: defaultdict(list))
    for wheel in before:
        files[f"{wheel.index}/simple"].setdefault(wheel.name, [])
        if wheel.variant is not None:
            files[_VARIANTS].setdefault(wheel.name, [])
    for wheel in wheels:
        files[f"{wheel.index}/simple"][wheel.name].append(PageFile.of(wheel, wheel.file))
        if wheel.variant is not None:
            files[_VARIANTS][wheel.name].append(PageFile.of(wheel, wheel.variant))
    for path, text in _variant_files(wheels).items():
        write_if_changed(site / path, text)
        file = PageFile(path, len(text), hashlib.sha256(text.encode()).hexdigest())
        files[_VARIANTS][path.split("/")[1]].append(file)
    companions = files.get(f"{COMPANIONS}/simple", {})
    for index, projects in files.items():
        listed = {**companions, **projects}
        pages = {f"{name}/": project_page(f"{index}/{name}", own) for name, own in listed.items()}
        pages[""] = root_page([name for name, own in listed.items() if own])
        for folder, page in pages.items():
            for name, text in page.items():
                write_if_changed(site / index / f"{folder}{name}", text)
    for label in {wheel.index for wheel in (*wheels, *before)}:
        own_wheels = [wheel for wheel in wheels if wheel.index == label and not wheel.held]
        pinned = "".join(f"{version}\n" for version in newest_versions(own_wheels))
        write_if_changed(site / label / "constraints.txt", pinned)


def _variant_files(wheels: Iterable[SiteWheel]) -> dict[str, str]:
    releases: dict[str, dict[str, Mapping[str, tuple[str, ...]]]] = defaultdict(dict)
    for wheel in wheels:
        if wheel.variant is not None and wheel.properties is not None:
            distribution, public = wheel.file.name.partition("-")[0], wheel.version.public
            path = f"{_VARIANTS}/{wheel.name}/{index_file_name(distribution, public)}"
            releases[path][_label_of(wheel)] = wheel.properties
    return {path: variants_text(variants) for path, variants in releases.items()}
