"""The compile commands of a plan of extensions."""

from __future__ import annotations

from torchwheel.extension.model import ExtensionPlan, Language, StepKind
from torchwheel.extension.profile.model import Compile, Compiles

_LANGUAGES = {
    StepKind.COMPILE_C: Language.C,
    StepKind.COMPILE_CXX: Language.CXX,
    StepKind.COMPILE_CUDA: Language.CUDA,
}


def plan_compiles(plan: ExtensionPlan) -> Compiles:
    """What a plan compiles; it is measured in a folder of its own, and the plan's build folder stays as it is."""
    return Compiles(
        project=plan.project,
        folder=None,
        compiles=tuple(
            Compile(
                extension=planned.extension.name,
                sources=step.sources,
                language=_LANGUAGES[step.kind],
                path=step.inputs[0],
                command=step.command,
            )
            for planned in plan.extensions
            for step in planned.steps
            if step.kind in _LANGUAGES
        ),
        links=tuple(plan.links.items()),
        generated=tuple(plan.generated.items()),
        jobs=plan.jobs.max_jobs,
    )
