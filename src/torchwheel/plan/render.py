"""The plan as text: a page for people, every value's layer, or the equivalent cmake command line."""

from __future__ import annotations

import shlex
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
        ("device code", plan.architectures.for_torch() if plan.architectures else "none"),
        ("CUDA", f"{toolkit.version} in {toolkit.root} ({toolkit.origin})" if toolkit else "none"),
        ("platform", f"{plan.host.platform_tag}, Python {plan.host.python.version}"),
        ("jobs", f"{plan.jobs.max_jobs} ({plan.jobs.reason})"),
        ("builds in", f"{plan.folders.root} ({place})"),
    ]
    return [f"{name:<12} {value}" for name, value in rows]


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
        + (_decided(v.layer, v.origin) if explain else "")
        for v in variables
    ]


def _settings(settings: Iterable[Setting]) -> list[str]:
    return [f"  {s.key} = {s.text}{_decided(s.layer, s.origin, s.replaced)}" for s in settings]


def render_shell(plan: Plan) -> str:
    """The equivalent cmake command line, to paste into the platform's usual shell."""
    if plan.host.system == "Windows":
        return _batch(plan)
    lines = [f"export {v.name}={_posix_value(v)}" for v in plan.variables]
    command = ["cmake", "-S", str(plan.tree.root), "-B", str(plan.folders.build), "-GNinja"]
    command += [f"-D{d.name}={d.value}" for d in plan.defines]
    lines.append(" \\\n  ".join(shlex.quote(word) for word in command))
    return "\n".join(lines)


def _posix_value(variable: Variable) -> str:
    value = shlex.quote(variable.value)
    return f'{value}"${{{variable.name}:+:${variable.name}}}"' if variable.prepend else value


def _batch(plan: Plan) -> str:
    lines = [
        f'set "{v.name}={_batch_text(v.value)}{f";%{v.name}%" if v.prepend else ""}"' for v in plan.variables
    ]
    words = [f'cmake -S "{plan.tree.root}" -B "{plan.folders.build}" -GNinja']
    words += [f'"-D{d.name}={_batch_text(d.value)}"' for d in plan.defines]
    lines.append(" ^\n  ".join(words))
    return "\n".join(lines)


def _batch_text(text: str) -> str:
    """A percent sign would start a variable, a quote would end the word (cmd /?)."""
    return text.replace("%", "%%").replace('"', '\\"')
