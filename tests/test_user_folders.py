"""The user's own folders, held against platformdirs."""

from __future__ import annotations

import platformdirs
import pytest

from torchwheel._user_folders import user_folder


@pytest.mark.parametrize("value", [None, "", "/somewhere else", "relative/folder"])
def test_they_are_those_of_platformdirs(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert user_folder("cache") == platformdirs.user_cache_path("torchwheel", appauthor=False)
    assert user_folder("config") == platformdirs.user_config_path("torchwheel", appauthor=False)
