"""``torchwheel gpus``."""

from __future__ import annotations

import pytest

from cli.running import Run
from torchwheel.hardware.gpu_catalogue import read_gpus


def names(torchwheel: Run, *words: str) -> list[str]:
    return [gpu["name"] for gpu in torchwheel("gpus", "--json", *words).document("gpus")["gpus"]]


def test_a_filtered_table(program: Run) -> None:
    result = program("gpus", "gb10")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "NAME  CAPABILITY  FAMILY     MEMORY   PRODUCT\ngb10  12.1        Blackwell  128 GiB  GB10\n"
    )


def test_the_whole_catalogue(torchwheel: Run) -> None:
    assert names(torchwheel) == [gpu.name for gpu in read_gpus()]
    result = torchwheel("gpus")
    assert [line for line in result.out.splitlines() if len(line) > 80] == []
    assert {line.split()[0] for line in result.out.splitlines()} >= {gpu.name for gpu in read_gpus()}


def test_a_document_has_everything(torchwheel: Run) -> None:
    gpu = read_gpus().resolve("rtx5070")
    chosen = torchwheel("gpus", "rtx5070", "--json").document("gpus")["gpus"]
    assert chosen[0] == {
        "name": "rtx5070",
        "title": "GeForce RTX 5070",
        "aliases": list(gpu.aliases),
        "compute_capability": "12.0",
        "family": "Blackwell",
        "memory_gib": 12.0,
        "platforms": list(gpu.platforms),
        "source": gpu.source,
    }


@pytest.mark.parametrize("spelling", ["12.1", "sm_121", "compute_121", "12.1a"])
def test_a_capability_in_any_spelling(spelling: str, torchwheel: Run) -> None:
    expected = [gpu.name for gpu in read_gpus() if gpu.compute_capability.dotted == "12.1"]
    assert names(torchwheel, spelling) == expected


def test_a_bare_number_may_be_a_capability_or_a_part_of_a_name(torchwheel: Run) -> None:
    found = names(torchwheel, "100")
    assert {"b200", "a100", "h100"} <= set(found)
    assert "rtx5070" not in found


def test_a_family(torchwheel: Run) -> None:
    assert names(torchwheel, "hopper") == [gpu.name for gpu in read_gpus() if gpu.family == "Hopper"]


def test_all_words_must_fit(torchwheel: Run) -> None:
    found = names(torchwheel, "Blackwell", "5070", "laptop")
    assert found == ["rtx5070-laptop", "rtx5070ti-laptop"]


def test_a_spelling_of_nvidia_smi(torchwheel: Run) -> None:
    assert names(torchwheel, "NVIDIA A100-SXM4-80GB") == ["a100"]


@pytest.mark.parametrize(
    ("words", "named"),
    [(["rtx5071"], "rtx5070"), (["gfx1100"], "gfx1100"), (["kepler", "xyz"], "kepler xyz")],
)
def test_nothing_fits(words: list[str], named: str, torchwheel: Run) -> None:
    result = torchwheel("gpus", *words)
    assert (result.refusal, named in result.err) == ((2, "", ["unknown-gpu"]), True)
