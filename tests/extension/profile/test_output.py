"""A profile as a page and as a document."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from extension.profile.profiles import FULL, PROFILE, UNTOLD
from shipped_data import document_schema
from torchwheel.extension.profile.output import profile_content, render_profile
from torchwheel.reporting import print_document

PAGE = """\
SOURCE          KIND  SECONDS  HEADERS  PASSES  MEMORY   MOSTLY
csrc/kernel.cu  CUDA  80.0     75.0     4       3.0 GiB  device code 36.0 s
csrc/full.cpp   C++   20.0     14.0     1       500 MiB  parsing 15.0 s
csrc/plain.c    C     0.2      ?        1       ?        ?

Seconds are elapsed time, measured one compiler at a time and without a compiler cache. HEADERS is
what a source pays for headers of others; PASSES is how often a front end reads them.

All together 100.2 s: with 2 jobs a build takes 80.0 s or more, because csrc/kernel.cu alone takes
that long. By the memory of the dearest source, 1 would fit at once: -C jobs=1.

HEADER ALONE   KIND  SECONDS  TOGETHER  SOURCES
torch/types.h  CUDA  74.0     74.0      1: csrc/kernel.cu
odd.h          C++   ?        ?         1: csrc/full.cpp

What changes would save, each measured here by itself; they overlap, so they do not add up.

74.0 s of 100.2 s: keep PyTorch's headers out of CUDA sources  [device-code-without-torch]
    where      csrc/kernel.cu
    how        Let the .cu file hold kernels.
    reckoned   headers take 75.0 s now and 0.0 s without them.
    elsewhere  115 s became 4.4 s.
    see        https://example.org/nvcc"""


def test_the_page() -> None:
    assert render_profile(PROFILE, 98) == PAGE


def test_a_narrow_page_has_no_wider_lines() -> None:
    assert max(map(len, render_profile(PROFILE, 80).splitlines())) <= 80


def test_a_page_with_nothing_to_save() -> None:
    page = render_profile(
        replace(PROFILE, sources=(FULL,), headers=(), savings=(), seconds=20.0, jobs=1, fitting_jobs=None),
        200,
    )
    assert page.split("\n\n")[1:] == [
        "Seconds are processor time, measured one compiler at a time and without a compiler cache. HEADERS is what a "
        "source pays for headers of others; PASSES is how often a front end reads them.",
        "All together 20.0 s: with one job a build takes 20.0 s or more.",
        "No change that torchwheel knows of would save enough here to be worth making.",
    ]


def test_the_document_is_as_its_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    print_document("extension", action="profile", **profile_content(PROFILE))
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, document_schema("extension"), cls=jsonschema.Draft202012Validator)
    assert document["shortest_build_seconds"] == 80.0
    assert document["sources"][0]["mostly"] == "device code"
    assert document["sources"][2] == {
        "sources": ["csrc/plain.c"],
        "extension": "m",
        "language": "c",
        "elapsed_seconds": 0.25,
        "processor_seconds": None,
        "peak_bytes": None,
        "headers_seconds": None,
        "front_end_passes": 1,
        "mostly": None,
        "phases": [],
        "text": None,
        "command": list(UNTOLD.compile.command),
    }


@pytest.mark.parametrize(
    "broken",
    [{"action": "plan"}, {"seconds": -1}, {"links": {}}, {"jobs": 0}, {"unknown": 1}, {"sources": None}],
)
def test_the_schema_is_strict(broken: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    print_document("extension", **{"action": "profile", **profile_content(PROFILE), **broken})
    document = json.loads(capsys.readouterr().out)
    assert not jsonschema.Draft202012Validator(document_schema("extension")).is_valid(document)
