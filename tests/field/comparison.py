"""Compare a wheel with the reference of its tree and target, file by file, as differences.toml allows."""

from __future__ import annotations

import email
import io
import re
import zipfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from backend.builds import hashes, recorded
from field.combinations import Combination, find_pythons, matches
from field.surroundings import CXXFLAGS
from torchwheel.system.toml import read_toml

_RULES = read_toml(Path(__file__).with_name("differences.toml"))["file"]
_ABI = re.compile(r"\.cpython-3\d+-[a-z0-9_]+-linux-gnu\.so$")
_LIBRARIES = {str(Path(python).parents[1] / "lib") for found in find_pythons().values() for python in found}
"""Interpreters that are built with a shared library put its folder into the run path of what setuptools links."""
_LICENSE = re.compile(r"\.dist-info/(licenses/|LICENSE)")
_OWN = re.compile(r"lib(c10|torch|cuda|cudart)\b")


_SETTINGS = re.compile(rb"  TORCH_VERSION=[^\0]+")
"""What minitorch's library says of its configuration: a line for each option, and the compilers' flags."""


def compare_wheels(wheel: Path, reference: Path, combination: Combination, same_python: bool) -> list[str]:
    """What differs and may not, a line each."""
    ours, theirs = _contents(wheel), _contents(reference)
    if combination.get("environment") == "old setuptools":
        # setuptools 77 began to put licenses where PEP 639 wants them.
        ours, theirs = _without_licenses(ours), _without_licenses(theirs)
    found = [f"{name} is not in the reference" for name in sorted(ours.keys() - theirs.keys())]
    found += [f"{name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    levels = {**combination, "python": "same" if same_python else "other"}
    for name in sorted(ours.keys() & theirs.keys()):
        rule = next(rule for rule in _RULES if fnmatchcase(name, rule["pattern"]))
        one, other = _reduce(ours[name], rule, levels), _reduce(theirs[name], rule, levels)
        if isinstance(other, dict) and "settings" in other and combination["compiler"] == "CXXFLAGS":
            flags = f"  CXX_FLAGS={CXXFLAGS}"
            other["settings"] = [line.replace("  CXX_FLAGS=", flags, 1) for line in other["settings"]]
        if one != other:
            found.append(f"{name}: {_describe(one, other)}")
    if recorded(wheel) != hashes(wheel):
        found.append("RECORD does not state what is in the wheel")
    return found


def compare_names(wheel: Path, reference: Path, python: str) -> list[str]:
    """How the name differs from the reference's, but for the interpreter."""
    tag = f"cp{python.replace('.', '')}"
    expected = re.sub(r"-cp3\d+-cp3\d+-", f"-{tag}-{tag}-", reference.name)
    return [] if wheel.name == expected else [f"the wheel is called {wheel.name}, not {expected}"]


def _without_licenses(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not _LICENSE.search(name)}


def _contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, with the name of the interpreter taken out of theirs."""
    with zipfile.ZipFile(wheel) as archive:
        return {_ABI.sub(".SOABI.so", name): archive.read(name) for name in archive.namelist()}


def _reduce(content: bytes, rule: Mapping[str, Any], levels: Mapping[str, str]) -> Any:
    """What of a file is compared."""
    if rule["compare"] == "presence":
        return None
    if rule["compare"] == "lines":
        return b"".join(
            line for line in content.splitlines(True) if not re.match(rule["without"].encode(), line)
        )
    if rule["compare"] == "fields":
        message = email.message_from_bytes(content)
        return {field: sorted(message.get_all(field, [])) for field in rule["fields"]}
    if any(matches({name: list(values)}, levels) for name, values in rule.get("unless", {}).items()):
        return _interface(content)
    return content


def _interface(content: bytes) -> dict[str, Any]:
    """What others see of an ELF file. Weak symbols are left out: the optimizer decides which are left."""
    elf = ELFFile(io.BytesIO(content))
    tags: dict[str, list[str]] = {"DT_SONAME": [], "DT_RUNPATH": [], "DT_RPATH": [], "DT_NEEDED": []}
    symbols: list[str] = []
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                if tag.entry.d_tag in tags:
                    value = getattr(tag, tag.entry.d_tag.removeprefix("DT_").lower())
                    if tag.entry.d_tag in ("DT_RUNPATH", "DT_RPATH"):
                        value = ":".join(folder for folder in value.split(":") if folder not in _LIBRARIES)
                    if tag.entry.d_tag != "DT_NEEDED" or _OWN.match(value):
                        tags[tag.entry.d_tag].append(value)
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            symbols = sorted(
                symbol.name
                for symbol in section.iter_symbols()
                if symbol["st_info"]["bind"] == "STB_GLOBAL" and symbol["st_shndx"] != "SHN_UNDEF"
            )
    settings = _SETTINGS.search(content)
    return {**tags, "symbols": symbols, "settings": settings[0].decode().splitlines() if settings else []}


def _excess(one: list[str], other: list[str]) -> list[str]:
    return [entry for entry in one if entry not in other]


def _describe(one: Any, other: Any) -> str:
    """A difference in one line."""
    if isinstance(one, dict):
        return "; ".join(
            f"{key}: {_excess(one[key], other[key])} is not {_excess(other[key], one[key])}"
            for key in one
            if one[key] != other[key]
        )
    if isinstance(one, bytes) and b"\0" not in one:
        mine, theirs = (text.decode(errors="replace").splitlines() for text in (one, other))
        return f"{_excess(mine, theirs)} is not {_excess(theirs, mine)}"[:600]
    return f"{len(one)} bytes are not the same as {len(other)}"
