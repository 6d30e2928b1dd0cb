"""Which environment a build uses, and the one that torchwheel keeps."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import packaging.requirements  # noqa: F401 - imported before sys.path is replaced
import pytest

from torchwheel.engine.venv import (
    ensure_environment,
    environment_folder,
    interpreter_in,
    is_isolated,
    site_packages,
)
from torchwheel.errors import TorchwheelError
from torchwheel.versions import requirements_met


def test_the_folder_depends_on_requirements_in_any_order_and_on_the_interpreter(tmp_path: Path) -> None:
    folder = environment_folder(tmp_path, ["b", "a>=1"], "cp311")
    assert folder == environment_folder(tmp_path, ["a>=1", "b"], "cp311")
    assert folder.parent == tmp_path / "environments"
    assert folder.name.startswith("cp311-")
    others = {
        environment_folder(tmp_path, ["a>=2", "b"], "cp311"),
        environment_folder(tmp_path, ["a>=1", "b"], "cp312"),
    }
    assert folder not in others
    assert len(others) == 2


def test_requirements_are_compared_with_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, file, name, version in (
        ("some_package-1.2.3.dist-info", "METADATA", "some-package", "1.2.3"),
        ("Old.Style-2.0-py3.11.egg-info", "PKG-INFO", "Old.Style", "2.0"),
        ("post-1.0.post1.dist-info", "METADATA", "post", "1.0.post1"),
    ):
        (tmp_path / folder).mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / folder / file).write_text(text, encoding="utf-8")
    (tmp_path / "damaged-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nothing"), ""])
    assert requirements_met(["some-package", "Some.Package>=1.2", "old_style==2.0", "post>=1.0"])
    assert requirements_met(["absent; python_version < '3'"])
    assert not requirements_met(["absent; python_version >= '3'"])
    assert not requirements_met(["some-package>=1.3"])
    assert requirements_met(["some-package[extra] >= 1.2, < 2", " some-package ", "some-package (>=1.2)"])
    assert not requirements_met(["some-package[extra] >= 1.2, < 1.2.3"])
    assert not requirements_met(["some-package", "absent"])


@pytest.mark.parametrize(
    ("place", "isolated"),
    [
        ("/x/pip-build-env-ab12/overlay/lib/python3.11/site-packages", True),
        ("/x/pip-build-env-ab12/normal/lib/python3.11/site-packages", True),
        ("/home/me/build-env-py311/lib/python3.11/site-packages", False),
        ("/home/me/pip-build-env-mine/lib/python3.11/site-packages", False),
        ("/home/me/builds-v2/lib/python3.11/site-packages", False),
        ("/home/me/.cache/uv/builds-v0/.tmpAbCd/lib/python3.11/site-packages", True),
        ("/home/me/venv/lib/python3.11/site-packages", False),
        ("/home/me/builds/lib/python3.11/site-packages", False),
    ],
)
def test_front_ends_environments_are_known_by_name(
    place: str, isolated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.11", place])
    assert is_isolated() is isolated


def test_an_unknown_front_end_s_environment_is_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", str(Path(tempfile.gettempdir(), "another", "env")))
    assert is_isolated()
    monkeypatch.setattr(sys, "prefix", "/usr")
    assert not is_isolated()


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
