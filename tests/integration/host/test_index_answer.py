"""What an index has, asked of both installers."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from engine.tiny_wheels import tiny_wheel
from refusals import error_of
from torchwheel.host.installer import ask_index


@pytest.fixture(params=["pip", "uv"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An index with two releases of a package, of which the newer one needs what is not there; uv on PATH or not."""
    index, scripts = tmp_path / "wheels", tmp_path / "scripts"
    index.mkdir()
    scripts.mkdir()
    tiny_wheel(index, "kernels", "1.0", "Helper_One>=2")
    tiny_wheel(index, "kernels", "2.0", "helper-one>=9")
    tiny_wheel(index, "helper_one", "2.5")
    if request.param == "uv":
        uv = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
        assert uv is not None
        (scripts / "uv").symlink_to(uv)
    place = index.as_uri()
    found = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": place, "UV_OFFLINE": "1", "UV_FIND_LINKS": place}
    return {"PATH": str(scripts), "HOME": str(tmp_path), **found}


def test_the_newest_that_fits(environment: dict[str, str]) -> None:
    assert ask_index(["kernels"], environment) == {"kernels": "1.0", "helper-one": "2.5"}


def test_what_users_settings_say_about_files_of_theirs_is_overruled(
    environment: dict[str, str], tmp_path: Path
) -> None:
    own, theirs = tmp_path / ".config" / "uv" / "uv.toml", tmp_path / "requirements.txt"
    own.parent.mkdir(parents=True)
    own.write_text(f"[pip]\noutput-file = '{theirs}'\nuniversal = true\n", encoding="utf-8")
    assert ask_index(["kernels"], environment) == {"kernels": "1.0", "helper-one": "2.5"}
    assert not theirs.exists()


def test_nothing_fits(environment: dict[str, str]) -> None:
    (problem,) = error_of(ask_index, ["kernels>=2", "helper-one<9"], environment).problems
    assert problem.id == "index-has-no-answer"
    assert "helper-one" in problem.why
