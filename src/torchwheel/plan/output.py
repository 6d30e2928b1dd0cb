"""The plan for programs and for people: a versioned JSON document (``plan.schema.json``), and one page of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torchwheel.errors import Finding, Severity, skipped_errors
from torchwheel.masking import MASK, mask_value
from torchwheel.plan.fingerprint import digest, is_relevant
from torchwheel.plan.model import Decided, Define, Plan, Variable
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.config_settings import passthrough
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.terminal import wrap

SCHEMA_VERSION = 1

NOT_RECORDED = "(not recorded)"

ONLY_HOW = frozenset({"build-dir", "compiler-cache", "jobs", "traceback"})
"""Settings of how a wheel is built, which it is the same for."""

# The same of the tree's own backend's.
_BACKENDS_ONLY_HOW = frozenset({"build.tool-args", "build.verbose", "cmake.verbose", "editable_mode"})
_BACKENDS_ONLY_HOW_TABLES = frozenset({"editable", "logging", "messages", "sdist"})


def plan_document(
    plan: Plan,
    effort: Mapping[str, Any] | None = None,
    evidence: str = "",
    findings: Sequence[Finding] | None = None,
    unchecked: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The whole plan as JSON-able data.

    Args:
        effort: what carrying it out takes; None where that is not known.
        evidence: what it rests on that PyTorch, CUDA and the platform go together; empty where nothing is known.
        findings: everything that was found about it; the plan's own findings if None.
        unchecked: what is not known -> ids of the rules that could not be checked for want of it.
    """
    settings, toolkit, architectures = plan.settings, plan.toolkit, plan.architectures
    findings = plan.findings if findings is None else findings
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
        "effort": effort,
        "findings": [f.document() for f in findings],
        "skipped": skipped_errors(findings, settings.skip_check),
        "unchecked": [{"missing": missing, "rules": list(ids)} for missing, ids in unchecked.items()],
        "evidence": evidence,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {"key": setting.key, "value": setting.shown, **_source(setting)}


def _define(define: Define) -> dict[str, Any]:
    return {"name": define.name, "value": mask_value(define.name, define.value), **_source(define)}


def _variable(variable: Variable) -> dict[str, Any]:
    value = mask_value(variable.name, variable.value)
    return {"name": variable.name, "value": value, **_source(variable), "prepend": variable.prepend}


def _source(one: Setting | Decided) -> dict[str, Any]:
    return {
        "layer": one.layer.title,
        "origin": one.origin,
        "replaced": [_setting(setting) for setting in one.replaced],
    }


def decisions(
    settings: Settings, findings: Iterable[Finding], *, reproducible: bool = False
) -> dict[str, Any]:
    """The part of a build manifest that every plan has: targets, profiles, settings and findings.

    A ``reproducible`` one has neither the settings that say how a wheel is built and nothing of what is in it, nor what
    was worth knowing of this machine: of findings, only those that would have stopped the build.
    """
    found = tuple(f for f in findings if not reproducible or f.severity is Severity.ERROR)
    layers = [
        {"key": s.key, "value": _recorded(s), "layer": s.layer.title, "origin": s.origin}
        for s in settings.entries.values()
    ] + [
        {
            "key": passthrough().strip_prefix(key),
            "value": mask_value(key, ";".join(value) if isinstance(value, list) else str(value)),
            "layer": Layer.CONFIG.title,
            "origin": f"-C {key}",
        }
        for key, value in settings.passthrough.items()
    ]
    hidden = {s.key: s.text for s in settings.entries.values() if _recorded(s) != s.text}
    return {
        "target": list(settings.target_names),
        "profile": list(settings.profile),
        # It tells other values apart, and is too little to guess one by.
        **({"unrecorded": digest(hidden)[:4]} if hidden else {}),
        "layers": [one for one in layers if not (reproducible and is_only_how(one["key"]))],
        "findings": [finding.document() for finding in found],
        "skipped_checks": skipped_errors(found, settings.skip_check),
    }


def recorded_settings(made: Mapping[str, Any]) -> dict[str, str]:
    """The settings by their keys, as the plan's part of a build manifest has them."""
    return {one["key"]: str(one["value"]) for one in made.get("layers", ())}


def is_launcher(option: str) -> bool:
    """Whether a CMake option names the compiler cache alone."""
    return option.endswith("_COMPILER_LAUNCHER") or option == "USE_CCACHE"


def is_only_how(key: str) -> bool:
    """Whether a setting says how a wheel is built, and nothing of what is in it."""
    table, _, name = key.partition(".")
    if table == "env":
        return not is_relevant(name)
    if table in _BACKENDS_ONLY_HOW_TABLES or (table == "define" and is_launcher(name)):
        return True
    return key in ONLY_HOW or key in _BACKENDS_ONLY_HOW


