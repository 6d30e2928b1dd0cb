"""What is fetched from a site comes from nowhere else."""

from __future__ import annotations

import io
from dataclasses import replace
from http.client import HTTPMessage
from urllib.request import Request

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag

from torchwheel.index.catalogue import SiteFile, SiteWheel
from torchwheel.index.remote import Machine, _SameHost, choose_wheel
from torchwheel.reporting.errors import TorchwheelError


@pytest.mark.parametrize(
    ("new", "followed"), [("https://a/y", True), ("http://a/x", False), ("https://b/x", False)]
)
def test_a_redirect_keeps_host_and_scheme(new: str, followed: bool) -> None:
    """A password would be sent unencrypted, or to a stranger."""

    def redirected() -> Request | None:
        return _SameHost().redirect_request(Request("https://a/x"), io.BytesIO(), 302, "", HTTPMessage(), new)

    if followed:
        assert redirected() is not None
    else:
        with pytest.raises(TorchwheelError):
            redirected()


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
