""".github/workflows: held by GitHub's schema, by actionlint where it is there, and by what the project promises.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.test_workflows import WORKFLOWS, judged


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_as_the_services_schema_says(workflow: Path) -> None:
    judged("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
