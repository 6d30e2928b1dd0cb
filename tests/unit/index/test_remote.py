"""What is fetched from a site comes from nowhere else."""

from __future__ import annotations

import io
from http.client import HTTPMessage
from urllib.request import Request

import pytest

from torchwheel.index.remote import _SameHost
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
