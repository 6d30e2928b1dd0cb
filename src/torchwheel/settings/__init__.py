"""What was requested: settings from every layer, each value with where it comes from."""

from __future__ import annotations

from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.resolve import Settings, load_settings

__all__ = ["Layer", "Setting", "Settings", "load_settings"]
