"""What the documentation shows is what the commands print."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from docs.blocks import PAGES, REPOSITORY, blocks, command_lines, demo_folder, fenced, shown
from torchwheel.cli.main import COMMANDS, parse_command
from torchwheel.settings.schema import tool_schema
from torchwheel.system.toml import tomllib

ALL = [block for page in PAGES for block in blocks(page)]
RUN = sorted({one.page for one in ALL if not one.not_run})
LONG = ("fleet.md", "quickstart.md")


@pytest.fixture(scope="module")
def demo() -> Iterator[Path]:
    with demo_folder() as folder:
        yield folder


@pytest.mark.skipif(sys.platform == "win32", reason="the pages show a POSIX shell")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=pytest.mark.long if page.name in LONG else ()) for page in RUN],
)
def test_a_page_shows_what_its_commands_print(page: Path, demo: Path) -> None:
    """One block makes what the next one shows, so a page is run as a whole."""
    for block in (one for one in ALL if one.page == page and not one.not_run):
        assert "\n".join(block.lines) == "\n".join(shown(block, demo)), f"{block.name}: run: make docs"


def test_the_blocks_are_found() -> None:
    assert len([one for one in ALL if not one.not_run]) >= 5
    assert {one.page.name for one in ALL} >= {"README.md", "quickstart.md"}


def test_commands_of_others_are_not_run() -> None:
    """But uv, for which torchwheel makes sites, and what looks at files."""
    command = re.compile(r"\$ (?:[A-Z_]+=\S+ )*(?:torchwheel|uv pip install|find|grep|ls) ")
    for block in ALL:
        for line in block.lines:
            if line.startswith("$ ") and not block.not_run:
                assert command.match(line), f"{block.name}: say why it is not run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_a_fence_holds_a_file_and_no_output(page: Path) -> None:
    for language, text in fenced(page):
        assert language in {"cmake", "diff", "nginx", "python", "toml"}, (
            f"indent what is no file, with its command: {text}"
        )
        if language == "python":
            compile(text, page.name, "exec")
        if language == "toml":
            table = tomllib.loads(text).get("tool", {}).get("torchwheel", {})
            jsonschema.validate(table, tool_schema(), jsonschema.Draft7Validator)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_what_the_pages_type_is_a_command_line_of_torchwheel(page: Path) -> None:
    for line in command_lines(page):
        assert parse_command(shlex.split(line, comments=True)[1:]).command in COMMANDS, line


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
