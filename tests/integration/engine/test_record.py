"""What was changed since it was compiled or linked, though it looks older, is made again; ninja does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ninja_text import ninja_path
from places import MINITORCH
from torchwheel.engine.build import _build_inputs
from torchwheel.engine.record import BuildInputs, invalidate_unseen_changes, recorded_contents
from torchwheel.engine.staging import locked_folders
from torchwheel.host.ninja import find_ninja
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its steps are a shell's")

STATEMENTS = """\
rule compile
  command = cat $in ../own.h > $out && echo "$out: $in ../own.h" > $out.d
  depfile = $out.d
  deps = gcc
rule copy
  command = cat $in > $out
rule link
  command = cat $in ../static.a > $out
build obj/a.o: compile ../a.c
build made.c: copy ../the$ table.yaml || ../listed
build obj/made.o: copy made.c
build lib.so: link obj/a.o obj/made.o | ../static.a
build all: phony lib.so
"""
FILES = ("a.c", "own.h", "the table.yaml", "static.a", "listed")


class Tree:
    """A build folder of ninja's beside what it builds from; outputs hold what they were made of."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.build = folder, folder / "build"
        self.build.mkdir()
        (self.build / "build.ninja").write_text(STATEMENTS, encoding="utf-8")
        for name in FILES:
            self.put(name, "first")

    def put(self, name: str, content: str, at: float = 1e9) -> Path:
        """Replace a file by one of another time."""
        new = self.folder / "new"
        new.write_text(f"{name}: {content}\n", encoding="utf-8")
        os.utime(new, (at, at))
        return new.replace(self.folder / name)

    def inputs(self, *besides: Path) -> BuildInputs:
        return BuildInputs(self.build, self.folder, dict(os.environ), besides=besides)

    def run(self, *besides: Path) -> str:
        """Build; what ninja says."""
        ninja = find_ninja(os.environ)
        assert ninja
        with invalidate_unseen_changes(self.inputs(*besides)):
            return subprocess.check_output([ninja], cwd=self.build, text=True)

    @property
    def made(self) -> str:
        return (self.build / "lib.so").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    # Ninja's log says how long a step took, and not when its output was written meanwhile.
    time.sleep(0.3)
    tree.run()
    assert tree.made == "a.c: first\nown.h: first\nthe table.yaml: first\nstatic.a: first\n"
    return tree


