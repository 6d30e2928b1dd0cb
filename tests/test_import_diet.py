"""What a plan and the hooks that build nothing may not import: each costs 3 to 60 ms of their time.

The measured figures are in docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MINITORCH = Path(__file__).resolve().parent.parent / "examples" / "minitorch"

HEAVY = {
    "asyncio",
    "dataclasses",
    "email",
    "filelock",
    "importlib.metadata",
    "inspect",
    "logging",
    "packaging.markers",
    "packaging.metadata",
    "packaging.requirements",
    "packaging.specifiers",
    "packaging.tags",
    "packaging.utils",
    "platformdirs",
    "tomlkit",
    "torchwheel.diagnosis",
    "torchwheel.pytorch.published",
    "torchwheel.wheel",
}
OF_NO_USE_TO_A_PLAN = {"difflib", "pyproject_hooks", "subprocess", "tempfile", "threading", "zipfile"}
OF_NO_USE_WITHOUT_CUDA = {
    "torchwheel.hardware.catalogue",
    "torchwheel.pytorch.releases",
    "torchwheel.toolkit.catalogue",
    "torchwheel.toolkit.discover",
}

PROGRAM = """
import json, sys
{call}
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(call: str, tmp_path: Path) -> set[str]:
    """The modules that a fresh process has imported after a call, whatever came of it."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    environment["TORCHWHEEL_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", PROGRAM.format(call=call)]
    result = subprocess.run(
        command, capture_output=True, encoding="utf-8", cwd=MINITORCH, env=environment, check=True
    )
    return set(json.loads(result.stderr.splitlines()[-1]))


@pytest.mark.parametrize("form", [(), ("--explain",), ("--json",), ("--shell",)], ids=" ".join)
@pytest.mark.parametrize("target", ["cpu", "rtx5070"])
def test_a_plan(target: str, form: tuple[str, ...], tmp_path: Path) -> None:
    words = ["plan", ".", "--target", target, "-C", "version=2.14.1", *form]
    modules = imported(f"from torchwheel.cli.main import main; main({words!r})", tmp_path)
    assert "torchwheel.plan.make" in modules
    if target == "cpu":
        assert not modules & (HEAVY | OF_NO_USE_TO_A_PLAN | OF_NO_USE_WITHOUT_CUDA)
    else:
        # The nearest spelling of an option that minitorch does not have is looked for.
        assert not modules & (HEAVY | OF_NO_USE_TO_A_PLAN - {"difflib"})


def test_the_hook_that_asks_the_tree_s_own_backend(tmp_path: Path) -> None:
    settings = {"target": "cpu", "version": "2.14.1", "build-env": "current"}
    call = f"from torchwheel.backend import get_requires_for_build_wheel as hook; hook({settings!r})"
    modules = imported(call, tmp_path)
    assert "pyproject_hooks" in modules
    assert not modules & (HEAVY | OF_NO_USE_WITHOUT_CUDA)
