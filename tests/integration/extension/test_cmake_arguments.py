"""

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from backend.builds import manifest, names_in
from extension.projects import CMAKE as PROJECT
from extension.projects import Built


def test_a_module_that_is_not_installed_is_neither_demanded_nor_recorded(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    tool = "torchwheel_add_extension(NAME tiny._tool SOURCES csrc/*.cpp INCLUDE_DIRS include NO_INSTALL)\n"
    built.write("CMakeLists.txt", PROJECT + tool)
    assert built.mark() == "first, nothing"
    (wheel,) = (tmp_path / "out").iterdir()
    modules = [name for name in names_in(wheel) if name.endswith(".so")]
    assert [one["file"] for one in manifest(wheel)["plan"]["extensions"]["modules"]] == modules
    built.write(
        "CMakeLists.txt", PROJECT.replace("tiny._C", "tiny._tool").replace("include)", "include NO_INSTALL)")
    )
    status, text = built.said(out="none")
    assert status == 0, text
    (wheel,) = (tmp_path / "none").iterdir()
    assert wheel.name.startswith("tiny-1.2-")
