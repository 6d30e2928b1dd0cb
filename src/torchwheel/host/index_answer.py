"""What the package index has today for a list of requirements, from metadata: nothing is installed."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.host.installer import find_installer, read_installer
from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.reporting.errors import refusal

_SECONDS = 300.0
"""pip reads the metadata of thirty packages one after the other, from an index that may be far away."""


def ask_index(requires: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return name -> version of what an isolated build of this Python would install today.

    uv is asked where it is installed: it reads metadata in parallel, and only parts of wheels whose index has no
    metadata files, which pip downloads whole.
    """
    uv = find_program("uv", environment.get("PATH"))
    installer = (read_installer([uv], environment) if uv else None) or find_installer(environment)
    if installer is None:
        raise refusal("index-not-asked")
    with tempfile.TemporaryDirectory(prefix="torchwheel-index-") as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text("\n".join(requires) + "\n", encoding="utf-8")
        with installer.resolve_command(wanted, sys.executable, environment) as (command, variables):
            try:
                answer = ask_program(command, variables, _SECONDS)
            except NoAnswer as failure:
                raise refusal("index-not-asked/no-answer", installer=installer, reason=failure) from failure
    if answer.returncode != 0:
        raise refusal(
            "index-has-no-answer",
            requirements=", ".join(requires),
            installer=installer,
            reason=(answer.stderr or answer.stdout).strip(),
        )
    return _read_uv(answer.stdout) if installer.name == "uv" else _read_pip(answer.stdout)


def _read_uv(text: str) -> dict[str, str]:
    lines = (line.partition(";")[0].split() for line in text.splitlines())
    pins = (words[0].partition("==") for words in lines if words)
    return {canonicalize_name(name): version for name, equals, version in pins if equals}


def _read_pip(text: str) -> dict[str, str]:
    return {
        canonicalize_name(entry["metadata"]["name"]): entry["metadata"]["version"]
        for entry in json.loads(text)["install"]
    }
