"""``torchwheel completion``: the scripts, in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import Run
from put import put
from torchwheel.cli.main import COMMANDS
from torchwheel.diagnosis.failures import read_catalogue
from torchwheel.hardware.gpu_catalogue import read_gpus

SHELLS = ("bash", "zsh", "fish", "powershell")

BASH = """\
source "$1"; shift
COMP_WORDS=(torchwheel "$@")
COMP_CWORD=$#
_torchwheel
printf '%s\\n' "${COMPREPLY[@]}"
"""

FISH = """\
source $argv[1]
complete -C $argv[2] | string split -f 1 \\t
"""


def shell(name: str) -> str:
    """The shell's program, or a skip."""
    program = shutil.which(name)
    if program is None or sys.platform == "win32":
        pytest.skip(f"there is no {name} here")
    return program


@pytest.fixture
def script(torchwheel: Run, tmp_path: Path) -> Path:
    """A bash script, made while there is an overlay of the user's own."""
    return written(torchwheel, tmp_path, "bash")


def written(torchwheel: Run, tmp_path: Path, name: str) -> Path:
    overlays = tmp_path / "config" / "overlays"
    put(overlays / "desk.toml", 'kind = "target"\ninherits = "rtx5070"\n')
    (overlays / "broken.toml").write_text("kind = ", encoding="utf-8")
    result = torchwheel("completion", name)
    assert (result.status, result.err) == (0, "")
    return put(tmp_path / f"script.{name}", result.out)


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    command = [shell("bash"), "--norc", "-c", BASH, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_commands_and_options(script: Path) -> None:
    assert completed(script, "") == list(COMMANDS)
    assert completed(script, "ins") == ["inspect"]
    assert completed(script, "inspect", "--g") == ["--gpu"]
    assert completed(script, "completion", "") == list(SHELLS)


def test_targets_profiles_components_and_ids(script: Path) -> None:
    names = completed(script, "plan", "--target", "")
    assert len(names) == len(set(names))
    assert set(names) == {"a100", "cpu", "native", "sm120", "desk"} | {gpu.name for gpu in read_gpus()}
    assert completed(script, "build", ".", "--target", "des") == ["desk"]
    assert {"debug", "minimal"} <= set(completed(script, "plan", "--profile", ""))
    assert completed(script, "plan", "--disable", "flash") == ["flash-attention"]
    assert set(completed(script, "inspect", "x.whl", "--gpu", "")) == {"native"} | {
        gpu.name for gpu in read_gpus()
    }
    assert {one.id for one in read_catalogue()} <= set(completed(script, "explain", ""))


def test_keys_of_settings(script: Path) -> None:
    assert completed(script, "build", "-C", "local") == ["local-version="]
    assert completed(script, "plan", "--config-setting", "cuda-") == ["cuda-path=", "cuda-from="]
    assert {"define.", "env.", "target="} <= set(completed(script, "doctor", "-C", ""))


def test_places(script: Path, here: Path) -> None:
    (here / "tree").mkdir()
    (here / "torch.whl").write_bytes(b"")
    assert completed(script, "components", "t") == ["tree"]
    assert sorted(completed(script, "inspect", "t")) == ["torch.whl", "tree"]


def test_fish(torchwheel: Run, tmp_path: Path) -> None:
    program = shell("fish")
    path = written(torchwheel, tmp_path, "fish")
    command = [program, "-N", "-c", FISH, str(path), "torchwheel build --target des"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["desk"]


def test_zsh_reads_its_script(torchwheel: Run, tmp_path: Path) -> None:
    program = shell("zsh")
    path = written(torchwheel, tmp_path, "zsh")
    done = subprocess.run([program, "-n", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_gets_every_command_and_the_users_own_target(
    name: str, torchwheel: Run, tmp_path: Path
) -> None:
    text = written(torchwheel, tmp_path, name).read_text(encoding="utf-8")
    assert {word for word in (*COMMANDS, "desk", "minimal", "flash-attention") if word not in text} == set()
