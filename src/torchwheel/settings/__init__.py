"""The request: settings from every layer, each value with its origin."""

from __future__ import annotations

from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.resolve import Settings, load_settings

__all__ = ["Layer", "Setting", "Settings", "load_settings"]
