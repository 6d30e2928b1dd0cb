"""The program ``torchwheel``, and ``python -m torchwheel``."""

from __future__ import annotations

import sys


def program() -> int:
    """Run the program; returns its exit status.

    Ctrl-C may come while its modules are imported, before what handles it elsewhere.
    """
    try:
        from torchwheel.cli.main import main  # inside, because importing takes its time

        return main()
    except KeyboardInterrupt:
        print("torchwheel: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(program())
