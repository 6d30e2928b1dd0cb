"""Environment variables that would fight the plan."""

from __future__ import annotations

import re

from torchwheel.preflight.context import Context
from torchwheel.preflight.registry import Answer, Passed, Violation, checks_machine

_NVCC_FLAGS = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CUDAFLAGS", "TORCH_NVCC_FLAGS")
_ARCHITECTURE_FLAG = re.compile(
    r"-{1,2}(?:gencode|arch|gpu-architecture|generate-code|gpu-code|code)\b[= ]?\S*"
)
_HOST_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS")
_CPU_FLAG = re.compile(r"-m(?:arch|cpu)=native\b")


@checks_machine("variables-add-architectures")
def no_architectures(context: Context) -> Answer:
    """Flags of nvcc that a variable adds to every call."""
    found = _matches(context, _NVCC_FLAGS, _ARCHITECTURE_FLAG)
    code = context.plan.architectures
    if code is None:
        return None
    if not found:
        return Passed()
    return Violation({"variables": _listed(found), "names": ", ".join(found)}, str(code))


@checks_machine("variables-bind-to-this-cpu")
def no_native(context: Context) -> Answer:
    """Flags that make the compiler use whatever this processor has."""
    found = _matches(context, _HOST_FLAGS, _CPU_FLAG)
    return Violation({"variables": _listed(found), "names": ", ".join(found)}) if found else Passed()


def _matches(context: Context, names: tuple[str, ...], pattern: re.Pattern[str]) -> dict[str, str]:
    """Variable -> the flag in it."""
    given = {
        **context.environment,
        **{name: str(setting.value) for name, setting in context.plan.settings.variables.items()},
    }
    found = {name: pattern.search(given.get(name, "")) for name in names}
    return {name: match[0].strip() for name, match in found.items() if match}


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} has {flag}" for name, flag in found.items())
