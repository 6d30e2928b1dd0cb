"""What a wheel of extensions has to be, by its plan."""

from __future__ import annotations

from dataclasses import dataclass

from torchwheel.extension.model import ExtensionPlan, PlannedExtension
from torchwheel.extension.proving.naming import LIMITED_PYTHON, python_tags
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.wheel.verify import Expectation


@dataclass(frozen=True)
class ExpectedModule:
    """What an extension module was planned to be.

    Attributes:
        path: its name in the wheel.
        architectures: its device code, of all its sources together; None for none.
        stable_abi: the oldest PyTorch release that it must run with, if it uses the stable ABI alone.
        limited_api: the oldest Python that it must run with, ``3.10``, if it uses the limited API alone.
    """

    path: str
    architectures: ArchitectureList | None
    stable_abi: str | None = None
    limited_api: str | None = None


@dataclass(frozen=True)
class ExpectedExtensionWheel:
    """What a wheel of extensions was planned to be.

    Attributes:
        labels: name, version, tags; and the CUDA toolkit.
        requires: what it must require of others, ``torch>=2.14,<2.15``.
        modules: its extension modules.
    """

    labels: Expectation
    requires: tuple[str, ...]
    modules: tuple[ExpectedModule, ...]


def expected_wheel(
    plan: ExtensionPlan,
    *,
    name: str,
    version: str,
    interpreter_tag: str,
    abi_tag: str,
    platform_tag: str | None,
    prepared_metadata: bytes | None = None,
    editable: bool = False,
) -> ExpectedExtensionWheel:
    """What the wheel of a plan has to be.

    Args:
        plan: the plan.
        name: name of the distribution, in any spelling.
        version: version with its local label, ``1.2+cu130.sm120.torch2.14``.
        interpreter_tag: of the Python that it is built for, ``cp311``.
        abi_tag: of the same; the wheel has ``abi3`` where all modules use the limited API.
        platform_tag: platform tag; None for any.
        prepared_metadata: METADATA that a prepare hook has returned.
        editable: whether it is an editable wheel, which holds no modules.
    """
    limited = bool(plan.extensions) and all(planned.extension.limited_api for planned in plan.extensions)
    python_tag, abi_tag = python_tags(interpreter_tag, abi_tag, limited_api=limited)
    labels = Expectation(
        name=name,
        version=version,
        cuda=plan.toolkit.version if plan.toolkit else None,
        architectures=plan.architectures,
        python_tag=python_tag,
        abi_tag=abi_tag,
        platform_tag=platform_tag,
        prepared_metadata=prepared_metadata,
        editable=editable,
    )
    return ExpectedExtensionWheel(labels, plan.requires, tuple(map(_module, plan.extensions)))


def _module(planned: PlannedExtension) -> ExpectedModule:
    extension = planned.extension
    return ExpectedModule(
        path=planned.file_name,
        architectures=planned.architectures,
        stable_abi=extension.stable_abi,
        limited_api=LIMITED_PYTHON if extension.limited_api else None,
    )
