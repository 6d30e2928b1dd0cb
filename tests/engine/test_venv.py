"""The environments that torchwheel makes and keeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.engine.venv import ensure_environment
from torchwheel.errors import TorchwheelError
from torchwheel.host.environments import interpreter_in, site_packages


@pytest.mark.slow
def test_an_environment_is_made_once_and_can_be_added_to(tmp_path: Path) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n', encoding="utf-8"
    )
    (project / "backend.py").write_text(BACKEND, encoding="utf-8")
    folder, log = tmp_path / "the environment", tmp_path / "log"
    # Set up for pip to install elsewhere, as a user may have it, and inside a front end's environment.
    environment = {
        "PATH": "",
        "PIP_TARGET": str(tmp_path / "elsewhere"),
        "PYTHONPATH": str(tmp_path),
        "PIP_NO_INDEX": "1",
    }
    ensure_environment(folder, (), environment, log)
    made = (folder / "pyvenv.cfg").stat().st_mtime_ns
    ensure_environment(folder, (project.as_uri(),), environment, log)
    assert (folder / "pyvenv.cfg").stat().st_mtime_ns == made
    code = "import tiny; print(tiny.__file__)"
    answer = subprocess.run(
        [interpreter_in(folder), "-c", code], capture_output=True, encoding="utf-8", env={}
    )
    assert answer.stdout == f"{site_packages(folder) / 'tiny.py'}\n"
    assert not (tmp_path / "elsewhere").exists()
    before = log.read_bytes()
    ensure_environment(folder, (project.as_uri(),), environment, log)
    assert log.read_bytes() == before


@pytest.mark.slow
def test_a_requirement_that_cannot_be_installed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(TorchwheelError) as caught:
        ensure_environment(tmp_path / "env", ("not-there>=9",), {"PATH": "", "PIP_NO_INDEX": "1"}, log)
    assert caught.value.render() == (
        "the tree's build requirements could not be installed: not-there>=9  [build-requirements-missing]\n"
        f"    why: the command ended with status 1; its output is in {log}\n"
        "    fix: check the network and pip's index settings, or install them into the current environment "
        "and use -C build-env=current with a frontend that does not isolate (pip: --no-build-isolation)"
    )
    assert "not-there" in log.read_text(encoding="utf-8")


def test_an_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "no-python"))
    with pytest.raises(TorchwheelError) as caught:
        ensure_environment(tmp_path / "env", (), {}, tmp_path / "log")
    assert [problem.id for problem in caught.value.problems] == ["environment-not-made"]
    assert f"{tmp_path / 'no-python'} -m venv" in str(caught.value)


BACKEND = """
import zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "tiny-1-py3-none-any.whl"
    info = "tiny-1.dist-info/"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""
