"""A machine that is not this one, from what somebody says of it."""

from __future__ import annotations

from dataclasses import replace

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.model import Compiler, Host, Python
from torchwheel.host.platform_tags import parse_platform
from torchwheel.host.python import described_python, this_python


def described_host(
    platform_tag: str,
    *,
    python_version: str | None = None,
    python_executable: str = "",
    memory_bytes: int | None = None,
    cores: int | None = None,
    compilers: tuple[Compiler, ...] = (),
    glibc: str | None = None,
    origin: str = "",
) -> Host:
    """Describe a machine by its platform tag: ``win_amd64``, ``linux_aarch64``, ``manylinux_2_28_x86_64``…

    Without ``python_version`` its Python is of the same version and ABI as the one that runs this.
    ``glibc`` outranks the one in a manylinux tag. ``origin`` is where the description came from.

    Raises:
        TorchwheelError: an unknown tag or version, or an amount under 1; all of them at once.
    """
    problems: list[Problem] = []
    try:
        platform = parse_platform(platform_tag, origin)
    except TorchwheelError as error:
        problems.extend(error.problems)
    try:
        python = _python(python_version, python_executable, origin)
    except TorchwheelError as error:
        problems.extend(error.problems)
    problems.extend(_amount_problems(memory_bytes, cores, origin))
    if problems:
        raise TorchwheelError(problems)
    return Host(
        platform_tag=platform.tag,
        system=platform.system,
        machine=platform.machine,
        python=python,
        memory_bytes=memory_bytes,
        cores=cores,
        compilers=compilers,
        here=False,
        glibc=glibc or platform.glibc,
    )


def _python(version: str | None, executable: str, origin: str) -> Python:
    if version is None:
        return replace(this_python(), executable=executable)
    return described_python(version, executable, origin)


def _amount_problems(memory_bytes: int | None, cores: int | None, origin: str) -> list[Problem]:
    amounts = (("memory", memory_bytes, "bytes"), ("number of cores", cores, "cores"))
    return [
        Problem(
            id="impossible-amount",
            what=f"a {name} of {amount} {unit} is impossible",
            remedy="give 1 or more, or leave it out when it is not known",
            origin=origin,
        )
        for name, amount, unit in amounts
        if amount is not None and amount < 1
    ]
