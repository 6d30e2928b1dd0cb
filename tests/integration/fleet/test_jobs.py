"""Which jobs there are, and what is left out.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from put import put
from tree.small_trees import commit_all
from unit.fleet.test_jobs import fleet, left, refusal


def test_what_a_release_of_pytorch_does_not_take_is_left_out(checkout: Path) -> None:
    pythons = ("3.15", "3.13t", "3.12", "3.14t", "3.8")
    found = fleet(checkout, targets=("a100",), pythons=pythons)
    assert [job.python for job in found.jobs] == ["3.12", "3.14t"]
    assert left(found) == {
        "python-not-supported": "a100 on linux_x86_64, Python 3.8",
        "free-threaded-not-published": "a100 on linux_x86_64, Python 3.13t",
        "python-newer-than-pytorch": "a100 on linux_x86_64, Python 3.15",
    }
    skipped = {"skip-check": ["free-threaded-not-published", "python-newer-than-pytorch"]}
    found = fleet(checkout, targets=("a100",), pythons=pythons, settings=skipped)
    assert [job.python for job in found.jobs] == ["3.12", "3.13t", "3.14t", "3.15"]
    assert found.variables["TORCHWHEEL_SKIP_CHECK"] == "free-threaded-not-published,python-newer-than-pytorch"


def test_where_an_official_build_serves_is_told_as_plan_tells_it(checkout: Path) -> None:
    found = fleet(
        checkout, targets=("a100", "cpu"), pythons=("3.12", "3.13"), settings={"package-version": "2.14.1"}
    )
    assert (len(found.jobs), found.left_out) == (4, ())
    assert [(one.where, one.problem.id) for one in found.needless] == [
        ("a100 on linux_x86_64, Python 3.12 and 3.13", "need-not-build"),
        ("cpu on linux_x86_64, Python 3.12 and 3.13", "need-not-build"),
    ]
    assert found.needless[0].problem.what.startswith("the official PyTorch 2.14.1 (cu130 build) ")
    # That release has no official build for it.
    (checkout / "version.txt").write_text("2.6.0a0\n")
    assert fleet(checkout, targets=("rtx5070",)).needless == ()


def test_jobs_have_the_tree(tmp_path: Path, checkout: Path) -> None:
    project = tmp_path / "project"
    put(project / "pyproject.toml", f"[tool.torchwheel]\nsource = '{checkout}'\n")
    assert list(refusal(project)) == ["source-not-in-checkout"]
    # A clone within the repository that is no submodule of it is in no other checkout either.
    shutil.copytree(checkout, project / "pytorch")
    (project / "pyproject.toml").write_text("[tool.torchwheel]\nsource = 'pytorch'\n")
    (project / ".gitignore").write_text("pytorch\n")
    commit_all(project)
    assert list(refusal(project)) == ["source-not-in-checkout"]
    (project / ".gitignore").unlink()
    commit_all(project)
    found = fleet(project)
    assert [job.name for job in found.jobs] == ["cpu-cp312-linux-x86-64"]
    put(project / "below" / "pyproject.toml", "[tool.torchwheel]\nsource = '../pytorch'\n")
    assert fleet(project / "below").variables["JOB_PROJECT"] == "below"
