"""Small wheels that can be installed, for sites: real fat binaries, and what their names say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.finalize import manifest_document
from wheel_samples import A_FLAG, CUBIN, F_FLAG, PTX, TORCH_VERSION, Entry, Samples, WheelRecipe

FLAGS = {"": 0, "a": A_FLAG, "f": F_FLAG}


def entries(code: Sequence[str]) -> list[Entry]:
    """Device code as labels have it: ``sm120``, ``sm90a``, ``ptx90``."""
    made = []
    for label in code:
        kind = PTX if label.startswith("ptx") else CUBIN
        number = label.removeprefix("ptx").removeprefix("sm")
        suffix = number[-1] if number[-1] in "af" else ""
        made.append(Entry(kind, int(number.rstrip("af")), FLAGS[suffix]))
    return made


@dataclass
class SiteRecipe(WheelRecipe):
    """A torch for every Python with device code; ``content`` tells it from others of its name."""

    version: str = "2.14.1+cu130.sm120"
    tag: str = "py3-none-linux_x86_64"
    code: Sequence[str] = ("sm120",)
    content: str = ""
    requires: Sequence[str] = ()

    more: Mapping[str, bytes | None] = field(default_factory=dict)

    def library(self) -> bytes:
        """A library with its device code."""
        return Samples().library(*entries(self.code))

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"Requires-Dist: {one}\n" for one in self.requires)
        self.metadata = (
            f"Metadata-Version: 2.1\nName: {self.name.replace('_', '-')}\nVersion: {{version}}\n"
            f"Requires-Python: >=3.10\n{lines}"
        )
        self.cuda = None if "cpu" in self.version else self.cuda
        package = "torch" if self.name == "torch" else self.name
        init = f"from {package}.version import __version__\n{self.content}\n".encode()
        self.files: dict[str, bytes | None] = {
            f"{package}/__init__.py": init,
            f"{package}/version.py": TORCH_VERSION.format(version=self.version, cuda=self.cuda).encode(),
            f"{package}/lib/lib{package}_cuda.so": self.library(),
            **({} if package == "torch" else {"torch/__init__.py": None, "torch/version.py": None}),
            **self.more,
        }
        path = super().write(folder)
        if package == "torch":
            return path
        # Nothing else says which CUDA an extension was built with.
        plan: dict[str, object] = {
            "target": [],
            "profile": [],
            "source": {},
            "toolchain": {"cuda": self.cuda},
        }
        plan["options"] = {"requested": {"TORCH_CUDA_ARCH_LIST": ",".join(self.code)} if self.code else {}}
        document = manifest_document(plan, inspect_wheel(path))
        self.files[f"{self.name}-{self.version}.dist-info/torchwheel.json"] = json.dumps(document).encode()
        return super().write(folder)


def fleet_of(folder: Path) -> list[Path]:
    """Four wheels of one torch: for 9.0, for 12.0, for 9.0a alone, and for the CPU."""
    made = {"cu130.sm90": ("sm90",), "cu130.sm120": ("sm120",), "cu130.sm90a": ("sm90a",), "cpu": ()}
    return [SiteRecipe(f"2.14.1+{label}", code=code).write(folder) for label, code in made.items()]
