"""The record in an sdist: the version in its name, and the settings that determined name and version.

A wheel built from an sdist must have the sdist's name and version, else frontends refuse it
(https://packaging.python.org/specifications/source-distribution-format/). So those settings are stored in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem, refusal
from torchwheel.settings.components import read_components
from torchwheel.settings.config_settings import read_config_settings
from torchwheel.settings.layers import Layer, Setting
from torchwheel.system.paths import is_file

SDIST_FILE = ".torchwheel-sdist.json"
"""The record's path in an sdist."""

NAME_VARIABLE = "TORCH_PACKAGE_NAME"
"""Sets the distribution's name in PyTorch's setup.py: https://github.com/pytorch/pytorch/blob/v2.6.0/setup.py."""

_OF_THE_NAME = f"env.{NAME_VARIABLE}"
_KEYS = frozenset(
    {
        "arch", "build-type", "cuda", "flag-architectures", "local-version", "package-version", "profile", "target",
        _OF_THE_NAME,
    }
)  # fmt: skip
_RANK = 30
"""Above all of the project's pyproject.toml, below variables and ``-C``."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SdistRecord:
    """The content of ``.torchwheel-sdist.json``.

    Attributes:
        label: torchwheel's addition to the version of a project with extensions, which may have its own label.
    """

    version: str
    settings: Mapping[str, str]
    label: str = ""

    def to_json(self) -> bytes:
        document: dict[str, Any] = {"version": self.version}
        if self.label:
            document["label"] = self.label
        document["settings"] = dict(sorted(self.settings.items()))
        return (json.dumps(document, indent=2) + "\n").encode()

    def read(self, problems: list[Problem]) -> tuple[Setting, ...]:
        """The settings, of the project's layer."""
        found, _ = read_config_settings(self.settings, problems)
        return tuple(
            replace(one, layer=Layer.PROJECT, rank=_RANK, origin=f"the sdist's {one.key}") for one in found
        )


def settings_to_record(settings: Iterable[Setting], cuda: str | None) -> dict[str, str]:
    """Collect CUDA's version and the settings from outside the project that determine name and version.

    Those come from the environment, from ``-C``, and from the sdist that the project itself was unpacked from.
    """
    given = {
        s.key: ",".join(s.value) if isinstance(s.value, tuple) else s.text
        for s in settings
        if (s.layer >= Layer.ENVIRONMENT or (s.layer is Layer.PROJECT and s.rank == _RANK))
        and _affects_name(s.key)
    }
    return given if cuda is None else {**given, "cuda": cuda}


def read_sdist_record(folder: Path) -> SdistRecord | None:
    """Read the record of the sdist that a folder was unpacked from; None if torchwheel did not write one."""
    file = folder / SDIST_FILE
    if not is_file(file):
        return None
    try:
        with file.open("rb") as stream:
            document: Any = json.loads(stream.read(_MOST_BYTES))
        version, settings = document["version"], document["settings"]
        label = document.get("label", "")
        texts = [version, label, *settings, *settings.values()]
        if not all(isinstance(text, str) for text in texts) or not all(map(_affects_name, settings)):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise refusal("malformed-sdist-record", origin=file) from None
    return SdistRecord(version, settings, label)


def _affects_name(key: str) -> bool:
    table, _, name = key.partition(".")
    # The target decides USE_CUDA.
    return key in _KEYS or (
        table == "define" and name != "USE_CUDA" and read_components().of_option(name) is not None
    )
