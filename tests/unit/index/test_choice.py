"""Which wheel of a site a machine takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag

from torchwheel.index.catalogue import SiteFile, SiteWheel
from torchwheel.index.choice import Machine, choose_wheel

TAG = Tag("py3", "none", "any")


def wheel(version: str, held: str = "") -> SiteWheel:
    path = f"cpu/simple/torch/torch-{version}+cpu-{TAG}.whl"
    return replace(SiteWheel(SiteFile(path, 1, 1, "", ""), None, None, (), None), held=held)


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("torch", "2.14.1+cpu"),
        ("torch>=2.15.0a0", "2.15.0a0+cpu"),
        ("torch<2.14", "2.13.0rc1+cpu"),
        # What is held back is no installer's choice.
        ("torch>=2.14.2", "None"),
    ],
)
def test_a_pre_release_is_taken_as_installers_take_it(wanted: str, taken: str) -> None:
    wheels = [wheel("2.13.0rc1"), wheel("2.14.1"), wheel("2.15.0a0"), wheel("2.14.2", held="withdrawn")]
    if taken == "None":
        wheels.pop(2)
    machine = Machine((), "3.11", {TAG: 0}, lambda _cuda: True)
    found = choose_wheel(wheels, Requirement(wanted), machine, without_gpu=True).wheel
    assert str(found and found.version) == taken
