"""The plan as a page for people, on demand with the layer that decided each value."""

from __future__ import annotations

from collections.abc import Iterable

from torchwheel.plan.model import Define, Plan, Variable
from torchwheel.settings import Layer, Setting


def render_plan(plan: Plan, *, explain: bool = False) -> str:
    """The plan on one page; with ``explain`` every value says which layer decided it and what it replaced."""
    lines = [*_summary(plan), "", "CMake options", *_defines(plan.defines, explain)]
    lines += ["", "environment", *_variables(plan.variables, explain)]
    if explain:
        lines += ["", "settings", *_settings(plan.settings.entries.values())]
    if plan.findings:
        lines += ["", "findings"]
        lines += ["  " + finding.render().replace("\n", "\n  ") for finding in plan.findings]
    return "\n".join(lines)


def _summary(plan: Plan) -> list[str]:
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
        ("builds in", f"{plan.folders.root} ({place})"),
    ]
    return [f"{name:<12} {value}" for name, value in rows]


def _kinds_of_jobs(plan: Plan) -> str:
    """How many of each kind would fit; of interest where CUDA's take more memory than others."""
    jobs = plan.jobs
    if jobs.cuda is None:
        return ""
    attention = "" if jobs.flash_attention is None else f", {jobs.flash_attention} of flash attention"
    return f"; of one kind at once: {jobs.cxx} of C++, {jobs.cuda} of CUDA{attention}"


def _decided(layer: Layer, origin: str, replaced: Iterable[Setting] = ()) -> str:
    place = origin if origin.startswith(layer.title) else f"{layer.title}: {origin}"
    return f"    [{place}{_replaced(replaced)}]"


def _replaced(replaced: Iterable[Setting]) -> str:
    return "".join(f", instead of '{s.text}' ({s.origin})" for s in replaced)


def _defines(defines: Iterable[Define], explain: bool) -> list[str]:
    return [
        f"  {d.name} = {d.value}" + (_decided(d.layer, d.origin, d.replaced) if explain else "")
        for d in defines
    ]


def _variables(variables: Iterable[Variable], explain: bool) -> list[str]:
    return [
        f"  {v.name} = {v.value}{' + what is there' if v.prepend else ''}"
        + (_decided(v.layer, v.origin, v.replaced) if explain else "")
        for v in variables
    ]


def _settings(settings: Iterable[Setting]) -> list[str]:
    return [f"  {s.key} = {s.text}{_decided(s.layer, s.origin, s.replaced)}" for s in settings]
