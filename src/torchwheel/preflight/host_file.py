"""A machine as a TOML file: ``doctor --dump-host`` prints it for a bug report, and ``doctor --host`` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.host.machine import Compiler, Host, described_host, is_free_threaded
from torchwheel.host.this import without_folder
from torchwheel.preflight.facts import HostFacts, Installed, ToolkitFacts
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.host_compiler import HostCompilerLimits

FORMAT = 1
"""Incremented with every incompatible change."""

# Ten times the size of a real file.
_MAX_BYTES = 1 << 15
_DESCRIBED = "described"
_NO_CONFLICT = "none"
_KINDS = ("gcc", "clang", "msvc", "unknown")
_WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}

# No rule reads these keys any more; files that hold them stay valid.
_FORMER_KEYS = frozenset({"compiles", "header-version", "long-paths", "nvcc-version", "visual-studio"})
# The keys of each table with their TOML type, and for containers the type of their items.
_Types = Mapping[str, "type | tuple[type, type]"]
_MACHINE: _Types = {
    "format": int,
    "platform": str,
    "python": str,
    "python-executable": str,
    "python-headers": bool,
    "memory-bytes": int,
    "cores": int,
    "glibc": str,
    "build-folder": str,
    "free-disk-bytes": int,
    "driver": str,
    "online": bool,
    "own-index": bool,
    "compilers": (list, dict),
    "other-compilers": (list, dict),
    "toolkits": (list, dict),
    "gpus": (list, dict),
    "libraries": (dict, dict),
    "tools": (dict, dict),
    "packages": (dict, str),
    "environment": (dict, str),
}
_AS_IT_STANDS = ("build-folder", "driver", "environment", "free-disk-bytes", "online", "own-index",
                 "packages", "python-headers")  # fmt: skip
_COMPILER: _Types = {
    "language": str,
    "kind": str,
    "path": str,
    "version": str,
    "identity": str,
    "launcher": (list, str),
    "arguments": (list, str),
    "absent-launcher": str,
}
_TOOLKIT: _Types = {
    "root": str,
    "version": str,
    "full-version": str,
    "nvcc": str,
    "include": (list, str),
    "library": str,
    "origin": str,
    "identity": str,
    "missing": (list, str),
    "gcc-max": int,
    "clang-max": int,
    "msvc": (list, int),
    "glibc-conflict": str,
}
# Keys that are not named like the attribute.
_OTHER_NAMES = {"include": "include_dirs", "library": "library_dir", "msvc": "msvc_range"}
_GPU: _Types = {"name": str, "compute-capability": str}


def read_host_file(path: Path) -> HostFacts:
    data = read_toml(path, _MAX_BYTES)
    reader = _Reader(str(path))
    if data.get("format", FORMAT) != FORMAT:
        reader.refuse("malformed-data/format", value=data["format"], known=FORMAT)
    facts = reader.read_machine(data)
    if reader.problems:
        raise TorchwheelError(reader.problems)
    return facts


class _Reader:
    """Converts tables to values, and collects their problems."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.problems: list[Problem] = []

    def refuse(self, key: str, **values: object) -> None:
        self.problems.append(Problem.of(key, origin=self.origin, **values))

    def read_table(
        self, row: Mapping[str, Any], types: _Types, entry: str, required: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Return the valid entries of a table; a missing required key is an empty text."""
        sound = {}
        for key in sorted(row.keys() - types.keys() - _FORMER_KEYS):
            self.refuse("malformed-data/unknown-key", entry=entry, value=key, known=", ".join(types))
        for key in (key for key in types if key in row):
            faults = list(_type_faults(key, row[key], types[key]))
            for place, value, wanted in faults:
                form = _WORDS[wanted]
                self.refuse("malformed-data", entry=entry, place=place, value=value, form=form)
            if not faults:
                sound[key] = row[key]
        for key in required:
            if not row.get(key):
                self.refuse("malformed-data/missing-key", entry=entry, place=key)
            sound.setdefault(key, "")
        return sound

    def read_machine(self, data: Mapping[str, Any]) -> HostFacts:
        row = self.read_table(data, _MACHINE, "the machine", ["platform"])
        return HostFacts(
            host=self.read_host(row),
            compilers_known="compilers" in row,
            toolkits=tuple(map(self.read_toolkit, row["toolkits"])) if "toolkits" in row else None,
            other_compilers=tuple(map(self.read_compiler, row.get("other-compilers", ()))),
            gpus=tuple(map(self.read_gpu, row["gpus"])) if "gpus" in row else None,
            libraries=self.read_installed("libraries", row),
            tools=self.read_installed("tools", row),
            **_to_attributes({key: row[key] for key in _AS_IT_STANDS if key in row}),
        )

    def read_host(self, row: Mapping[str, Any]) -> Host:
        compilers = tuple(map(self.read_compiler, row.get("compilers", ())))
        try:
            return described_host(
                row["platform"],
                python_version=row.get("python"),
                python_executable=row.get("python-executable", ""),
                memory_bytes=row.get("memory-bytes"),
                cores=row.get("cores"),
                compilers=compilers,
                glibc=row.get("glibc"),
                origin=self.origin,
            )
        except TorchwheelError as error:
            self.problems += error.problems
            return described_host("linux_x86_64")

    def read_compiler(self, row: Mapping[str, Any]) -> Compiler:
        entry = f"compiler {row.get('path')!r}"
        usual = {"language": "cxx", "kind": "unknown", "version": "", "identity": _DESCRIBED}
        row = {**usual, **self.read_table(row, _COMPILER, entry, ["path"])}
        if row["kind"] not in _KINDS or row["language"] not in ("c", "cxx"):
            values = {key: row[key] for key in ("kind", "language")}
            self.refuse("malformed-data/compiler", entry=entry, **values, known=", ".join(_KINDS))
        return Compiler(**_to_attributes(row))

    def read_toolkit(self, row: Mapping[str, Any]) -> ToolkitFacts:
        entry = f"toolkit {row.get('root')!r}"
        row = self.read_table(row, _TOOLKIT, entry, ["root", "version"])
        usual = {
            "origin": _DESCRIBED,
            "identity": _DESCRIBED,
            "full_version": row["version"],
            "include_dirs": (),
        }
        found = {**usual, **_to_attributes(row)}
        if len(found.get("msvc_range", ())) not in (0, 2):
            self.refuse("malformed-data/msvc", entry=entry, value=row["msvc"])
        limits = HostCompilerLimits(**_of_type(HostCompilerLimits, found))
        conflict = found.get("glibc_conflict")
        toolkit = {"nvcc": None, "library_dir": None, **_of_type(Toolkit, found)}
        return ToolkitFacts(
            Toolkit(**toolkit),
            limits=None if limits == HostCompilerLimits() else limits,
            glibc_conflict="" if conflict == _NO_CONFLICT else conflict,
            missing=found.get("missing", ()),
        )

    def read_gpu(self, row: Mapping[str, Any]) -> NamedGpu:
        entry = f"GPU {row.get('name')!r}"
        row = self.read_table(row, _GPU, entry, _GPU)
        capability = Architecture.from_dotted(row["compute-capability"])
        if capability is None:
            self.refuse("malformed-data/capability", entry=entry, value=row["compute-capability"])
        return NamedGpu(row["name"], capability or Architecture(0, 0))

    def read_installed(self, group: str, row: Mapping[str, Any]) -> dict[str, Installed]:
        rows = {
            name: self.read_table(own, {"version": str, "path": str}, f"{group}.{name}")
            for name, own in row.get(group, {}).items()
        }
        return {name: Installed(**{"version": "", **own}) for name, own in rows.items()}


def _to_attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    return {_attribute(key): tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _attribute(key: str) -> str:
    return _OTHER_NAMES.get(key, key.replace("-", "_"))


def _of_type(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


def _type_faults(
    key: str, value: Any, wanted: type | tuple[type, type]
) -> Iterator[tuple[str, object, type]]:
    outer, inner = wanted if isinstance(wanted, tuple) else (wanted, None)
    content: Any = value
    # Not isinstance, because True is an int.
    if type(value) is not outer:
        yield key, value, outer
    elif inner is not None:
        items = content.items() if outer is dict else enumerate(content, 1)
        yield from ((f"{key}.{name}", item, inner) for name, item in items if type(item) is not inner)


def host_file_text(facts: HostFacts, home: str = "") -> str:
    """Format a machine, whose environment must not contain secrets; ``~`` for ``home`` hides the user's name."""
    return without_folder("\n".join(_toml_lines(facts)) + "\n", home)


def _toml_lines(facts: HostFacts) -> Iterator[str]:
    host = facts.host
    threading = "t" if is_free_threaded(host.python.abi_tag) else ""
    musl = f"musllinux_{host.musl.replace('.', '_')}_{host.machine}" if host.musl else ""
    values = {
        **_written(host),
        **_written(facts),
        "format": FORMAT,
        "platform": musl or host.platform_tag,
        "python": host.python.version + threading,
        "python_executable": host.python.executable or None,
    }
    scalars = {key: kind for key, kind in _MACHINE.items() if isinstance(kind, type)}
    yield from _format_pairs(_format_record(scalars, values))
    # A missing key means unknown, an empty list none.
    if facts.compilers_known and not host.compilers:
        yield "compilers = []"
    yield from (f"{name} = []" for name in ("toolkits", "gpus") if getattr(facts, name) == ())
    for name, compilers in (("compilers", host.compilers), ("other-compilers", facts.other_compilers)):
        yield from _table_array(name, (_format_record(_COMPILER, _written(one)) for one in compilers))
    yield from _table_array("toolkits", map(_toolkit_row, facts.toolkits or ()))
    gpus = facts.gpus or ()
    rows = ({"name": one.name, "compute-capability": one.compute_capability.dotted} for one in gpus)
    yield from _table_array("gpus", rows)
    for group, found in (("libraries", facts.libraries), ("tools", facts.tools)):
        for name in sorted(found):
            yield from _format_table(f"{group}.{name}", vars(found[name]))
    yield from _format_table("packages", facts.packages)
    yield from _format_table("environment", facts.environment)


def _written(record: Any) -> dict[str, Any]:
    """The attributes of a record without those that have their default values."""
    return {one.name: value for one in fields(record) if (value := getattr(record, one.name)) != one.default}


def _format_record(types: _Types, values: Mapping[str, Any]) -> dict[str, object]:
    return {key: values.get(_attribute(key)) for key in types}


def _toolkit_row(facts: ToolkitFacts) -> dict[str, object]:
    values = {
        **_written(facts.toolkit),
        **_written(facts.limits or HostCompilerLimits()),
        **_written(facts),
        "glibc_conflict": _NO_CONFLICT if facts.glibc_conflict == "" else facts.glibc_conflict,
    }
    return _format_record(_TOOLKIT, values)


def _table_array(name: str, rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    for row in rows:
        yield from ("", f"[[{name}]]", *_format_pairs(row))


def _format_table(name: str, row: Mapping[str, object]) -> Iterator[str]:
    if row:
        yield from ("", f"[{name}]", *_format_pairs(dict(sorted(row.items()))))


def _format_pairs(row: Mapping[str, object]) -> Iterator[str]:
    """Format assignments; JSON's strings, numbers, booleans and lists are valid TOML."""
    for key, value in row.items():
        if value is not None:
            name = key if all(c.isalnum() or c in "-_" for c in key) and key.isascii() else json.dumps(key)
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"
