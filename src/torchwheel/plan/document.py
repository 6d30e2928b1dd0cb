"""The plan as a versioned JSON document; ``plan.schema.json`` describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchwheel.findings import Finding
from torchwheel.plan.model import Define, Plan, Variable
from torchwheel.settings import Setting

SCHEMA_VERSION = 1


def plan_schema() -> dict[str, Any]:
    """The JSON schema of :func:`plan_document`."""
    schema: dict[str, Any] = json.loads(
        Path(__file__).with_name("plan.schema.json").read_text(encoding="utf-8")
    )
    return schema


def plan_document(plan: Plan) -> dict[str, Any]:
    """The whole plan as JSON-able data."""
    settings, toolkit, architectures = plan.settings, plan.toolkit, plan.architectures
    return {
        "schema": SCHEMA_VERSION,
        "target": list(settings.target_names),
        "profile": list(settings.profile),
        "wheel": plan.wheel_name,
        "version": {
            "full": str(plan.version),
            "base": plan.version.base,
            "local": plan.version.local,
            "origin": plan.version.base_origin,
        },
        "tree": {
            "root": str(plan.tree.root),
            "version": plan.tree.version_text,
            "generation": plan.tree.generation.value,
            "backend": plan.tree.backend,
            "commit": plan.tree.commit,
            "release_tag": plan.tree.release_tag,
        },
        "platform": plan.host.platform_tag,
        "python": {"executable": plan.python_executable, "version": plan.host.python.version},
        "architectures": list(architectures.labels) if architectures else [],
        "toolkit": None
        if toolkit is None
        else {
            "root": toolkit.root,
            "version": toolkit.version,
            "nvcc": toolkit.nvcc,
            "origin": toolkit.origin,
        },
        "defines": [_define(d) for d in plan.defines],
        "environment": [_variable(v) for v in plan.variables],
        "settings": [_setting(s) for s in settings.entries.values()],
        "build_requires": list(plan.build_requires),
        "config_settings": dict(plan.inner_config_settings),
        "jobs": {
            "max_jobs": plan.jobs.max_jobs,
            "cxx": plan.jobs.cxx,
            "cuda": plan.jobs.cuda,
            "flash_attention": plan.jobs.flash_attention,
            "reason": plan.jobs.reason,
        },
        "fingerprint": plan.fingerprint,
        "folders": {
            "root": str(plan.folders.root),
            "source": str(plan.folders.source),
            "build": str(plan.folders.build),
            "environment": str(plan.folders.environment) if plan.folders.environment else None,
        },
        "findings": [finding_document(f) for f in plan.findings],
    }


def finding_document(finding: Finding) -> dict[str, str]:
    """One finding as JSON-able data."""
    problem = finding.problem
    return {
        "severity": finding.severity.value,
        "id": problem.id,
        "what": problem.what,
        "why": problem.why,
        "remedy": problem.remedy,
        "origin": problem.origin,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "key": setting.key,
        "value": setting.text,
        "layer": setting.layer.title,
        "origin": setting.origin,
        "replaced": [_setting(s) for s in setting.replaced],
    }


def _define(define: Define) -> dict[str, Any]:
    return {
        "name": define.name,
        "value": define.value,
        "layer": define.layer.title,
        "origin": define.origin,
        "replaced": [_setting(s) for s in define.replaced],
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "value": variable.value,
        "layer": variable.layer.title,
        "origin": variable.origin,
        "prepend": variable.prepend,
        "replaced": [_setting(s) for s in variable.replaced],
    }
