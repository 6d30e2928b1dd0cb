"""What was asked for: settings from every layer, each value with where it comes from."""

from __future__ import annotations

from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.load import load_settings, user_overlays_folder
from torchwheel.settings.resolve import Settings

__all__ = ["Layer", "Setting", "Settings", "load_settings", "user_overlays_folder"]
