"""The list of a site's wheels, which may come from a stranger's server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from refusals import error_of
from torchwheel.index.catalogue import SiteFile, SiteWheel, catalogue_text, parse_catalogue

NAME = "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
FILE = SiteFile(f"cu130.sm120/simple/torch/{NAME}", 5, 7, "ab" * 32, "cd" * 32)
VARIANT = SiteFile(
    "simple/torch/torch-2.14.1-cp311-cp311-linux_x86_64-cu130.sm120.whl", 5, 7, "ab" * 32, "cd" * 32
)
WHEEL = SiteWheel(FILE, ">=3.10", "13.0", ("sm120", "ptx120"), {"sm_arch": ("120_real",)}, "", VARIANT)


def test_what_is_written_is_read() -> None:
    wheels = (WHEEL, SiteWheel(FILE, None, None, (), None, "why"))
    assert parse_catalogue(catalogue_text(wheels).encode(), "here") == wheels
    assert (WHEEL.name, str(WHEEL.version), WHEEL.label) == ("torch", "2.14.1+cu130.sm120", "cu130.sm120")


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(catalogue_text([WHEEL]))
    change(document["wheels"][0])
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"schema": 1, "wheels": []}',
        b'{"schema": 2}',
        b'{"schema": 2, "wheels": [3]}',
        changed(lambda row: row.pop("code")),
        changed(lambda row: row.update(code=["sm99999"])),
        changed(lambda row: row.update(requires_python="??")),
        changed(lambda row: row.update(requires_python=3)),
        changed(lambda row: row["file"].update(size="5")),
        changed(lambda row: row["file"].update(size=-1)),
        changed(lambda row: row["file"].update(sha256="ab")),
        changed(lambda row: row["file"].update(path=f"../{NAME}")),
        changed(lambda row: row["file"].update(path=f"https://example.org/simple/torch/{NAME}")),
        changed(lambda row: row["file"].update(path=FILE.path.replace("+cu130.sm120", ""))),
        changed(
            lambda row: row["file"].update(
                path=FILE.path.replace("cp311-linux", f"{'.'.join('ab' * 99)}-linux")
            )
        ),
        changed(lambda row: row["variant"].update(path="../../etc/passwd")),
    ],
)
def test_a_malformed_list(data: bytes) -> None:
    (problem,) = error_of(parse_catalogue, data, "https://example.org/wheels.json").problems
    assert (problem.id, problem.origin) == ("malformed-site-list", "https://example.org/wheels.json")
