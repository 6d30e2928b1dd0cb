"""When whoever reads the output has seen enough: ``torchwheel gpus | head``."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_OUTPUT_CLOSED = 141
"""What a shell shows for a program that SIGPIPE ended: 128 + 13."""

# Windows reports a closed pipe as an invalid argument: https://bugs.python.org/issue35754
_CLOSED = (errno.EPIPE, errno.EINVAL)


@contextmanager
def quiet_when_output_closes() -> Iterator[None]:
    """End without a word when standard output is closed by its reader.

    Raises:
        SystemExit: status 141 then; other errors pass through, also those of other pipes.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _CLOSED or not _output_is_closed():
            raise
        # What is left in a buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_OUTPUT_CLOSED) from None


def _output_is_closed() -> bool:
    """Whether it was standard output that could not be written to, and not the pipe to some other program.

    Only another attempt tells; Python drops what it could not write. If it succeeds, an error message follows, for
    which a line end is no harm.
    """
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as error:
        return error.errno in _CLOSED
    return False
