"""A tree's wheel is proved against its plan before it is handed over. Needs neither nvcc nor PyTorch.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from unit.engine.test_finalize import finalized


def test_the_bill_of_materials(tmp_path: Path) -> None:
    home = {"HOME" if os.name != "nt" else "USERPROFILE": str(tmp_path)}
    with zipfile.ZipFile(finalized(tmp_path, 120, environment=home)) as archive:
        text = archive.read("torch-2.14.1+cu130.sm120.dist-info/sboms/torchwheel.cdx.json").decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert str(tmp_path) not in text
    components = {one["bom-ref"]: one for one in json.loads(text)["components"]}
    assert set(components) == {"third_party/miniblas", "cuda/cuda-toolkit"}
    assert components["cuda/cuda-toolkit"]["version"] == "13.0"
