"""A wheel of extensions is labelled and proved before it is handed over. Needs neither nvcc nor PyTorch.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from extension.compiled_modules import compiled, written_wheel
from extension.planning import plan
from torchwheel.extension.extension_plan import Extension
from torchwheel.extension.extension_wheel import finalize_wheel
from torchwheel.extension.wheel_record import record_of
from unit.extension.test_finalize import MODULE


def test_auditwheel_keeps_the_bill_of_materials(tmp_path: Path) -> None:
    pytest.importorskip("auditwheel")
    helper = compiled(tmp_path / "helper", "int helper() { return 1; }", "-Wl,-soname,libhelper.so")
    shutil.copy(helper, tmp_path / "libhelper.so")
    source = 'int helper(); extern "C" void* PyInit__C() { return helper() ? nullptr : nullptr; }'
    module = compiled(tmp_path, source, str(tmp_path / "libhelper.so"), "-Wl,-rpath," + str(tmp_path))
    extension = Extension(name="kernels._C", sources=("csrc/op.cpp",), cuda=False)
    made = plan(tmp_path, extension)
    built = written_wheel(tmp_path / "built", {MODULE: module.read_bytes()}, version="1.2", requires=())
    (tmp_path / "out").mkdir()
    wheel = tmp_path / "out" / finalize_wheel(record_of(made), made.project, built, tmp_path / "out")
    command = [sys.executable, "-m", "auditwheel", "repair", str(wheel), "-w", str(tmp_path / "repaired")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True, timeout=120)
    (repaired,) = (tmp_path / "repaired").iterdir()
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(repaired) as after:
        (name,) = (name for name in before.namelist() if name.endswith("sboms/torchwheel.cdx.json"))
        assert after.read(name) == before.read(name)
        assert any("libhelper" in name for name in after.namelist())


def test_the_tag_of_modules_for_all_pythons(tmp_path: Path) -> None:
    """The inner backend names the wheel for the Python that builds; setup.py files need not ask for another tag."""
    made = plan(
        tmp_path, Extension(name="kernels._C", sources=("csrc/op.cpp",), limited_api=True, cuda=False)
    )
    module = compiled(tmp_path, 'extern "C" void* PyInit__C() { return nullptr; }').read_bytes()
    built = written_wheel(
        tmp_path / "built",
        {"kernels/_C.abi3.so": module},
        version="1.2",
        requires=(),
        tag="cp311-cp311-linux_x86_64",
    )
    (tmp_path / "out").mkdir()
    name = finalize_wheel(record_of(made), made.project, built, tmp_path / "out")
    assert name == "kernels-1.2+cpu.torch2.14-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(tmp_path / "out" / name) as archive:
        tags = archive.read("kernels-1.2+cpu.torch2.14.dist-info/WHEEL").decode()
    assert "Tag: cp310-abi3-linux_x86_64\n" in tags
