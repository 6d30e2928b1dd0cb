"""Leaving cyclic garbage alone in a process that ends soon."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Collect no cyclic garbage inside the block, and none of it when the process ends.

    There is hardly any, and looking for it takes 5 ms while modules are imported and 10 ms as the interpreter ends.
    For processes that are torchwheel's own: what is garbage at the end of the block is never collected.
    """
    gc.disable()
    try:
        yield
    finally:
        # PyPy has another collector, without this.
        if hasattr(gc, "freeze"):
            gc.freeze()
        gc.enable()
