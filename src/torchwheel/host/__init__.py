"""The machine that builds: system, processor, usable memory, compilers, Python."""

from __future__ import annotations

from torchwheel.host.described import described_host
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.model import Compiler, Host, Python
from torchwheel.host.this import this_host

__all__ = ["Compiler", "Host", "Jobs", "Python", "described_host", "jobs_for", "this_host"]
