"""The types of settings' values: how each is parsed, described, put into a JSON schema and compared.

A relative path is resolved once, against the folder where it was written, because builds run in other folders.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.host.compilers import command_words, join_words, leading_launchers
from torchwheel.reporting.errors import Problem, TorchwheelError, find_nearest, refusal
from torchwheel.reporting.terminal import config_option
from torchwheel.system.paths import exists, is_file
from torchwheel.system.toml import shipped_toml, unusable_character
from torchwheel.versions import read_range


def absolute_path(text: str, folder: Path | None) -> str:
    """A path of any platform with ``~`` expanded, put under ``folder`` unless it is absolute."""
    text = os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises without a home
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    return text if folder is None or absolute else str((folder / text).absolute())


def resolve_value(table: str, name: str, text: str, folder: Path) -> str:
    """The value of an option (``define``) or a variable (``env``) with its relative paths put under ``folder``.

    A program without a folder is one of ``PATH``; another relative path that does not exist may be the tree's.
    """
    rows = shipped_toml(Path(__file__).with_name("outside_paths.toml"))["values"]
    kind = next((row["kind"] for row in rows for one in row["names"] if fnmatchcase(name, one)), "")
    if kind == "program":
        return _absolute_program(text, folder) if table == "define" else _absolute_command(text, folder)
    if kind == "paths":
        separator = ";" if table == "define" else os.pathsep
        return separator.join(_existing_path(part, folder) for part in text.split(separator))
    return _existing_path(text, folder) if kind else text


def _existing_path(text: str, folder: Path) -> str:
    return absolute_path(text, folder) if text and exists(absolute_path(text, folder)) else text


def _absolute_program(word: str, folder: Path) -> str:
    return absolute_path(word, folder) if "/" in word or os.sep in word else word


def _absolute_command(text: str, folder: Path) -> str:
    """Resolve the program of a command and the launchers before it; the whole text may be one program's path."""
    whole = _absolute_program(text, folder)
    if is_file(whole):
        return whole
    words = command_words(text, platform.system())
    count = len(leading_launchers(words)) + 1
    resolved = [*(_absolute_program(word, folder) for word in words[:count]), *words[count:]]
    if resolved == words:
        return text
    return join_words(resolved, windows=os.name == "nt")


