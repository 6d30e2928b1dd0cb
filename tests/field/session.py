"""What all combinations of a session share: which they are, packages, programs, and reference wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from filelock import FileLock

from backend.builds import check, clean_environment, make_tree
from field import combinations, packages
from field.surroundings import CONSTRAINED, CUDA, DISABLED, EPOCH, VERSION, Shared, name_compiler
from places import REPOSITORY
from torchwheel.system.toml import read_toml

FULL = os.environ.get("FIELD", "short") == "full"
SEED = int(os.environ.get("FIELD_SEED", "1"))
_SHORT, _RANDOM = 20, 100
HANDMADE = {
    "cpu": ("0", "", "cpu.nompi.noopenmp"),
    "rtx5070": ("1", "12.0", "cu130.sm120.nocufile.nompi.noopenmp"),
    "a100,h100": ("1", "8.0;9.0", "cu130.sm80.sm90.nocufile.nompi.noopenmp"),
}
"""What a user types for each target without torchwheel: USE_CUDA, TORCH_CUDA_ARCH_LIST and the local version."""

_KEPT = REPOSITORY / ".field"
"""Wheels of the package index; git ignores it."""


@cache
def choose_combinations() -> list[combinations.Combination]:
    """As many pairs of levels as fit, and each error once; with FIELD=full every pair, and random combinations."""
    factors, _absent = combinations.make_factors()
    pairs = combinations.make_pairs(factors, SEED)
    if FULL:
        errors = combinations.make_errors(factors, SEED, 3)
        return [*pairs, *errors, *combinations.make_random(factors, SEED, _RANDOM)]
    return [*combinations.cover_levels(pairs, _SHORT), *combinations.make_errors(factors, SEED, 1)]


@contextmanager
def share(references: Path) -> Iterator[Shared]:
    """Packages, programs and toolkits in a folder that every user may enter, while the block runs.

    Args:
        references: where the workers of a session keep the wheels that others are compared with.
    """
    references.mkdir(exist_ok=True)
    uv = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    assert uv is not None, "uv is not installed"
    lists = [[*release["requires"], *release.get("pinned", ())] for release in combinations.RELEASES.values()]
    own = [str(entry) for entry in read_toml(REPOSITORY / "pyproject.toml")["project"]["dependencies"]]
    _KEPT.mkdir(exist_ok=True)
    with FileLock(_KEPT / "wheelhouse.lock"):
        wheelhouse = packages.fill_wheelhouse(
            _KEPT, [*lists, ["".join(CONSTRAINED)], own], combinations.find_pythons(), uv
        )
        toolkit = _KEPT / "toolkit"
        if combinations.FROM_PYPI in os.environ and not toolkit.exists():
            packages.download_toolkit(toolkit, CUDA)
    folder = Path(tempfile.mkdtemp(prefix="torchwheel-field-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder / "own", REPOSITORY]
        subprocess.run(build, check=True, capture_output=True)
        program = Path(shutil.copy(uv, folder))
        with packages.serve(wheelhouse, folder / "own", toolkit) as index:
            yield Shared(folder, index, program, references)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_reference(shared: Shared, generation: str, target: str, compiler: str) -> Path:
    """The wheel of a generation, target and compiler from plain surroundings, built once in a session."""
    clang = combinations.find_clangs()["clang"] if compiler == "clang" else None
    place = shared.references / f"{generation}-{target.replace(',', '-')}{'-clang' if clang else ''}"
    with FileLock(f"{place}.lock"):
        if not list(place.glob("out/*.whl")):
            shutil.rmtree(place, ignore_errors=True)
            tree = make_tree(generation, place / "tree")
            settings = ("--target", target, "--disable", ",".join(DISABLED), "-C", "build-env=current")
            python = _make_environment(shared, generation)
            command = (str(python), "-m", "torchwheel.cli.main", "build", str(tree), *settings)
            build = (*command, "--package-version", VERSION, "-o", str(place / "out"))
            environment = clean_environment(place / "cache", SOURCE_DATE_EPOCH=EPOCH, TMPDIR=str(place))
            environment |= {"PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
            environment |= name_compiler(clang) if clang else {}
            check(*build, cwd=place, env=environment, timeout=500)
    (wheel,) = place.glob("out/*.whl")
    return wheel


def build_by_hand(shared: Shared, folder: Path, generation: str, target: str) -> Path:
    """The wheel that the tree's own backend makes with variables, without torchwheel."""
    tree = make_tree(generation, folder / "tree")
    cuda, architectures, version = HANDMADE[target]
    variables = {
        **dict.fromkeys(("BUILD_TEST", "USE_OPENMP", "USE_MPI", "USE_CUFILE", "USE_CCACHE"), "0"),
        "USE_CUDA": cuda,
        "TORCH_CUDA_ARCH_LIST": architectures,
        "PYTORCH_BUILD_VERSION": f"{VERSION}+{version}",
        "PYTORCH_BUILD_NUMBER": "1",
        # It chooses NCCL's pin, as PyTorch's own release builds do.
        **({"DESIRED_CUDA": CUDA} if cuda == "1" else {}),
    }
    python = _make_environment(shared, generation)
    options = ("--wheel", "--no-isolation", "--skip-dependency-check")
    environment = clean_environment(folder / "cache", SOURCE_DATE_EPOCH=EPOCH, MAX_JOBS="2", **variables)
    environment |= {"PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
    build = (str(python), "-m", "build", *options, "-o", str(folder), str(tree))
    check(*build, cwd=folder, env=environment, timeout=500)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _make_environment(shared: Shared, generation: str) -> Path:
    """The interpreter of an environment with what the newest release of a generation asks for."""
    folder = shared.folder / f"venv-{generation}"
    if not folder.exists():
        *_, release = (entry for entry in combinations.RELEASES.values() if entry["generation"] == generation)
        python = getattr(sys, "_base_executable", None) or sys.executable
        # minitorch asks for wheel, as older releases do.
        shared.make_environment(folder, python, "torchwheel", "build", "wheel", *release["requires"])
    return folder / "bin" / "python"
