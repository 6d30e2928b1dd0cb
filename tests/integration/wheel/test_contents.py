"""What is found inside wheels.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from torchwheel.wheel.contents import inspect_wheel


def test_a_wheel_without_torch(foreign_wheel: Path) -> None:
    contents = inspect_wheel(foreign_wheel)
    if contents.name == "torch":
        assert contents.architectures is not None
        assert contents.architectures.labels == ("sm120",)
    else:
        assert (contents.name, contents.version) == ("sample", "1.0+cpu")
        assert contents.tags == contents.wheel_tags == ("py3-none-any",)
        assert (contents.metadata.name, contents.metadata.version) == ("sample", "1.0+cpu")
        assert (contents.has_torch, contents.torch_version, contents.libraries) == (False, None, ())
        assert contents.architectures is None
