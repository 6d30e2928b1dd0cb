"""A wheel that is installed, imported and made to calculate."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from extension.compiled_modules import written_wheel
from integration.verification.test_libraries import needing
from torchwheel.host.this import interpreter_in, site_packages
from torchwheel.proof import CheckOutcome
from verification.fixtures import TORCH, Checked, TorchRecipe
from wheel_samples import Entry, Samples, WheelRecipe

CODE = {"torch/lib/libtorch_cuda.so": Samples().library(Entry(kind=2, number=120))}
FIVE_SEVENTY = "NVIDIA GeForce RTX 5070, 12.0"


def test_a_torch_that_works(tmp_path: Path, checked: Checked) -> None:
    wheel = TorchRecipe(version="2.14.1+cpu", cuda=None).write(tmp_path / "dist é")
    found = checked(wheel, install=True)
    assert [(name, check.outcome.value) for name, check in found.items()] == [
        ("record", "passed"),
        ("names", "passed"),
        ("manifest", "not tried"),
        ("install", "passed"),
        ("libraries", "passed"),
        ("import", "passed"),
        ("configuration", "passed"),
        ("cpu", "passed"),
        ("gpu", "not tried"),
    ]
    assert found["install"].figures["packages"] == 1
    assert found["import"].figures["version"] == "2.14.1+cpu"
    assert found["configuration"].figures["architectures"] == ["sm_120"]
    assert found["cpu"].figures["seconds"] > 0


def test_a_variant_is_tried_as_the_wheel_that_it_is(tmp_path: Path, checked: Checked) -> None:
    wheel = TorchRecipe(version="2.14.1", cuda=None).write(tmp_path)
    variant = wheel.rename(wheel.with_name(f"{wheel.stem}-null.whl"))
    found = checked(variant, install=True)
    assert {name: found[name].outcome for name in ("names", "install", "import", "cpu")} == dict.fromkeys(
        ("names", "install", "import", "cpu"), CheckOutcome.PASSED
    )


@pytest.mark.parametrize(
    ("torch", "check", "said"),
    [
        (TORCH.replace("import __version__", "import cuda as __version__"), "import", "says None"),
        (TORCH.replace("sum(a * b", "1 + sum(a * b"), "cpu", "ArithmeticError"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "import", "SIGSEGV"),
    ],
)
def test_a_torch_that_does_not_work(
    torch: str, check: str, said: str, tmp_path: Path, checked: Checked
) -> None:
    wheel = TorchRecipe(version="2.14.1+cpu", cuda=None, torch=torch).write(tmp_path)
    found = checked(wheel, install=True)
    if said == "says None":
        assert [problem.id for problem in found[check].problems] == ["names-differ"]
        return
    (problem,) = found[check].problems
    assert (problem.id, problem.status) == ("step-failed", 1)
    assert said in problem.what


@pytest.mark.parametrize(
    ("answer", "available", "outcome", "ids"),
    [
        ("NVIDIA H100, 9.0", True, CheckOutcome.NOT_TRIED, []),
        (FIVE_SEVENTY, False, CheckOutcome.FAILED, ["gpu-not-usable"]),
        (f"NVIDIA H100, 9.0\n{FIVE_SEVENTY}", True, CheckOutcome.PASSED, []),
    ],
)
def test_a_gpu(
    answer: str,
    available: bool,
    outcome: CheckOutcome,
    ids: list[str],
    tmp_path: Path,
    checked: Checked,
    gpus: Callable[[str], None],
) -> None:
    gpus(answer)
    wheel = TorchRecipe(available=available, more=CODE).write(tmp_path)
    found = checked(wheel, install=True)["gpu"]
    assert (found.outcome, [problem.id for problem in found.problems]) == (outcome, ids)
    if outcome is CheckOutcome.PASSED:
        assert [one["name"] for one in found.figures["gpus"]] == ["NVIDIA GeForce RTX 5070"]


def test_an_extension_with_its_torch(tmp_path: Path, checked: Checked) -> None:
    torch = TorchRecipe(version="2.14.1+cpu", cuda=None).write(tmp_path)
    data = "kernels-1.2+cpu.data"
    files = {
        "kernels/__init__.py": b"import torch\n",
        f"{data}/platlib/kernels/ops.abi3.so": Samples().library(),
        f"{data}/scripts/tool.so": Samples().library(),
    }
    wheel = written_wheel(tmp_path, files, version="1.2+cpu", tag="py3-none-any")
    found = checked(wheel, install=True, more=(str(torch),))
    assert (found["modules"].outcome, found["import"].figures["version"]) == (
        CheckOutcome.PASSED,
        "2.14.1+cpu",
    )
    assert [Path(name).name for name in found["modules"].figures["modules"]] == ["kernels", "ops.abi3.so"]


def test_a_requirement_that_nothing_has(tmp_path: Path, checked: Checked) -> None:
    wheel = written_wheel(tmp_path, {}, version="1.2", tag="py3-none-any", requires=("not-there-at-all==1",))
    found = checked(wheel, install=True)
    (problem,) = found["install"].problems
    assert (problem.id, problem.status, "not-there-at-all" in problem.why) == ("wheel-not-installed", 1, True)
    assert "libraries" in found
    assert "import" not in found


def test_a_wheel_for_another_python(tmp_path: Path, checked: Checked) -> None:
    found = checked(WheelRecipe(version="2.14.1", tag="cp27-cp27m-win32").write(tmp_path), install=True)
    (problem,) = found["install"].problems
    assert (problem.id, problem.status) == ("cannot-be-tried", 3)


def test_an_installed_torch(tmp_path: Path, checked: Checked, surroundings: dict[str, str]) -> None:
    wheel = TorchRecipe(version="2.14.1+cpu", cuda=None).write(tmp_path)
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", interpreter_in(folder), "install", "--no-index"]
    subprocess.run([*pip, "-q", str(wheel)], check=True, timeout=300, env={**os.environ, **surroundings})
    torch = site_packages(folder) / "torch"
    found = checked(torch, install=True)
    assert {check.outcome for name, check in found.items() if name not in ("manifest", "gpu")} == {
        CheckOutcome.PASSED
    }
    (torch / "ops.py").write_text("", encoding="utf-8")
    (torch / "_C.py").unlink()
    found = checked(torch)
    assert [problem.id for problem in found["record"].problems] == ["record-mismatch"] * 2


def test_a_torch_that_is_not_required_is_named(tmp_path: Path, checked: Checked) -> None:
    """As torchao's: it runs beside whatever torch there is."""
    torch = TorchRecipe(version="2.14.1+cpu", cuda=None).write(tmp_path)
    files = {"kernels/__init__.py": b"import torch\n", "kernels/_C.abi3.so": needing(tmp_path, "libc10.so")}
    wheel = written_wheel(tmp_path, files, version="1.2", tag="cp310-abi3-linux_x86_64", requires=())
    found = checked(wheel, install=True)
    assert (found["modules"].outcome, "import" in found) == (CheckOutcome.NOT_TRIED, False)
    # The module cannot be loaded beside this stand-in, but torch is imported before it.
    assert checked(wheel, install=True, more=(str(torch),))["import"].figures["version"] == "2.14.1+cpu"
