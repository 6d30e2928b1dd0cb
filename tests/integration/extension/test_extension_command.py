"""``torchwheel plan`` of extensions.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from unit.extension.test_extension_command import valid

SETUP = """\
from setuptools import setup
from torchwheel import BuildExtension, CppExtension
print("a script prints what it likes")
setup(name="x", ext_modules=[CppExtension("x._C", ["a.cpp"])], cmdclass={"build_ext": BuildExtension})
"""
COMMAND = """\
import argparse, sys
from torchwheel.cli import plan
parser = argparse.ArgumentParser()
plan.populate(parser)
sys.exit(plan.run(parser.parse_args(sys.argv[1:])))
"""


@pytest.mark.torch
def test_a_setup_py_against_a_real_pytorch(torch_python: str, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    (tmp_path / "a.cpp").write_text("#include <torch/csrc/stable/tensor.h>\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHWHEEL_")}
    words = [torch_python, "-c", COMMAND, str(tmp_path), "--json"]
    done = subprocess.run(
        words, capture_output=True, check=True, encoding="utf-8", timeout=300, env=environment
    )
    (planned_one,) = valid(done.stdout)["extensions"]  # type: ignore[misc, attr-defined]
    assert [step["sources"] for step in planned_one["steps"] if step["kind"] == "cxx"] == [["a.cpp"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cpp", "setup.py"]
