"""The staged copy: what is copied, what is left out, and what a second run does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from backend.builds import make_tree
from put import put
from torchwheel.engine.staging import bring_up_to_date, locked_folders, prepare_cmake_run
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey


def write(root: Path, files: dict[str, str], time: int = 1_000_000_000) -> None:
    for name, text in files.items():
        path = put(root / name, text)
        os.utime(path, (time, time))


def files_in(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def copied(tree: Path, stage: Path, state: Path) -> int:
    """Bring the stage up to date; how many of its files are other ones than before."""
    before = numbers_in(stage)
    bring_up_to_date(tree, stage, state)
    return len(numbers_in(stage) - before)


def numbers_in(root: Path) -> set[tuple[str, int]]:
    """Each file and link with its number in the file system, which a copy put in its place does not keep."""
    return {
        (path.relative_to(root).as_posix(), path.lstat().st_ino)
        for path in root.rglob("*")
        if path.is_file() or path.is_symlink()
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "ein Baum mit Ü"
    write(
        root,
        {
            "CMakeLists.txt": "project(Torch)",
            "c10/core/Scalar.cpp": "scalar",
            "torch/lib/libshm/core.cpp": "shm",
            "torch/__init__.py": "init",
        },
    )
    return root


def stage_of(tree: Path) -> tuple[Path, Path]:
    return tree.parent / "stage", tree.parent / "state.json"


def test_the_first_run_copies_the_sources_with_their_times(tree: Path) -> None:
    stage, state = stage_of(tree)
    assert copied(tree, stage, state) == 4
    assert files_in(stage) == files_in(tree)
    assert (stage / "CMakeLists.txt").stat().st_mtime_ns == (tree / "CMakeLists.txt").stat().st_mtime_ns


def test_the_first_run_copies_no_time_of_the_future(tree: Path) -> None:
    """Such a source would look newer than all that is built of it."""
    os.utime(tree / "CMakeLists.txt", (1e10, 1e10))
    stage, state = stage_of(tree)
    copied(tree, stage, state)
    (stage / "built").touch()
    assert (stage / "CMakeLists.txt").stat().st_mtime_ns <= (stage / "built").stat().st_mtime_ns


def test_a_second_run_copies_only_what_changed(tree: Path) -> None:
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    write(stage, {"build/object.o": "object", "torch/version.py": "generated"})
    write(tree, {"c10/core/Scalar.cpp": "another", "c10/new.cpp": "new"}, time=1_100_000_000)
    (tree / "torch/__init__.py").unlink()
    assert copied(tree, stage, state) == 2
    assert files_in(stage) == {**files_in(tree), "build/object.o": "object", "torch/version.py": "generated"}


def test_a_touched_file_with_the_same_content_is_not_copied(tree: Path) -> None:
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    before = (stage / "CMakeLists.txt").stat().st_mtime_ns
    os.utime(tree / "CMakeLists.txt", (1_200_000_000, 1_200_000_000))
    assert copied(tree, stage, state) == 0
    assert (stage / "CMakeLists.txt").stat().st_mtime_ns == before


def test_an_older_version_that_comes_back_looks_newer_than_what_was_built(tree: Path) -> None:
    """ninja compares times: with the restored file's own, older time it would build nothing."""
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    write(stage, {"build/Scalar.o": "built now"})
    os.utime(stage / "build/Scalar.o")
    # A new file may be another version of one that was built before, and was deleted meanwhile.
    restored = {"c10/core/Scalar.cpp": "restored", "c10/new.cpp": "new"}
    write(tree, restored, time=900_000_000)
    bring_up_to_date(tree, stage, state)
    for name in restored:
        assert (stage / name).stat().st_mtime_ns >= (stage / "build/Scalar.o").stat().st_mtime_ns


def test_a_read_only_tree_gives_a_writable_stage(tree: Path) -> None:
    (tree / "CMakeLists.txt").chmod(0o444)
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    assert (stage / "CMakeLists.txt").stat().st_mode & 0o777 == 0o644


def test_other_permissions_with_the_same_content_leave_the_time_as_it_was(tree: Path) -> None:
    """Unpacking an sdist changes permissions; a new time would compile everything again."""
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    before = (stage / "CMakeLists.txt").stat().st_mtime_ns
    (tree / "CMakeLists.txt").chmod(0o755)
    assert copied(tree, stage, state) == 0
    status = (stage / "CMakeLists.txt").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o755, before)


