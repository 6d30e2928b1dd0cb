"""Make a PyTorch tree build through torchwheel: ``torchwheel adopt`` and its reverse."""

from __future__ import annotations

from torchwheel.adopt.adopting import Adoption, adopt, undo

__all__ = ["Adoption", "adopt", "undo"]
