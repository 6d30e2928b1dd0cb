"""Output of the plan: a versioned JSON document (``plan.schema.json``), and one page of text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torchwheel.plan.build_plan import Decided, Plan, Variable, hash_facts, is_relevant
from torchwheel.reporting.errors import Finding, Severity, skipped_errors
from torchwheel.reporting.masking import MASK, mask_value
from torchwheel.reporting.terminal import fields_of, wrap
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.config_settings import read_passthrough
from torchwheel.settings.pytorch_env import pytorch_variables

SCHEMA_VERSION = 1

NOT_RECORDED = "(not recorded)"

ONLY_HOW = frozenset({"build-dir", "compiler-cache", "jobs", "traceback"})
"""Settings that do not change the wheel, only the way it is built."""

# The same for settings of the tree's own backend.
_BACKENDS_ONLY_HOW = frozenset({"build.tool-args", "build.verbose", "editable_mode"})
_BACKENDS_ONLY_HOW_TABLES = frozenset({"editable", "logging", "messages", "sdist"})


def plan_document(
    plan: Plan,
    findings: Sequence[Finding],
    effort: Mapping[str, Any] | None = None,
    evidence: str = "",
    unchecked: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The whole plan as JSON-able data; ``unchecked``: unknown fact -> ids of the rules that need it."""
    settings, toolkit, architectures = plan.settings, plan.toolkit, plan.architectures
    return {
        "schema": SCHEMA_VERSION,
        **fields_of(settings, "target", "profile"),
        "wheel": plan.wheel_name,
        "version": {
            "full": str(plan.version),
            **fields_of(plan.version, "base", "local"),
            "origin": plan.version.base_origin,
        },
        "tree": {
            "root": str(plan.tree.root),
            "version": plan.tree.version_text,
            **fields_of(plan.tree, "generation", "backend", "commit", "release_tag"),
        },
        "platform": plan.host.platform_tag,
        "python": {"executable": plan.python_executable, "version": plan.host.python.version},
        "architectures": list(architectures.labels) if architectures else [],
        "toolkit": fields_of(toolkit, "root", "version", "nvcc", "origin") if toolkit else None,
        "defines": [_entry("name", one) for one in plan.defines],
        "environment": [_entry("name", one) for one in plan.variables],
        "settings": [_entry("key", one) for one in settings.entries.values()],
        "build_requires": list(plan.build_requires),
        "config_settings": dict(plan.inner_config_settings),
        "jobs": fields_of(plan.jobs, "max_jobs", "cxx", "cuda", "flash_attention", "reason"),
        **fields_of(plan, "compiler_cache", "fingerprint"),
        "folders": fields_of(plan.folders, "root", "source", "build", "environment"),
        "effort": effort,
        "findings": [f.document() for f in findings],
        "skipped": skipped_errors(findings, settings.skip_check),
        "unchecked": [{"missing": missing, "rules": list(ids)} for missing, ids in unchecked.items()],
        "evidence": evidence,
    }


def _entry(name: str, one: Setting | Decided) -> dict[str, Any]:
    """A value with its source; ``name`` is the key of its name."""
    prepend = {"prepend": one.prepend} if isinstance(one, Variable) else {}
    return {
        name: one.key if isinstance(one, Setting) else one.name,
        "value": one.shown,
        "layer": one.layer.title,
        "origin": one.origin,
        **prepend,
        "replaced": [_entry("key", setting) for setting in one.replaced],
    }


def decisions_document(
    settings: Settings,
    findings: Iterable[Finding],
    *,
    reproducible: bool = False,
    unpublished: Collection[str] = (),
) -> dict[str, Any]:
    """The part of a build manifest common to all plans, without values of ``unpublished`` options.

    A ``reproducible`` one leaves out the settings that do not change the wheel, and all findings but errors, because
    warnings and notes may be about this machine.
    """
    found = tuple(f for f in findings if not reproducible or f.severity is Severity.ERROR)
    layers = [
        {"key": s.key, "value": _recorded_value(s, unpublished), "layer": s.layer.title, "origin": s.origin}
        for s in settings.entries.values()
    ] + [
        {
            "key": key,
            "value": mask_value(key, ";".join(value) if isinstance(value, list) else str(value)),
            "layer": Layer.CONFIG.title,
            "origin": f"-C {key}",
        }
        for key, value in settings.passthrough.items()
    ]
    hidden = {s.key: s.text for s in settings.entries.values() if _recorded_value(s, unpublished) != s.text}
    return {
        **fields_of(settings, "target", "profile"),
        # Enough to distinguish values, too little to guess one.
        **({"unrecorded": hash_facts(hidden)[:4]} if hidden else {}),
        "layers": [one for one in layers if not (reproducible and is_only_how(one["key"]))],
        "findings": [finding.document() for finding in found],
        "skipped_checks": skipped_errors(found, settings.skip_check),
    }


