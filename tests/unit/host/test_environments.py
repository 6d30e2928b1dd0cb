"""Where environments lie, and which of them a frontend throws away."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from torchwheel.host.this import environment_folder, is_isolated


def test_the_folder_depends_on_requirements_in_any_order_and_on_the_interpreter(tmp_path: Path) -> None:
    folder = environment_folder(tmp_path, ["b", "a>=1"], "cp311")
    assert folder == environment_folder(tmp_path, ["a>=1", "b"], "cp311")
    assert folder.parent == tmp_path / "environments"
    assert folder.name.startswith("cp311-")
    others = {
        environment_folder(tmp_path, ["a>=2", "b"], "cp311"),
        environment_folder(tmp_path, ["a>=1", "b"], "cp312"),
        environment_folder(tmp_path, ["a>=1", "b"], "cp311t"),
    }
    assert folder not in others
    assert len(others) == 3


@pytest.mark.parametrize(
    ("place", "isolated"),
    [
        ("/x/pip-build-env-ab12/overlay/lib/python3.11/site-packages", True),
        ("/x/pip-build-env-ab12/normal/lib/python3.11/site-packages", True),
        ("/home/me/build-env-py311/lib/python3.11/site-packages", False),
        ("/home/me/pip-build-env-mine/lib/python3.11/site-packages", False),
        ("/home/me/builds-v2/lib/python3.11/site-packages", False),
        ("/home/me/.cache/uv/builds-v0/.tmpAbCd/lib/python3.11/site-packages", True),
        ("/home/me/venv/lib/python3.11/site-packages", False),
        ("/home/me/builds/lib/python3.11/site-packages", False),
    ],
)
def test_front_ends_environments_are_known_by_name(
    place: str, isolated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.11", place])
    assert is_isolated() is isolated


def test_an_unknown_front_end_s_environment_is_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", str(Path(tempfile.gettempdir(), "another", "env")))
    assert is_isolated()
    monkeypatch.setattr(sys, "prefix", "/usr")
    assert not is_isolated()
