"""docs/compatibility.md says what projects.toml says."""

from __future__ import annotations

from extension.compatibility.page import page
from extension.compatibility.projects import projects
from places import REPOSITORY

PAGE = REPOSITORY / "docs/compatibility.md"


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: PYTHONPATH=tests python -m extension.compatibility.page > docs/compatibility.md"
    )


def test_only_lines_that_name_cpp_extension_are_changed() -> None:
    """An edit takes torch.utils.cpp_extension, or an attribute of it, to torchwheel; nothing else differs."""
    for project in projects().values():
        assert project.edits, project.name
        for edit in project.edits:
            assert "cpp_extension" in edit.before, project.name
            assert "torchwheel" in edit.after, project.name


def test_five_projects_and_all_with_code_for_the_target() -> None:
    assert len(projects()) >= 5
    for project in projects().values():
        assert ("sm120",) in project.modules.values(), project.name
        assert set(project.modules.values()) <= {("sm120",), ()}, project.name


def test_every_result_was_measured() -> None:
    assert all(project.seconds > 0 for project in projects().values())