def recorded_settings(made: Mapping[str, Any]) -> dict[str, str]:
    return {one["key"]: str(one["value"]) for one in made.get("layers", ())}


def changing_settings(made: Mapping[str, Any]) -> dict[str, str]:
    """The recorded settings that change a wheel, though not necessarily its label."""
    own, is_handed_on = ("build-type", "cmake-args", "define", "env"), read_passthrough().find_backend
    return {
        key: value
        for key, value in recorded_settings(made).items()
        if (key.partition(".")[0] in own or is_handed_on(key)) and not is_only_how(key)
    }


def is_launcher(option: str) -> bool:
    return option.endswith("_COMPILER_LAUNCHER") or option == "USE_CCACHE"


def is_only_how(key: str) -> bool:
    table, _, name = key.partition(".")
    if table == "env":
        return not is_relevant(name)
    if table in _BACKENDS_ONLY_HOW_TABLES or (table == "define" and is_launcher(name)):
        return True
    return key in ONLY_HOW or key in _BACKENDS_ONLY_HOW


def _recorded_value(setting: Setting, unpublished: Collection[str]) -> str:
    """A setting's value to record; a variable irrelevant to the wheel is left out because it may be a password."""
    table, name = setting.key.partition(".")[0], setting.name
    irrelevant = table == "env" and not pytorch_variables().can_change_build(name)
    secret = (table == "define" and name in unpublished) or setting.shown == MASK
    return NOT_RECORDED if irrelevant or secret else setting.shown


def render_plan(
    plan: Plan,
    findings: Sequence[Finding],
    columns: int = 80,
    *,
    explain: bool = False,
    colour: bool = False,
    more: Iterable[tuple[str, str]] = (),
) -> str:
    """Render the plan on one page: prose is wrapped, options and variables can be copied."""
    lists: dict[str, Iterable[Setting | Decided]] = {"CMake options": plan.defines}
    if explain:
        lists |= {"environment": plan.variables, "settings": plan.settings.entries.values()}
    lines = _summary_lines(plan, columns, more)
    for title, rows in lists.items():
        lines += ["", title, *(_row(one, explain=explain) for one in rows)]
    if findings:
        lines += ["", "findings"]
        for one in findings:
            head = one.head(plan.settings.skip_check)
            lines += [f"  {line}" for line in one.lines(columns - 2, head, colour=colour)]
    return "\n".join(lines)


def _summary_lines(plan: Plan, columns: int, more: Iterable[tuple[str, str]]) -> list[str]:
    tree, toolkit = plan.tree, plan.toolkit
    targets = ", ".join(plan.settings.target) or "none"
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
        ("jobs", f"{plan.jobs.running} ({plan.jobs.reason}){_kinds_of_jobs(plan)}"),
        *([("cache", plan.compiler_cache)] if plan.compiler_cache else []),
        ("needs", ", ".join((*plan.build_requires, *plan.toolkit_requires)) or "nothing"),
    ]
    if plan.host.here:
        rows.append(("builds in", f"{plan.folders.root} ({place})"))
    # The others are short, or have a path to copy.
    lines = [
        line
        for name, value in rows
        for line in _wrap_row(name, value, columns if name == "jobs" else len(value) + 20)
    ]
    return [*lines, *(line for name, value in more for line in _wrap_row(name, value, columns))]


def _wrap_row(name: str, value: str, columns: int) -> list[str]:
    return wrap(value, columns, f"{name:<12} ", " " * 13)


def _kinds_of_jobs(plan: Plan) -> str:
    """Describe how many of each kind fit; relevant if CUDA's jobs take more memory than others."""
    jobs = plan.jobs
    if jobs.cuda is None:
        return ""
    attention = "" if jobs.flash_attention is None else f", {jobs.flash_attention} flash attention"
    most = "usually" if jobs.budget else "at most"
    return f"; {most} {jobs.cxx} C++, {jobs.cuda} CUDA{attention} at a time"


def _row(one: Setting | Decided, *, explain: bool) -> str:
    name = one.key if isinstance(one, Setting) else one.name
    more = " + what is there" if isinstance(one, Variable) and one.prepend else ""
    text = f"  {name} = {one.shown}{more}"
    if not explain:
        return text
    # An option says itself which layer it belongs to.
    itself = one.origin.startswith((one.layer.title, "--"))
    place = one.origin if itself else f"{one.layer.title}: {one.origin}"
    replaced = "".join(f", instead of '{beaten.shown}' ({beaten.origin})" for beaten in one.replaced)
    return f"{text}    [{place}{replaced}]"
