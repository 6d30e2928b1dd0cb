"""A machine as a TOML file: written by ``doctor --dump-host``, read by ``doctor --host``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.hardware._data_file import DataErrors
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.described import described_host
from torchwheel.host.model import Compiler, Host
from torchwheel.preflight.facts import HostCompilerLimits, HostFacts, Installed, ToolkitFacts, VisualStudio
from torchwheel.toolkit.model import Toolkit

FORMAT = 1
"""Grows with every incompatible change of the file."""

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


def host_file_text(facts: HostFacts, home: str = "") -> str:
    """A machine as TOML.

    Args:
        facts: the machine; its environment is written as it is, so it must hold nothing secret.
        home: a folder to write as ``~``, so that the file does not tell who made it.
    """
    text = "\n".join(_lines(facts)) + "\n"
    return text.replace(json.dumps(home, ensure_ascii=False)[1:-1], "~") if len(home) > 1 else text


def _lines(facts: HostFacts) -> Iterator[str]:
    host = facts.host
    threading = "t" if host.python.abi_tag.endswith("t") else ""
    yield from _pairs(
        {
            "format": FORMAT,
            "platform": host.platform_tag,
            "python": host.python.version + threading,
            "python-executable": host.python.executable or None,
            "python-headers": facts.python_headers,
            "memory-bytes": host.memory_bytes,
            "cores": host.cores,
            "glibc": host.glibc,
            "build-folder": facts.build_folder or None,
            "free-disk-bytes": facts.free_disk_bytes,
            "driver": facts.driver,
            "online": facts.online,
            "long-paths": facts.long_paths,
        }
    )
    if facts.compilers_known and not host.compilers:
        yield "compilers = []"
    yield from (f"{name} = []" for name in ("toolkits", "gpus") if getattr(facts, name) == ())
    yield from _table("visual-studio", vars(facts.visual_studio) if facts.visual_studio else {})
    for name, compilers in (("compilers", host.compilers), ("other-compilers", facts.other_compilers)):
        yield from _tables(name, (_compiler_row(compiler) for compiler in compilers))
    yield from _tables("toolkits", (_toolkit_row(toolkit) for toolkit in facts.toolkits or ()))
    yield from _tables(
        "gpus",
        ({"name": gpu.name, "compute-capability": gpu.compute_capability.dotted} for gpu in facts.gpus or ()),
    )
    for group, found in (("libraries", facts.libraries), ("tools", facts.tools)):
        for name in sorted(found):
            yield from _table(f"{group}.{name}", vars(found[name]))
    yield from _table("packages", facts.packages)
    yield from _table("environment", facts.environment)


def _compiler_row(compiler: Compiler) -> dict[str, object]:
    return {
        "language": compiler.language,
        "kind": compiler.kind,
        "path": compiler.path,
        "version": compiler.version,
        "identity": compiler.identity,
        "launcher": list(compiler.launcher) or None,
        "arguments": list(compiler.arguments) or None,
    }


def _toolkit_row(facts: ToolkitFacts) -> dict[str, object]:
    toolkit, limits = facts.toolkit, facts.limits or HostCompilerLimits()
    return {
        "root": toolkit.root,
        "version": toolkit.version,
        "full-version": toolkit.full_version,
        "nvcc": toolkit.nvcc,
        "include": list(toolkit.include_dirs),
        "library": toolkit.library_dir,
        "origin": toolkit.origin,
        "identity": toolkit.identity,
        "header-version": facts.header_version,
        "nvcc-version": facts.nvcc_version,
        "missing": list(facts.missing),
        "gcc-max": limits.gcc_max,
        "clang-max": limits.clang_max,
        "msvc": list(limits.msvc_range) if limits.msvc_range else None,
    }


def _tables(name: str, rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    for row in rows:
        yield from ("", f"[[{name}]]", *_pairs(row))


def _table(name: str, row: Mapping[str, object]) -> Iterator[str]:
    if row:
        yield from ("", f"[{name}]", *_pairs(dict(sorted(row.items()))))


def _pairs(row: Mapping[str, object]) -> Iterator[str]:
    """Assignments; JSON's strings, numbers, truth values and lists are TOML's too."""
    for key, value in row.items():
        if value is not None:
            name = key if all(c.isalnum() or c in "-_" for c in key) and key.isascii() else json.dumps(key)
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"


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
