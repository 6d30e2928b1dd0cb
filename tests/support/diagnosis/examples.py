"""diagnosis/examples.toml, made from the logs: ``python -m diagnosis.examples`` writes it.

An example that no log gives, because its cause has none, is written by hand and stays, and so are those of the kinds of
one class.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import torchwheel
from places import LOGS
from torchwheel.diagnosis.failures import Entry, read_catalogue
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml

FILE = Path(torchwheel.__file__).parent / "diagnosis" / "examples.toml"
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z]\w*)[^}]*\}")
Values = Mapping[str, str]
_HEAD = """\
# What the placeholders of a diagnosis stand for in `torchwheel explain`: what was found in its log in
# tests/support/diagnosis/logs, where there is one; of a class of several kinds, one for each. In the order of the ids.

"""


@cache
def captures(id: str) -> tuple[Mapping[str, str], ...]:
    """What is found in the logs of a cause that it is found in."""
    logs = sorted(log for pattern in (f"{id}.log", f"{id}.*.log") for log in LOGS.rglob(pattern))
    found = (diagnose(io.BytesIO(log.read_bytes())).cause for log in logs)
    return tuple(cause.captures for cause in found if cause is not None and cause.entry.id == id)


def examples() -> Mapping[str, Values | list[Values]]:
    """Every example by its id: what is there, if it still agrees with the logs, or what the first log gives."""
    there = read_toml(FILE)
    return {
        entry.id: values
        for entry in (*read_catalogue(), *read_classes().values())
        if (values := _values(entry, there.get(entry.id, {})))
    }


def _values(entry: Entry, there: Values | list[Values]) -> Values | list[Values]:
    if isinstance(there, list):
        return there
    found = captures(entry.id)
    if not found or (there and any(there.items() <= one.items() for one in found)):
        return there
    wanted = sorted(_placeholders(entry))
    return next(({name: one[name] for name in wanted} for one in found if one.keys() >= set(wanted)), there)


def _placeholders(entry: Entry) -> Iterator[str]:
    always = (fix for fix in entry.change if not fix.startswith("["))
    text = " ".join((entry.title, entry.means, *always))
    return (name for name in set(_PLACEHOLDER.findall(text)) if name not in entry.otherwise)


def written() -> str:
    """Return the text of the file."""
    tables = sorted(examples().items())
    return _HEAD + "".join(
        f"{id} = [{', '.join(map(_inline, values))}]\n"
        if isinstance(values, list)
        else f"{id} = {_inline(values)}\n"
        for id, values in tables
    )


def _inline(values: Values) -> str:
    pairs = (f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in values.items())
    return f"{{ {', '.join(pairs)} }}" if values else "{}"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
