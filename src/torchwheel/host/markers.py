"""The environment of PEP 508 markers, for machines that need not be this one."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.markers import Marker, UndefinedEnvironmentName

from torchwheel.host.model import Host

# os.name and sys.platform by platform.system().
_NAMES = {
    "Linux": ("posix", "linux"),
    "Darwin": ("posix", "darwin"),
    "Windows": ("nt", "win32"),
}

# platform.python_implementation() by sys.implementation.name.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def marker_environment(host: Host) -> dict[str, str]:
    """Every marker variable except ``extra``.

    The names and their meaning:
    https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers
    """
    os_name, sys_platform = _NAMES.get(host.system, ("posix", host.system.lower()))
    python = host.python
    return {
        "implementation_name": python.implementation,
        "implementation_version": python.implementation_version,
        "os_name": os_name,
        "platform_machine": host.machine,
        "platform_python_implementation": _IMPLEMENTATIONS.get(python.implementation, python.implementation),
        "platform_release": host.os_release,
        "platform_system": host.system,
        "platform_version": host.os_version,
        "python_full_version": python.version,
        "python_version": python.minor_version,
        "sys_platform": sys_platform,
    }


def marker_holds(marker: str, environment: Mapping[str, str]) -> bool:
    """Whether a PEP 508 marker is true.

    Args:
        marker: for example ``sys_platform == 'win32'``.
        environment: from :func:`marker_environment`.

    Raises:
        ValueError: that is no marker, or it asks for ``extra``.
    """

    try:
        return Marker(marker).evaluate(dict(environment))
    except UndefinedEnvironmentName as error:
        raise ValueError(*error.args) from None
