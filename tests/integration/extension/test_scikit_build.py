"""What a front end installs before scikit-build-core is there, which could say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.projects import Built
from torchwheel.extension.inner_backend import required_packages
from torchwheel.survey import BuildRequest


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo cmake version 3.31", []),
        ("exit 3", ["cmake>=3.20"]),
        ("echo cmake version 3.19", ["cmake>=3.20"]),
    ],
)
def test_a_cmake_where_that_of_the_machine_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: list[str]
) -> None:
    built = Built(tmp_path, "CMake", project="projekt é")
    programs = tmp_path / "programs"
    programs.mkdir()

    def write(name: str, text: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)

    write("cmake", script)
    write("ninja", "echo 1.10.1")
    monkeypatch.setattr("torchwheel.extension.extension_project.find_spec", lambda name: None)
    monkeypatch.syspath_prepend(str(built.packages))
    request = BuildRequest(built.project, {}, {"PATH": str(programs)})
    needed = ["scikit-build-core>=1.0", *expected, "setuptools>=77"]
    assert required_packages(request, "get_requires_for_build_wheel") == needed
    write("ninja", "echo 1.4")
    assert required_packages(request, "get_requires_for_build_wheel") == [*needed, "ninja>=1.11"]
