"""What setup.py packs is what was installed."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from put import append, put
from torchwheel.engine.packing import (
    check_packed,
    drop_installed,
    drop_packaging_leftovers,
    ignored_but_packed,
    packaging_variables,
)
from torchwheel.engine.staging import locked_folders
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import Problem
from torchwheel.survey import BuildRequest, survey
from torchwheel.tree.source_tree import Generation
from tree.small_trees import commit_all

METADATA = {f"torch-2.14.1+cpu.dist-info/{name}": b"" for name in ("METADATA", "WHEEL", "RECORD")}
INSTALLED = {
    "torch/lib/libtorch.so": b"library" * 1000,
    "torch/lib/libc10.so.1.2": b"c10",
    "torch/lib/libstatic.a": b"not packed",
    "torch/share/plugin.so": b"a folder that is not packed",
}
SOURCES = {
    "torch/__init__.py": b"import torch._C",
    "torch/nn/__init__.py": b"",
    "torch/nn/modules.py": b"x = 1",
    "tools/__init__.py": b"",
    "setup.py": b"",
}
PACKED = {
    **{name: INSTALLED[name] for name in ("torch/lib/libtorch.so", "torch/lib/libc10.so.1.2")},
    **{name: SOURCES[name] for name in ("torch/__init__.py", "torch/nn/__init__.py", "torch/nn/modules.py")},
    "torch/_C.so": b"setuptools made it",
    **METADATA,
}


def planned(tmp_path: Path, *, in_place: bool = False) -> Plan:
    config = {"target": "cpu", "package-version": "2.14.1"}
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
    return make_plan(survey(BuildRequest(tmp_path / "tree", config, environment, in_place=in_place)))


def wheel_of(folder: Path, packed: dict[str, bytes]) -> Path:
    wheel = folder / "torch-2.14.1+cpu-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in packed.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    make_tree("setup.py", tmp_path / "tree")
    plan = planned(tmp_path)
    for name, content in (INSTALLED | SOURCES).items():
        file = plan.folders.source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    plan.folders.build.mkdir()
    lines = "\n".join(str(plan.folders.source / name) for name in INSTALLED)
    manifest = put(plan.folders.build / "install_manifest.txt", lines)
    os.utime(manifest, (1700000000, 1700000000))
    return plan


def test_what_the_last_build_installed_is_not_packed_again(plan: Plan) -> None:
    stage, outside = plan.folders.source, plan.folders.root / "other.so"
    outside.touch()
    further = f"\n{stage}/../other.so\n{stage}/torch/gone.h\n{stage}/torch/__init__.py\n"
    append(plan.folders.build / "install_manifest.txt", further)
    drop_installed(plan, SOURCES)
    left = {name for name in INSTALLED | SOURCES if (stage / name).exists()}
    assert (left, outside.exists()) == (set(SOURCES), True)


def test_what_was_packed_of_the_same_sources_stays_installed(plan: Plan) -> None:
    def left() -> set[str]:
        drop_installed(plan, SOURCES)
        return {name for name in INSTALLED if (plan.folders.source / name).exists()}

    plan.folders.stage_state.write_text("{}", encoding="utf-8")
    with packaging_variables(plan):
        pass
    assert left() == set(INSTALLED)

    # PyTorch's setup.py replaces LICENSE in the stage, and puts it back.
    plan.folders.stage_state.write_text('{"LICENSE": [1, 2, 3, 4, 5, 6, 7, 8, 9]}', encoding="utf-8")
    with packaging_variables(plan):
        pass
    plan.folders.stage_state.write_text('{"LICENSE": [1, 2, 3, 4, 5, 6, 70, 8, 90]}', encoding="utf-8")
    assert left() == set(INSTALLED)

    # An interrupted build was the last, whose sources may have been others.
    with pytest.raises(KeyboardInterrupt), packaging_variables(plan):
        raise KeyboardInterrupt
    assert left() == set()


def test_what_was_made_of_a_copy_that_somebody_changed_is_not_packed_again(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")
    plan, environment = planned(tmp_path), {"PATH": "/usr/bin"}

    def left(change: str) -> bool:
        library = plan.folders.source / "torch" / "lib" / "libtorch.so"
        with locked_folders(plan, environment), packaging_variables(plan):
            put(library)
            (plan.folders.build / "install_manifest.txt").write_text(str(library), encoding="utf-8")
        (plan.folders.source / "setup.py").write_text(change, encoding="utf-8")
        with locked_folders(plan, environment):
            return library.exists()

    assert [left((tree / "setup.py").read_text(encoding="utf-8")), left("damaged")] == [True, False]


def test_what_was_packed_of_other_sources_is_not_packed_again(plan: Plan) -> None:
    plan.folders.stage_state.write_text("{}", encoding="utf-8")
    with packaging_variables(plan):
        pass
    plan.folders.stage_state.write_text('{"setup.py": []}', encoding="utf-8")
    drop_installed(plan, SOURCES)
    assert not any((plan.folders.source / name).exists() for name in INSTALLED)


def test_what_git_ignores_and_setup_py_packs_is_in_no_commit(tmp_path: Path) -> None:
    """In a tree that is built in place; what builds make there, git ignores too."""
    tree = make_tree("setup.py", tmp_path / "tree")
    (tree / ".gitignore").open("a", encoding="utf-8").write("local_*\nmade.*\n")
    commit_all(tree)
    plan = planned(tmp_path, in_place=True)
    (tree / "torch" / "local_settings.py").write_text("KEY = 1\n", encoding="utf-8")
    for name in ("torch/version.py", "torch/include/made.h", "torch/made.so.1"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("made", encoding="utf-8")
    plan.folders.build.mkdir()
    put(plan.folders.build / "install_manifest.txt", f"{tree}/torch/made.so.1")
    time.sleep(0.05)
    with packaging_variables(plan):
        (tree / "torch" / "made.py").write_text("setup.py writes it\n", encoding="utf-8")
    packed = {
        path.relative_to(tree).as_posix(): path for path in (tree / "torch").rglob("*") if path.is_file()
    }
    wheel = wheel_of(tmp_path, METADATA | {name: path.read_bytes() for name, path in packed.items()})
    assert ignored_but_packed(plan, wheel) == ("torch/local_settings.py",)
    shutil.rmtree(tree / ".git")
    assert ignored_but_packed(plan, wheel) == ()


def test_half_a_copy_of_setuptools_is_not_packed_and_what_cmake_built_stays(tmp_path: Path) -> None:
    """A copy that was cut short is newer than its source; setuptools would take it for finished."""
    half = (
        "lib.linux-x86_64-cpython-311/torch/lib/libtorch.so",
        "bdist.linux-x86_64/wheel/torch/lib/libtorch.so",
    )
    kept = ("lib/libtorch.so", "CMakeCache.txt", "temp.linux-x86_64-cpython-311/stub.o", "caffe2/a.o")
    for name in (*half, *kept):
        put(tmp_path / name)
    drop_packaging_leftovers(tmp_path)
    left = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(kept)
    assert not list(tmp_path.glob("bdist*"))


def test_what_only_an_earlier_build_installed_is_not_handed_over(plan: Plan, tmp_path: Path) -> None:
    manifest = plan.folders.build / "install_manifest.txt"
    gone = "torch/include/gone.h"
    assert not list(check_packed(plan, wheel_of(tmp_path, PACKED | {gone: b""})))
    append(manifest, f"\n{plan.folders.source / gone}")
    for _ in range(2):
        # The list of the build that comes, here one that installs less.
        with packaging_variables(plan):
            installed = "\n".join(str(plan.folders.source / name) for name in INSTALLED)
            manifest.write_text(installed, encoding="utf-8")
        assert not list(check_packed(plan, wheel_of(tmp_path, PACKED)))
        wheel = wheel_of(tmp_path, PACKED | {gone: b""})
        assert list(check_packed(plan, wheel)) == [Problem.of("leftovers-packed", origin=wheel, files=gone)]


def test_what_a_killed_run_installed_and_the_next_does_not_is_found_and_removed(
    plan: Plan, tmp_path: Path
) -> None:
    """CMake lists what it installed when it has ended; meanwhile the header's source was deleted."""
    stage, manifest = plan.folders.source, plan.folders.build / "install_manifest.txt"
    manifest.unlink()
    gone, made = stage / "torch" / "include" / "gone.h", stage / "torch" / "include" / "setup_py_makes_it.h"
    kept = stage / "torch" / "include" / "ATen" / "kept.h"
    with pytest.raises(KeyboardInterrupt), packaging_variables(plan):
        kept.parent.mkdir(parents=True)
        gone.touch()
        raise KeyboardInterrupt
    time.sleep(0.05)
    found = []
    for _ in range(2):
        drop_installed(plan, SOURCES)
        with packaging_variables(plan):
            for file in (kept, made, *(stage / name for name in INSTALLED)):
                file.write_bytes(INSTALLED.get(file.relative_to(stage).as_posix(), b""))
            put(manifest, "\n".join(map(str, (kept, *(stage / name for name in INSTALLED)))))
        headers = {file.relative_to(stage).as_posix(): b"" for file in gone.parent.glob("*.h")}
        wheel = wheel_of(tmp_path, PACKED | headers)
        found.append([*check_packed(plan, wheel)])
    left = Problem.of("leftovers-packed", origin=wheel, files="torch/include/gone.h")
    assert found == [[left], []]


@pytest.mark.parametrize(("left_out", "lost"), [("_C.so", ["_C.so"]), ("lib/libtorch.so", [])])
def test_a_wheel_without_its_own_module(plan: Plan, tmp_path: Path, left_out: str, lost: list[str]) -> None:
    """scikit-build-core's ``wheel.exclude`` may leave it out; nothing else of the wheel would need it."""
    names = ("_C.so", "lib/libtorch.so")
    installed = "\n".join(f"/tmp/tmpx1/wheel/platlib/torch/{name}" for name in names)
    (plan.folders.build / "install_manifest.txt").write_text(installed, encoding="utf-8")
    packed = {f"torch/{name}": b"" for name in ("__init__.py", *names) if name != left_out}
    wheel = wheel_of(tmp_path, METADATA | packed)
    tree = replace(plan.tree, generation=Generation.SCIKIT_BUILD_CORE)
    problems = list(check_packed(replace(plan, tree=tree), wheel))
    assert [(problem.id, problem.what.split()[3].rstrip(",")) for problem in problems] == [
        ("wheel-lacks-library", name) for name in lost
    ]
