"""CONTRIBUTING.md names files and tests that there are."""

from __future__ import annotations

import re

from places import REPOSITORY

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
BASES = (
    REPOSITORY,
    REPOSITORY / "src" / "torchwheel",
    REPOSITORY / "tests" / "unit" / "diagnosis",
    REPOSITORY / "tests" / "unit" / "settings",
)


def test_every_file_that_it_names_is_there() -> None:
    named = {word for text in re.findall(r"`([^`]+)`", TEXT) for word in text.split()}
    files = {word for word in named if re.fullmatch(r"[\w./-]+(?:\.(?:py|toml|md|yml)|/)|tests/[\w/]+", word)}
    assert len(files) > 25
    assert {word for word in files if not any((base / word).exists() for base in BASES)} == set()


def test_every_target_of_make_that_it_names_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", TEXT)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
