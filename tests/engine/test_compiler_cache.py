"""What a compiler cache is told for one build, and how often it answered, with programs that stand for the caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchwheel.engine.compiler_cache import CacheUse, ccache_use, compiler_cache

OURS = {"CCACHE_BASEDIR": "/cache", "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "include_file_mtime"}
CONFIGURATION = """\
(default) base_dir =
(environment) cache_dir = /c
(/home/me/my ccache.conf) hash_dir = true
(/etc/ccache.conf) sloppiness = pch_defines
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH whose ccache tells of two files of settings."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ccache").write_text(f"#!/bin/sh\ncat <<'END'\n{CONFIGURATION}END\n", encoding="utf-8")
    (folder / "ccache").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_what_the_users_own_file_of_settings_says_holds(environment: dict[str, str], tmp_path: Path) -> None:
    log = str(tmp_path / "ccache-stats.log")
    with compiler_cache("ccache", environment, OURS, tmp_path) as whole:
        assert whole == {**environment, "CCACHE_BASEDIR": "/cache", "CCACHE_STATSLOG": log}
    with compiler_cache("ccache", {**environment, "CCACHE_BASEDIR": "/mine"}, OURS, tmp_path) as whole:
        assert whole["CCACHE_BASEDIR"] == "/mine"
    with compiler_cache(None, environment, {"CCACHE_DISABLE": "1"}, tmp_path) as whole:
        assert whole == {**environment, "CCACHE_DISABLE": "1"}


HIT = "# a.cpp\ndirect_cache_hit\nlocal_storage_hit\nlocal_storage_read_hit\n"
PREPROCESSED = "# b.cpp\ndirect_cache_miss\nlocal_storage_hit\npreprocessed_cache_hit\n"
MISS = "# cache_miss\ncache_miss\ndirect_cache_miss\nlocal_storage_miss\npreprocessed_cache_miss\n"
NO_COMPILATION = "# a.o\ncalled_for_link\n"


@pytest.mark.parametrize(
    ("log", "use", "told"),
    [
        ("", CacheUse(), ["ccache: nothing was compiled"]),
        (NO_COMPILATION, CacheUse(), ["ccache: nothing was compiled"]),
        (
            f"{HIT}{PREPROCESSED}{MISS}{NO_COMPILATION}",
            CacheUse(2, 1),
            ["ccache answered 2 of 3 compilations (66 %)"],
        ),
        (HIT * 1368, CacheUse(1368), ["ccache answered 1,368 of 1,368 compilations (100 %)"]),
        (
            f"{MISS}remote_storage_error\n{MISS}remote_storage_timeout\n",
            CacheUse(0, 2, 2),
            [
                "ccache answered 0 of 2 compilations (0 %)",
                "ccache could not reach its shared storage 2 times; what it lacked was compiled here",
            ],
        ),
    ],
)
def test_the_log_of_statistics(
    environment: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    log: str,
    use: CacheUse,
    told: list[str],
) -> None:
    file = tmp_path / "build" / "ccache-stats.log"
    file.parent.mkdir()
    file.write_text(HIT, encoding="utf-8")
    with compiler_cache("ccache", environment, OURS, tmp_path / "build"):
        # An earlier build's is gone.
        assert ccache_use(file) == CacheUse()
        file.write_text(log, encoding="utf-8")
        assert ccache_use(file) == use
    assert capsys.readouterr().out.splitlines() == [f"torchwheel: {line}" for line in told]


def test_a_log_of_the_users_own_is_theirs(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with compiler_cache("ccache", {**environment, "CCACHE_STATSLOG": "/mine"}, OURS, tmp_path) as whole:
        assert whole["CCACHE_STATSLOG"] == "/mine"
    assert capsys.readouterr().out == ""


def test_after_a_failed_build_nothing_is_said(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="failed"), compiler_cache("ccache", environment, OURS, tmp_path):
        raise ValueError("failed")
    assert capsys.readouterr().out == ""
