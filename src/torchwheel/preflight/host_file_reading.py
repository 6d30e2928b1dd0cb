"""The machine that a TOML file describes: what ``doctor --dump-host`` wrote, or somebody by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.hardware._data_file import DataErrors
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.described import described_host
from torchwheel.host.model import Compiler, Host
from torchwheel.preflight.facts import HostCompilerLimits, HostFacts, Installed, ToolkitFacts, VisualStudio
from torchwheel.preflight.host_file_writing import FORMAT
from torchwheel.toolkit.model import Toolkit

_KEYS = frozenset(
    {
        "format", "platform", "python", "python-executable", "python-headers", "memory-bytes", "cores", "glibc",
        "build-folder", "free-disk-bytes", "driver", "online", "long-paths", "visual-studio", "compilers",
        "other-compilers", "toolkits", "gpus", "libraries", "tools", "packages", "environment",
    }
)  # fmt: skip
_COMPILER_KEYS = frozenset({"language", "kind", "path", "version", "identity", "launcher", "arguments"})
_TOOLKIT_KEYS = frozenset(
    {
        "root", "version", "full-version", "nvcc", "include", "library", "origin", "identity", "header-version",
        "nvcc-version", "missing", "gcc-max", "clang-max", "msvc",
    }
)  # fmt: skip
_KINDS = ("gcc", "clang", "msvc", "unknown")
_DESCRIBED = "described"


def read_host_file(path: Path) -> HostFacts:
    """The machine that a file describes. What the file leaves out counts as unknown.

    Raises:
        TorchwheelError: the file cannot be read or something in it is wrong; all problems at once.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    errors.unknown_keys(data, _KEYS, "the machine")
    if data.get("format", FORMAT) != FORMAT:
        errors.add(
            f"the format is {data['format']!r}, and this torchwheel reads {FORMAT}", "write it anew there"
        )
    facts = _facts(data, errors, str(path))
    errors.raise_if_any()
    return facts


def _facts(data: Mapping[str, Any], errors: DataErrors, origin: str) -> HostFacts:
    studio = _optional(data, "visual-studio", dict, errors)
    gpus, toolkits = _rows(data, "gpus", errors), _rows(data, "toolkits", errors)
    return HostFacts(
        host=_host(data, errors, origin),
        compilers_known="compilers" in data,
        toolkits=None if toolkits is None else tuple(_toolkit(row, errors) for row in toolkits),
        other_compilers=tuple(_compiler(row, errors) for row in _rows(data, "other-compilers", errors) or ()),
        driver=_optional(data, "driver", str, errors),
        gpus=None if gpus is None else tuple(_gpu(row, errors) for row in gpus),
        libraries=_installed(data, "libraries", errors),
        tools=_installed(data, "tools", errors),
        python_headers=_optional(data, "python-headers", bool, errors),
        packages=_texts(data, "packages", errors),
        build_folder=_optional(data, "build-folder", str, errors) or "",
        free_disk_bytes=_optional(data, "free-disk-bytes", int, errors),
        environment=_texts(data, "environment", errors),
        online=_optional(data, "online", bool, errors),
        visual_studio=None
        if studio is None
        else VisualStudio(str(studio.get("path", "")), str(studio.get("version", ""))),
        long_paths=_optional(data, "long-paths", bool, errors),
    )


def _host(data: Mapping[str, Any], errors: DataErrors, origin: str) -> Host:
    compilers = tuple(_compiler(row, errors) for row in _rows(data, "compilers", errors) or ())
    try:
        return described_host(
            errors.field(data, "platform", str, "the machine"),
            python_version=_optional(data, "python", str, errors),
            python_executable=_optional(data, "python-executable", str, errors) or "",
            memory_bytes=_optional(data, "memory-bytes", int, errors),
            cores=_optional(data, "cores", int, errors),
            compilers=compilers,
            glibc=_optional(data, "glibc", str, errors),
            origin=origin,
        )
    except TorchwheelError as error:
        for problem in error.problems:
            errors.add(problem.what, problem.remedy)
        return described_host("linux_x86_64")


