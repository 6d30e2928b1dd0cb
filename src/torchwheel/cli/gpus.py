"""``torchwheel gpus``: the catalogue of GPUs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from torchwheel.hardware.arch import capabilities_in
from torchwheel.hardware.gpu_catalogue import KnownGpu, read_gpus
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import Answer, fields_of, format_table


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "filter",
        nargs="*",
        metavar="FILTER",
        help="part of a name, a family (blackwell) or a compute capability (12.0, sm_120); all must fit",
    )


def run(parsed: argparse.Namespace) -> Answer:
    chosen = _choose_gpus(parsed.filter)
    headers = ("NAME", "CAPABILITY", "FAMILY", "MEMORY", "PRODUCT")
    return Answer(
        {"gpus": [fields_of(gpu, *vars(gpu)) for gpu in chosen]},
        lambda: format_table(headers, map(_gpu_row, chosen)),
    )


def _choose_gpus(words: Sequence[str]) -> list[KnownGpu]:
    known = read_gpus()
    conditions = [_parse_condition(word) for word in words]
    chosen = [gpu for gpu in known if all(fits(gpu) for fits in conditions)]
    # The catalogue knows spellings that are no part of a name, such as nvidia-smi's.
    exact = known.find(" ".join(words)) if words and not chosen else None
    if exact is not None:
        return [exact]
    if not chosen:
        text = " ".join(words)
        if answer := known.refusal(text):
            raise refusal("unknown-gpu/foreign", name=text, answer=answer)
        if meant := known.nearest(text):
            raise refusal("unknown-gpu/search-near", name=text, meant=meant.suggestion)
        raise refusal("unknown-gpu/search", name=text)
    return chosen


def _parse_condition(word: str) -> Callable[[KnownGpu], bool]:
    capabilities = capabilities_in(word)
    # 12.0 and sm_120 can only be a capability; 120 may as well be a part of a name.
    wanted = "" if capabilities and re.search(r"[._]", word) else _fold_case(word)

    def fits(gpu: KnownGpu) -> bool:
        texts = (gpu.name, gpu.title, gpu.family, *gpu.aliases)
        named = bool(wanted) and any(wanted in _fold_case(text) for text in texts)
        return named or gpu.compute_capability in capabilities

    return fits


def _fold_case(text: str) -> str:
    return re.sub(r"[^0-9a-z]+", "", text.lower())


def _gpu_row(gpu: KnownGpu) -> tuple[str, ...]:
    memory = f"{gpu.memory_gib:g} GiB" if gpu.memory_gib else ""
    return gpu.name, str(gpu.compute_capability), gpu.family, memory, gpu.title
