from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchwheel.hardware import gpu_catalogue as detect
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus
from torchwheel.host.programs import NoAnswer

UNKNOWN_FIELD = 'Field "compute_cap" is not a valid field to query.'
DRIVER_FAILURE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running."
)

MakeSmi = Callable[[dict[str, str]], dict[str, str]]


@pytest.fixture
def nvidia_smi(tmp_path: Path) -> MakeSmi:
    """Puts an nvidia-smi with recorded answers on a PATH of its own: query to answer, as `status|text`."""

    def make(answers: dict[str, str]) -> dict[str, str]:
        folder = tmp_path / "Programme für Grafik"
        folder.mkdir()
        script = folder / "fake.py"
        script.write_text(
            f"import sys\nanswers = {answers!r}\n"
            "query, form = sys.argv[1:]\n"
            "assert form == '--format=csv,noheader', form\n"
            "status, _, text = answers[query.removeprefix('--query-gpu=')].partition('|')\n"
            "print(text)\nsys.exit(int(status))\n",
            encoding="utf-8",
        )
        if sys.platform == "win32":
            program = folder / "nvidia-smi.bat"
            program.write_text(f'@"{sys.executable}" "{script}" %*\n', encoding="utf-8")
        else:
            program = folder / "nvidia-smi"
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        return {"PATH": str(folder)}

    return make


def test_two_different_ones_in_the_drivers_order(nvidia_smi: MakeSmi) -> None:
    environment = nvidia_smi(
        {"name,compute_cap": "0|NVIDIA GeForce RTX 5090, 12.0\nNVIDIA A100-SXM4-80GB, 8.0"}
    )
    assert detect_gpus(environment) == (
        NamedGpu("NVIDIA GeForce RTX 5090", Architecture(12, 0)),
        NamedGpu("NVIDIA A100-SXM4-80GB", Architecture(8, 0)),
    )


def test_more_than_any_machine_has(nvidia_smi: MakeSmi) -> None:
    """Each name is looked for in the catalogue, and a rule asks what runs on each."""
    environment = nvidia_smi({"name,compute_cap": "0|" + "\n".join(f"RTX {n}, 12.0" for n in range(100))})
    assert detect_gpus(environment) == tuple(
        NamedGpu(f"RTX {number}", Architecture(12, 0)) for number in range(64)
    )


@pytest.mark.parametrize("capability", ["8.7", "[N/A]", "[Not Supported]"])
def test_jetson(nvidia_smi: MakeSmi, capability: str) -> None:
    environment = nvidia_smi({"name,compute_cap": f"0|Orin (nvgpu), {capability}"})
    assert detect_gpus(environment) == (NamedGpu("Orin (nvgpu)", Architecture(8, 7)),)


@pytest.mark.parametrize("status", [2, 6])
def test_an_old_driver_is_asked_for_names(nvidia_smi: MakeSmi, status: int) -> None:
    environment = nvidia_smi(
        {
            "name,compute_cap": f"{status}|{UNKNOWN_FIELD}",
            "name": "0|Tesla V100-SXM2-16GB\nTesla K80\nTesla T4",
        }
    )
    assert detect_gpus(environment) == (
        NamedGpu("Tesla V100-SXM2-16GB", Architecture(7, 0)),
        NamedGpu("Tesla T4", Architecture(7, 5)),
    )


@pytest.mark.parametrize("answer", ["6|No devices were found", "0|No devices were found", "0|"])
def test_a_driver_without_gpus(nvidia_smi: MakeSmi, answer: str) -> None:
    assert detect_gpus(nvidia_smi({"name,compute_cap": answer})) == ()


def test_a_driver_that_fails_is_quoted(nvidia_smi: MakeSmi) -> None:
    environment = nvidia_smi({"name,compute_cap": f"9|{DRIVER_FAILURE}"})
    with pytest.raises(NoAnswer) as refused:
        detect_gpus(environment)
    assert str(refused.value) == f'nvidia-smi ended with status 9: "{" ".join(DRIVER_FAILURE.split())}"'


def test_no_nvidia_smi(tmp_path: Path) -> None:
    assert detect_gpus({"PATH": str(tmp_path)}) == ()
    assert detect_gpus({"PATH": ""}) == ()
    assert detect_gpus({}) == ()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bit")
def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_bytes(b"\x7fELF is not a program")
    program.chmod(0o755)
    with pytest.raises(NoAnswer, match="cannot be started"):
        detect_gpus({"PATH": str(tmp_path)})


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(detect, "_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(NoAnswer, match="took longer than"):
        detect_gpus({"PATH": f"{tmp_path}:/usr/bin:/bin"})
