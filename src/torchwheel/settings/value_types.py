"""The types of settings' values: how each is parsed, described, put into a JSON schema and compared."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError, find_nearest, refusal
from torchwheel.reporting.terminal import config_option
from torchwheel.settings.outside_paths import absolute_path
from torchwheel.system.toml import unusable_character
from torchwheel.versions import read_range

_NOT_EMPTY = {"type": "string", "minLength": 1}
_DRIVE_OR_SHARE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SLASHES = re.compile(r"[\\/]+")
# The constants that CMake names: https://cmake.org/cmake/help/latest/command/if.html
_WORDS = {
    **dict.fromkeys(("1", "ON", "YES", "TRUE", "Y"), True),
    **dict.fromkeys(("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""), False),
}


@dataclass(frozen=True)
class Location:
    """The place of a raw value.

    Attributes:
        example: a valid assignment in the syntax of that place, e.g. ``-C jobs=8``.
        textual: whether the place can only hold text (``-C``, variables), so that numbers come as text.
    """

    key: str
    origin: str
    example: str
    textual: bool = False
    folder: Path | None = None

    def refuse(self, raw: object, form: str, *, fix: str = "") -> TorchwheelError:
        """Return the error that ``raw`` does not have the form ``form``."""
        return refusal(
            "ill-typed-value/fixed" if fix else "ill-typed-value",
            origin=self.origin,
            key=self.key,
            value=raw_text(raw),
            form=form,
            fix=fix,
            assignment=self.example,
        )


def unusable_character_problem(sign: str, origin: str) -> Problem:
    """Return the error for a character that no build can use (``unusable_character``)."""
    return Problem.of(
        "ill-typed-value/nul" if sign == "\0" else "ill-typed-value/byte",
        origin=origin,
        byte=f"0x{ord(sign) & 0xFF:02X}",
    )


def raw_text(raw: object) -> str:
    """Format a raw value as TOML, for error messages."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return f'"{raw}"'
    if isinstance(raw, (list, tuple)):
        return f"[{', '.join(raw_text(item) for item in raw)}]"
    if isinstance(raw, Mapping):
        return "a table"
    return str(raw)


class ValueType:
    """A type of value.

    Attributes:
        joins: whether several values make one list; of any other type two different ones contradict each other.
    """

    form: str
    quoted = True
    joins = False
    schema: Mapping[str, Any] = {"type": "string"}

    def read(self, raw: object, location: Location) -> Any:
        """Return the value in its normal form."""
        if sign := unusable_character(raw):
            raise TorchwheelError(unusable_character_problem(sign, location.origin))
        value = self._parse(raw, location)
        if value is None:
            raise location.refuse(raw, self.form, fix=self._own_value(raw, location))
        return value

    def _own_value(self, raw: object, location: Location) -> str:
        """The fix of a value that TOML takes for another type: ``13.0`` for a version, ``"4"`` for a number."""
        other = raw if isinstance(raw, str) else str(raw)
        if location.textual or not isinstance(raw, (str, int, float)):
            return ""
        with suppress(TorchwheelError):
            value = self._parse(other, replace(location, textual=True))
            if value is not None:
                written = raw_text(value if isinstance(raw, str) else other)
                return f"write {location.key} = {written}{', without quotes' if isinstance(raw, str) else ''}"
        return ""

    def _parse(self, raw: object, location: Location) -> Any:
        """The value in its normal form; None if it is not of this type."""
        raise NotImplementedError


def _is_texts(items: object) -> bool:
    return isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items)


class Text(ValueType):
    """Text that is not empty."""

    form = "a text"
    schema = _NOT_EMPTY

    def _parse(self, raw: object, location: Location) -> str | None:
        return raw if isinstance(raw, str) and raw.strip() else None


class Texts(ValueType):
    """A list of texts; a single text stands for a list of one."""

    form = "a list of texts"
    quoted = False
    schema: Mapping[str, Any] = {"oneOf": [_NOT_EMPTY, {"type": "array", "items": _NOT_EMPTY}]}

    def _parse(self, raw: object, location: Location) -> tuple[str, ...] | None:
        items: Any = [raw] if isinstance(raw, str) else raw
        return tuple(items) if _is_texts(items) and all(items) else None


