"""What the documentation shows is what the commands print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from docs.blocks import PAGES, REPOSITORY, Block, blocks, demo_folder, shown
from torchwheel.cli.main import COMMANDS

ALL = [block for page in PAGES for block in blocks(page)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_folder(tmp_path_factory.mktemp("home").resolve())


@pytest.mark.skipif(sys.platform == "win32", reason="the pages show a POSIX shell")
@pytest.mark.parametrize("block", [one for one in ALL if not one.not_run], ids=lambda block: block.name)
def test_a_block_shows_what_its_commands_print(block: Block, demo: Path) -> None:
    assert "\n".join(block.lines) == "\n".join(shown(block, demo)), "run: make docs"


def test_the_blocks_are_found() -> None:
    assert len([one for one in ALL if not one.not_run]) >= 5
    assert {one.page.name for one in ALL} >= {"README.md", "quickstart.md"}


def test_commands_of_others_are_not_run() -> None:
    for block in ALL:
        for line in block.lines:
            if line.startswith("$ ") and not block.not_run:
                assert line.startswith("$ torchwheel "), f"{block.name}: say why it is not run"


def test_commands_that_the_pages_name_exist() -> None:
    options = re.compile(r"torchwheel ([a-z]+)")
    for page in PAGES:
        named = set(options.findall(" ".join(re.findall(r"`(torchwheel [^`]+)`", page.read_text("utf-8")))))
        assert named <= COMMANDS.keys(), page


def test_no_stale_advice() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "site-packages/nvidia" not in text, page
    readme = " ".join((REPOSITORY / "README.md").read_text("utf-8").split())
    assert "`torchwheel gpus` lists" in readme
