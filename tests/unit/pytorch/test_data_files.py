"""The shipped data files name public documents only."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from torchwheel import pytorch


@pytest.mark.parametrize("file", [*Path(pytorch.__file__).parent.glob("*.toml")], ids=lambda file: file.name)
def test_sources_are_public_documents(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    hosts = {urlsplit(word).hostname for word in text.replace('"', " ").split() if word.startswith("https:")}
    assert hosts <= {
        "github.com", "pytorch.org", "download.pytorch.org", "dev-discuss.pytorch.org", "nvidia-cosmos.github.io",
        "gcc.gnu.org", "clang.llvm.org", "learn.microsoft.com", "devblogs.microsoft.com",
    }  # fmt: skip
