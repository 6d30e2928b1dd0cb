"""Mask secrets in everything that torchwheel writes for others.

Masked are values in a secret's place (the user in an address, a variable with TOKEN in its name), and every secret that
:func:`learn_secrets` has seen in this process. masking.toml lists the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from torchwheel.reporting.messages import read_plain_toml

MASK = "***"

_LEAST_CHARACTERS = 8
"""Shorter secrets are not searched for by value, because they would match in other words."""
_LONGEST_NAME = 100

_USERINFO = re.compile(r"(?<=://)[^/\s'\"<>\\]{1,2000}@")
_SCHEMELESS_USERINFO = re.compile(r"^[^/\s@]{1,2000}@")
_PARAMETER = re.compile(r"(?<=[?&;|,])([\w.-]{1,100})=([^&\s'\"<>;|,]+)")
_AUTHORIZATION = re.compile(r"(?<=authorization: )(\w{1,20} )?\S+", re.IGNORECASE)
# NAME=value in upper case as in an environment, and after -D, --, "env." and "define." in any. VALUE is what texts of
# torchwheel and of others write for any value: KEY=VALUE.
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])(?P<head>(?:-D|--|-C ?)?(?:cmake\.)?(?:env\.|define\.)?)"
    r"(?P<name>[A-Za-z_][\w-]{0,99})(?P<equals>(?::[A-Z]{2,20})?=)"
    r"(?!VALUE\b)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
)

_learned: dict[str, None] = {}


@cache
def _secret_patterns(table: str, key: str) -> re.Pattern[str]:
    names = read_plain_toml(Path(__file__).with_name("masking.toml"))[table][key]
    return re.compile("|".join(map(translate, names)))


def _is_among(name: str, table: str, key: str) -> bool:
    return len(name) <= _LONGEST_NAME and _secret_patterns(table, key).match(name.upper()) is not None


@cache
def is_secret_name(name: str) -> bool:
    """Whether a variable, an option or a setting holds a secret: ``HF_TOKEN``, ``env.HF_TOKEN``."""
    name = name.rpartition(".")[2]
    if _is_among(name, "names", "open"):
        return False
    return _is_among(name, "names", "secret") or _is_among(name, "names", "remote")


def mask(text: str) -> str:
    for secret in _learned:
        if secret in text:
            text = text.replace(secret, MASK)
    if "@" in text and "://" in text:
        text = _USERINFO.sub(f"{MASK}@", text)
    if "=" in text:
        text = _PARAMETER.sub(
            lambda match: f"{match[1]}={MASK}" if _is_among(match[1], "parameters", "names") else match[0],
            text,
        )
        text = _ASSIGNMENT.sub(_masked_assignment, text)
    return (
        _AUTHORIZATION.sub(lambda match: f"{match[1] or ''}{MASK}", text) if "uthorization" in text else text
    )


def mask_line(line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    masked = mask(text)
    return line if masked == text else masked.encode("utf-8", "surrogateescape")


def mask_value(name: str, value: str) -> str:
    if value and is_secret_name(name):
        return MASK
    if _is_among(name.rpartition(".")[2], "names", "proxy"):
        value = _SCHEMELESS_USERINFO.sub(f"{MASK}@", value)
    return mask(value)


def mask_document(data: Any) -> Any:
    """Mask JSON data, including tables of values by name and ``{"name": NAME, "value": VALUE}``."""
    if isinstance(data, str):
        return mask(data)
    if isinstance(data, (list, tuple)):
        return [mask_document(one) for one in data]
    if not isinstance(data, Mapping):
        return data
    masked = {
        mask(key) if isinstance(key, str) else key: _masked_entry(key, value) for key, value in data.items()
    }
    named = data.get("name", data.get("key"))
    if isinstance(named, str) and isinstance(value := data.get("value"), str):
        masked["value"] = mask_value(named, value)
    return masked


def _masked_entry(key: object, value: Any) -> Any:
    # "key" is the name of a field in torchwheel's own documents.
    if isinstance(key, str) and isinstance(value, str) and key != "key":
        return mask_value(key, value)
    return mask_document(value)


def _masked_assignment(match: re.Match[str]) -> str:
    is_one = match["head"] or match["name"].isupper()
    if not is_one or not is_secret_name(match["name"].replace("-", "_")):
        return match[0]
    return f"{match['head']}{match['name']}{match['equals']}{MASK}"


def learn_secrets(values: Mapping[str, object]) -> None:
    """Mask the secrets among these variables or settings from now on, wherever they occur."""
    for name, value in values.items():
        for text in map(str, value if isinstance(value, (list, tuple)) else [value]):
            for secret in _secrets_in(name, text):
                # Logs and terminals show a text line by line.
                for spelling in (secret, unquote(secret), *secret.splitlines()):
                    if len(spelling) >= _LEAST_CHARACTERS and MASK not in spelling:
                        _learned[spelling] = None


def _secrets_in(name: str, text: str) -> Iterator[str]:
    name = name.rpartition(".")[2]
    if is_secret_name(name) and _is_among(name, "names", "secret"):
        yield text
    found = [*_USERINFO.findall(text)]
    if _is_among(name, "names", "proxy"):
        found += _SCHEMELESS_USERINFO.findall(text)
    for userinfo in found:
        user, colon, password = userinfo.removesuffix("@").partition(":")
        yield password if colon else user
    yield from (m[2] for m in _PARAMETER.finditer(text) if _is_among(m[1], "parameters", "names"))
    for assignment in _ASSIGNMENT.finditer(text):
        if _masked_assignment(assignment) != assignment[0]:
            yield assignment["value"].strip("'\"")
