"""``torchwheel explain``."""

from __future__ import annotations

import re

import pytest

from cli.running import Run
from torchwheel.cli.explain import read_explanations
from torchwheel.diagnosis.failures import read_catalogue

DIAGNOSIS = """\
this MSVC's standard library needs CUDA 12.4 or newer
[msvc-stl-needs-newer-cuda]

The headers of the installed MSVC check the CUDA version and accept 12.4 and
newer only.

What to change:
  1. add the toolset 14.39 in the Visual Studio Installer (`MSVC v143 …
     v14.39-17.9`) and build in the prompt that `vcvarsall.bat x64
     -vcvars_ver=14.39` opens
  2. or CUDA 12.4 or newer, with a torch for it: `-C cuda-path=…`
  3. or skip the check, at your own risk: `-C
     env.NVCC_APPEND_FLAGS=-D_ALLOW_COMPILER_AND_STL_VERSION_MISMATCH`

Applies to: platform windows

More:
  https://github.com/lshqqytiger/ZLUDA/issues/108
  https://github.com/microsoft/STL/issues/2359
"""

MESSAGE = """\
-C target: target names cpu together with GPUs: cpu, rtx5070  [cpu-among-gpus]

cpu means a build without CUDA; a wheel for GPUs runs on the CPU too

What to change:
  leave cpu out, or name it alone
"""


def test_a_diagnosis(torchwheel: Run) -> None:
    result = torchwheel("explain", "[MSVC-STL-needs-newer-CUDA]")
    assert (result.status, result.out) == (0, DIAGNOSIS)


def test_a_message(torchwheel: Run) -> None:
    result = torchwheel("explain", "cpu-among-gpus")
    assert (result.status, result.out) == (0, MESSAGE)


def test_where_colours_are_wanted_its_headings_have_that_of_all_headings(
    torchwheel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = torchwheel("explain", "msvc-stl-needs-newer-cuda")
    coloured = re.sub("^(What to change:|More:)$", "\x1b[1m\\1\x1b[0m", DIAGNOSIS, flags=re.MULTILINE)
    assert (result.status, result.out) == (0, coloured)


def test_as_a_document(torchwheel: Run) -> None:
    (entry,) = (entry for entry in read_catalogue() if entry.id == "nccl-multicast-refused")
    explained = torchwheel("explain", entry.id, "--json").document("explain")["explanations"]
    assert explained == [
        {
            "id": "nccl-multicast-refused",
            "kind": "diagnosis",
            "what": entry.title,
            "why": entry.means,
            "more": "",
            "remedies": list(entry.change),
            "sources": list(entry.links),
            "phase": "runtime",
        }
    ]


def test_the_list_of_all(torchwheel: Run) -> None:
    document = torchwheel("explain", "--json").document("explain")
    listed = [(one["id"], one["kind"]) for one in document["explanations"]]
    assert listed == [(one.id, one.kind) for one in read_explanations()]
    assert {kind for _, kind in listed} == {"rule", "diagnosis", "message"}
    result = torchwheel("explain")
    lines = result.out.splitlines()
    assert [line for line in lines if len(line) > 80 and max(map(len, line.split())) < 40] == []
    rows = [line.split()[0] for line in lines if re.match(r"[a-z]", line)]
    assert rows == [id for id, _ in dict.fromkeys(listed)]


def test_an_unknown_id(torchwheel: Run) -> None:
    result = torchwheel("explain", "no-kernel-imgae")
    assert (result.refusal, "no-kernel-image" in result.err) == ((2, "", ["unknown-id"]), True)
    assert torchwheel("explain", "zzzz").refusal == (2, "", ["unknown-id"])
