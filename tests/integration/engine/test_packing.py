"""What setup.py packs is what was installed.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from torchwheel.engine.packing import check_packed
from torchwheel.plan.build_plan import Plan
from torchwheel.tree.source_tree import Generation
from unit.engine.test_packing import INFO, plan

__all__ = ["plan"]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake on PATH")
def test_cmake_itself_takes_half_a_library_for_installed(tmp_path: Path) -> None:
    """Where its time is less than a second from its source's, as it is where what was just linked is installed."""
    library, installed = tmp_path / "libc10.so", tmp_path / "lib" / "libc10.so"
    library.write_bytes(b"library" * 100)
    script = tmp_path / "cmake_install.cmake"
    script.write_text(f'file(INSTALL "{library}" DESTINATION "{installed.parent}")\n', encoding="utf-8")
    installed.parent.mkdir()
    for variables, size in (({}, 7), ({"CMAKE_INSTALL_ALWAYS": "1"}, 700)):
        installed.write_bytes(b"library")
        moment = library.stat().st_mtime_ns + 400_000_000
        os.utime(installed, ns=(moment, moment))
        command = ["cmake", "-P", str(script)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
        assert installed.stat().st_size == size


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``_C.so``, which needs ``libtorch.so``, which needs ``libc10.so``; the last one needs nothing of them."""
    folder = tmp_path_factory.mktemp("linked")
    for name, needed in (("libc10.so", []), ("libtorch.so", ["libc10.so"]), ("_C.so", ["libtorch.so"])):
        link = ["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed"]
        subprocess.run(
            [*link, f"-Wl,-soname,{name}", *needed, "-o", name], cwd=folder, check=True, timeout=60
        )
    (folder / "libscript.so").write_text("INPUT(libc10.so)")
    (folder / "libunused.so").touch()
    return folder


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ([], []),
        (["lib/libtorch.so"], [("libtorch.so", "torch/_C.so")]),
        (["lib/libc10.so"], [("libc10.so", "torch/lib/libtorch.so")]),
        # What nothing in the wheel names may be left out; the package torch imports its own module.
        (["libunused.so"], []),
        (["lib/libtorch.so", "_C.so"], [("_C.so", "torch/__init__.py")]),
        (["_C.so", "lib/libtorch.so", "lib/libc10.so"], [("_C.so", "torch/__init__.py")]),
    ],
)
def test_a_library_that_was_built_and_that_another_one_needs_is_in_the_wheel(
    plan: Plan, linked: Path, tmp_path: Path, left_out: list[str], said: list[tuple[str, str]]
) -> None:
    """As scikit-build-core's ``wheel.exclude`` leaves them out, which installs where nothing is afterwards."""
    places = {
        "_C.so": "",
        "libunused.so": "",
        "libtorch.so": "lib/",
        "libc10.so": "lib/",
        "libscript.so": "lib/",
    }
    members = [folder + name for name, folder in places.items()]
    installed = "\n".join(f"/tmp/tmpx1/wheel/platlib/torch/{name}" for name in members)
    (plan.folders.build / "install_manifest.txt").write_text(installed, encoding="utf-8")
    wheel = tmp_path / "torch-2.14.1+cpu-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in set(members) - set(left_out):
            archive.write(linked / Path(name).name, f"torch/{name}")
        for name in ("torch/__init__.py", *(f"{INFO}/{own}" for own in ("METADATA", "WHEEL", "RECORD"))):
            archive.writestr(name, b"")
    problems = check_packed(
        replace(plan, tree=replace(plan.tree, generation=Generation.SCIKIT_BUILD_CORE)), wheel
    )
    assert {problem.id for problem in problems} <= {"wheel-lacks-library"}
    assert [problem.what for problem in problems] == [
        f"the wheel lacks {name}, which was built, and without which {member} cannot be loaded"
        for name, member in said
    ]
