"""``make demo``: builds minitorch for an RTX 5070 where a CUDA compiler is found, else for the CPU.

It runs the two commands that a user would type, and prints each before it runs: ``demo.py [FOLDER [TARGET]]``.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent / "minitorch"


def run(*words: str) -> None:
    """Print a torchwheel command and run it; the demo ends if it fails."""
    print(f"\n$ torchwheel {shlex.join(words)}\n", flush=True)
    done = subprocess.run([sys.executable, "-m", "torchwheel.cli.main", *words], check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def has_cuda_compiler() -> bool:
    """Whether a CUDA toolkit that compiles for the RTX 5070 is on this machine."""
    plan = [sys.executable, "-m", "torchwheel.cli.main", "plan", str(TREE), "--target", "rtx5070"]
    plan += ["-C", "cuda-from=system"]
    return subprocess.run(plan, check=False, capture_output=True).returncode == 0


def main() -> None:
    """Build, then look into what was built."""
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    target = sys.argv[2] if len(sys.argv) > 2 else "rtx5070" if has_cuda_compiler() else ""
    if not target:
        target = "cpu"
        print("no CUDA toolkit that compiles for the RTX 5070 was found, so this builds for the CPU")
    run("build", str(TREE), "--target", target, "--package-version", "2.14.1", "--output", str(output))
    newest = max(output.glob("torch-2.14.1+*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    run("inspect", str(newest))


if __name__ == "__main__":
    main()
