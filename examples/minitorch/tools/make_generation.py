"""Makes a source tree of one of PyTorch's two generations out of this example.

python tools/make_generation.py scikit-build-core DEST    as PyTorch from 2.14 on; DEST is a clean copy
python tools/make_generation.py setup.py DEST             as PyTorch up to 2.13
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OVERLAY = "setup_py"
# The overlay brings what the other generation has instead of these.
ONLY_SCIKIT_BUILD_CORE = (
    "cmake/EnvVarForwarding.cmake",
    "cmake/forward_environment.py",
    "pyproject.toml",
    "tools/metadata",
)
# These belong to the example, not to the trees.
NEITHER = (OVERLAY, "tools/make_generation.py")


def left_out(relative: str, patterns: list[str]) -> bool:
    """Whether a .gitignore as simple as this example's leaves the path out."""
    name = relative.rpartition("/")[2]
    return any(fnmatch.fnmatch(relative, pattern) or fnmatch.fnmatch(name, pattern) for pattern in patterns)


def make_generation(generation: str, destination: Path) -> None:
    """Copies the sources of a generation, ``scikit-build-core`` or ``setup.py``, into a new folder."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    patterns += NEITHER
    if generation == "setup.py":
        patterns += ONLY_SCIKIT_BUILD_CORE

    def ignore(folder: str, names: list[str]) -> list[str]:
        prefix = Path(os.path.relpath(folder, ROOT))
        return [name for name in names if left_out((prefix / name).as_posix(), patterns)]

    shutil.copytree(ROOT, destination, ignore=ignore)
    if generation == "setup.py":
        shutil.copytree(
            ROOT / OVERLAY, destination, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("generation", choices=("scikit-build-core", "setup.py"))
    parser.add_argument("destination", type=Path, help="a folder that does not exist yet")
    options = parser.parse_args()
    if options.destination.exists():
        parser.error(f"{options.destination} exists already; name a folder that does not")
    make_generation(options.generation, options.destination)


if __name__ == "__main__":
    main()
