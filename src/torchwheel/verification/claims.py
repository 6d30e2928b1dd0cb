"""Check a wheel: what it says of itself (RECORD, names, label, manifest) against its content, then whether it works."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.hardware.arch import ArchitectureList, judge_code, parse_architectures
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.proof import Check, not_tried
from torchwheel.proof.libraries import check_libraries
from torchwheel.proof.module_checks import planned_modules, verify_extension_contents
from torchwheel.proof.prove import find_false_fields
from torchwheel.reporting.errors import Problem, Severity, TorchwheelError
from torchwheel.reporting.terminal import count_noun, file_size, join_items
from torchwheel.settings.value_types import parse_truth
from torchwheel.verification.trial import try_package
from torchwheel.versions import major_minor
from torchwheel.wheel.archive import find_altered, open_package
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.metadata import parse_requirements
from torchwheel.wheel.objfile import without_libc
from torchwheel.wheel.proof import Expectation, check_device_code, stated_names

# A nightly and a pre-release of a minor version, and more patch releases than any has had.
_PATCHES = (".0.dev0", ".0a0", ".0rc1", *(f".{patch}" for patch in range(10)))
_ARCH_LIST = "TORCH_CUDA_ARCH_LIST"

# The parts of a label that look like hardware, or a release that it is built with. PEP 440 turns a hyphen or underscore
# into a dot, so ``sm_90`` is ``sm.90``. Some projects join parts: ``pt2.1.0cu118``. Every other part is one word.
_PART = re.compile(
    r"(?:^|\.|(?<=\d)|(?<=\d[af]))(?:(?P<code>sm|compute|ptx)\.?(?P<number>\d+[af]?)"
    r"|cu(?:da)?(?P<cuda>\d+(?:\.\d+)?)|(?:torch|pt)(?P<torch>\d+(?:\.\d+)*)|dev(?P<nightly>\d{8})"
    r"|(?P<other>rocm\d*(?:\.\d+)*|gfx\w+|xpu|hpu)(?=\.|$)|(?<!\d)(?P<word>[^.]+))(?=\.|$|cu\d|torch\d|pt\d|sm\d)",
    re.ASCII,
)


def check_record(contents: WheelContents) -> Check:
    with open_package(contents.path) as archive:
        problems = list(find_altered(archive))
        size = sum(info.file_size for info in archive.members.values())
    problems += [one.problem for one in contents.remarks if one.severity is Severity.ERROR]
    count = len(contents.files)
    said = f"{count_noun(count, 'file')}, {file_size(size)}, are what RECORD says"
    notes = tuple(one.problem for one in contents.remarks if one.severity is not Severity.ERROR)
    return Check("record", said, tuple(problems), {"files": count, "bytes": size}, notes=notes)


def check_names(contents: WheelContents) -> Check:
    """Compare the names and versions that a wheel has in several places, and its label with what is in it."""
    problems = (*_find_differences(contents), *false_label(contents), *find_false_fields(contents))
    code, unread = contents.architectures, _amd_parts(contents)
    said = f"{contents.name} {contents.version}, {' '.join(contents.tags)}; {contents.device_code}"
    said += f"; {join_items(unread)} of its label could not be checked" if unread else ""
    figures = {"device_code": list(code.labels) if code else []}
    return Check("names", said, problems, figures, tried=not unread)


def _find_differences(contents: WheelContents) -> Iterator[Problem]:
    tags = " ".join(contents.tags)
    own = {"wheel-name": contents.name, "wheel-version": contents.version, "wheel-tag": tags}
    for id_, where, said in stated_names(contents):
        found = said or "nothing"
        if where.startswith("torch/"):
            # An extension may have a torch of its own, and the official wheels of PyPI their labels here alone.
            if contents.name != "torch":
                continue
            found = found if "+" in contents.version else found.partition("+")[0]
        # auditwheel renames some wheels and leaves WHEEL as it is; no installer minds.
        repaired = id_ == "wheel-tag" and _is_repaired(contents.wheel_tags, contents.tags)
        if found != own[id_] and not repaired:
            yield Problem.of("names-differ", origin=contents.path, where=where, found=found, stated=own[id_])


def false_label(contents: WheelContents) -> Iterator[Problem]:
    """Whether a label says something that is not in the wheel, or that its requirements exclude."""
    label = contents.version.partition("+")[2]
    cuda, code = built_with_cuda(contents), contents.architectures
    # An extension may use only CUDA's libraries, PyTorch's own CUDA build has device code.
    used = None if contents.has_torch and code is None else cuda
    torch = built_with_torch(contents)
    unproved = (part[0].lstrip(".") for part in _PART.finditer(label) if _is_false(part, used, code, torch))
    false = (part for part in unproved if contents.manifest is not None or not _is_open(part, contents))
    if parts := [*false, *_excluded_torch(contents)]:
        yield _not_proved(contents, parts, cuda)


def _is_false(
    part: re.Match[str], cuda: str | None, architectures: ArchitectureList | None, torch: str | None
) -> bool:
    """Whether a part of a label contradicts the wheel; ``cu13`` matches every CUDA 13."""
    if part["code"]:
        kinds = ("ptx", "sm") if part["code"] == "compute" else (part["code"],)
        labels = architectures.labels if architectures else ()
        return not any(f"{kind}{part['number']}" in labels for kind in kinds)
    if part["cuda"]:
        if cuda is None:
            return architectures is None
        return not cuda.replace(".", "").startswith(part["cuda"].replace(".", ""))
    if part["torch"]:
        if torch is None:
            return False
        major, minor, *_ = torch.split(".")
        said = part["torch"].split(".")
        return said[:2] not in ([major], [major, minor], [f"{major}{minor}"])
    if part["nightly"]:
        return torch is not None and f"dev{part['nightly']}" not in torch.split(".")
    if part["word"] == "cpu":
        return architectures is not None or cuda is not None
    if part["other"]:
        return True
    gpu = read_gpus().find(part["word"])
    code = architectures.targets if architectures else ()
    return gpu is not None and not judge_code(code, gpu.compute_capability).how.runs


def _is_open(part: str, contents: WheelContents) -> bool:
    """Whether nothing in a foreign wheel contradicts a part of its label: code for AMD's GPUs is not read."""
    if part.startswith("gfx"):
        return any(library.amd_bytes for library in contents.libraries)
    return _is_its_rocm(part, contents) if contents.has_torch else part.startswith(("cu", "rocm"))


