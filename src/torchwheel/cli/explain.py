"""``torchwheel explain``: what a message means, by its id, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from torchwheel.cli.explanations import Explanation, read_explanations
from torchwheel.reporting.errors import find_nearest, refusal
from torchwheel.reporting.terminal import (
    add_json_option,
    format_table,
    paint,
    print_document,
    show,
    terminal_width,
    wants_colour,
    wrap,
)

_LEVEL = {"rule": "severity", "diagnosis": "phase"}


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the ID in [brackets] after a message (default: list all)"
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Explain one id, or list all of them."""
    found = _find_explanations(parsed.id) if parsed.id else list(read_explanations())
    width = terminal_width()
    if parsed.json:
        print_document("explain", explanations=[_explanation_document(one) for one in found])
    elif parsed.id:
        show("\n".join(_render_explanation(found, width, colour=wants_colour())))
    else:
        lists = []
        for kind in dict.fromkeys(one.kind for one in found):
            rows: dict[str, str] = {}
            for one in found:
                if one.kind == kind:
                    rows.setdefault(one.id, one.what)
            lists.append(format_table((kind.upper(), "WHAT IT SAYS"), rows.items(), width))
        show("\n\n".join(lists))
    return 0


def known_ids() -> list[str]:
    """Every id that can be explained, sorted."""
    return sorted({one.id for one in read_explanations()})


def _find_explanations(id: str) -> list[Explanation]:
    """The explanations of that id; of one cause there may be a rule and a diagnosis."""
    wanted = id.strip("[]").lower()
    found = [one for one in read_explanations() if one.id == wanted]
    if not found:
        meant = find_nearest(wanted, known_ids())
        raise refusal("unknown-id/near" if meant else "unknown-id", name=id, meant=meant)
    return found


def _render_explanation(found: list[Explanation], width: int, *, colour: bool) -> Iterator[str]:
    """One section for all messages of an id: each with its reason, then what they share."""
    texts = [text for one in found for text in (f"{one.what}  [{one.id}]", one.why)]
    for number, text in enumerate(filter(None, dict.fromkeys([*texts, *(one.more for one in found)]))):
        yield from [""] * (number > 0)
        yield from wrap(text, width)
    changes = tuple(dict.fromkeys(text for one in found for text in one.change))
    is_error = "error" in (one.level for one in found)
    if changes or is_error:
        yield ""
        yield paint("What to change:", "heading", colour)
    for number, text in enumerate(changes, 1):
        marker = f"  {number}. " if len(changes) > 1 else "  "
        first, *rest = text.splitlines()
        yield from wrap(first, width, marker, "     ")
        yield from (f"     {line}" for line in rest)
    if is_error:
        yield from wrap(f"To build in spite of it: -C skip-check={found[0].id}", width, "  ")
    if saves := next((one.saves for one in found if one.saves), ""):
        yield ""
        yield f"Found before the build, which saves {saves}."
    for applies in dict.fromkeys(one.applies for one in found if one.applies):
        yield ""
        yield from wrap(f"Applies to: {applies}", width)
    if sources := dict.fromkeys(source for one in found for source in one.sources):
        yield ""
        yield paint("More:", "heading", colour)
        yield from (f"  {source}" for source in sources)


def _explanation_document(one: Explanation) -> dict[str, Any]:
    document = {
        "id": one.id,
        "kind": one.kind,
        "what": one.what,
        "why": one.why,
        "more": one.more,
        "remedies": list(one.change),
        "sources": list(one.sources),
    }
    return {**document, _LEVEL[one.kind]: one.level} if one.kind in _LEVEL else document
