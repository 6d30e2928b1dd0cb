"""A machine as a TOML file that ``doctor --host`` reads, and that is fit for a bug report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from torchwheel.host.model import Compiler
from torchwheel.preflight.facts import HostCompilerLimits, HostFacts, ToolkitFacts

FORMAT = 1
"""Grows with every incompatible change of the file."""


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
