"""The program of an interpreter that waits for its work: it is told by ``waiting.py``, on one line of its input.

It runs outside of torchwheel's environment and imports nothing but the standard library: what build backends need of
that anyway is imported while there is nothing else to do.
"""

import dataclasses  # noqa: F401
import importlib.metadata  # noqa: F401
import inspect  # noqa: F401
import json
import os
import pathlib
import runpy
import shutil  # noqa: F401
import subprocess  # noqa: F401
import sys
import sysconfig  # noqa: F401
import tempfile  # noqa: F401


def main() -> None:
    """Run the program that is asked for, as if the interpreter had been started with it."""
    line = sys.stdin.buffer.readline()
    if not line:
        return
    work = json.loads(line)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(work["environment"])
    os.chdir(work["folder"])
    sys.argv = work["arguments"]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
