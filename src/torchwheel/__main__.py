"""``python -m torchwheel``."""

from __future__ import annotations

import sys

from torchwheel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
