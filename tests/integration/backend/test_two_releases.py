"""Two releases of torchwheel that use one cache in turn, for one tree: each goes on where it can."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import torchwheel as package
from backend.builds import check, clean_environment, compiled, log_of, make_tree, torchwheel
from torchwheel.progress.build_record import RECORD

SOURCE = "c10/util/Exception.cpp"
COMPILED = "util/Exception.cpp"
SETTINGS = ("--target", "cpu", "--disable", "tests,mpi,openmp", "-Cversion=2.6.0", "-Cbuild-env=current")
LATER = {
    "_version.py": (r'__version__ = "[^"]+"', '__version__ = "99.0"'),
    "progress/build_record.py": (r"^_SHAPE = 1$", "_SHAPE = 2"),
    "engine/configuring.py": (r'^STATE = "configured.json"$', 'STATE = "configured-2.json"'),
}
"""What a later release has otherwise: its version, and how it writes down what the next build is to know."""


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A folder with a later release, for PYTHONPATH."""
    root = Path(package.__file__).parent
    copy = tmp_path / "later" / "torchwheel"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (pattern, text) in LATER.items():
        before = (copy / name).read_text(encoding="utf-8")
        after = re.sub(pattern, text, before, flags=re.MULTILINE)
        assert after != before
        (copy / name).write_text(after, encoding="utf-8")
    for name in ("overlays", "shim"):
        if not (copy / name).exists():
            shutil.copytree(root.parents[1] / {"shim": "backend"}.get(name, name), copy / name)
    return copy.parent


@pytest.mark.long
def test_two_releases_build_one_tree_in_turn(tmp_path: Path, later: Path) -> None:
    tree, cache = make_tree("setup.py", tmp_path / "tree"), tmp_path / "cache"
    now = clean_environment(cache, CCACHE_DISABLE="1")
    then = {**now, "PYTHONPATH": str(later)}
    assert check(*torchwheel("--version"), cwd=tmp_path, env=then) == "torchwheel 99.0\n"
    counts = []
    for number, environment in enumerate((now, then, now, then)):
        word = f"word number {number}"
        with (tree / SOURCE).open("a", encoding="utf-8") as stream:
            stream.write(f'extern const char word_{number}[]; const char word_{number}[] = "{word}";\n')
        out = tmp_path / f"out-{number}"
        check(*torchwheel("build", tree, *SETTINGS, "-o", out), cwd=tmp_path, env=environment)
        (wheel,) = out.glob("*.whl")
        check("unzip", "-q", wheel, "-d", out / "unpacked", cwd=tmp_path, env=now)
        assert word.encode() in (out / "unpacked/torch/lib/libc10.so").read_bytes()
        counts.append(compiled(cache))
        status = check(*torchwheel("status"), cwd=tmp_path, env=environment)
        assert wheel.name in status
        assert "done" in status
    # One build folder, in which nothing but the change is compiled.
    assert len(list((cache / "builds").iterdir())) == 1
    assert counts[1:] == [[COMPILED]] * 3
    assert len(counts[0]) > 10
    # What the other release wrote down is none of ours.
    assert b'"shape":2' in log_of(cache).with_name(RECORD).read_bytes()
    assert check(*torchwheel("status"), cwd=tmp_path, env=now) == "no builds yet\n"