def _compiler(row: Mapping[str, Any], errors: DataErrors) -> Compiler:
    entry = f"compiler {row.get('path')!r}"
    errors.unknown_keys(row, _COMPILER_KEYS, entry)
    kind, language = row.get("kind", "unknown"), row.get("language", "cxx")
    if kind not in _KINDS or language not in ("c", "cxx"):
        errors.add(
            f"{entry}: kind {kind!r} or language {language!r} is unknown", f"use {', '.join(_KINDS)}; c, cxx"
        )
    return Compiler(
        language=language,
        kind=kind,
        path=errors.field(row, "path", str, entry),
        version=errors.field(row, "version", str, entry, default=""),
        identity=errors.field(row, "identity", str, entry, default=_DESCRIBED),
        launcher=errors.strings(row, "launcher", entry),
        arguments=errors.strings(row, "arguments", entry),
    )


def _toolkit(row: Mapping[str, Any], errors: DataErrors) -> ToolkitFacts:
    entry = f"toolkit {row.get('root')!r}"
    errors.unknown_keys(row, _TOOLKIT_KEYS, entry)
    version = errors.field(row, "version", str, entry)
    msvc = row.get("msvc")
    if msvc is not None and not (isinstance(msvc, list) and len(msvc) == 2):
        errors.add(f"{entry}: 'msvc' is {msvc!r}", "give the least and the greatest _MSC_VER")
        msvc = None
    limits = HostCompilerLimits(
        gcc_max=_optional(row, "gcc-max", int, errors),
        clang_max=_optional(row, "clang-max", int, errors),
        msvc_range=(int(msvc[0]), int(msvc[1])) if msvc else None,
    )
    return ToolkitFacts(
        toolkit=Toolkit(
            root=errors.field(row, "root", str, entry),
            version=version,
            full_version=errors.field(row, "full-version", str, entry, default=version),
            nvcc=_optional(row, "nvcc", str, errors),
            include_dirs=errors.strings(row, "include", entry),
            library_dir=_optional(row, "library", str, errors),
            origin=errors.field(row, "origin", str, entry, default=_DESCRIBED),
            identity=errors.field(row, "identity", str, entry, default=_DESCRIBED),
        ),
        header_version=_optional(row, "header-version", str, errors),
        nvcc_version=_optional(row, "nvcc-version", str, errors),
        missing=errors.strings(row, "missing", entry),
        limits=None if limits == HostCompilerLimits() else limits,
    )


def _gpu(row: Mapping[str, Any], errors: DataErrors) -> DetectedGpu:
    entry = f"GPU {row.get('name')!r}"
    errors.unknown_keys(row, frozenset({"name", "compute-capability"}), entry)
    capability = errors.field(row, "compute-capability", str, entry)
    return DetectedGpu(errors.field(row, "name", str, entry), errors.architecture(capability, entry))


def _installed(data: Mapping[str, Any], key: str, errors: DataErrors) -> dict[str, Installed]:
    found = {}
    for name, row in errors.field(data, key, dict, "the machine", default={}).items():
        entry = f"{key}.{name}"
        if not isinstance(row, dict):
            errors.add(f"{entry} is {row!r}", 'write it as a table with version = "" where there is none')
            continue
        errors.unknown_keys(row, frozenset({"version", "path"}), entry)
        found[name] = Installed(
            errors.field(row, "version", str, entry, default=""),
            errors.field(row, "path", str, entry, default=""),
        )
    return found


def _rows(data: Mapping[str, Any], key: str, errors: DataErrors) -> list[Mapping[str, Any]] | None:
    if key not in data:
        return None
    rows = errors.field(data, key, list, "the machine", default=[])
    if not all(isinstance(row, dict) for row in rows):
        errors.add(f"{key!r} must be tables", f"write [[{key}]] before each")
        return []
    return rows


def _texts(data: Mapping[str, Any], key: str, errors: DataErrors) -> dict[str, str]:
    found = errors.field(data, key, dict, "the machine", default={})
    for name, value in found.items():
        if not isinstance(value, str):
            errors.add(f"{key}.{name} is {value!r}, which is no text", "write it in quotes")
    return {name: str(value) for name, value in found.items()}


def _optional(data: Mapping[str, Any], key: str, kind: type[Any], errors: DataErrors) -> Any:
    """The value of a key that may be left out, which means that nobody knows."""
    value = data.get(key)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    errors.add(f"{key!r} is {value!r}, which is no {kind.__name__}", "correct it, or leave it out")
    return None
