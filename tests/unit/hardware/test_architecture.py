"""Which architectures exist, as the shipped data has them."""

from __future__ import annotations

from itertools import pairwise

from torchwheel.hardware.architecture import Architecture, known_architectures


def test_the_shipped_architectures() -> None:
    known = {entry.capability.dotted: "".join(entry.suffixes) for entry in known_architectures()}
    plain = "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.8 8.9"
    both = "10.0 10.1 10.3 10.7 11.0 12.0 12.1"
    assert known == dict.fromkeys(plain.split(), "") | {"9.0": "a"} | dict.fromkeys(both.split(), "af")


def test_the_forms_are_those_of_cuda_13() -> None:
    # `ptxas --help` of CUDA 13.0, "Allowed values" of --gpu-name.
    # It has neither 10.7, which is newer, nor 10.1, which it calls 11.0.
    others = (Architecture(10, 1), Architecture(10, 7))
    shipped = [
        text.replace(".", "")
        for entry in known_architectures()
        for text in entry.spellings
        if entry.capability >= Architecture(7, 5) and entry.capability not in others
    ]
    assert " ".join(shipped) == (
        "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"
    )


def test_tegra_and_its_renaming() -> None:
    known = known_architectures()
    assert [e.capability.dotted for e in known if e.tegra] == ["5.3", "6.2", "7.2", "8.7", "10.1", "11.0"]
    assert {e.capability.dotted: str(e.renamed_to) for e in known if e.renamed_to} == {"10.1": "11.0"}


def test_every_source_is_public() -> None:
    assert {entry.source.split("/")[2] for entry in known_architectures()} == {
        "developer.nvidia.com",
        "docs.nvidia.com",
    }


def test_they_are_in_order_and_what_they_name_is_known() -> None:
    known = known_architectures()
    capabilities = list(known.by_capability)
    assert all(one < next_one for one, next_one in pairwise(capabilities))
    assert {e.renamed_to for e in known if e.renamed_to} <= set(capabilities)
    assert all(members and set(members) <= set(capabilities) for members in known.names.values())
    assert all(list(members) == sorted(members) for members in known.names.values())
