"""Which architectures exist, as the shipped data has them."""

from __future__ import annotations

from itertools import pairwise

from torchwheel.hardware.architecture import known_architectures


def test_they_are_in_order_and_what_they_name_is_known() -> None:
    known = known_architectures()
    capabilities = list(known.by_capability)
    assert all(one < next_one for one, next_one in pairwise(capabilities))
    assert {e.renamed_to for e in known if e.renamed_to} <= set(capabilities)
    assert all(members and set(members) <= set(capabilities) for members in known.names.values())
    assert all(list(members) == sorted(members) for members in known.names.values())