def test_a_file_may_become_a_folder_and_a_folder_a_file(tree: Path) -> None:
    stage, state = stage_of(tree)
    write(tree, {"was a file": "x", "was a folder/inside": "x"})
    (tree / "was a link").symlink_to("c10", target_is_directory=True)
    bring_up_to_date(tree, stage, state)
    write(stage, {"was a folder/object.o": "made by a build"})
    (tree / "was a file").unlink()
    (tree / "was a folder/inside").unlink()
    (tree / "was a folder").rmdir()
    (tree / "was a link").unlink()
    write(tree, {"was a file/inside": "y", "was a folder": "y", "was a link/inside": "y"})
    assert copied(tree, stage, state) == 3
    assert files_in(stage) == files_in(tree)
    assert sorted(path.name for path in (stage / "c10").iterdir()) == ["core"]


def test_a_full_disk_leaves_no_half_file_and_the_next_run_goes_on(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchwheel.engine.staging as module

    stage, state = stage_of(tree)
    real = shutil.copyfile

    def full(source: Path, destination: Path) -> None:
        real(source, destination)
        if source.name == "Scalar.cpp":
            raise OSError(28, "No space left on device", str(destination))

    monkeypatch.setattr(module._Copier, "_share_blocks", lambda *_: False)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        bring_up_to_date(tree, stage, state)
    assert not list(stage.rglob(".*.part"))
    assert not (stage / "c10/core/Scalar.cpp").exists()
    monkeypatch.setattr(shutil, "copyfile", real)
    bring_up_to_date(tree, stage, state)
    assert files_in(stage) == files_in(tree)


def test_the_tree_is_only_read(tree: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in [tree, *tree.rglob("*")]}
    bring_up_to_date(tree, *stage_of(tree))
    assert {p: p.stat().st_mtime_ns for p in [tree, *tree.rglob("*")]} == before


def test_content_that_came_back_with_its_old_time_and_size_is_copied(tree: Path) -> None:
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    write(tree, {"c10/core/Scalar.cpp": "SCALAR"})
    assert copied(tree, stage, state) == 1
    assert files_in(stage) == files_in(tree)


@pytest.mark.parametrize("link", ["of a file", "of a folder", "in a linked folder"])
def test_what_a_link_newly_leads_to_looks_newer_than_what_was_built(tree: Path, link: str) -> None:
    """Ninja looks at the time of what a link leads to: a header that has long been there would not be compiled."""
    stage, state = stage_of(tree)
    write(tree, {"c10/old/now.h": "old", "c10/new/now.h": "new", "c10/far.h": "new"})
    if link == "in a linked folder":
        (tree / "c10/new/now.h").unlink()
        (tree / "c10/new/now.h").symlink_to("../far.h")
    header, leads = ("c10/now.h", "{}/now.h") if link == "of a file" else ("c10/now", "{}")
    (tree / header).symlink_to(leads.format("old"))
    outside = outside_of(tree)
    (tree / "c10/new/theirs").symlink_to(outside / "file")
    before = (outside / "file").stat().st_mtime_ns
    bring_up_to_date(tree, stage, state)
    write(stage, {"build/new.o": "built now"})
    os.utime(stage / "build/new.o")
    (tree / header).unlink()
    (tree / header).symlink_to(leads.format("new"))
    assert bring_up_to_date(tree, stage, state) == []
    seen = stage / header / ("" if link == "of a file" else "now.h")
    assert seen.read_text(encoding="utf-8") == "new"
    assert seen.stat().st_mtime_ns >= (stage / "build/new.o").stat().st_mtime_ns
    assert (stage / "c10/old/now.h").stat().st_mtime_ns == 10**18
    assert (outside / "file").stat().st_mtime_ns == before
    assert bring_up_to_date(tree, stage, state) == []


@pytest.mark.parametrize(
    "damage", ["edited", "of the same size and time", "deleted", "another size", "a link"]
)
def test_what_was_changed_in_the_stage_is_copied_again_and_named(tree: Path, damage: str) -> None:
    """Compiler errors name the stage, and people edit there: the wheel would hold what the checkout does not."""
    stage, state = stage_of(tree)
    assert bring_up_to_date(tree, stage, state) == []
    file = stage / "torch/__init__.py"
    if damage == "edited":
        write(stage, {"torch/__init__.py": "edit"})
        os.utime(file)
    elif damage == "of the same size and time":
        status = file.stat()
        file.write_bytes(b"#" * status.st_size)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        file.unlink()
        if damage == "another size":
            write(stage, {"torch/__init__.py": ""})
        elif damage == "a link":
            file.symlink_to("../CMakeLists.txt")
    os.utime(stage / "CMakeLists.txt")
    assert bring_up_to_date(tree, stage, state) == ["torch/__init__.py"]
    assert files_in(stage) == files_in(tree)
    assert not file.is_symlink()
    assert copied(tree, stage, state) == 0


def test_permissions_that_were_changed_in_the_stage_are_as_in_the_tree_again(tree: Path) -> None:
    """They would be packed: a file that runs as its owner fails its proof at every build."""
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    before = (stage / "torch/__init__.py").stat()
    (stage / "torch/__init__.py").chmod(0o4777)
    assert copied(tree, stage, state) == 0
    now = (stage / "torch/__init__.py").stat()
    assert (now.st_mode, now.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def outside_of(tree: Path) -> Path:
    write(tree.parent / "outside", {"core/Scalar.cpp": "theirs", "file": "theirs"})
    return tree.parent / "outside"


def test_nothing_is_written_or_removed_through_a_link_that_leads_out_of_the_stage(tree: Path) -> None:
    outside = outside_of(tree)
    before = files_in(outside)
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    # The build puts a link where a folder of sources was; one source is then removed from the tree, one changed.
    shutil.rmtree(stage / "c10")
    (stage / "c10").symlink_to(outside)
    write(tree, {"c10/file": "new"})
    bring_up_to_date(tree, stage, state)
    assert files_in(stage) == files_in(tree)
    shutil.rmtree(stage / "c10")
    (stage / "c10").symlink_to(outside)
    (tree / "c10/file").unlink()
    (tree / "c10/core/Scalar.cpp").unlink()
    bring_up_to_date(tree, stage, state)
    assert files_in(outside) == before


def test_an_absolute_link_into_its_own_tree_stays_in_the_stage(tree: Path) -> None:
    """The build would write into the user's tree through it."""
    outside = outside_of(tree)
    (tree.parent / "alias").symlink_to(tree, target_is_directory=True)
    links = {
        "torch/headers": (str(tree / "c10"), "../c10"),
        "again": (str(tree.parent / "alias" / "torch" / "__init__.py"), "torch/__init__.py"),
        "torch/deep": (str(tree / "torch" / "lib" / "nothing yet"), "lib/nothing yet"),
        "elsewhere": (str(outside), str(outside)),
        "c10/up": ("../torch", "../torch"),
        "README": ("CMakeLists.txt", "CMakeLists.txt"),
    }
    for name, (text, _) in links.items():
        (tree / name).symlink_to(text)
    stage, state = stage_of(tree)
    bring_up_to_date(tree, stage, state)
    assert {name: os.readlink(stage / name) for name in links} == {
        name: text for name, (_, text) in links.items()
    }
    assert (stage / "torch/headers/core/Scalar.cpp").resolve() == (stage / "c10/core/Scalar.cpp").resolve()
    assert copied(tree, stage, state) == 0
    os.utime(tree / "torch/headers", follow_symlinks=False)
    assert copied(tree, stage, state) == 0


@pytest.mark.parametrize("generation", ["scikit-build-core", "setup.py"])
@pytest.mark.parametrize("left", ["nothing", "half"])
def test_without_its_record_a_stage_and_what_was_built_from_it_are_made_anew(
    left: str, generation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are deleted in the tree would stay, and older versions would look built.

    setup.py's build folder is in the stage, and goes with it.
    """
    tree = make_tree(generation, tmp_path / "tree")
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
    plan = make_plan(survey(BuildRequest(tree, {"target": "cpu"}, variables)))
    with locked_folders(plan, variables):
        write(plan.folders.build, {"Scalar.o": "object"})
    with locked_folders(plan, variables):
        assert (plan.folders.build / "Scalar.o").exists()
    assert capsys.readouterr().out == ""
    (tree / "torch/cuda/__init__.py").unlink()
    if left == "half":
        (plan.folders.root / "stage.json").write_text('{"torch', encoding="utf-8")
    else:
        (plan.folders.root / "stage.json").unlink()
    with locked_folders(plan, variables):
        assert not (plan.folders.source / "torch/cuda/__init__.py").exists()
        assert (plan.folders.source / "torch/__init__.py").exists()
        assert not plan.folders.build.exists()
    said = f"torchwheel: recreating {plan.folders.root}: no record of what was copied there\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("generation", ["scikit-build-core", "setup.py"])
def test_cmake_runs_again_and_what_it_generated_for_the_package_is_made_again(
    generation: str, tmp_path: Path
) -> None:
    """A module that nothing describes any longer would be packed; C++ stays, with what is made of it."""
    tree = make_tree(generation, tmp_path / "tree")
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
    plan = make_plan(survey(BuildRequest(tree, {"target": "cpu"}, environment)))
    stage, lists = plan.folders.source, plan.folders.source / "CMakeLists.txt"
    made = ("torch/made.py", "torch/cuda/made.pyi", "torch/made.cpp", "third_party/cloned/setup.py")
    for _ in range(2):
        with locked_folders(plan, environment):
            for name in made:
                (stage / name).parent.mkdir(exist_ok=True, parents=True)
                (stage / name).touch()
            before = lists.stat().st_mtime_ns
            prepare_cmake_run(plan)
            assert [name for name in made if (stage / name).exists()] == list(made[2:])
            assert (stage / "torch" / "__init__.py").exists()
            assert lists.stat().st_mtime_ns > before


def test_the_stage_has_no_folder_that_has_left_the_tree(tree: Path, tmp_path: Path) -> None:
    """CMake's ``if(IS_DIRECTORY)`` would see it for ever, with what a build made in it."""
    stage, state = tmp_path / "stage", tmp_path / "state.json"
    write(tree, {"third_party/gone/a/CMakeLists.txt": "", "third_party/left/CMakeLists.txt": ""})
    bring_up_to_date(tree, stage, state)
    write(
        stage,
        {
            "third_party/gone/a/generated.h": "",
            "third_party/left/generated.h": "",
            "build/CMakeCache.txt": "",
        },
    )
    shutil.rmtree(tree / "third_party/gone")
    (tree / "third_party/left/CMakeLists.txt").unlink()
    bring_up_to_date(tree, stage, state)
    assert not (stage / "third_party/gone").exists()
    # The tree has that folder.
    assert (stage / "third_party/left/generated.h").exists()
    assert (stage / "build/CMakeCache.txt").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead")
def test_nobody_else_reads_a_build_folder(tmp_path: Path) -> None:
    """CMake writes down all options, also one that is a secret."""
    tree = make_tree("setup.py", tmp_path / "tree")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o755)
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
    request = BuildRequest(tree, {"target": "cpu", "build-env": "managed", "define.MY_TOKEN": "x"}, variables)
    plan = make_plan(survey(request))
    with locked_folders(plan, variables):
        assert plan.folders.root.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="its links need a privilege on Windows")
def test_a_link_out_of_the_tree_is_staged_as_what_it_leads_to(tree: Path) -> None:
    """Neither the link's record nor ninja would show that its end has changed."""
    outside, (stage, state) = tree.with_name("outside"), stage_of(tree)
    write(outside, {"one.h": "one", "two.h": "two", "folder/three.h": "three"})
    link, folder = tree / "c10" / "linked.h", tree / "c10" / "folder"
    link.symlink_to(outside / "one.h")
    folder.symlink_to(outside / "folder")
    bring_up_to_date(tree, stage, state)
    staged = stage / "c10" / "linked.h"
    assert (staged.read_text(), staged.is_symlink()) == ("one", False)
    assert (stage / "c10" / "folder").is_symlink()
    for change, content in (
        (lambda: write(outside, {"one.h": "other"}, 900_000_000), "other"),
        (lambda: (link.unlink(), link.symlink_to(outside / "two.h")), "two"),
    ):
        before = staged.stat().st_mtime_ns
        change()
        bring_up_to_date(tree, stage, state)
        assert staged.read_text() == content
        assert staged.stat().st_mtime_ns > before
    outside.joinpath("two.h").unlink()
    bring_up_to_date(tree, stage, state)
    assert staged.is_symlink()
