"""Makes one of the three projects that build this example: the same sources, another description of the build.

python tools/make_project.py tables DEST      tables in pyproject.toml; DEST is a clean copy of this folder
python tools/make_project.py setup_py DEST    setup.py, as with torch.utils.cpp_extension
python tools/make_project.py cmake DEST       CMakeLists.txt
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = ("LICENSE", "README.md", "csrc", "src", "tests")
DESCRIPTIONS = {
    "tables": ROOT / "pyproject.toml",
    "setup_py": ROOT / "other_ways" / "setup_py",
    "cmake": ROOT / "other_ways" / "cmake",
}
# What a build or a test in this folder may have left.
LEFTOVERS = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so", "*.pyd")


def make_project(way: str, destination: Path) -> None:
    """Copies the sources and one way's description of the build into a new folder.

    Args:
        way: ``tables``, ``setup_py`` or ``cmake``.
        destination: a folder that does not exist yet.
    """
    destination.mkdir(parents=True)
    for source in [*(ROOT / name for name in SHARED), DESCRIPTIONS[way]]:
        if source.is_file():
            shutil.copy2(source, destination)
        else:
            target = destination if source == DESCRIPTIONS[way] else destination / source.name
            shutil.copytree(source, target, ignore=LEFTOVERS, dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("way", choices=DESCRIPTIONS)
    parser.add_argument("destination", type=Path, help="a folder that does not exist yet")
    options = parser.parse_args()
    if options.destination.exists():
        parser.error(f"{options.destination} exists already; name a folder that does not")
    make_project(options.way, options.destination)


if __name__ == "__main__":
    main()
