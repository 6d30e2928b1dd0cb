"""What another interpreter calls its wheels and modules."""

from __future__ import annotations

import subprocess
from functools import cache


@cache
def wheel_tag(python: str) -> str:
    """The tag of wheels with compiled modules, such as cp311-cp311-linux_x86_64."""
    code = "import packaging.tags as t; print(next(x for x in t.sys_tags() if 'manylinux' not in x.platform))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


@cache
def module_suffix(python: str) -> str:
    """How compiled modules end, such as .cpython-311-x86_64-linux-gnu.so."""
    code = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    return subprocess.check_output([python, "-c", code], text=True).strip()
