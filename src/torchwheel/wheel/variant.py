"""Wheel variants for NVIDIA's GPUs: a wheel whose variant label an installer chooses by the GPU at hand.

PEP 817, 825 and 850 are drafts, and installers follow them behind options. Whatever of their form may change is in this
module, and for the label in a file name in :func:`torchwheel.wheel.archive.plain_file_name`. It is the form that
``OLDEST_UV`` reads with ``--preview-features wheel-variants``:
https://peps.python.org/pep-0825/, https://peps.python.org/pep-0850/.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.reporting.terminal import join_items
from torchwheel.wheel.archive import WheelArchive
from torchwheel.wheel.bounded_file import MANIFEST_BYTES
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.inspection import judge_libraries
from torchwheel.wheel.manifest import MANIFEST_NAME, find_manifest, manifest_bytes
from torchwheel.wheel.metadata import read_metadata_text
from torchwheel.wheel.rewrite import Changes, Relabelling, rewrite_wheel
from torchwheel.wheel.sbom import SBOM_NAME, relabelled_sbom

Properties = Mapping[str, tuple[str, ...]]  # values by feature of NVIDIA's namespace

_NAMESPACE = "nvidia"
_PROVIDER = {
    "requires": ["nvidia-variant-provider"],
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
}
OLDEST_UV = "0.13.9"  # that reads this form
_ARCHITECTURE, _CUDA = "sm_arch", "cuda_version_lower_bound"


def properties_of(contents: WheelContents, cuda: str | None) -> tuple[Properties | None, str]:
    """The properties of a wheel's variant, or None and why it can have none."""
    code = contents.architectures
    if code is None and cuda is None:
        return {}, ""
    if code is None:
        return None, f"it was built with CUDA {cuda} and has no device code that an installer could choose by"
    values = _property_values(code)
    claimed = [one for one in _machine_capabilities(contents.tags) if _installer_takes(values, one)]
    if cuda is None:
        return None, "the CUDA that it was built with is not known"
    if not claimed:
        return None, f"variant properties cannot express {join_items(code.labels)}"
    false = [
        one.dotted
        for one in claimed
        if not judge_libraries(contents.libraries, NamedGpu(one.dotted, one), all_needed=True).how.runs
    ]
    if false:
        return None, f"an installer would also choose it for {join_items(false)}, where it does not run"
    return {_ARCHITECTURE: values, _CUDA: (cuda,)}, ""


def _property_values(code: ArchitectureList) -> tuple[str, ...]:
    return tuple(
        f"{target.architecture.number}_{form}"
        for target in code.targets
        if not target.architecture.suffix
        for form, is_there in (("real", target.sass), ("virtual", target.ptx))
        if is_there
    )


def _machine_capabilities(tags: Collection[str]) -> tuple[Architecture, ...]:
    """The GPUs that machines of these tags may have; Tegra's are in AArch64 machines alone."""
    arm = any(tag.endswith("aarch64") for tag in tags)
    return tuple(
        one.capability for one in known_architectures() if not one.renamed_to and (arm or not one.tegra)
    )


def _installer_takes(values: Collection[str], gpu: Architecture) -> bool:
    """Whether NVIDIA's provider counts code as running: of the GPU's major revision, and not of a later minor one.

    Of PTX it counts only that for the first minor revision. Seen with uv 0.13.9, which has the provider built in.
    """
    real = (f"{gpu.major}{minor}_real" for minor in range(gpu.minor + 1))
    return not {*real, f"{gpu.major}0_virtual"}.isdisjoint(values)


def variant_label(label: str, properties: Properties) -> str:
    """The reserved one for the variant without properties, which every machine can take."""
    return label if properties else "null"


def variant_file_name(file_name: str, public_version: str, label: str, build: str = "") -> str:
    name, _, *number, python, abi, platform = file_name.removesuffix(".whl").split("-")
    number = [build] if build else number
    return "-".join([name, public_version, *number, python, abi, platform, label]) + ".whl"


def index_file_name(distribution: str, public_version: str) -> str:
    return f"{distribution}-{public_version}-variants.json"


def variants_text(variants: Mapping[str, Properties]) -> str:
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": [_NAMESPACE]},
        "providers": {_NAMESPACE: _PROVIDER},
        "variants": {
            label: {_NAMESPACE: {feature: list(values) for feature, values in own.items()}} if own else {}
            for label, own in variants.items()
        },
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def write_variant(
    source: Path,
    target: Path,
    public_version: str,
    variants: Mapping[str, Properties],
    environment: Mapping[str, str],
    build: str = "",
) -> bytes:
    """Write a wheel's variant, and return its METADATA; ``torch/version.py`` keeps the local label."""
    relabelling = Relabelling(public_version)
    metadata = b""

    def make_changes(archive: WheelArchive) -> Changes:
        nonlocal metadata
        metadata = relabelling.metadata(bytes(read_metadata_text(archive, "METADATA")), str(source))
        members = {"METADATA": metadata, "variant.json": variants_text(variants).encode()}
        if build:
            members["WHEEL"] = bytes(read_metadata_text(archive, "WHEEL").replacing("Build", [build]))
        if manifest := find_manifest(archive):
            # The manifest is that of the wheel that is installed.
            manifest["wheel"]["version"] = public_version
            members[MANIFEST_NAME] = manifest_bytes(manifest)
        if (sbom := f"{archive.dist_info}/{SBOM_NAME}") in archive.members:
            # One that torchwheel did not write stays as it is.
            with suppress(KeyError, TypeError, ValueError):
                members[SBOM_NAME] = relabelled_sbom(archive.read(sbom, MANIFEST_BYTES), public_version)
        return Changes(members, relabelling.folders(archive.dist_info))

    rewrite_wheel(source, target, make_changes, environment)
    return metadata
