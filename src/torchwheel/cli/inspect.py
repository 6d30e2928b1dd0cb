"""``torchwheel inspect``: what a wheel holds, and which GPUs it runs on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import (
    EXIT_NOT_PROVED,
    AlreadyPrinted,
    Problem,
    TorchwheelError,
    collect_problems,
)
from torchwheel.reporting.terminal import (
    fields_of,
    file_size,
    format_facts,
    format_table,
    join_items,
    print_document,
    show,
    wrap_paragraph,
)
from torchwheel.verification.claims import false_label, label_against_requirements
from torchwheel.wheel.contents import AMD_CODE, Library
from torchwheel.wheel.inspection import Inspected, Suitability, inspect, judge_suitability, named_gpus

_HOW = {
    "native": "natively",
    "family": "in its family",
    "minor-version": "by minor version",
    "ptx-jit": "by PTX JIT",
    "no": "no",
}
"""How device code runs, for people; the keys are the values of ``HowItRuns``."""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "wheels",
        nargs="+",
        metavar="WHEEL",
        help="a wheel; also a shared library, or the folder of an installed torch",
    )
    parser.add_argument(
        "--gpu",
        metavar="NAME",
        action="append",
        default=[],
        help="say how it runs on this GPU (rtx5070, 12.0, native), and end with status 1 if it does not, and 3 if "
        "that is not known here; may be repeated",
    )


def run(parsed: argparse.Namespace) -> int:
    """Show what is inside; the status is 1 if something does not run on a GPU that was named, or a wheel was changed.

    It is 3 where a wheel's label is false, or where the answer hangs on what is not known here.
    """
    gpus = named_gpus(parsed.gpu, dict(os.environ))
    found: list[tuple[Inspected, list[Suitability]]] = []
    problems: list[Problem] = []
    contradicted = False
    for name in parsed.wheels:
        with collect_problems(problems):
            inspected = inspect(Path(name))
            if false := [problem.what for problem in _false_label(inspected)]:
                inspected, contradicted = replace(inspected, remarks=(*inspected.remarks, *false)), True
            found.append((inspected, [judge_suitability(inspected, gpu) for gpu in gpus]))
    if parsed.json:
        refused = [vars(problem) for problem in problems]
        print_document("inspect", inspected=[_inspected_document(*item) for item in found], problems=refused)
    elif found:
        show("\n\n".join(_render_inspected(*item) for item in found))
    if problems:
        raise (AlreadyPrinted if parsed.json else TorchwheelError)(problems)
    intact = all(inspected.is_intact for inspected, _ in found)
    every = [one for _, answers in found for one in answers]
    if not intact or any(one.is_known and not one.how.runs for one in every):
        return 1
    return EXIT_NOT_PROVED if contradicted or not all(one.is_known for one in every) else 0


def _false_label(inspected: Inspected) -> Iterator[Problem]:
    """Whether a wheel's label is false; of a label that torchwheel did not make, only what its metadata denies."""
    if (contents := inspected.contents) is not None:
        yield from (false_label if contents.manifest else label_against_requirements)(contents)


def _render_inspected(inspected: Inspected, answers: list[Suitability]) -> str:
    parts = [format_facts(_list_facts(inspected))]
    if inspected.libraries:
        rows = [(file_size(one.size), _describe_code(one), one.path) for one in inspected.libraries]
        parts.append(format_table(("SIZE", "DEVICE CODE", "LIBRARY"), rows))
    if any(not image.runs for library in inspected.libraries for image in library.images):
        parts.append(wrap_paragraph("(In brackets: relocatable code, not loadable directly.)"))
    if answers:
        verdicts = [
            (one.gpu.name, str(one.gpu.compute_capability), _describe_answer(one), one.reason)
            for one in answers
        ]
        parts.append(format_table(("GPU", "CAPABILITY", "RUNS", "BECAUSE"), verdicts))
    return "\n\n".join(parts)


def _describe_answer(answer: Suitability) -> str:
    if not answer.is_known:
        return "not known here"
    many = f"{len(answer.without)} libraries" if len(answer.without) > 2 else " and ".join(answer.without)
    cuda = " and ".join(answer.cuda) if len(answer.cuda) < 3 else join_items(answer.cuda, 9)
    others = f"{len(answer.unfit)} others" if len(answer.unfit) > 1 else "other one"
    with_cuda = f", with CUDA {cuda} (not the {others})" if cuda else ""
    return _HOW[answer.how.value] + with_cuda + (f", without {many}" if many else "")


def _list_facts(inspected: Inspected) -> list[tuple[str, str]]:
    torch, contents = inspected.torch, inspected.contents
    manifest = contents.manifest if contents else None
    plan = contents.plan if contents else {}
    own = plan.get("extensions")
    against = f"torch {own['torch']['version']}; runs with {', '.join(own['requires'])}" if own else ""
    off = ", ".join(plan.get("options", {}).get("switched_off", ()))
    purpose = [*plan.get("target", ()), *(f"profile {name}" for name in plan.get("profile", ()))]
    return [
        (inspected.kind, str(inspected.path)),
        ("name", contents.name if contents else ""),
        ("version", contents.version if contents else ""),
        ("tags", ", ".join(contents.tags) if contents else ""),
        ("torch", (torch.version or "") if torch else ""),
        ("CUDA", (torch.cuda or "none") if torch else ""),
        ("commit", (torch.git_version or "") if torch else ""),
        ("source", _describe_changes(plan)),
        ("built for", ", ".join(purpose)),
        ("without", f"{off} (switched off by CMake)" if off else ""),
        ("against", against),
        *(("warning", remark) for remark in inspected.remarks),
        ("built by", f"torchwheel {manifest['torchwheel']}" if manifest else ""),
    ]


def _describe_changes(plan: Mapping[str, Any]) -> str:
    source = plan.get("source", {})
    if source.get("dirty"):
        return "changed since that commit"
    unknown = source.get("commit") and "dirty" in source and source["dirty"] is None
    return "an sdist of that commit; whether it was changed is not known" if unknown else ""


def _describe_code(library: Library) -> str:
    # What no driver loads by itself stands in brackets.
    code = [image.label if image.runs else f"({image.label})" for image in library.images]
    return " ".join([*code, *([AMD_CODE] if library.amd_bytes else [])]) or "none"


def _inspected_document(inspected: Inspected, answers: list[Suitability]) -> dict[str, Any]:
    torch, contents = inspected.torch, inspected.contents
    own: dict[str, Any] = {"name": None, "version": None, "tags": [], "manifest": None}
    return {
        **fields_of(inspected, "path", "kind", "remarks"),
        **(fields_of(contents, *own) if contents else own),
        "torch": torch and fields_of(torch, "version", "cuda", "git_version", "debug"),
        "libraries": [fields_of(one, "path", "size", "images", "amd_bytes") for one in inspected.libraries],
        "gpus": [_answer_document(answer) for answer in answers],
    }


def _answer_document(answer: Suitability) -> dict[str, Any]:
    return {
        "name": answer.gpu.name,
        "compute_capability": str(answer.gpu.compute_capability),
        "how": answer.how.value if answer.is_known else "unknown",
        "runs": answer.how.runs if answer.is_known else None,
        "except": [*answer.without, *answer.unfit],
        "reason": answer.reason,
        "libraries": [
            {
                **fields_of(one, "path", "used_by"),
                **fields_of(one.verdict, "how", "image"),
                "reason": one.verdict.sentence,
            }
            for one in answer.libraries
        ],
    }