class ModuleName(ValueType):
    """The dotted name of a Python module."""

    form = "the dotted name of a Python module"
    schema = _NOT_EMPTY

    def _parse(self, raw: object, location: Location) -> str | None:
        named = isinstance(raw, str) and all(part.isidentifier() for part in raw.split("."))
        return str(raw) if named else None


class PathText(Text):
    """A path as text, so that it may belong to another platform; relative to its location's folder."""

    form = "a path"

    def _parse(self, raw: object, location: Location) -> str | None:
        text = super()._parse(raw, location)
        return None if text is None else absolute_path(text, location.folder)


class Whole(ValueType):
    """A whole number in a range."""

    quoted = False

    def __init__(self, least: int, greatest: int) -> None:
        self.least, self.greatest = least, greatest
        self.form = f"a whole number from {least} to {greatest:,}"
        self.schema = {"type": "integer", "minimum": least, "maximum": greatest}

    def _parse(self, raw: object, location: Location) -> int | None:
        # int() refuses texts of more than 4,300 digits with an error of its own.
        if location.textual and isinstance(raw, str) and re.fullmatch(r"\s*\d{1,20}\s*", raw):
            raw = int(raw)
        whole = isinstance(raw, int) and not isinstance(raw, bool)
        return int(raw) if whole and self.least <= raw <= self.greatest else None  # type: ignore[operator, call-overload]


class Flag(ValueType):
    """True or false."""

    form = "true or false"
    quoted = False
    schema: Mapping[str, Any] = {"type": "boolean"}

    def _parse(self, raw: object, location: Location) -> bool | None:
        if isinstance(raw, bool):
            return raw
        return parse_truth(raw) if location.textual and isinstance(raw, str) else None


class Choice(ValueType):
    """One of a few words, in any case."""

    def __init__(self, words: tuple[str, ...], path_key: str = "") -> None:
        self.words = words
        self.path_key = path_key
        self.form = f"one of {', '.join(words)}"
        self.schema = {"type": "string", "enum": list(words)}

    def read(self, raw: object, location: Location) -> str:
        """Return the word as it is defined, whatever the case of ``raw``."""
        text = raw.strip() if isinstance(raw, str) else ""
        for word in self.words:
            if word.casefold() == text.casefold():
                return word
        meant = find_nearest(text, self.words)
        fix = f"did you mean {meant}?" if meant else ""
        if self.path_key and set(text) & set("/\\~"):
            assignment = (
                config_option(self.path_key, text) if location.textual else f'{self.path_key} = "{text}"'
            )
            fix = f"name a folder under {self.path_key}: {assignment}"
        raise location.refuse(raw, self.form, fix=fix)


class Names(ValueType):
    """Names, as one text with commas or as a list."""

    form = "a name, or a list of names"
    joins = True
    schema: Mapping[str, Any] = {"oneOf": [{"type": "string"}, {"type": "array", "items": _NOT_EMPTY}]}

    def _parse(self, raw: object, location: Location) -> tuple[str, ...] | None:
        items: Any = [raw] if isinstance(raw, str) else raw
        if not _is_texts(items):
            return None
        names = (name.strip() for item in items for name in item.split(","))
        return tuple(dict.fromkeys(name for name in names if name))


class Architectures(ValueType):
    """Architectures in any spelling that ``torchwheel.hardware.arch`` reads."""

    form = "a list of architectures"
    joins = True
    schema = Names.schema

    def _parse(self, raw: object, location: Location) -> ArchitectureList | None:
        if isinstance(raw, str):
            return parse_architectures(raw, location.origin)
        if isinstance(raw, (list, tuple)) and _is_texts(raw):
            return parse_architectures([str(item) for item in raw], location.origin)
        return None


