"""The kinds of values that settings have: how each is read, described and put into a JSON schema."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Protocol

from packaging.version import InvalidVersion, Version

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.settings.spelling import nearest
from torchwheel.settings.values import truth
from torchwheel.versions import read_range


@dataclass(frozen=True)
class Place:
    """Where a raw value stands.

    Attributes:
        key: the setting's key, dotted.
        origin: the place in words, as errors name it.
        example: a right assignment in the syntax of that place, e.g. ``-C jobs=8``.
        textual: whether the place can only hold text (``-C``, variables), so that numbers come as text.
        folder: what a relative path is relative to; None leaves it as it is.
    """

    key: str
    origin: str
    example: str
    textual: bool = False
    folder: Path | None = None

    def refuse(self, raw: object, form: str, *, why: str = "", remedy: str = "") -> TorchwheelError:
        """The error that ``raw`` is not a value of this kind."""
        return TorchwheelError(
            Problem(
                id="ill-typed-value",
                what=f"{self.key} is {raw_text(raw)}, which is not {form}",
                remedy=remedy or f"write {form}, for example {self.example}",
                why=why,
                origin=self.origin,
            )
        )


def raw_text(raw: object) -> str:
    """A raw value as TOML would write it, for error messages."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return f'"{raw}"'
    if isinstance(raw, (list, tuple)):
        return f"[{', '.join(raw_text(item) for item in raw)}]"
    if isinstance(raw, Mapping):
        return "a table"
    return str(raw)


class Kind(Protocol):
    """A kind of value.

    Attributes:
        form: the kind in words, with its article.
        quoted: whether TOML writes an example of it in quotes.
    """

    form: str
    quoted: bool

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the value in TOML."""

    def read(self, raw: object, place: Place) -> Any:
        """The value in its normal form; raises TorchwheelError when it is none of this kind."""


class Text:
    """Text that is not empty."""

    form = "a text"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def read(self, raw: object, place: Place) -> str:
        if not isinstance(raw, str) or not raw.strip():
            raise place.refuse(raw, self.form)
        return raw


class Texts:
    """A list of texts; a single text stands for a list of one."""

    form = "a list of texts"
    quoted = False

    def schema(self) -> dict[str, Any]:
        item = {"type": "string", "minLength": 1}
        return {"oneOf": [item, {"type": "array", "items": item}]}

    def read(self, raw: object, place: Place) -> tuple[str, ...]:
        items = [raw] if isinstance(raw, str) else raw
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) and item for item in items):
            raise place.refuse(raw, self.form)
        return tuple(items)


class ModuleName:
    """The dotted name of a Python module."""

    form = "the dotted name of a Python module"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def read(self, raw: object, place: Place) -> str:
        if not isinstance(raw, str) or not all(part.isidentifier() for part in raw.split(".")):
            raise place.refuse(raw, self.form)
        return raw


class PathText(Text):
    """A path as text, so that it may belong to another platform; relative to the file it stands in."""

    form = "a path"

    def read(self, raw: object, place: Place) -> str:
        text = os.path.expanduser(super().read(raw, place))  # noqa: PTH111 - Path.expanduser raises without a home
        absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
        return text if absolute or place.folder is None else str(place.folder / text)


class WordOrPath(PathText):
    """One of a few words in any case, or a path: absolute, or with a separator in it."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.form = f"one of {', '.join(words)}, or a path"

    def read(self, raw: object, place: Place) -> str:
        text = Text().read(raw, place).strip()
        if set(text) & set("/\\~."):
            return super().read(text, place)
        meant = nearest(text, self.words)
        if meant is None or meant.casefold() != text.casefold():
            raise place.refuse(
                raw, self.form, remedy=f'write "{meant}", or "./{text}" for a folder' if meant else ""
            )
        return meant


class Whole:
    """A whole number with a least value."""

    quoted = False

    def __init__(self, least: int) -> None:
        self.least = least
        self.form = f"a whole number of at least {least}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least}

    def read(self, raw: object, place: Place) -> int:
        number = raw
        if place.textual and isinstance(raw, str) and raw.strip().isdecimal():
            number = int(raw)
        if not isinstance(number, int) or isinstance(number, bool) or number < self.least:
            raise place.refuse(raw, self.form)
        return number