def _is_its_rocm(part: str, contents: WheelContents) -> bool:
    hip = (contents.torch_version.hip if contents.torch_version else None) or ""
    return part.startswith("rocm") and hip.startswith(part.removeprefix("rocm") + ".")


def _amd_parts(contents: WheelContents) -> list[str]:
    """The parts of a label that name AMD's GPUs, and a ROCm that ``torch/version.py`` does not confirm."""
    parts = re.split(r"\.(?=[a-z])", contents.version.partition("+")[2])
    return [one for one in parts if one.startswith(("gfx", "rocm")) and not _is_its_rocm(one, contents)]


def label_against_requirements(contents: WheelContents) -> Iterator[Problem]:
    """The same, as far as it takes no knowledge of the label's author: what its requirements exclude."""
    if parts := _excluded_torch(contents):
        yield _not_proved(contents, parts, None)


def _not_proved(contents: WheelContents, parts: Iterable[str], cuda: str | None) -> Problem:
    required = [f"requires {requirement}" for requirement in _torch_requirements(contents)]
    found = ", ".join([contents.device_code, *([f"CUDA {cuda}"] if cuda else []), *required])
    said = ", ".join(dict.fromkeys(parts))
    return Problem.of("label-not-proved", origin=contents.path, parts=said, found=found)


def _excluded_torch(contents: WheelContents) -> list[str]:
    """The parts of a label that name a PyTorch of which no patch release satisfies the requirements."""
    found = []
    for part in _PART.finditer(contents.version.partition("+")[2]):
        if text := part["torch"]:
            # pt28 is 2.8.
            release = major_minor(text if "." in text else f"{text[0]}.{text[1:]}")
            excluding = (one for one in _torch_requirements(contents) if not _is_in(release, one.specifier))
            found += [part[0].lstrip(".") for _ in excluding if not release.endswith(".")]
    return found


def _is_in(release: str, specifier: SpecifierSet) -> bool:
    """Whether some version of a minor release is in a range: a patch release, or one that the range itself names."""
    named = [one.version for one in specifier if one.version.startswith(f"{release}.")]
    versions = [*(f"{release}{end}" for end in _PATCHES), *(one for one in named if not one.endswith("*"))]
    return any(specifier.contains(version, prereleases=True) for version in versions)


def _torch_requirements(contents: WheelContents) -> list[Requirement]:
    found = parse_requirements(contents.metadata.requires_dist).values()
    return [one for one in found if canonicalize_name(one.name) == "torch" and one.specifier]


