"""Which architectures exist, as the shipped data has them."""

from __future__ import annotations

from itertools import pairwise

from torchwheel.hardware.architecture import known_architectures


def test_the_shipped_architectures() -> None:
    known = {entry.capability.dotted: "".join(entry.suffixes) for entry in known_architectures()}
    plain = "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.8 8.9"
    both = "10.0 10.1 10.3 10.7 11.0 12.0 12.1"
    assert known == dict.fromkeys(plain.split(), "") | {"9.0": "a"} | dict.fromkeys(both.split(), "af")


def test_tegra_and_its_renaming() -> None:
    known = known_architectures()
    assert [e.capability.dotted for e in known if e.tegra] == ["5.3", "6.2", "7.2", "8.7", "10.1", "11.0"]
    assert {e.capability.dotted: str(e.renamed_to) for e in known if e.renamed_to} == {"10.1": "11.0"}


def test_they_are_in_order_and_what_they_name_is_known() -> None:
    known = known_architectures()
    capabilities = list(known.by_capability)
    assert all(one < next_one for one, next_one in pairwise(capabilities))
    assert {e.renamed_to for e in known if e.renamed_to} <= set(capabilities)
    assert all(members and set(members) <= set(capabilities) for members in known.names.values())
    assert all(list(members) == sorted(members) for members in known.names.values())
