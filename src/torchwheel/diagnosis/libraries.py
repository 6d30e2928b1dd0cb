"""The libraries and programs that a log names (``grammar/libraries.toml``, ``programs.toml``): what brings them, what
links them, and which release fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from posixpath import normpath
from typing import Any

from torchwheel.diagnosis.packages import distribution, install_source
from torchwheel.system.toml import shipped_toml

Row = Mapping[str, Any]

_FOLDER = Path(__file__).with_name("grammar")
_LIBRARY_FILE = re.compile(
    r"(?:lib|cuda::)?(?P<name>[a-z][\w+-]*?)(?:3\.\d\d?)?(?:[-_](?:c|cxx|dev|devel|library|libraries)|64_\d+)?"
    r"(?:\.(?:so|dylib|dll|lib|a|pc)(?:\.[\d.]+)?|::[\w.-]+)?"
)
_CALLED_NAME = re.compile(r"(?:__declspec\(\w+\) )?(?:[^(]*[\s*&])?(?P<name>[^\s(]+)")
_PLACES = {
    "Linux": (("Debian, Ubuntu", "debian"), ("Fedora", "fedora"), ("conda", "conda"), ("PyPI", "pypi")),
    "Darwin": (("macOS", "brew"), ("conda", "conda"), ("PyPI", "pypi")),
    "Windows": (("conda", "conda"), ("PyPI", "pypi")),
}
_OTHER_FAMILY = {"debian": "fedora", "fedora": "debian"}


def describe(captures: Mapping[str, str], system: str = "Linux", family: str = "") -> dict[str, str]:
    """Return what is known of the libraries and programs that an event names, on the system of ``facts.Facts``."""
    found: dict[str, str] = {}
    if "package" in captures:
        found["package"] = distribution(captures["package"])
    for key, other, lookup in _PACKAGED:
        if row := lookup(captures.get(key, "")):
            found[other] = _describe_package(captures[key], row, system, family)
    symbol, message = captures.get("symbol", ""), captures.get("message", "")
    if row := _owner(symbol):
        found.update(owner=row["name"], link=_link(row, symbol), **_history(row, symbol))
    if row := _library_of(captures.get("name", ""), captures.get("file", "")):
        found.update(api=row["name"], releases=row["releases"], **_history(row, message))
    if module := re.match(r"\w+(?!\w| )", captures.get("module", "")):
        found["source"] = install_source(module[0])
    return found


@cache
def read_names() -> Mapping[str, str]:
    """Regular expressions for names of the C library, and for those of libraries whose releases differ."""
    spaces = "|".join(name for row in _released() for name in row.get("namespaces", ()))
    names = (row["names"] for row in _released() if "names" in row)
    return {
        "CNAME": "|".join(row["regex"] for row in _rows("include") if "space" not in row),
        "API": "|".join([f"(?:{spaces})::", *names]),
        "SPACE": spaces,
        "FOLDER": "|".join(folder for row in _released() for folder in _folders(row)),
    }


def included_by(name: str, space: str) -> str:
    """Name the header that declares a name; empty if the table does not have it."""
    # The C library's names are in no namespace, or in std.
    rows = (row for row in _rows("include") if row.get("space", "std") == (space or "std"))
    return next((row["header"] for row in rows if re.fullmatch(row["regex"], name)), "")


def _rows(kind: str) -> Sequence[Row]:
    table: Sequence[Row] = shipped_toml(
        _FOLDER / ("programs.toml" if kind == "program" else "libraries.toml")
    )[kind]
    return table


def _released() -> Iterator[Row]:
    return (row for row in _rows("library") if "releases" in row)


def _folders(row: Row) -> Iterator[str]:
    """The folders of a library's headers."""
    return (name[:-1] for name in row.get("headers", ()) if name[-1] == "/")


@cache
def _rows_by(kind: str, key: str) -> Mapping[str, Row]:
    return {name: row for row in _rows(kind) for name in row.get(key, ())}


def _of_header(header: str) -> Row | None:
    rows, parts = _rows_by("library", "headers"), header.split("/")
    folders = ("/".join(parts[:count]) + "/" for count in range(len(parts) - 1, 0, -1))
    return next((rows[name] for name in (header, *folders) if name in rows), None)


def _of_library(library: str) -> Row | None:
    match = _LIBRARY_FILE.fullmatch(re.split(r"[\\/]", library.lower())[-1])
    rows, name = _rows_by("library", "libraries"), match["name"] if match else ""
    return rows.get(name) or rows.get(name.rstrip("0123456789"))


def _of_program(program: str) -> Row | None:
    rows, name = _rows_by("program", "names"), re.split(r"[\\/]", program)[-1]
    of_folder = (row for row in rows.values() if row.get("below", "\n") in program)
    return next(of_folder, None) or rows.get(name) or rows.get(name.lower().removesuffix(".exe"))


_PACKAGED = (
    ("header", "package", _of_header),
    ("library", "package", _of_library),
    ("program", "package", _of_program),
    ("package", "install", _of_library),
)


def _describe_package(name: str, row: Row, system: str, family: str) -> str:
    if "absent" in row:
        return str(row["absent"]).format(name=name)
    places = [
        f"{place}: {row[key]}"
        for place, key in _PLACES.get(system, _PLACES["Linux"])
        if key in row and key != _OTHER_FAMILY.get(family)
    ]
    ways = [*places, *filter(None, [row.get("elsewhere")])]
    short = name if row.get("headers") and name.count("/") == 1 else re.split(r"[\\/]", name)[-1]
    return f"install what brings {short} ({'; '.join(ways)})" if ways else ""


def _owner(symbol: str) -> Row | None:
    """Return the library that defines a symbol, mangled or not."""
    match = _CALLED_NAME.match(symbol)
    name = match["name"].removeprefix("__imp_") if match else ""
    # Apple's linker shows names with their leading underscore.
    spellings = (name, name.removeprefix("_"))
    rows = (row for row in _rows("library") if "names" in row or "namespaces" in row)
    return next((row for row in rows if any(re.match(_name_regex(row), one) for one in spellings)), None)


@cache
def _namespace_regex(namespace: str) -> str:
    parts = namespace.split("::")
    return rf"{namespace}(?!\w)|_Z(?:T[VISc])?N[KVr]*{''.join(f'{len(part)}{part}' for part in parts)}"


def _name_regex(row: Row) -> str:
    spaces = (_namespace_regex(one) for one in row.get("namespaces", ()))
    return f"(?:{'|'.join([*spaces, *filter(None, [row.get('names')])])})"


def _link(row: Row, symbol: str) -> str:
    """Say how to link a library; one published with both C++ ABIs has an additional text for names of the new one."""
    first = next(iter(row.get("libraries", ())), "")
    other_abi = f"{row['cxx11']}; else it is not linked: " if "cxx11" in row and "__cxx11" in symbol else ""
    return f"{other_abi}{row.get('link', f'-l{first}, {first}.lib')}"


def _library_of(name: str, file: str) -> Row | None:
    named = (row for row in _released() if name and re.match(_name_regex(row), name))
    folders = set(normpath(file.replace("\\", "/")).split("/")[:-1])
    of_file = (row for row in _released() if not folders.isdisjoint(_folders(row)))
    return next(chain(named, of_file), None)


def _history(row: Row, text: str) -> dict[str, str]:
    """Return the release with which a name went (``gone``) or came (``came``), if that is known."""
    text = text.replace('"', "'")
    known: Row = next((one for one in row.get("history", ()) if re.search(one["regex"], text)), {})
    return {key: known[key] for key in ("gone", "came", "instead") if key in known}