_NOT_EMPTY = {"type": "string", "minLength": 1}
_LABEL = r"^([A-Za-z0-9]+([-_.][A-Za-z0-9]+)*)?$"
_DRIVE_OR_SHARE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SLASHES = re.compile(r"[\\/]+")
# The constants that CMake names: https://cmake.org/cmake/help/latest/command/if.html
_WORDS = {
    **dict.fromkeys(("1", "ON", "YES", "TRUE", "Y"), True),
    **dict.fromkeys(("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""), False),
}


@dataclass(frozen=True)
class Location:
    """The place of a raw value; one that is ``textual`` (``-C``, variables) has numbers as text.

    ``example`` is a valid assignment in the syntax of that place, e.g. ``-C jobs=8``.
    """

    key: str
    origin: str
    example: str
    textual: bool = False
    folder: Path | None = None

    def refuse(self, raw: object, form: str, *, fix: str = "") -> TorchwheelError:
        id = "ill-typed-value/fixed" if fix else "ill-typed-value"
        values = {"key": self.key, "value": raw_text(raw), "form": form, "assignment": self.example}
        return refusal(id, origin=self.origin, fix=fix, **values)


def unusable_character_problem(sign: str, origin: str) -> Problem:
    id = "ill-typed-value/nul" if sign == "\0" else "ill-typed-value/byte"
    return Problem.of(id, origin=origin, byte=f"0x{ord(sign) & 0xFF:02X}")


def raw_text(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return f'"{raw}"'
    if isinstance(raw, (list, tuple)):
        return f"[{', '.join(raw_text(item) for item in raw)}]"
    if isinstance(raw, Mapping):
        return "a table"
    return str(raw)


@dataclass(frozen=True)
class ValueType:
    """A type of value.

    Attributes:
        form: what messages call a value of it.
        parse: returns a value in its normal form, or None if it is not of this type.
        quoted: whether TOML writes it in quotes.
        joins: whether several values make one list; of any other type two different ones contradict each other.
        words: all values, where there are few.
    """

    form: str
    parse: Callable[[Any, Location], Any]
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    quoted: bool = True
    joins: bool = False
    metavar: str = "VALUE"
    words: tuple[str, ...] = ()

    def read(self, raw: object, location: Location) -> Any:
        if sign := unusable_character(raw):
            raise TorchwheelError(unusable_character_problem(sign, location.origin))
        value = self.parse(raw, location)
        if value is None:
            raise location.refuse(raw, self.form, fix=self._own_value(raw, location))
        return value

    def _own_value(self, raw: object, location: Location) -> str:
        """The fix of a value that TOML takes for another type: ``13.0`` for a version, ``"4"`` for a number."""
        other = raw if isinstance(raw, str) else str(raw)
        if location.textual or not isinstance(raw, (str, int, float)):
            return ""
        with suppress(TorchwheelError):
            if (value := self.parse(other, replace(location, textual=True))) is not None:
                written = raw_text(value if isinstance(raw, str) else other)
                return f"write {location.key} = {written}{', without quotes' if isinstance(raw, str) else ''}"
        return ""


def _is_texts(items: object) -> bool:
    return isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items)


def _read_text(raw: Any, _: Location) -> str | None:
    return raw if isinstance(raw, str) and raw.strip() else None


def _read_line(raw: Any, _: Location) -> str | None:
    return raw if isinstance(raw, str) and not set(raw) & set("\n\r") else None


def _read_texts(raw: Any, _: Location) -> tuple[str, ...] | None:
    items = [raw] if isinstance(raw, str) else raw
    return tuple(items) if _is_texts(items) and all(items) else None


def _read_path(raw: Any, location: Location) -> str | None:
    text = _read_text(raw, location)
    return None if text is None else absolute_path(text, location.folder)


def _read_flag(raw: Any, location: Location) -> bool | None:
    if isinstance(raw, bool):
        return raw
    return parse_truth(raw) if location.textual and isinstance(raw, str) else None


def _read_names(raw: Any, _: Location) -> tuple[str, ...] | None:
    items = [raw] if isinstance(raw, str) else raw
    if not _is_texts(items):
        return None
    names = (name.strip() for item in items for name in item.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def _read_architectures(raw: Any, location: Location) -> ArchitectureList | None:
    if not isinstance(raw, str) and not _is_texts(raw):
        return None
    return parse_architectures(raw if isinstance(raw, str) else list(raw), location.origin)


def _read_range(raw: Any, _: Location) -> str | None:
    text = raw.strip() if isinstance(raw, str) else ""
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        return f"=={text}.*"
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})+", text):
        return f"=={text}"
    return text if text and read_range(text) is not None else None


def _read_base_version(raw: Any, location: Location) -> str | None:
    try:
        version = Version(raw) if isinstance(raw, str) else None
    except ValueError:
        return None
    if version is not None and version.local:
        fix = f"write {version.public} there, and {version.local} in local-version"
        raise location.refuse(raw, "a version without a local label", fix=fix)
    return str(version) if version is not None else None


def _read_label(raw: Any, _: Location) -> str | None:
    right = isinstance(raw, str) and re.fullmatch(_LABEL, raw)
    return re.sub("[-_]", ".", raw).lower() if right else None


TEXT = ValueType("a text", _read_text, _NOT_EMPTY)
_TEXTS = {"oneOf": [_NOT_EMPTY, {"type": "array", "items": _NOT_EMPTY}]}
TEXTS = ValueType("a list of texts", _read_texts, _TEXTS, quoted=False)
"""A list of texts; a single text stands for a list of one."""
PATH = ValueType("a path", _read_path, _NOT_EMPTY, metavar="PATH")
"""A path as text, so that it may belong to another platform; relative to its location's folder."""
MODULE_NAME = ValueType(
    "the dotted name of a Python module",
    lambda raw, _: raw if isinstance(raw, str) and all(map(str.isidentifier, raw.split("."))) else None,
    _NOT_EMPTY,
)
FLAG = ValueType("true or false", _read_flag, {"type": "boolean"}, quoted=False)
_NAMES = {"oneOf": [{"type": "string"}, {"type": "array", "items": _NOT_EMPTY}]}
NAMES = ValueType("a name, or a list of names", _read_names, _NAMES, joins=True, metavar="NAMES")
"""Names, as one text with commas or as a list."""
ARCHITECTURES = replace(NAMES, form="a list of architectures", parse=_read_architectures, metavar="LIST")
VERSION_RANGE = ValueType(
    "a version range", _read_range, {"type": "string", "pattern": r"^\s*([0-9]|[<>=!~])"}, metavar="RANGE"
)
"""A range of CUDA versions; a bare version stands for all its patch releases."""
BASE_VERSION = ValueType(
    "a version (PEP 440)", _read_base_version, {"type": "string", "pattern": r"^[^+]+$"}, metavar="VERSION"
)
LOCAL_LABEL = ValueType(
    "a local version label (letters, digits and dots)", _read_label, {"type": "string", "pattern": _LABEL}
)
"""A local version label of PEP 440, in its normal form; empty for no label."""
VARIABLE_TEXT = ValueType("a text on one line", _read_line)
"""The value of an environment variable; may be empty. With a line break, half of the flags would be lost."""
SCALAR = ValueType(
    "true, false, a whole number or a text on one line",
    lambda raw, location: raw if isinstance(raw, (bool, int)) else _read_line(raw, location),
    {"type": ["boolean", "integer", "string"]},
    quoted=False,
)
"""The value of a CMake option."""


def whole(least: int, greatest: int) -> ValueType:
    def parse(raw: Any, location: Location) -> int | None:
        # int() refuses texts of more than 4,300 digits with an error of its own.
        if location.textual and isinstance(raw, str) and re.fullmatch(r"\s*\d{1,20}\s*", raw):
            raw = int(raw)
        right = isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= greatest
        return raw if right else None

    schema = {"type": "integer", "minimum": least, "maximum": greatest}
    return ValueType(f"a whole number from {least} to {greatest:,}", parse, schema, quoted=False, metavar="N")


def choice(*words: str, path_key: str = "") -> ValueType:
    """One of a few words, in any case; a path is advised to go into the setting ``path_key``."""
    form = f"one of {', '.join(words)}"

    def parse(raw: Any, location: Location) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        for word in words:
            if word.casefold() == text.casefold():
                return word
        meant = find_nearest(text, words)
        fix = f"did you mean {meant}?" if meant else ""
        if path_key and set(text) & set("/\\~"):
            assignment = config_option(path_key, text) if location.textual else f'{path_key} = "{text}"'
            fix = f"name a folder under {path_key}: {assignment}"
        raise location.refuse(raw, form, fix=fix)

    return ValueType(form, parse, {"type": "string", "enum": list(words)}, words=words)


def parse_truth(value: object) -> bool | None:
    """Read a value as CMake does: true, false, or None if it is neither."""
    word = _truth_word(value)
    with suppress(ValueError):
        return float(str(value)) != 0 if word is None else word
    return None


def is_same_value(one: object, other: object) -> bool:
    """Whether two values of an option mean the same: ``ON`` and ``1`` do, 4 and 8 do not."""
    if one == other:
        return True
    words = [_truth_word(value) for value in (one, other)]
    if words != [None, None]:
        return words[0] == words[1]
    # Case counts unless both are spelled as Windows paths: MSVC's /O2 and /o2 are two flags.
    return isinstance(one, str) and isinstance(other, str) and same_path(one, other, windows=False)


def same_path(
    one: str | os.PathLike[str], other: str | os.PathLike[str], *, windows: bool = os.name == "nt"
) -> bool:
    """Whether two paths are equal up to the kind and number of slashes and a final one, on Windows also case.

    A plan may be for another platform, so a path with a drive or a share is Windows's.
    """
    return _normalise_path(os.fspath(one), windows) == _normalise_path(os.fspath(other), windows)


def _truth_word(value: object) -> bool | None:
    text = str(value).strip().upper()
    return False if text.endswith("-NOTFOUND") else _WORDS.get(text)


def _normalise_path(path: str, windows: bool) -> str:
    plain = _SLASHES.sub("/", path)
    plain = plain.rstrip("/") or plain
    return plain.casefold() if windows or _DRIVE_OR_SHARE.match(path) else plain
