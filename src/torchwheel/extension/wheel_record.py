"""The record of a planned wheel, its names and its requirement on PyTorch; and the sdist's name.

The record is written beside a build whose plan is made in another process: CMake's, or the one that runs a setup.py.
An sdist must have the version of the wheel built from it, because frontends refuse any other. With a target it has the
wheel's label and records its settings; without one neither the sdist nor such a wheel has a label.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchwheel.extension.extension_plan import ExtensionPlan, ExtensionProject
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.machine import is_free_threaded
from torchwheel.plan.naming import build_type_labels, hardware_label
from torchwheel.plan.output import decisions_document, recorded_settings
from torchwheel.proof.module_checks import ExpectedModule, planned_modules
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import fields_of, say
from torchwheel.settings import Settings
from torchwheel.settings.project import SDIST_FILE, SdistRecord, settings_to_record
from torchwheel.system.files import write_if_changed
from torchwheel.toolkit.cuda_toolkit import ToolkitPackage, toolkit_packages
from torchwheel.torch_install.installed_torch import bound_release
from torchwheel.tree.git import known_changes
from torchwheel.tree.source_tree import SOURCE_FACTS_FILE, read_source, source_facts_json, submodule_states
from torchwheel.versions import parse_numbers


def module_suffix(suffixes: Sequence[str], *, limited: bool) -> str:
    """The suffix of extension modules among those that a Python can import, of which the first is its own."""
    # Windows has no suffix with abi3: there a plain .pyd is for all Pythons.
    of_all = next((suffix for suffix in suffixes if "abi3" in suffix), suffixes[-1])
    return of_all if limited else suffixes[0]


def extension_label(
    cuda: str | None,
    architectures: ArchitectureList | None,
    torch_version: str,
    *,
    stable: bool,
    build_type: str = "Release",
    dirty: bool = False,
) -> str:
    """The local version label of an extension's wheel: ``cu130.sm120.torch2.14``, ``cpu.torch2.14``.

    With the stable ABI the modules also run with other releases, and the label names none. A nightly's date follows the
    release: ``torch2.16.dev20261101``. The build type follows if it is not Release, and ``dirty`` if tracked files
    differ from the commit.
    """
    parts = [hardware_label(cuda, architectures)]
    if not stable:
        parts.append(f"torch{bound_release(torch_version)}")
    parts += build_type_labels(build_type)
    return ".".join([*parts, "dirty"] if dirty else parts)


def labelled_version(version: str, requested: str | None, label: str) -> str:
    """Add a label to a version: ``1.2+own`` and ``cu130.sm120`` make ``1.2+own.cu130.sm120``.

    The label is added only once, because tools may read a version with it from an sdist's PKG-INFO.
    """
    own = Version(version)
    base = requested or own.public
    ends = f".{own.local or ''}".endswith(f".{Version(f'0+{label}').local}") if label else True
    local = ".".join(part for part in (own.local or "", "" if ends else label) if part)
    return str(Version(f"{base}+{local}" if local else base))


def torch_requirements(torch_version: str, stable_abi: str | None) -> tuple[str, ...]:
    """Return the wheel's requirement on PyTorch: ``torch>=2.14,<2.15``, or ``torch>=2.10`` with 2.10's stable ABI.

    PyTorch's C++ ABI changes with every minor release and is stable within one. ``2.15.0a0`` satisfies neither
    ``>=2.15`` nor ``<2.15``, so a wheel built with a pre-release requires at least the first one of that series. The
    ABI of a nightly may differ from the next one, so a wheel built with ``2.16.0.dev20261101`` requires exactly that.
    Source: https://packaging.python.org/specifications/version-specifiers/#exclusive-ordered-comparison
    """
    built = Version(torch_version)
    if stable_abi is not None:
        bound = f"torch>={stable_abi}"
        builds = SpecifierSet(f">={stable_abi}").contains(built, prereleases=True)
        return (bound if builds else f"{bound}.dev0",)
    if built.dev:
        return (f"torch=={built.public}",)
    oldest = f"{built.major}.{built.minor}" + (".dev0" if built.is_prerelease else "")
    return (f"torch>={oldest},<{built.major}.{built.minor + 1}",)


def common_stable_abi(releases: Iterable[str | None]) -> str | None:
    """The newest of the minimum releases of stable modules; None if any module is not stable."""
    needed = list(releases)
    found = [release for release in needed if release is not None]
    return max(found, key=parse_numbers) if found and len(found) == len(needed) else None


def python_tags(interpreter_tag: str, abi_tag: str, *, limited_api: bool) -> tuple[str, str]:
    """The Python tag and the ABI tag of an extension's wheel; ``limited_api`` if all its modules use only that.

    Source: https://docs.python.org/3.14/howto/free-threading-extensions.html (Limited C API and Stable ABI)
    """
    if limited_api and not is_free_threaded(abi_tag):
        # The tag of the oldest Python for modules with the limited API; also torch.utils.cpp_extension's.
        return "cp310", "abi3"
    return interpreter_tag, abi_tag


@dataclass(frozen=True, kw_only=True)
class WheelRecord:
    """A planned wheel.

    Attributes:
        version: the requested public version; None for the project's.
        label: the requested local version label, empty for none; None for the usual one.
        provenance: the manifest's plan part, see ``manifest.schema.json``. It has no folder of this machine, except in
            settings or findings, because it is part of the wheel.
    """

    cuda: str | None
    version: str | None
    label: str | None
    skip_check: tuple[str, ...]
    provenance: Mapping[str, Any]
    toolkit: tuple[ToolkitPackage, ...] = ()

    @property
    def modules(self) -> tuple[ExpectedModule, ...]:
        return planned_modules(self.provenance["extensions"])

    @property
    def architectures(self) -> ArchitectureList | None:
        return ArchitectureList.union(module.architectures for module in self.modules)

    @property
    def limited_api(self) -> bool:
        """Whether all modules use Python's limited API, so that one wheel supports all Pythons."""
        return bool(modules := self.modules) and all(module.limited_api for module in modules)

    @property
    def local_version(self) -> str:
        """The wheel's local version label; empty for none."""
        if self.label is not None:
            return self.label
        return extension_label(
            self.cuda,
            self.architectures,
            self.torch,
            stable=self._stable_abi is not None,
            build_type=recorded_settings(self.provenance)["build-type"],
            dirty=bool(self.provenance["source"]["dirty"]),
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return torch_requirements(self.torch, self._stable_abi)

    @property
    def torch(self) -> str:
        """The PyTorch that it is built with."""
        return str(self.provenance["extensions"]["torch"]["version"])

    @property
    def _stable_abi(self) -> str | None:
        return common_stable_abi(module.stable_abi for module in self.modules)


def record_of(plan: ExtensionPlan) -> WheelRecord:
    inputs, project = plan.inputs, plan.project
    toolkit, cxx = inputs.toolkit, inputs.cxx
    provenance = {
        **decisions_document(project.settings, plan.findings, reproducible=project.reproducible),
        "toolchain": {
            "python": project.host.python.version,
            "cxx_compiler": f"{cxx.kind} {cxx.version}".strip() if cxx else None,
            "cuda": toolkit.full_version if toolkit else None,
        },
        "source": {
            "commit": inputs.checkout.commit,
            "dirty": known_changes(project.folder, dirty=inputs.checkout.dirty),
        },
        "extensions": {
            "torch": fields_of(inputs.torch, "version", "cuda"),
            "modules": [
                {
                    "name": one.extension.name,
                    "file": one.file_name,
                    **fields_of(one.extension, "stable_abi", "limited_api"),
                    "architectures": list(one.architectures.labels) if one.architectures else [],
                }
                for one in plan.extensions
            ],
        },
    }
    return _with_requirements(
        WheelRecord(
            cuda=toolkit.version if toolkit else None,
            version=project.settings.package_version,
            label=project.settings.local_version,
            skip_check=project.settings.skip_check,
            provenance=provenance,
            toolkit=toolkit_packages(toolkit) if toolkit else (),
        )
    )


def _with_requirements(record: WheelRecord) -> WheelRecord:
    extensions = {**record.provenance["extensions"], "requires": list(record.requires)}
    return replace(record, provenance={**record.provenance, "extensions": extensions})


def combine_records(records: Sequence[WheelRecord]) -> WheelRecord:
    provenances = [record.provenance for record in records]
    toolkits = (p["toolchain"]["cuda"] for p in provenances)
    findings = [finding for p in provenances for finding in p["findings"]]
    own = provenances[0]
    modules = [module for p in provenances for module in p["extensions"]["modules"]]
    merged = {
        **own,
        "findings": [f for number, f in enumerate(findings) if f not in findings[:number]],
        "skipped_checks": sorted({check for p in provenances for check in p["skipped_checks"]}),
        "toolchain": {**own["toolchain"], "cuda": next(filter(None, toolkits), None)},
        "extensions": {**own["extensions"], "modules": modules},
    }
    compiled = next((record for record in records if record.cuda), records[0])
    return _with_requirements(
        replace(records[0], cuda=compiled.cuda, toolkit=compiled.toolkit, provenance=merged)
    )


def write_wheel_record(file: Path, record: WheelRecord) -> None:
    write_if_changed(file, json.dumps(asdict(record), indent=1, sort_keys=True) + "\n")


def read_wheel_record(file: Path) -> WheelRecord:
    document = json.loads(file.read_text(encoding="utf-8"))
    toolkit = tuple(ToolkitPackage(*package) for package in document["toolkit"])
    return WheelRecord(**{**document, "skip_check": tuple(document["skip_check"]), "toolkit": toolkit})


def is_labelled(settings: Settings) -> bool:
    """Whether the sdist's name needs a plan of the wheel."""
    return settings.local_version is None and (bool(settings.target) or settings.arch is not None)


def record_if_torch(make: Callable[[], WheelRecord | None]) -> WheelRecord | None:
    """Plan the wheel; None without PyTorch, which an sdist does not need."""
    try:
        return make()
    except TorchwheelError as error:
        if any(problem.id != "torch-not-installed" for problem in error.problems):
            raise
        say("there is no PyTorch here, so neither the sdist nor a wheel made of it has a label")
        return None


def sdist_label(settings: Settings, record: WheelRecord | None) -> str:
    """The local version label of an sdist; empty for none."""
    return record.local_version if record else settings.local_version or ""


def sdist_files(project: ExtensionProject, version: str, record: WheelRecord | None) -> dict[str, bytes]:
    """Return torchwheel's files at the top of an sdist: name -> content."""
    label = sdist_label(project.settings, record)
    settings = settings_to_record(project.settings.entries.values(), record.cuda if record else None)
    if not label:
        settings["local-version"] = ""
    facts = source_facts_json(read_source(project.folder)[0], "", submodule_states(project.folder))
    return {SDIST_FILE: SdistRecord(version, settings, label).to_json(), SOURCE_FACTS_FILE: facts}


def refuse_builds_in_sdist(project: ExtensionProject, sdist: Path) -> None:
    """Refuse an sdist of scikit-build-core that holds torchwheel's own build folders."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    builds = PurePath(os.path.relpath(project.builds_folder, project.folder)).as_posix()
    if any(name.startswith(f"{builds}/") for name in packed):
        raise refusal("sdist-holds-builds", origin=project.folder, folder=builds)
