"""torchwheel's own environment variables: ``TORCHWHEEL_KEY`` for every setting that ``-C`` takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from torchwheel.errors import Problem
from torchwheel.settings.assignments import Assignment, Source, read_assignments
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.model import Key, Where, keys_for
from torchwheel.settings.pytorch_env import ambient_rules
from torchwheel.settings.spelling import nearest
from torchwheel.settings.value_types import Place

PREFIX = "TORCHWHEEL_"
OWN_RANK = 10
"""torchwheel's own variables beat foreign ones, which may have been set for something else."""


def read_variables(environment: Mapping[str, str], problems: list[Problem]) -> tuple[Setting, ...]:
    """The settings that torchwheel's own variables make."""
    by_variable = {key.variable: key for key in keys_for(Where.COMMAND).values()}
    known = [*by_variable, *ambient_rules().own]
    assignments: list[Assignment] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or not text.strip():
            continue
        if variable in by_variable:
            assignments += _assignments(by_variable[variable], variable, text, problems)
        elif variable not in known:
            problems.append(_unknown(variable, text, known))
    return read_assignments(assignments, Source(Layer.ENVIRONMENT, rank=OWN_RANK), problems)


def _assignments(key: Key, variable: str, text: str, problems: list[Problem]) -> Iterator[Assignment]:
    origin = f"variable {variable}"
    example = f"{variable}={key.example}"
    if not key.table:
        yield Assignment(key, text, Place(key.name, origin, example, textual=True))
        return
    try:
        words = shlex.split(text)
    except ValueError as error:
        problems.append(_malformed(variable, text, str(error), example))
        return
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield Assignment(key, value, Place(f"{key.name}.{name}", origin, example, textual=True), name)
        else:
            problems.append(_malformed(variable, word, "it has no =", example))


def _malformed(variable: str, text: str, why: str, example: str) -> Problem:
    return Problem(
        id="malformed-variable",
        what=f'"{text}" is not NAME=VALUE',
        remedy=f"separate entries by spaces and quote as for a shell: {example}",
        why=why,
        origin=f"variable {variable}",
    )


def _unknown(variable: str, text: str, known: list[str]) -> Problem:
    meant = nearest(variable.removeprefix(PREFIX), [name.removeprefix(PREFIX) for name in known])
    return Problem(
        id="unknown-variable",
        what=f"{variable} is not a variable of torchwheel",
        remedy=f"write {PREFIX}{meant}={text}"
        if meant
        else f"unset it; the variables are {', '.join(known)}",
        origin=f"variable {variable}",
    )
