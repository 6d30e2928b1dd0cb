"""``torchwheel diagnose``."""

from __future__ import annotations

import io
import platform
from pathlib import Path

import jsonschema
import pytest

from cli.running import Run
from shipped_data import document_schema
from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.scanner import diagnose

KNOWN = b"[3/9] Building CUDA object x.cu.o\nnvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
UNKNOWN = b"-- Configuring done\nCMake Error at CMakeLists.txt:3 (frobnicate): it cannot be frobnicated\n"
CLEAN = b"[9/9] Linking CXX shared library libc10.so\nSuccessfully built torch\n"


def shown(log: bytes, facts: Facts | None = None) -> str:
    return render(diagnose(io.BytesIO(log), facts=facts), 80) + "\n"


def test_a_file(torchwheel: Run, here: Path) -> None:
    for log, status in ((KNOWN, 1), (UNKNOWN, 1), (CLEAN, 0)):
        (here / "build.log").write_bytes(log)
        result = torchwheel("diagnose", "build.log")
        assert (result.status, result.out, result.err) == (status, shown(log), "")


def test_a_document(torchwheel: Run, here: Path) -> None:
    (here / "build.log").write_bytes(KNOWN)
    result = torchwheel("diagnose", "build.log", "--json")
    document = result.document("diagnose")
    assert result.status == 1
    assert document == {
        "schema": 1,
        "command": "diagnose",
        "log": "build.log",
        "diagnosis": to_dict(diagnose(io.BytesIO(KNOWN))),
    }
    jsonschema.validate(
        document["diagnosis"], document_schema("diagnosis"), cls=jsonschema.Draft202012Validator
    )


@pytest.mark.usefixtures("wide")
def test_the_last_build(torchwheel: Run, here: Path) -> None:
    log = here / "build.log"
    log.write_bytes(KNOWN)
    cache = here.parent / "cache"
    cache.mkdir()
    (cache / "last-build.txt").write_text(str(log), encoding="utf-8")
    result = torchwheel("diagnose")
    assert (result.status, result.out) == (1, f"{log}\n\n{shown(KNOWN, Facts(platform.system()))}")
    log.unlink()
    assert torchwheel("diagnose").refusal == (2, "", ["no-last-build"])


@pytest.mark.usefixtures("wide")
def test_before_the_first_build(torchwheel: Run, here: Path) -> None:
    assert torchwheel("diagnose").refusal == (2, "", ["no-last-build"])


@pytest.mark.usefixtures("wide")
def test_a_log_that_cannot_be_read(torchwheel: Run) -> None:
    assert torchwheel("diagnose", "nosuch.log").refusal == (2, "", ["unreadable-log"])


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08\x00"])
def test_what_is_no_log(torchwheel: Run, here: Path, content: bytes) -> None:
    (here / "build.log").write_bytes(content)
    assert torchwheel("diagnose", "build.log").refusal == (2, "", ["no-log"])
