"""Adopting a tree and undoing it, as a whole and as a command."""

from __future__ import annotations

import errno
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cli.running import Run
from put import append, put
from refusals import error_of, ids_of
from torchwheel.cli import adopt as adopting
from torchwheel.cli.adopt import Adoption, adopt, undo
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.files import shim_folder
from torchwheel.tree.source_tree import Generation, read_tree
from tree.small_trees import SETUP_PY_PYPROJECT, write_tree

SHIM = "backend/torchwheel_shim.py"
SHIPPED = (shim_folder() / "torchwheel_shim.py").read_bytes()
LEGACY = "setuptools.build_meta:__legacy__"


def contents(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "ein Baum é").resolve()


def test_adopting_and_undoing(root: Path) -> None:
    before = contents(root)
    own = read_tree(root)
    report = Adoption(root, LEGACY, created=(SHIM,), edited=("pyproject.toml",), removed=())
    assert adopt(root) == report
    after = contents(root)
    assert set(after) - set(before) == {SHIM}
    assert after[SHIM] == SHIPPED
    assert [name for name in before if after[name] != before[name]] == ["pyproject.toml"]
    tree = read_tree(root)
    assert (tree.adopted, tree.backend, tree.requires, tree.generation) == (
        True,
        own.backend,
        own.requires,
        Generation.SETUP_PY,
    )
    assert undo(root) == replace(report, created=(), removed=(SHIM,), undone=True)
    assert contents(root) == before
    assert not (root / "backend").exists()
    assert read_tree(root) == own


