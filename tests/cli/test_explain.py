"""``torchwheel explain``."""

from __future__ import annotations

import re

from cli.running import Run
from torchwheel.cli.explain import known_ids
from torchwheel.diagnosis import catalogue
from torchwheel.diagnosis import explain as explained_diagnosis
from torchwheel.preflight.rule_base import rules


def test_a_rule(program: Run) -> None:
    rule = rules().by_id["toolkit-lacks-architecture"]
    assert rule is not None
    result = program("explain", rule.id)
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "CUDA <version> cannot compile for <lacking>  [toolkit-lacks-architecture]\n"
        "\n"
        "Severity: error\n"
        "Why: <span>\n"
        "What to do: use CUDA <nearest>: -C cuda=<nearest>, or name its folder with -C\n"
        "cuda-path=\n"
        "To build in spite of it: -C skip-check=toolkit-lacks-architecture\n"
        "\n"
        f"Source: {rule.source}\n"
    )


def test_a_diagnosis(torchwheel: Run) -> None:
    result = torchwheel("explain", "[No-Kernel-Image]")
    assert (result.status, result.out) == (0, explained_diagnosis("no-kernel-image", 80) + "\n")


def test_as_a_document(torchwheel: Run) -> None:
    entry = catalogue().find("no-kernel-image")
    assert entry is not None
    explanations = torchwheel("explain", entry.id, "--json").document("explain")["explanations"]
    assert explanations == [
        {
            "id": "no-kernel-image",
            "kind": "diagnosis",
            "what": entry.title,
            "why": entry.means,
            "remedies": list(entry.change),
            "sources": list(entry.links),
            "phase": "runtime",
        }
    ]


def test_every_id_is_explained(torchwheel: Run) -> None:
    for id in known_ids():
        result = torchwheel("explain", id)
        assert (result.status, result.err) == (0, "")
        assert f"[{id}]" in result.out


def test_the_list_of_all(torchwheel: Run) -> None:
    document = torchwheel("explain", "--json").document("explain")
    both = [(one.id, "rule") for one in rules()] + [(one.id, "diagnosis") for one in catalogue()]
    assert [(one["id"], one["kind"]) for one in document["explanations"]] == both
    result = torchwheel("explain")
    lines = result.out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line.split()[0] for line in lines if re.match(r"[a-z]", line)] == [id for id, _ in both]


def test_an_unknown_id(torchwheel: Run) -> None:
    result = torchwheel("explain", "no-kernel-imgae")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "torchwheel: there is no rule or diagnosis 'no-kernel-imgae'  [unknown-id]\n"
        "    fix: did you mean 'no-kernel-image'?\n"
    )
    assert torchwheel("explain", "zzzz").err.endswith("    fix: `torchwheel explain` lists all of them\n")
