"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says how busy the machine is; pytest-timeout catches what never ends.
settings.register_profile("torchwheel", deadline=None)
settings.load_profile("torchwheel")