def test_a_tree_without_pyproject(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", None).resolve()
    before = contents(root)
    assert adopt(root).created == (SHIM, "pyproject.toml")
    assert (read_tree(root).backend, read_tree(root).requires) == (LEGACY, ("setuptools>=40.8.0",))
    assert undo(root).removed == ("pyproject.toml", SHIM)
    assert contents(root) == before


@pytest.mark.parametrize("shim", [SHIPPED, SHIPPED[:200] + b"# another release\r\n", None])
def test_adopting_twice_brings_the_current_shim(root: Path, shim: bytes | None) -> None:
    original = contents(root)
    adopt(root)
    adopted = contents(root)
    (root / SHIM).unlink()
    if shim is not None:
        (root / SHIM).write_bytes(shim)
    report = adopt(root)
    assert (report.created, report.edited) == (
        (SHIM,) if shim is None else (),
        (SHIM,) if shim not in (None, SHIPPED) else (),
    )
    assert contents(root) == adopted
    undo(root)
    assert contents(root) == original


def test_other_files_in_backend_stay(root: Path) -> None:
    put(root / "backend" / "kernels.cpp", "int main() {}")
    before = contents(root)
    adopt(root)
    compiled = root / "backend" / "__pycache__" / "torchwheel_shim.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"")
    undo(root)
    assert contents(root) == before


@pytest.mark.parametrize("taken", ["backend", SHIM])
def test_something_else_in_our_place(root: Path, taken: str) -> None:
    place = put(root / taken, "mine")
    before = contents(root)
    assert str(error_of(adopt, root)) == (
        Problem.of("file-in-the-way", origin=root, file=place, shim=root / SHIM).render()
    )
    assert contents(root) == before


def test_a_file_that_took_the_shim_s_place_since_stays(root: Path) -> None:
    adopt(root)
    (root / SHIM).write_text("mine", encoding="utf-8")
    assert ids_of(adopt, root) == ["file-in-the-way"]
    assert undo(root).removed == ()
    assert (root / SHIM).read_text(encoding="utf-8") == "mine"


def test_what_an_older_adoption_left_behind_is_overwritten(root: Path) -> None:
    """pyproject.toml came back from version control, and backend/ stayed."""
    original = (root / "pyproject.toml").read_bytes()
    adopt(root)
    (root / "pyproject.toml").write_bytes(original + b"# newer\n")
    assert adopt(root).edited == ("pyproject.toml",)
    undo(root)
    assert (root / "pyproject.toml").read_bytes() == original + b"# newer\n"


def test_edits_since_survive_undoing(root: Path) -> None:
    adopt(root)
    append(root / "pyproject.toml", "\n[tool.new]\nx = 1\n")
    undo(root)
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert text == SETUP_PY_PYPROJECT + "\n[tool.new]\nx = 1\n"


def test_edits_since_survive_in_a_file_that_adopt_created(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", None)
    adopt(root)
    append(root / "pyproject.toml", "# mine\n")
    assert undo(root).edited == ("pyproject.toml",)
    assert (root / "pyproject.toml").read_text(encoding="utf-8").strip() == "# mine"


@pytest.mark.parametrize(
    ("record", "id"),
    [
        ("", "damaged-adoption"),
        ("[tool.torchwheel]\nadopted = 3\n", "damaged-adoption"),
        ("[tool.torchwheel.adopted]\nbuild-backend = 3\n", "ill-typed-build-system"),
    ],
)
def test_without_a_right_record_it_is_refused(root: Path, record: str, id: str) -> None:
    adopt(root)
    pyproject = root / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text[: text.index("[tool.torchwheel.adopted]")] + record, encoding="utf-8")
    before = contents(root)
    for act in (adopt, undo):
        (problem,) = error_of(act, root).problems
        assert (problem.id, problem.origin) == (id, str(pyproject))
    assert contents(root) == before


def test_undoing_a_tree_that_was_not_adopted(root: Path) -> None:
    before = contents(root)
    assert str(error_of(undo, root)) == (
        Problem.of("not-adopted", origin=root / "pyproject.toml", tree=root).render()
    )
    assert contents(root) == before


@pytest.mark.parametrize("act", [adopt, undo])
@pytest.mark.parametrize("name", ["pyproject.toml", "backend", SHIM])
def test_no_link_leads_out_of_the_tree(act: object, name: str, root: Path, tmp_path: Path) -> None:
    """A stranger's checkout whose link, dangling or not, would have a file of the user's written."""
    outside = tmp_path / "home"
    outside.mkdir()
    if act is undo:
        adopt(root)
    place = root / name
    if place.is_dir():
        place.rename(outside / "backend")
        place.symlink_to(outside / "backend", target_is_directory=True)
    else:
        place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(outside / "profile")
    before = contents(outside)
    with suppress(TorchwheelError):
        act(root)  # type: ignore[operator]
    assert contents(outside) == before
    assert not (outside / "profile").exists()


@pytest.mark.parametrize("act", [adopt, undo])
def test_git_s_own_files_are_none_of_the_tree_s(act: object, root: Path) -> None:
    """Git runs what its configuration names, and a stranger can commit a link that leads there."""
    if act is undo:
        adopt(root)
    (root / ".git").mkdir(exist_ok=True)
    (root / "pyproject.toml").replace(root / ".git/config")
    (root / "pyproject.toml").symlink_to(".git/config")
    before = (root / ".git/config").read_bytes()
    assert ids_of(act, root) == ["link-leaves-tree"]
    assert (root / ".git/config").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes and links")
def test_the_file_mode_and_a_link_within_the_tree_stay(root: Path) -> None:
    pyproject, target = root / "pyproject.toml", root / "place.toml"
    pyproject.rename(target)
    target.chmod(0o640)
    pyproject.symlink_to("place.toml")
    adopt(root)
    assert (pyproject.is_symlink(), stat.S_IMODE(target.stat().st_mode)) == (True, 0o640)
    assert b"torchwheel_shim" in target.read_bytes()


@pytest.mark.parametrize("act", [adopt, undo])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_step_that_fails_takes_the_others_back(
    act: Callable[[Path], object], failing: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if act is undo:
        adopt(root)
    before = contents(root)
    left = iter(range(1, 9))
    written = adopting._write

    def write(path: Path, content: bytes | None) -> None:
        if next(left) == failing:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        written(path, content)

    monkeypatch.setattr(adopting, "_write", write)
    assert ids_of(act, root) == ["tree-not-writable"]
    assert contents(root) == before
    assert (root / "backend").exists() == (act is undo)


def test_the_command_adopts_and_undoes(program: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    original = (root / "pyproject.toml").read_bytes()
    result = program("adopt", "tree")
    assert (result.status, result.err, str(root) in result.out) == (0, "", True)
    assert program("adopt", "tree", "--undo").status == 0
    assert (root / "pyproject.toml").read_bytes() == original


def test_as_documents(torchwheel: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    head = {"schema": 1, "command": "adopt", "root": str(root)}
    head["backend"] = "setuptools.build_meta:__legacy__"
    shim = ["backend/torchwheel_shim.py"]
    assert torchwheel("adopt", "tree", "--json").document("adopt") == {
        **head,
        "did": "adopted",
        "created": shim,
        "edited": ["pyproject.toml"],
        "removed": [],
    }
    assert torchwheel("adopt", "tree", "--undo", "--json").document("adopt") == {
        **head,
        "did": "undone",
        "created": [],
        "edited": ["pyproject.toml"],
        "removed": shim,
    }


def test_a_folder_that_is_no_tree(torchwheel: Run, here: Path) -> None:
    result = torchwheel("adopt", ".", "--undo")
    assert result.refusal == (2, "", ["not-adopted"])