class VersionRange(ValueType):
    """A range of CUDA versions; a bare version stands for all its patch releases."""

    form = "a version range"
    schema: Mapping[str, Any] = {"type": "string", "pattern": r"^\s*([0-9]|[<>=!~])"}

    def _parse(self, raw: object, location: Location) -> str | None:
        text = raw.strip() if isinstance(raw, str) else ""
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            return f"=={text}.*"
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})+", text):
            return f"=={text}"
        return text if text and read_range(text) is not None else None


class BaseVersion(ValueType):
    """A PEP 440 version without a local part."""

    form = "a version (PEP 440)"
    schema: Mapping[str, Any] = {"type": "string", "pattern": r"^[^+]+$"}

    def _parse(self, raw: object, location: Location) -> str | None:
        try:
            version = Version(raw) if isinstance(raw, str) else None
        except ValueError:
            return None
        if version is not None and version.local:
            fix = f"write {version.public} there, and {version.local} in local-version"
            raise location.refuse(raw, "a version without a local label", fix=fix)
        return str(version) if version is not None else None


class LocalLabel(ValueType):
    """A local version label of PEP 440, in its normal form; empty for no label."""

    form = "a local version label (letters, digits and dots)"
    pattern = r"^([A-Za-z0-9]+([-_.][A-Za-z0-9]+)*)?$"
    schema: Mapping[str, Any] = {"type": "string", "pattern": pattern}

    def _parse(self, raw: object, location: Location) -> str | None:
        right = isinstance(raw, str) and re.fullmatch(self.pattern, raw)
        return re.sub("[-_]", ".", str(raw)).lower() if right else None


class Scalar(ValueType):
    """The value of a CMake option: a truth value, a whole number or any text on one line."""

    form = "true, false, a whole number or a text on one line"
    quoted = False
    schema: Mapping[str, Any] = {"type": ["boolean", "integer", "string"]}

    def _parse(self, raw: object, location: Location) -> bool | int | str | None:
        right = isinstance(raw, (bool, int)) or (isinstance(raw, str) and not set(raw) & set("\n\r"))
        return raw if right else None  # type: ignore[return-value]


class VariableText(ValueType):
    """The value of an environment variable; may be empty. With a line break, half of the flags would be lost."""

    form = "a text on one line"

    def _parse(self, raw: object, location: Location) -> str | None:
        return raw if isinstance(raw, str) and not set(raw) & set("\n\r") else None


def parse_truth(value: object) -> bool | None:
    """Read a value as CMake does: true, false, or None if it is neither."""
    text = str(value).strip().upper()
    if (word := _truth_word(text)) is not None:
        return word
    try:
        return float(text) != 0
    except ValueError:
        return None


def is_same_value(one: object, other: object) -> bool:
    """Whether two values of an option mean the same: ``ON`` and ``1`` do, 4 and 8 do not."""
    if one == other:
        return True
    words = [_truth_word(str(value).strip().upper()) for value in (one, other)]
    if words != [None, None]:
        return words[0] == words[1]
    # Case counts unless both are spelled as Windows paths: MSVC's /O2 and /o2 are two flags.
    return isinstance(one, str) and isinstance(other, str) and same_path(one, other, windows=False)


def same_path(
    one: str | os.PathLike[str], other: str | os.PathLike[str], *, windows: bool = os.name == "nt"
) -> bool:
    r"""Whether two paths are equal up to the kind of slash, doubled slashes and a final slash.

    Case is ignored on Windows. A plan may be for another platform, so a path with a drive or a share
    (``C:\CUDA``, ``\\server\CUDA``) is Windows's anywhere.
    """
    return _normalise_path(os.fspath(one), windows) == _normalise_path(os.fspath(other), windows)


def _truth_word(text: str) -> bool | None:
    return False if text.endswith("-NOTFOUND") else _WORDS.get(text)


def _normalise_path(path: str, windows: bool) -> str:
    plain = _SLASHES.sub("/", path)
    plain = plain.rstrip("/") or plain
    return plain.casefold() if windows or _DRIVE_OR_SHARE.match(path) else plain
