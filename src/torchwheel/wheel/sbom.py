"""The software bill of materials in a wheel, ``*.dist-info/sboms/torchwheel.cdx.json``: CycloneDX, as of PEP 770.

It has no path of the machine, and the same bytes for the same inputs: its serial number is made of its content, and it
has no time but that of SOURCE_DATE_EPOCH.
Sources: https://peps.python.org/pep-0770/, https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import NAMESPACE_URL, uuid5

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from torchwheel._version import __version__
from torchwheel.reporting.masking import mask_document
from torchwheel.toolkit.cuda_toolkit import ToolkitPackage
from torchwheel.tree.source_files import VendoredLibrary
from torchwheel.versions import parse_numbers
from torchwheel.wheel.contents import WheelContents

SBOM_NAME = "sboms/torchwheel.cdx.json"  # relative to *.dist-info
_FORMAT = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
_ROOT = "wheel"
# What the manifest calls the programs that made the wheel, "GNU 14.2.0" each, and what CycloneDX describes them as.
_COMPILERS = {"c_compiler": "C compiler", "cxx_compiler": "C++ compiler", "cuda_compiler": "CUDA compiler"}
_PROGRAMS = {"python": "Python interpreter", "cmake": "configures the build"}
_SCHEMES = frozenset({"https", "http", "ssh", "git"})

Component = dict[str, Any]


def sbom_bytes(
    contents: WheelContents,
    plan: Mapping[str, Any],
    libraries: Iterable[VendoredLibrary],
    toolkit: Iterable[ToolkitPackage],
    built: datetime | None = None,
) -> bytes:
    source, chain = plan.get("source", {}), plan.get("toolchain", {})
    components = [*map(_library_component, libraries), *map(_toolkit_package, toolkit)]
    if version := plan.get("extensions", {}).get("torch", {}).get("version"):
        components.append(_component("torch", "torch", version, _python_package("torch", version)))
    components.sort(key=lambda one: str(one["bom-ref"]))
    document = {
        **_FORMAT,
        "metadata": {
            **({"timestamp": built.isoformat()} if built else {}),
            "tools": {"components": list(_tool_components(contents, chain))},
            "component": _wheel_component(contents, source),
        },
        "components": components,
        "dependencies": [{"ref": _ROOT, "dependsOn": [one["bom-ref"] for one in components]}],
    }
    return _numbered_bytes(mask_document(document))


def relabelled_sbom(data: bytes, version: str) -> bytes:
    """Return the file with another version of the wheel; KeyError, TypeError or ValueError where it is another's."""
    document = json.loads(data)
    wheel = document["metadata"]["component"]
    wheel.update(version=version, purl=_python_package(wheel["name"], version))
    return _numbered_bytes({key: value for key, value in document.items() if key != "serialNumber"})


def _numbered_bytes(masked: Component) -> bytes:
    text = json.dumps(masked, sort_keys=True, ensure_ascii=False)
    numbered = {**masked, "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, text)}"}
    return (json.dumps(numbered, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


def _wheel_component(contents: WheelContents, source: Mapping[str, Any]) -> Component:
    stated = [*contents.metadata.values("License-Expression"), *contents.metadata.values("License")]
    facts = {f"torchwheel:source:{name}": source.get(name) for name in ("version", "release_tag", "dirty")}
    return _component(
        _ROOT,
        contents.name,
        contents.version,
        _python_package(contents.name, contents.version),
        **_make_licences(next(iter(stated), None)),
        **_commit_reference(source.get("commit"), ""),
        properties=[
            {"name": name, "value": value if isinstance(value, str) else str(value).lower()}
            for name, value in facts.items()
            if value is not None
        ],
    )


def _library_component(library: VendoredLibrary) -> Component:
    url = _public_address(library.url)
    return _component(
        library.path,
        library.name,
        library.version or library.commit,
        _source_package(library, url),
        **_make_licences(library.licence),
        **_commit_reference(library.commit, url),
        **({"externalReferences": [{"type": "vcs", "url": url}]} if url else {}),
        properties=[{"name": "torchwheel:path", "value": library.path}],
    )


def _toolkit_package(package: ToolkitPackage) -> Component:
    name, version = package.name, package.version
    purl = _python_package(name, version) if package.is_from_pypi else None
    return _component(f"cuda/{name}", name, version, purl, supplier={"name": "NVIDIA"})


def _component(reference: str, name: str, version: str | None, purl: str | None, **more: Any) -> Component:
    stated = {key: value for key, value in (("version", version), ("purl", purl)) if value}
    return {"type": "library", "bom-ref": reference, "name": name, **stated, **more}


def _tool_components(contents: WheelContents, chain: Mapping[str, Any]) -> Iterator[Component]:
    yield _tool_component("torchwheel", __version__, "build backend")
    # As WHEEL has it: "setuptools (80.9.0)" and "scikit-build-core 1.0.3".
    backend, _, release = contents.generator.partition(" ")
    if backend:
        yield _tool_component(backend, release.strip("()"), "build backend of the source")
    programs = ((name, text) for name, text in _PROGRAMS.items() if chain.get(name))
    yield from (_tool_component(name, chain[name], text) for name, text in programs)
    if chain.get("generator"):
        yield _tool_component(chain["generator"], "", "runs the build")
    for key, text in _COMPILERS.items():
        if chain.get(key):
            name, _, version = chain[key].rpartition(" ")
            yield _tool_component(name or version, version if name else "", text)
    if chain.get("cuda") and not chain.get("cuda_compiler"):
        yield _tool_component("nvcc", chain["cuda"], _COMPILERS["cuda_compiler"])


def _tool_component(name: str, version: str, description: str) -> Component:
    stated = {"version": version} if parse_numbers(version) else {}
    return {"type": "application", "name": name, **stated, "description": description}


def _make_licences(stated: str | None) -> Component:
    """A licence as SPDX knows it, or by the name that the tree has for it."""
    if not stated:
        return {}
    try:
        return {"licenses": [{"expression": str(canonicalize_license_expression(stated))}]}
    except InvalidLicenseExpression:
        return {"licenses": [{"license": {"name": stated.partition("\n")[0]}}]}


def _commit_reference(commit: str | None, url: str) -> Component:
    if not commit:
        return {}
    return {"pedigree": {"commits": [{"uid": commit, **({"url": url} if url else {})}]}}


def _public_address(url: str) -> str:
    """Where anybody may clone it, without a user; empty for a folder of somebody's machine and a relative address."""
    host, colon, path = url.partition(":")
    # git@github.com:owner/name, and no letter of a drive
    if colon and "." in host and "/" not in host and not path.startswith(("/", "\\")):
        url = f"ssh://{host}/{path}"
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{quote(parts.path)}"


def _python_package(name: str, version: str) -> str:
    return f"pkg:pypi/{quote(name)}@{quote(version, safe='')}"


def _source_package(library: VendoredLibrary, url: str) -> str:
    """Its package URL: https://github.com/package-url/purl-spec."""
    parts = urlsplit(url)
    owner, _, name = parts.path.strip("/").removesuffix(".git").partition("/")
    if parts.hostname == "github.com" and name and "/" not in name:
        version = library.commit or library.version
        return f"pkg:github/{owner.lower()}/{name.lower()}" + (f"@{version}" if version else "")
    version = library.version or library.commit
    at = f"@{quote(version, safe='')}" if version else ""
    origin = f"git+{url}" + (f"@{library.commit}" if library.commit else "")
    return f"pkg:generic/{quote(library.name)}{at}" + (f"?vcs_url={quote(origin, safe=':/')}" if url else "")
