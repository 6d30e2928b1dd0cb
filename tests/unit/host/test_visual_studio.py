"""The environment of Visual Studio's compilers, taken over from a stand-in of vswhere and of cmd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchwheel.host.visual_studio import VisualStudio, developer_environment, visual_studio
from torchwheel.reporting.errors import TorchwheelError


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A Visual Studio, and a cmd that runs its batch file: what that prints, then the variables as JSON."""
    installer = tmp_path / "Microsoft Visual Studio" / "Installer"
    asked = 'case "$*" in *installationPath) echo "C:/VS" ;; *) echo 17.11.35 ;; esac'
    program(installer / "vswhere.exe", asked)
    cmd = program(
        tmp_path / "cmd",
        'echo "[vcvarsall.bat] {braces}"\necho\n'
        'echo "{\\"VSCMD_ARG_TGT_ARCH\\": \\"$5\\", \\"TORCHWHEEL_PYTHON\\": \\"$TORCHWHEEL_PYTHON\\", '
        '\\"ASKED\\": \\"$1 $2 $3\\", \\"RAN\\": \\"$4\\", '
        '\\"BATCH\\": \\"$TORCHWHEEL_VCVARSALL\\", \\"MINE\\": \\"$MINE\\"}"',
    )
    return {"ProgramFiles(x86)": str(tmp_path), "COMSPEC": cmd, "MINE": "kept", "PATH": "/usr/bin:/bin"}


def test_visual_studio_is_found(machine: Mapping[str, str]) -> None:
    assert visual_studio(machine) == VisualStudio("C:/VS", "17.11")
    assert visual_studio({}) == VisualStudio("", "")


def test_what_vcvarsall_sets_is_taken_over(machine: Mapping[str, str]) -> None:
    found = developer_environment(machine, "win_amd64")
    script = found["RAN"]
    assert found == {
        "VSCMD_ARG_TGT_ARCH": "x64",
        # Where a quote comes first, cmd takes the quotes away from a path with parentheses in it.
        "ASKED": "/d /c call",
        "RAN": script,
        "BATCH": "C:/VS/VC/Auxiliary/Build/vcvarsall.bat",
        "MINE": "kept",
    }
    assert "%TORCHWHEEL_VCVARSALL%" in Path(script).read_text(encoding="ascii")
    assert developer_environment(machine, "win_arm64")["VSCMD_ARG_TGT_ARCH"] == "arm64"


def test_nothing_is_run_where_it_was_run_or_where_there_is_none(machine: dict[str, str]) -> None:
    prompt = {**machine, "VSCMD_ARG_TGT_ARCH": "x64"}
    assert developer_environment(prompt, "win_amd64") is prompt
    assert developer_environment({"PATH": "/bin"}, "win_amd64") == {"PATH": "/bin"}


@pytest.mark.parametrize("output", ["exit 1", 'echo "vcvarsall.bat is not recognized"', 'echo; echo "{}"'])
def test_a_batch_file_that_fails_is_an_error(machine: dict[str, str], output: str) -> None:
    program(Path(machine["COMSPEC"]), output)
    with pytest.raises(TorchwheelError) as caught:
        developer_environment(machine, "win_amd64")
    assert [problem.id for problem in caught.value.problems] == ["no-developer-environment"]
