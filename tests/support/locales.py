"""Locales that tests make for themselves, for LOCPATH."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

ABSENT = "there is no localedef with its sources (Debian: locales)"


def can_make_locale(language: str) -> bool:
    """Whether this machine can make the locale of a language, ``de_DE``."""
    return shutil.which("localedef") is not None and (Path("/usr/share/i18n/locales") / language).is_file()


def make_locales(folder: Path, languages: Iterable[str]) -> None:
    """Make ``LANGUAGE.UTF-8`` in a folder; what cannot be made is left out."""
    for language in languages:
        command = ["localedef", "--no-archive", "-i", language, "-f", "UTF-8", folder / f"{language}.UTF-8"]
        subprocess.run(command, capture_output=True, check=False)