def built_with_cuda(contents: WheelContents) -> str | None:
    """The release of CUDA that a wheel was built with, ``13.0``; None for none, or where nothing says so."""
    torch = contents.torch_version
    if torch is not None and torch.cuda:
        return torch.cuda
    said = contents.plan.get("toolchain", {}).get("cuda")
    return major_minor(said) if said else None


def built_with_torch(contents: WheelContents) -> str | None:
    """The PyTorch that an extension works with alone; None with the stable ABI, or where nothing says so."""
    extensions = contents.plan.get("extensions")
    if extensions is None or any(one["stable_abi"] for one in extensions["modules"]):
        return None
    return str(extensions["torch"]["version"]).partition("+")[0]


def check_manifest(contents: WheelContents) -> Check:
    """Compare a wheel with its build manifest, and its machine code with the plan in it, as its build did."""
    manifest, plan = contents.manifest, contents.plan
    if manifest is None:
        return not_tried("manifest", "torchwheel did not build it, so it has no build manifest")
    skipped = plan.get("skipped_checks", [])
    found = (*_other_wheel(contents, manifest), *_against_plan(contents))
    problems = tuple(dict.fromkeys(one for one in found if one.id not in skipped))
    said = f"built by torchwheel {manifest['torchwheel']} for {', '.join(plan['target']) or 'what is in it'}"
    said += f"; skipped when it was built: {', '.join(skipped)}" if skipped else ""
    return Check("manifest", said, problems, {"target": plan["target"], "skipped_checks": skipped})


def _other_wheel(contents: WheelContents, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    said, described = manifest["wheel"], contents.described()
    for subject, found in described["wheel"].items():
        if said[subject] != found and not (subject == "tags" and _is_repaired(said["tags"], found)):
            yield _mismatch_problem(contents, f"the wheel's {subject}", said[subject], found)
    recorded, code = (
        {one["library"]: one["images"] for one in document["machine_code"]}
        for document in (manifest, described)
    )
    for path in sorted(code.keys() | recorded.keys()):
        old, new = recorded.get(path, []), code.get(path, [])
        if old != new:
            yield _mismatch_problem(contents, path, _list_labels(old), _list_labels(new, old))


def _is_repaired(said: Sequence[str], found: Sequence[str]) -> bool:
    """Whether tags differ by what auditwheel makes of ``linux_x86_64``: the oldest C library."""
    return set(map(without_libc, found)) == set(map(without_libc, said))


def _mismatch_problem(contents: WheelContents, what: str, said: object, found: object) -> Problem:
    return Problem.of("manifest-mismatch", origin=contents.path, subject=what, said=said, found=found)


def _list_labels(images: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]] = ()) -> str:
    """Labels of images; with the number and bytes of each where the labels alone do not differ."""
    labels = [one["label"] for one in images]
    if labels == [one["label"] for one in before]:
        labels = [f"{one['count']} {one['label']} of {one['stored_size']:,} bytes" for one in images]
    return join_items(labels) or "no device code"


def _against_plan(contents: WheelContents) -> Iterator[Problem]:
    plan = contents.plan
    targets = [name for name in plan["target"] if name != "cpu"]
    requested = plan.get("options", {}).get("requested", {})
    has_cuda = parse_truth(requested.get("USE_CUDA", "ON")) is not False
    if "extensions" in plan:
        if contents.site is None:
            extensions, cuda = plan["extensions"], built_with_cuda(contents)
            labels = Expectation(contents.name, contents.version, cuda, None)
            modules = planned_modules(extensions)
            yield from verify_extension_contents(contents, labels, extensions["requires"], modules)
    elif targets and has_cuda and contents.architectures is None:
        yield Problem.of("no-device-code", origin=contents.path, planned=", ".join(targets))
    else:
        listed = requested.get(_ARCH_LIST) if has_cuda else None
        planned = None if listed is None else parse_architectures(listed, _ARCH_LIST)
        yield from check_device_code(contents, planned)


def run_checks(
    contents: WheelContents, environment: Mapping[str, str], *, install: bool, more: Sequence[str] = ()
) -> Iterator[Check]:
    """Yield every check as soon as it is done; with ``install``, the wheel or package is tried as well."""
    yield check_record(contents)
    yield check_names(contents)
    yield check_manifest(contents)
    tried = False
    if install:
        try:
            for check in try_package(contents, more, environment):
                tried = tried or check.name == "libraries"
                yield check
        except TorchwheelError as error:
            yield Check("install", "", error.problems)
    if not tried:
        yield check_libraries(contents)
