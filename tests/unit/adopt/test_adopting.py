"""Adopting a tree and undoing it, as a whole."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest

from torchwheel.adopt import Adoption, Undone, adopt, undo
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.files import shim_folder
from torchwheel.tree.read_tree import read_tree
from torchwheel.tree.source_tree import Generation
from tree.small_trees import SETUP_PY_PYPROJECT, write_tree

SHIM = "backend/torchwheel_shim.py"
RECORD = "backend/torchwheel_shim.json"
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
    assert adopt(root) == Adoption(
        root=root, backend=LEGACY, already=False, created=(SHIM, RECORD), edited=("pyproject.toml",)
    )
    after = contents(root)
    assert set(after) - set(before) == {SHIM, RECORD}
    assert after[SHIM] == SHIPPED
    assert [name for name in before if after[name] != before[name]] == ["pyproject.toml"]
    tree = read_tree(root)
    assert (tree.adopted, tree.backend, tree.requires, tree.generation) == (
        True,
        own.backend,
        own.requires,
        Generation.SETUP_PY,
    )
    assert undo(root) == Undone(
        root=root, restored=("pyproject.toml",), edited=(), removed=(SHIM, RECORD), kept=()
    )
    assert contents(root) == before
    assert not (root / "backend").exists()
    assert read_tree(root) == own


def test_a_tree_without_pyproject(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", None).resolve()
    before = contents(root)
    assert adopt(root).created == (SHIM, RECORD, "pyproject.toml")
    assert (read_tree(root).backend, read_tree(root).requires) == (LEGACY, ("setuptools>=40.8.0",))
    assert undo(root) == Undone(
        root=root, restored=(), edited=(), removed=("pyproject.toml", SHIM, RECORD), kept=()
    )
    assert contents(root) == before


def test_adopting_twice(root: Path) -> None:
    adopt(root)
    before = contents(root)
    assert adopt(root) == Adoption(root=root, backend=LEGACY, already=True, created=(), edited=())
    assert contents(root) == before


@pytest.mark.parametrize("gone", [False, True], ids=["older", "deleted"])
def test_adopting_twice_refreshes_the_shim(root: Path, gone: bool) -> None:
    """An older torchwheel had another shim and noted its digest."""
    original = (root / "pyproject.toml").read_bytes()
    adopt(root)
    record = json.loads((root / RECORD).read_bytes())
    record["shim-sha256"] = hashlib.sha256(b"# an older shim\n").hexdigest()
    (root / SHIM).write_bytes(b"# an older shim\r\n")
    if gone:
        (root / SHIM).unlink()
    (root / RECORD).write_text(json.dumps(record), encoding="utf-8")
    report = adopt(root)
    assert report.already
    assert (report.created, report.edited) == (((SHIM,), (RECORD,)) if gone else ((), (SHIM, RECORD)))
    assert (root / SHIM).read_bytes() == SHIPPED
    assert undo(root).kept == ()
    assert (root / "pyproject.toml").read_bytes() == original


def test_a_shim_that_was_changed_is_neither_overwritten_nor_removed(root: Path) -> None:
    adopt(root)
    (root / SHIM).write_bytes(SHIPPED + b"# mine\n")
    with pytest.raises(TorchwheelError) as caught:
        adopt(root)
    assert [problem.id for problem in caught.value.problems] == ["file-in-the-way"]
    report = undo(root)
    assert (report.removed, report.kept) == ((RECORD,), (SHIM,))
    assert (root / SHIM).read_bytes() == SHIPPED + b"# mine\n"


def test_line_ends_that_version_control_converted_are_no_change(root: Path) -> None:
    adopt(root)
    (root / SHIM).write_bytes(SHIPPED.replace(b"\n", b"\r\n"))
    assert undo(root).kept == ()


def test_other_files_in_backend_stay(root: Path) -> None:
    (root / "backend").mkdir()
    (root / "backend" / "kernels.cpp").write_text("int main() {}", encoding="utf-8")
    before = contents(root)
    adopt(root)
    compiled = root / "backend" / "__pycache__" / "torchwheel_shim.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"")
    assert undo(root).kept == ("backend/kernels.cpp",)
    assert contents(root) == before


@pytest.mark.parametrize("taken", ["backend", SHIM])
def test_something_else_in_our_place(root: Path, taken: str) -> None:
    place = root / taken
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine", encoding="utf-8")
    before = contents(root)
    with pytest.raises(TorchwheelError) as caught:
        adopt(root)
    assert str(caught.value) == (
        Problem.of("file-in-the-way", origin=root, file=place, shim=root / SHIM).render()
    )
    assert contents(root) == before


def test_a_record_that_is_not_ours(root: Path) -> None:
    (root / "backend").mkdir()
    (root / RECORD).write_text("[]", encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        adopt(root)
    (problem,) = caught.value.problems
    assert (problem.id, problem.origin) == ("damaged-adoption", str(root / RECORD))


def test_what_an_older_adoption_left_behind_is_overwritten(root: Path) -> None:
    """pyproject.toml came back from version control, and backend/ stayed."""
    original = (root / "pyproject.toml").read_bytes()
    adopt(root)
    (root / "pyproject.toml").write_bytes(original + b"# newer\n")
    assert not adopt(root).already
    undo(root)
    assert (root / "pyproject.toml").read_bytes() == original + b"# newer\n"


def test_edits_since_survive_undoing(root: Path) -> None:
    adopt(root)
    pyproject = root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text(encoding="utf-8") + "\n[tool.new]\nx = 1\n", encoding="utf-8")
    report = undo(root)
    assert (report.restored, report.edited, report.removed) == ((), ("pyproject.toml",), (SHIM, RECORD))
    assert pyproject.read_text(encoding="utf-8") == SETUP_PY_PYPROJECT + "\n[tool.new]\nx = 1\n"


def test_edits_since_survive_in_a_file_that_adopt_created(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", None)
    adopt(root)
    pyproject = root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    assert undo(root).edited == ("pyproject.toml",)
    assert pyproject.read_text(encoding="utf-8").strip() == "# mine"


def test_undoing_without_the_record_goes_by_pyproject(root: Path) -> None:
    adopt(root)
    (root / RECORD).unlink()
    with pytest.raises(TorchwheelError) as caught:
        adopt(root)
    assert [problem.id for problem in caught.value.problems] == ["damaged-adoption"]
    report = undo(root)
    assert (report.edited, report.removed, report.kept) == (("pyproject.toml",), (SHIM,), ())
    assert (root / "pyproject.toml").read_text(encoding="utf-8") == SETUP_PY_PYPROJECT


def test_undoing_without_anything_remembered(root: Path) -> None:
    adopt(root)
    (root / RECORD).unlink()
    pyproject = root / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text[: text.index("[tool.torchwheel.adopted]")], encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        undo(root)
    assert caught.value.problems == (Problem.of("damaged-adoption/both", origin=pyproject, file=RECORD),)


def test_undoing_a_tree_that_was_not_adopted(root: Path) -> None:
    before = contents(root)
    with pytest.raises(TorchwheelError) as caught:
        undo(root)
    assert str(caught.value) == (
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
    with pytest.raises(TorchwheelError) as refused:
        act(root)  # type: ignore[operator]
    assert [problem.id for problem in refused.value.problems] == ["link-leaves-tree"]
    assert (root / ".git/config").read_bytes() == before
