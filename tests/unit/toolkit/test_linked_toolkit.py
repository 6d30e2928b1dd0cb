"""A toolkit of conda's shape, and the folder that stands for it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.trees import conda_installation, linux_installation
from torchwheel.host.this import odd_characters
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.toolkit.assemble import linked_toolkit, make_linked_toolkit
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit, toolkit_at

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or platform.machine() != "x86_64", reason="conda's folders on Linux and x86-64"
)


def test_conda_s_layout_is_a_toolkit(tmp_path: Path) -> None:
    toolkit = toolkit_at(conda_installation(tmp_path / "my env"))
    assert (toolkit.version, Path(toolkit.include_dirs[0]).parts[-3:]) == (
        "13.0",
        ("targets", "x86_64-linux", "include"),
    )


@pytest.mark.parametrize(
    ("install", "folder"),
    [(conda_installation, "my env"), (linux_installation, "a\"#$&'(),:;<>[\\]`{|}!%*=?^b")],
)
def test_the_stand_in_has_the_usual_layout(
    install: Callable[[Path], Path], folder: str, tmp_path: Path
) -> None:
    toolkit, cache = toolkit_at(install(tmp_path / folder)), tmp_path / "cache"
    told = linked_toolkit(toolkit, cache)
    for _ in range(2):
        make_linked_toolkit(toolkit, cache)
        found = toolkit_at(told.root)
        assert Path(told.root).parent == cache / "toolkits"
        assert (found.nvcc, found.include_dirs) == (told.nvcc, (f"{told.root}/include",))
        assert Path(found.library_dir or "").resolve() == Path(toolkit.library_dir or "").resolve()
        assert [path.name for path in (cache / "toolkits").iterdir()] == [Path(told.root).name]
    assert (told.include_dirs, told.version) == (toolkit.include_dirs, toolkit.version)
    assert not odd_characters(Path(told.root))


def test_the_usual_layout_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    # A recorded Windows path is a relative one elsewhere.
    monkeypatch.chdir(here)
    for toolkit in (
        toolkit_at(linux_installation(tmp_path / "cuda")),
        assumed_toolkit("13.0", "linux_x86_64"),
        assumed_toolkit("13.0", "win_amd64"),
    ):
        assert linked_toolkit(toolkit, tmp_path / "cache") is toolkit
        make_linked_toolkit(toolkit, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert list(here.iterdir()) == []


def test_a_cache_that_cannot_be_written_to(tmp_path: Path) -> None:
    toolkit, cache = toolkit_at(conda_installation(tmp_path / "env")), tmp_path / "cache"
    cache.touch()
    with pytest.raises(TorchwheelError) as refused:
        make_linked_toolkit(toolkit, cache)
    assert [problem.id for problem in refused.value.problems] == ["toolkit-not-assembled"]
