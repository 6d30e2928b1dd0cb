"""How often a build of extensions reads settings, machine, PyTorch and pyproject.toml, and plans, in each process."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from extension.projects import SETUP_PY, Built

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="makes libraries as Linux has them")

# Counts calls in this process and in all that it starts; each appends a line when it ends.
SITECUSTOMIZE = """\
import atexit, json, os, sys
COUNTED = {
    ("toml.py", "read_toml"): "pyproject.toml",
    ("resolve.py", "load_settings"): "settings",
    ("this.py", "this_host"): "host",
    ("installed_torch.py", "installed_torch"): "torch",
    ("planning.py", "make_extension_plan"): "plan",
}
counts = {}
def count(frame, event, argument):
    if event == "call":
        code = frame.f_code
        name = COUNTED.get((os.path.basename(code.co_filename), code.co_name))
        if name == "pyproject.toml" and frame.f_locals["path"].name != name:
            return
        if name:
            counts[name] = counts.get(name, 0) + 1
@atexit.register
def write():
    sys.setprofile(None)
    if counts:
        with open(os.environ["COUNTS"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(counts) + "\\n")
sys.setprofile(count)
"""
READ = {"pyproject.toml": 1, "settings": 1, "host": 1, "torch": 1}
PLANNED = {**READ, "plan": 1}


def counted(folder: Path, kind: str) -> list[dict[str, int]]:
    """What each process read for building a wheel; the hook's own process comes last."""
    built = Built(folder, kind)
    if kind == "setup.py":
        imported = "from torchwheel import CUDA_HOME, include_paths\ninclude_paths()\n"
        built.write("setup.py", imported + SETUP_PY)
    (built.packages / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    done = built.call("build_wheel", COUNTS=str(folder / "counts"))
    assert done.returncode == 0, done.stdout + done.stderr
    return [dict(Counter(json.loads(line))) for line in (folder / "counts").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("kind", "processes"),
    [
        # The inner process plans. The hook itself needs the machine and PyTorch for the build folder alone.
        ("tables", [PLANNED, READ]),
        ("CMake", [PLANNED, READ]),
        ("setup.py", [PLANNED, READ]),
    ],
)
def test_a_build_reads_everything_once_in_each_process_and_plans_once(
    tmp_path: Path, kind: str, processes: list[dict[str, int]]
) -> None:
    assert counted(tmp_path, kind) == processes