@pytest.mark.parametrize("name", FILES[:-1])
@pytest.mark.parametrize("remembered", [True, False])
def test_what_is_older_than_what_was_made_of_it_is_taken(
    tree: Tree, name: str, remembered: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree.made
    file = tree.put(name, "other")
    if not remembered:
        # The run before was killed.
        (tree.build / "made-from.json").unlink()
    tree.run()
    assert tree.made == before.replace(f"{name}: first", f"{name}: other")
    said = "changed since it was compiled, undetected by ninja; compiled again"
    assert capsys.readouterr().out == f"torchwheel: {said}: {file}\n"
    assert "no work to do" in tree.run()
    assert capsys.readouterr().out == ""


def test_the_same_with_other_times_is_not_made_again(tree: Tree) -> None:
    for name in FILES:
        tree.put(name, "first", 9e8)
        (tree.folder / name).chmod(0o600)
    assert "no work to do" in tree.run()


def test_a_link_that_leads_elsewhere_is_followed(tree: Tree) -> None:
    (tree.folder / "new").write_text("own.h: elsewhere\n", encoding="utf-8")
    os.utime(tree.folder / "new", (1e9, 1e9))
    tree.run()
    (tree.folder / "own.h").unlink()
    (tree.folder / "own.h").symlink_to("new")
    tree.run()
    assert "own.h: elsewhere" in tree.made


def test_what_only_has_to_be_there_is_not_compared(tree: Tree) -> None:
    tree.put("listed", "other")
    assert "no work to do" in tree.run()


def test_what_is_known_to_look_newer_is_not_compared(tree: Tree) -> None:
    tree.put("own.h", "other")
    assert "no work to do" in tree.run(tree.folder)


def test_what_ninja_sees_itself_is_left_to_it(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    (tree.folder / "own.h").write_text("own.h: newer\n", encoding="utf-8")
    tree.run()
    assert "own.h: newer" in tree.made
    assert capsys.readouterr().out == ""


def test_what_was_replaced_while_ninja_ran_is_compiled_by_the_next(tree: Tree) -> None:
    ninja = find_ninja(os.environ)
    assert ninja
    (tree.build / "made-from.json").unlink()
    (tree.build / "lib.so").unlink()
    with invalidate_unseen_changes(tree.inputs()):
        subprocess.check_output([ninja], cwd=tree.build)
        tree.put("own.h", "other")
    tree.run()
    assert "own.h: other" in tree.made


@pytest.mark.parametrize("remembered", [True, False])
def test_what_is_edited_while_it_is_compiled_is_compiled_again(tree: Tree, remembered: bool) -> None:
    """Ninja 1.10.2 and 1.11.1, which Debian 12 has, link the object of the text before; 1.13 does not."""
    text = STATEMENTS.replace("cat $in ../own.h > $out", "cat $in ../own.h > $out && sleep 1 && touch $out")
    (tree.build / "build.ninja").write_text(text, encoding="utf-8")
    if not remembered:
        (tree.build / "made-from.json").unlink()
    edit = threading.Timer(0.5, (tree.folder / "own.h").write_text, ["own.h: edited\n"])
    edit.start()
    tree.run()
    edit.join()
    with invalidate_unseen_changes(tree.inputs()):
        assert not (tree.build / "obj" / "a.o").exists()
        assert (tree.build / "obj" / "made.o").exists()
    tree.run()
    assert "own.h: edited" in tree.made
    assert "no work to do" in tree.run()


def test_what_a_step_makes_beside_the_build_folder_is_left_to_ninja(tree: Tree) -> None:
    text = STATEMENTS.replace("made.c", "../made.c")
    (tree.build / "build.ninja").write_text(text, encoding="utf-8")
    tree.run()
    (tree.folder / "made.c").write_text("made.c: otherwise\n", encoding="utf-8")
    os.utime(tree.folder / "made.c", (2e9, 2e9))
    os.utime(tree.build / "obj" / "made.o", (2e9, 2e9))
    with invalidate_unseen_changes(tree.inputs()):
        assert (tree.build / "obj" / "made.o").exists()


def test_what_is_no_longer_read_is_forgotten(tree: Tree) -> None:
    """The wheel store's key holds what is remembered: after a build and before the next it must be the same."""
    (tree.build / "build.ninja").write_text(STATEMENTS.replace("../static.a", ""), encoding="utf-8")
    tree.run()
    after = (tree.build / "made-from.json").read_text(encoding="utf-8")
    assert "own.h" in after
    assert "static.a" not in after
    tree.run()
    assert (tree.build / "made-from.json").read_text(encoding="utf-8") == after


def test_a_run_that_was_killed_does_not_make_the_next_one_begin_anew(tree: Tree) -> None:
    """What it noticed is remembered before ninja begins."""
    tree.put("own.h", "other")
    with pytest.raises(KeyboardInterrupt), invalidate_unseen_changes(tree.inputs()):
        assert not (tree.build / "obj" / "a.o").exists()
        (tree.build / "obj" / "a.o").write_text("compiled", encoding="utf-8")
        raise KeyboardInterrupt
    with invalidate_unseen_changes(tree.inputs()):
        assert (tree.build / "obj" / "a.o").read_text(encoding="utf-8") == "compiled"


def test_what_cannot_be_read_is_not_known(tree: Tree) -> None:
    (tree.build / "made-from.json").write_text("[1]", encoding="utf-8")
    log = tree.build / ".ninja_deps"
    log.write_bytes(log.read_bytes()[:-5])
    assert "no work to do" not in tree.run()
    log.write_bytes(b"# ninjadeps\n\x09\0\0\0")
    (tree.build / "build.ninja").touch()
    tree.run()
    assert tree.made


def test_a_tree_s_build_compares_what_lies_outside_its_stage(tmp_path: Path) -> None:
    """A package that build-env=current gives the build, in an older release."""
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
    folders = (plan := make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu"}, environment)))).folders
    header, ninja = tmp_path / "numpy.h", find_ninja(os.environ)
    assert ninja
    sources = f"{ninja_path(header)} {ninja_path(folders.source / 'version.txt')}"
    statement = f"rule copy\n  command = cat $in > $out\nbuild made: copy {sources}\n"
    for content in ("2", "1"):
        header.write_text(content, encoding="utf-8")
        os.utime(header, (1e9, 1e9))
        with (
            locked_folders(plan, environment),
            invalidate_unseen_changes(_build_inputs(plan, environment, "")),
        ):
            folders.build.mkdir(exist_ok=True)
            (folders.build / "build.ninja").write_text(statement, encoding="utf-8")
            os.utime(folders.build / "build.ninja", (1e9, 1e9))
            subprocess.check_call([ninja], cwd=folders.build)
        assert (folders.build / "made").read_text(encoding="utf-8").startswith(content)


EMBEDDING = {
    "assembly": '.section .rodata\n.incbin "data.bin"\n',
    "inline": 'asm(".incbin \\"data.bin\\"\\n");\n',
    "incbin.h": 'INCBIN(Icon, "data.bin");\n',
}


@pytest.mark.parametrize(
    ("form", "place", "change"),
    [
        ("assembly", "beside the source", "newer"),
        ("inline", "beside the source", "older"),
        ("incbin.h", "beside the source", "removed"),
        ("assembly", "the folder of -I", "older"),
        ("inline", "the folder of -I", "removed"),
        ("incbin.h", "the folder of -I", "newer"),
    ],
)
def test_what_assembly_embeds_is_compared(tree: Tree, form: str, place: str, change: str) -> None:
    """Also in folders where ninja sees all other changes, and by a header that includes it."""
    data = tree.folder / ("data.bin" if place == "beside the source" else "blobs of it/data.bin")
    data.parent.mkdir(exist_ok=True)
    data.write_text("first")
    (tree.folder / "own.h").write_text(EMBEDDING[form], encoding="utf-8")
    folder = "" if data.parent == tree.folder else f' && : -I"{data.parent}"'
    statements = STATEMENTS.replace("cat $in ../own.h > $out", f"cat $in ../own.h > $out{folder}")
    (tree.build / "build.ninja").write_text(
        statements.replace("blobs of it", "blobs$ of$ it"), encoding="utf-8"
    )
    tree.run(tree.folder)
    assert "no work to do" in tree.run(tree.folder)
    if change == "removed":
        data.unlink()
    else:
        data.write_text("other")
    if change == "older":
        os.utime(data, (1e9, 1e9))
    with invalidate_unseen_changes(tree.inputs(tree.folder)):
        assert not (tree.build / "obj" / "a.o").exists()
        assert (tree.build / "obj" / "made.o").exists()
    tree.run(tree.folder)
    assert "no work to do" in tree.run(tree.folder)


def test_what_is_embedded_from_now_on_is_compared_from_now_on(tree: Tree) -> None:
    (tree.folder / "data.bin").write_text("first")
    (tree.folder / "own.h").write_text(EMBEDDING["assembly"], encoding="utf-8")
    tree.run()
    (tree.folder / "data.bin").write_text("other")
    assert "no work to do" not in tree.run()
    (tree.folder / "own.h").write_text("own.h: nothing\n", encoding="utf-8")
    tree.run()
    (tree.folder / "data.bin").write_text("more")
    assert "no work to do" in tree.run()


@pytest.mark.parametrize(("change", "certain"), [("linked elsewhere", True), ("replaced by a link", False)])
def test_a_link_to_an_input_elsewhere_is_no_change_of_it(change: str, certain: bool, tmp_path: Path) -> None:
    """uv links the files of a package into each environment, which changes the time of their inode."""
    (tmp_path / "tree").mkdir()
    tree = Tree(tmp_path / "tree")
    ninja = find_ninja(os.environ)
    assert ninja
    header, other = tree.folder / "own.h", tmp_path / "other"
    other.write_text("another header", encoding="utf-8")
    os.utime(other, (1e9, 1e9))
    time.sleep(0.05)
    with invalidate_unseen_changes(tree.inputs()):
        subprocess.run([ninja], cwd=tree.build, check=True)
        time.sleep(0.05)
        if change == "linked elsewhere":
            os.link(header, tmp_path / "linked")
        else:
            header.unlink()
            os.link(other, header)
    # Before the build nothing was known of a header.
    found = recorded_contents(tree.build) or {}
    assert [any(name in path for path in found) for name in ("own.h", "static.a")] == [certain, True]
