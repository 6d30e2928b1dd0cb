"""Which environment variables matter, and of those which may be shown to others: ``reported_variables.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.settings.pytorch_env import is_build_variable

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@cache
def _patterns(kind: str) -> tuple[str, ...]:
    data = read_toml(Path(__file__).with_name("reported_variables.toml"))
    return tuple(data[kind]["names"])


def reported(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that can change a build, sorted, without anything secret.

    Names that look like a secret's are left out whatever else they are; user names and passwords in
    addresses are cut out of the values.
    """
    return {
        name: _CREDENTIALS.sub("", value)
        for name, value in sorted(environment.items())
        if value and _matters(name) and not _matches(name, "secret")
    }


def _matters(name: str) -> bool:
    return is_build_variable(name) or _matches(name, "shown")


def _matches(name: str, kind: str) -> bool:
    return any(_fits(name.upper(), pattern) for pattern in _patterns(kind))


def _fits(name: str, pattern: str) -> bool:
    """``*`` stands at the ends of a pattern only; fnmatch would compile an expression for each of them."""
    text = pattern.strip("*")
    if pattern.startswith("*"):
        return text in name if pattern.endswith("*") else name.endswith(text)
    return name.startswith(text) if pattern.endswith("*") else name == text