def _recorded(setting: Setting) -> str:
    """A setting's value, except that of a variable which says nothing of the wheel: it may be a password."""
    name = setting.key.removeprefix("env.")
    if name == setting.key or pytorch_variables().can_change_build(name):
        shown = setting.shown
        return NOT_RECORDED if shown == MASK else shown
    return NOT_RECORDED


def render_plan(
    plan: Plan,
    columns: int = 80,
    *,
    explain: bool = False,
    colour: bool = False,
    more: Iterable[tuple[str, str]] = (),
    findings: Sequence[Finding] | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The plan on one page: prose is wrapped, options and variables are as they can be copied.

    Args:
        explain: say of every value which layer decided it and what it replaced.
        more: further rows of the summary, name and text.
        findings: what to show of what was found about it; the plan's own findings if None.
        sources: by the id of a finding, the document that the fact behind it comes from, where it is to be shown.
    """
    lines = [*_summary(plan, columns, more), "", "CMake options", *_defines(plan.defines, explain)]
    lines += ["", "environment", *_variables(plan.variables, explain)]
    if explain:
        lines += ["", "settings", *_settings(plan.settings.entries.values())]
    findings = plan.findings if findings is None else findings
    if findings:
        lines += ["", "findings"]
        for one in findings:
            head = one.head(plan.settings.skip_check)
            lines += [f"  {line}" for line in one.lines(columns - 2, head, colour=colour)]
            lines += [f"      source: {sources[one.id]}"] if sources.get(one.id) else []
    return "\n".join(lines)


def _summary(plan: Plan, columns: int, more: Iterable[tuple[str, str]]) -> list[str]:
    tree, toolkit = plan.tree, plan.toolkit
    targets = ", ".join(plan.settings.target_names) or "none"
    profiles = "".join(f", profile {name}" for name in plan.settings.profile)
    commit = f", commit {tree.commit[:7]}" if tree.commit else ""
    place = "a copy of the tree" if plan.folders.staged else "the tree itself"
    rows = [
        ("wheel", plan.wheel_name),
        ("target", targets + profiles),
        ("tree", f"{tree.root} ({tree.version_text}, {tree.generation.value}{commit})"),
        ("version", f"{plan.version} (base: {plan.version.base_origin})"),
        ("device code", str(plan.architectures) if plan.architectures else "none"),
        ("CUDA", f"{toolkit.version} in {toolkit.root} ({toolkit.origin})" if toolkit else "none"),
        ("platform", f"{plan.host.platform_tag}, Python {plan.host.python.version}"),
        ("jobs", f"{plan.jobs.max_jobs} ({plan.jobs.reason}){_kinds_of_jobs(plan)}"),
        ("needs", ", ".join((*plan.build_requires, *plan.toolkit_requires)) or "nothing"),
    ]
    if plan.host.here:
        rows.append(("builds in", f"{plan.folders.root} ({place})"))
    # The others are short, or hold a path that is there to be copied.
    lines = [
        line
        for name, value in rows
        for line in _row(name, value, columns if name == "jobs" else len(value) + 20)
    ]
    return [*lines, *(line for name, value in more for line in _row(name, value, columns))]


def _row(name: str, value: str, columns: int) -> list[str]:
    return wrap(value, columns, f"{name:<12} ", " " * 13)


def _kinds_of_jobs(plan: Plan) -> str:
    """How many of each kind would fit; of interest where CUDA's take more memory than others."""
    jobs = plan.jobs
    if jobs.cuda is None:
        return ""
    attention = "" if jobs.flash_attention is None else f", {jobs.flash_attention} flash attention"
    return f"; at most {jobs.cxx} C++, {jobs.cuda} CUDA{attention} at a time"


def _decided(layer: Layer, origin: str, replaced: Iterable[Setting] = ()) -> str:
    place = origin if origin.startswith(layer.title) else f"{layer.title}: {origin}"
    return f"    [{place}{_replaced(replaced)}]"


def _replaced(replaced: Iterable[Setting]) -> str:
    return "".join(f", instead of '{s.shown}' ({s.origin})" for s in replaced)


def _defines(defines: Iterable[Define], explain: bool) -> list[str]:
    return [
        f"  {d.name} = {mask_value(d.name, d.value)}"
        + (_decided(d.layer, d.origin, d.replaced) if explain else "")
        for d in defines
    ]


def _variables(variables: Iterable[Variable], explain: bool) -> list[str]:
    return [
        f"  {v.name} = {mask_value(v.name, v.value)}{' + what is there' if v.prepend else ''}"
        + (_decided(v.layer, v.origin, v.replaced) if explain else "")
        for v in variables
    ]


def _settings(settings: Iterable[Setting]) -> list[str]:
    return [f"  {s.key} = {s.shown}{_decided(s.layer, s.origin, s.replaced)}" for s in settings]
