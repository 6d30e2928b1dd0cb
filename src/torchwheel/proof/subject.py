"""What is checked: a wheel, or an installed package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.wheel.contents import WheelContents


@dataclass(frozen=True)
class Subject:
    """What is checked.

    Attributes:
        contents: what was read of it; its path is the wheel, or the folder of the installed package.
        files: the paths of its files, from the folder that they are installed into.
    """

    contents: WheelContents
    manifest: dict[str, Any] | None
    files: frozenset[str]
    site: Path | None = None

    @property
    def path(self) -> Path:
        return self.contents.path

    @property
    def planned_modules(self) -> frozenset[str]:
        """The modules of an extension's plan, some of which torch.ops loads."""
        plan = self.manifest["plan"] if self.manifest else {}
        return frozenset(one["file"] for one in plan.get("extensions", {}).get("modules", ()))