class Flag:
    """True or false."""

    form = "true or false"
    quoted = False

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def read(self, raw: object, place: Place) -> bool:
        if isinstance(raw, bool):
            return raw
        meant = truth(raw) if place.textual and isinstance(raw, str) else None
        if meant is not None:
            return meant
        raise place.refuse(raw, self.form)


class Choice:
    """One of a few words, in any case."""

    quoted = True

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.form = f"one of {', '.join(words)}"

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def read(self, raw: object, place: Place) -> str:
        if isinstance(raw, str):
            for word in self.words:
                if word.casefold() == raw.strip().casefold():
                    return word
            meant = nearest(raw, self.words)
            raise place.refuse(raw, self.form, remedy=f'write "{meant}"' if meant else "")
        raise place.refuse(raw, self.form)


class Names:
    """Names, as one text with commas or as a list."""

    form = "a name, or a list of names"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {
            "oneOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string", "minLength": 1}},
            ]
        }

    def read(self, raw: object, place: Place) -> tuple[str, ...]:
        items = [raw] if isinstance(raw, str) else raw
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            raise place.refuse(raw, self.form)
        names = (name.strip() for item in items for name in item.split(","))
        return tuple(dict.fromkeys(name for name in names if name))


class Architectures:
    """Architectures in any spelling that ``torchwheel.hardware.arch`` reads."""

    form = "a list of architectures"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return Names().schema()

    def read(self, raw: object, place: Place) -> ArchitectureList:
        if isinstance(raw, str):
            return parse_architectures(raw, place.origin)
        if isinstance(raw, (list, tuple)) and all(isinstance(item, str) for item in raw):
            return parse_architectures([str(item) for item in raw], place.origin)
        raise place.refuse(raw, self.form)


class VersionRange:
    """A range of CUDA versions; a bare version stands for all its patch releases."""

    form = "a version range"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\s*([0-9]|[<>=!~])"}

    def read(self, raw: object, place: Place) -> str:
        if not isinstance(raw, str):
            raise place.refuse(raw, self.form)
        text = raw.strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return f"=={text}.*"
        if re.fullmatch(r"\d+(\.\d+)+", text):
            return f"=={text}"

        if not text or read_range(text) is None:
            raise place.refuse(raw, self.form)
        return text


class BaseVersion:
    """A PEP 440 version without a local part."""

    form = "a version (PEP 440)"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^[^+]+$"}

    def read(self, raw: object, place: Place) -> str:
        try:
            version = Version(raw) if isinstance(raw, str) else None
        except InvalidVersion:
            version = None
        if version is None:
            raise place.refuse(raw, self.form)
        if version.local:
            remedy = f"write {version.public} there, and {version.local} in local-version"
            raise place.refuse(raw, "a version without a local label", remedy=remedy)
        return str(version)


class LocalLabel:
    """A local version label of PEP 440, in its normal form; empty for no label."""

    form = "a local version label (letters, digits and dots)"
    quoted = True

    pattern = r"^([A-Za-z0-9]+([-_.][A-Za-z0-9]+)*)?$"

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}

    def read(self, raw: object, place: Place) -> str:
        if not isinstance(raw, str) or not re.fullmatch(self.pattern, raw):
            raise place.refuse(raw, self.form)
        return re.sub("[-_]", ".", raw).lower()


class Scalar:
    """The value of a CMake option: a truth value, a whole number or any text on one line."""

    form = "true, false, a whole number or a text on one line"
    quoted = False

    def schema(self) -> dict[str, Any]:
        return {"type": ["boolean", "integer", "string"]}

    def read(self, raw: object, place: Place) -> bool | int | str:
        if isinstance(raw, (bool, int)) or (isinstance(raw, str) and not set(raw) & set("\n\r\0")):
            return raw
        raise place.refuse(raw, self.form)


class VariableText:
    """The value of an environment variable; may be empty."""

    form = "a text"
    quoted = True

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}

    def read(self, raw: object, place: Place) -> str:
        if isinstance(raw, str) and "\0" not in raw:
            return raw
        raise place.refuse(raw, self.form)
