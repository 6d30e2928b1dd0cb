"""What an sdist remembers: the version in its name, and the settings that name and version came from.

A wheel made of an sdist must have the sdist's name and version, else front ends refuse it
(https://packaging.python.org/specifications/source-distribution-format/). So what decides them goes with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, refusal
from torchwheel.settings.components import components
from torchwheel.settings.config_settings import read_config_settings
from torchwheel.settings.layers import Layer, Setting

SDIST_FILE = ".torchwheel-sdist.json"
"""At the top of an sdist."""

NAME_VARIABLE = "TORCH_PACKAGE_NAME"
"""Calls the distribution in PyTorch's setup.py: https://github.com/pytorch/pytorch/blob/v2.6.0/setup.py."""

_OF_THE_NAME = f"env.{NAME_VARIABLE}"
_KEYS = frozenset(
    {
        "arch", "build-type", "cuda", "flag-architectures", "local-version", "profile", "target", "version",
        _OF_THE_NAME,
    }
)  # fmt: skip
_RANK = 30
"""Above all that the project's pyproject.toml says, and below variables and ``-C``."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SdistRecord:
    """The content of ``.torchwheel-sdist.json``.

    Attributes:
        settings: settings as ``-C`` takes them.
        label: what torchwheel added to the version of a project with extensions, which may have a label of its own.
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


def remembered(settings: Iterable[Setting], cuda: str | None) -> dict[str, str]:
    """What decides name and version and is not in the project itself, and CUDA's version.

    That is what the environment and ``-C`` say, and what an sdist remembers that the project itself comes from.
    """
    given = {
        s.key: ",".join(s.value) if isinstance(s.value, tuple) else s.text
        for s in settings
        if (s.layer >= Layer.ENVIRONMENT or (s.layer is Layer.PROJECT and s.rank == _RANK))
        and _decides(s.key)
    }
    return given if cuda is None else {**given, "cuda": cuda}


def read_sdist_record(folder: Path) -> SdistRecord | None:
    """What the sdist that a folder was unpacked from remembers; None where it is none of torchwheel's.

    Raises:
        TorchwheelError: the file is not as torchwheel writes it.
    """
    file = folder / SDIST_FILE
    if not file.is_file():
        return None
    try:
        with file.open("rb") as stream:
            document: Any = json.loads(stream.read(_MOST_BYTES))
        version, settings = document["version"], document["settings"]
        label = document.get("label", "")
        texts = [version, label, *settings, *settings.values()]
        if not all(isinstance(text, str) for text in texts) or not all(map(_decides, settings)):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise refusal("malformed-sdist-record", origin=file) from None
    return SdistRecord(version, settings, label)


def _decides(key: str) -> bool:
    table, _, name = key.partition(".")
    # Whether there is CUDA, the target says.
    return key in _KEYS or (
        table == "define" and name != "USE_CUDA" and components().of_option(name) is not None
    )
