"""Pipes and devices in the place of files: nothing waits for them, or reads them without an end."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from limits import within_limits
from places import REPOSITORY
from torchwheel.cli.main import main
from torchwheel.progress.build_record import read_build_record
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.files import read_beginning
from torchwheel.tree.source_tree import read_tree
from torchwheel.wheel.archive import open_wheel

TREE = REPOSITORY / "examples" / "minitorch"
REASON = "it is a pipe, a socket or a device, not a file"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files"),
    pytest.mark.timeout(60),
]


@pytest.fixture(params=["pipe", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.symlink_to("/dev/zero") if request.param == "device" else os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "FILE"],
        ["plan", str(TREE), "--target", "cpu", "--host", "FILE"],
        ["doctor", str(TREE), "--target", "cpu", "--host", "FILE"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_says_that_it_is_no_file(
    command: list[str], special: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    with pytest.raises(SystemExit):
        main([word.replace("FILE", str(special)) for word in command])
    assert capsys.readouterr().err == (
        f"torchwheel: {Problem.of('unreadable-file/pipe', origin=special, reason=REASON).render()}\n"
    )


def test_it_is_no_wheel_and_no_record_and_has_no_text(special: Path) -> None:
    with pytest.raises(TorchwheelError, match=REASON), open_wheel(special):
        pass
    within_limits(read_nothing, special)


def read_nothing(special: Path) -> None:
    assert (read_build_record(special), read_beginning(special)) == (None, "")


@pytest.mark.parametrize("name", [".gitmodules", "cmake/public/cuda.cmake", "caffe2/CMakeLists.txt"])
def test_in_a_tree_it_says_nothing(name: str, special: Path, tmp_path: Path) -> None:
    """A repository may hold a link to ``/dev/zero``, and an archive a pipe."""
    trees = [tmp_path / "with", tmp_path / "without"]
    for tree in trees:
        shutil.copytree(TREE, tree)
        (tree / name).unlink(missing_ok=True)
        (tree / name).parent.mkdir(exist_ok=True)
    (trees[0] / name).symlink_to(special)
    within_limits(read_alike, *trees)


def read_alike(one: Path, other: Path) -> None:
    same = "root", "identity"
    first, second = (
        {key: value for key, value in vars(read_tree(tree)).items() if key not in same}
        for tree in (one, other)
    )
    assert first == second
