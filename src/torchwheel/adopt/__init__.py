"""Letting a PyTorch tree build through torchwheel by itself: ``torchwheel adopt`` and its reverse."""

from __future__ import annotations

from torchwheel.adopt.adopting import adopt
from torchwheel.adopt.report import Adoption, Release
from torchwheel.adopt.undoing import undo

__all__ = ["Adoption", "Release", "adopt", "undo"]
