"""The combinations of the factors in factors.toml: each pair of levels at least once, and random ones."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from answered import answered
from locales import ABSENT, can_make_locale
from torchwheel.host.this import expand_home
from torchwheel.system.paths import find_below
from torchwheel.system.toml import read_toml

Combination = dict[str, str]
"""A level for each factor."""

_HERE = Path(__file__).parent
_TABLE = read_toml(_HERE / "factors.toml")
RELEASES: Mapping[str, Mapping[str, Any]] = read_toml(_HERE / "requirement_lists.toml")
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
TOOLKITS = "/usr/local/cuda-*"
FROM_PYPI = "TEST_TORCHWHEEL_CUDA_FROM_PYPI"
"""The variable that allows a toolkit's packages to be downloaded."""

_DRAFTS = 10
"""How many combinations are tried for a pair; with a hundred, the whole takes as many combinations (about 70)."""
_CLANG_NEEDED = 16
"""The oldest clang that PyTorch 2.14 takes. Source: src/torchwheel/pytorch/releases.toml."""
_ASK_PYTHON = """
import json, sys
print(json.dumps(["%d.%d" % sys.version_info[:2], getattr(sys, "_base_executable", None) or sys.executable]))
"""


@functools.cache
def find_pythons() -> dict[str, list[str]]:
    """The interpreters of each supported version: named by FIELD_PYTHONS, on PATH or under pyenv, in this order."""
    named = os.environ.get("FIELD_PYTHONS", "").split(os.pathsep)
    folders = os.environ["PATH"].split(os.pathsep)
    on_path = [
        shutil.which(f"python{version}", path=folder) or "" for version in SUPPORTED for folder in folders
    ]
    pyenv = expand_home(os.environ.get("PYENV_ROOT") or "~/.pyenv") / "versions"
    kept = sorted(map(str, find_below(pyenv, "3.*/bin/python")), reverse=True)
    found: dict[str, list[str]] = {version: [] for version in SUPPORTED}
    for candidate in filter(None, [*named, *on_path, *kept, sys.executable]):
        answer = answered([candidate, "-c", _ASK_PYTHON])
        if answer.returncode == 0:
            version, executable = json.loads(answer.stdout)
            if executable not in found.setdefault(version, []):
                found[version].append(executable)
    return {version: found[version] for version in SUPPORTED if found[version]}


def find_interpreter(combination: Mapping[str, str]) -> str | None:
    """The interpreter of a combination, which its user may run; None if this machine has none."""
    found = find_pythons()[combination["python"]]
    if combination.get("user", "own") != "own":
        return next(filter(is_open_to_all, found), None)
    return found[0]


def is_same_python(combination: Mapping[str, str]) -> bool:
    """Whether a combination's interpreter is the one that builds the references."""
    return find_interpreter(combination) == (getattr(sys, "_base_executable", None) or sys.executable)


@functools.cache
def find_clangs() -> dict[str, str]:
    """Level of `compiler` -> the newest clang++ that PyTorch takes, and the newest one that is too old for it."""
    found: list[tuple[int, str]] = []
    for folder in os.environ["PATH"].split(os.pathsep):
        for path in Path(folder).glob("clang++*"):
            if re.fullmatch(r"clang\+\+(-\d+)?", path.name):
                answer = answered([path, "-dumpversion"])
                found.append((int(answer.stdout.partition(".")[0] or 0), str(path)))
    found.sort()
    return {"clang" if version >= _CLANG_NEEDED else "old clang": path for version, path in found if version}


def is_open_to_all(path: str) -> bool:
    """Whether every user may enter all folders of a path, links followed."""
    return all(folder.stat().st_mode & 0o001 for folder in Path(path).resolve().parents)


def find_toolkits() -> list[Path]:
    """The compilers of the toolkits that are installed where torchwheel looks by itself."""
    return sorted(Path("/").glob(f"{TOOLKITS[1:]}/bin/nvcc"))


def _can_hide() -> bool:
    """Whether a process may have mounts of its own: not in most containers."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--mount", "true"]
    return unshare is not None and subprocess.run(command, check=False, capture_output=True).returncode == 0


def _absent_levels() -> Iterator[tuple[str, str, str]]:
    """Factor, level and reason of what this machine cannot try."""
    if not find_toolkits():
        for level in _TABLE["factors"]["toolkit"]:
            if level not in ("none", "PyPI's"):
                yield "toolkit", level, f"no toolkit in {TOOLKITS}"
    is_root = os.name != "nt" and os.geteuid() == 0
    versions = find_pythons()
    if FROM_PYPI not in os.environ:
        yield "toolkit", "PyPI's", f"downloads a gigabyte; {FROM_PYPI} is not set"
    for user in ("another", "unknown"):
        if not is_root or shutil.which("setpriv") is None:
            yield "user", user, "needs root and setpriv (util-linux)"
        elif not any(find_interpreter({"python": version, "user": user}) for version in versions):
            yield "user", user, "other users may run none of the interpreters"
    if find_toolkits() and not (is_root and _can_hide()):
        yield (
            "toolkit",
            "none",
            "hiding the toolkits needs root, unshare (util-linux) and mounts of one's own",
        )
    if "clang" not in find_clangs():
        yield "compiler", "clang", f"there is no clang++ {_CLANG_NEEDED} or later on PATH"
    if "old clang" not in find_clangs():
        yield "compiler", "old clang", f"there is no clang++ before {_CLANG_NEEDED} on PATH"
    for locale in ("de_DE.UTF-8", "zh_CN.UTF-8"):
        if not can_make_locale(locale[:5]):
            yield "locale", locale, ABSENT
    if shutil.which("ccache") is None:
        yield "ccache", "on PATH", "ccache is not on PATH"


def make_factors() -> tuple[dict[str, list[str]], list[str]]:
    """The factors with the levels that can be tried here, and a line on each that cannot."""
    factors: dict[str, list[str]] = {"python": list(find_pythons())}
    factors |= {name: list(levels) for name, levels in _TABLE["factors"].items()}
    lines = [f"Python {version} is not here" for version in SUPPORTED if version not in factors["python"]]
    for factor, level, reason in _absent_levels():
        lines.append(f"{factor} {level!r} is not tried: {reason}")
        factors[factor].remove(level)
    return {name: levels or ["none"] for name, levels in factors.items()}, lines


def is_possible(combination: Mapping[str, str]) -> bool:
    """Whether a combination, or a part of one, is excluded by no rule."""
    if "python" in combination and find_interpreter(combination) is None:
        return False
    return not any(matches(rule["when"], combination) for rule in _TABLE["impossible"])


def matches(when: Mapping[str, Any], combination: Mapping[str, str]) -> bool:
    """Whether a combination has one of the levels of every factor that a rule names."""
    return all(
        combination.get(name) in ([levels] if isinstance(levels, str) else levels)
        for name, levels in when.items()
    )


def expected_errors(combination: Mapping[str, str]) -> set[str]:
    """The ids of the errors that a combination must end with, if any."""
    return {rule["id"] for rule in _TABLE["error"] if matches(rule["when"], combination)}


def make_pairs(factors: Mapping[str, Sequence[str]], seed: int) -> list[Combination]:
    """Combinations in which each pair of levels that can be built is once at least.

    Those that end with an error are left out: a pair that is only in one of them is never built.

    Each combination is the best of a few, which begin with a pair that none has yet and take for one factor after
    another the level with most new pairs. allpairspy passes over a hundredth of the pairs that these rules allow, and
    where a rule leaves a pair no combination, as without root, it goes on trying for ever.
    """
    generator = random.Random(seed)
    items = [(name, level) for name, levels in factors.items() for level in levels]
    waiting = [
        pair
        for pair in itertools.combinations(items, 2)
        if pair[0][0] != pair[1][0] and _is_built(dict(pair))
    ]
    left = set(map(frozenset, waiting))
    made: list[Combination] = []
    for pair in generator.sample(waiting, len(waiting)):
        if frozenset(pair) in left:
            drafts = (_fill(dict(pair), factors, left, generator) for _attempt in range(_DRAFTS))
            found = [entry for entry in drafts if entry is not None]
            if found:
                made.append(max(found, key=lambda entry: len(_pairs_of(entry) & left)))
                left -= _pairs_of(made[-1])
    return made


def _fill(
    begun: Combination,
    factors: Mapping[str, Sequence[str]],
    left: set[frozenset[tuple[str, str]]],
    generator: random.Random,
) -> Combination | None:
    """The rest of a combination, with many of the pairs that are left; None where the rules leave a factor no level."""
    filled = dict(begun)
    for name in generator.sample([name for name in factors if name not in begun], len(factors) - len(begun)):
        levels = generator.sample(list(factors[name]), len(factors[name]))
        fitting = [level for level in levels if _is_built({**filled, name: level})]
        if not fitting:
            return None
        filled[name] = max(
            fitting,
            key=lambda level: sum(frozenset(((name, level), item)) in left for item in filled.items()),
        )
    return {name: filled[name] for name in factors}


def _is_built(combination: Mapping[str, str]) -> bool:
    """Whether a combination, or a part of one, is possible and ends with no error."""
    return is_possible(combination) and not expected_errors(combination)


def make_errors(factors: Mapping[str, Sequence[str]], seed: int, count: int) -> list[Combination]:
    """So many combinations for each error, drawn at random; a first check may end a build before others run."""
    generator, found = random.Random(seed), list[Combination]()
    for rule in _TABLE["error"]:
        named = {
            name: [levels] if isinstance(levels, str) else levels for name, levels in rule["when"].items()
        }
        chosen = {
            name: [level for level in levels if level in factors.get(name, ())]
            for name, levels in named.items()
        }
        if all(chosen.values()):
            drawn = _draw({**factors, **chosen}, generator)
            alone = (entry for entry in drawn if expected_errors(entry) == {rule["id"]})
            found += itertools.islice(alone, count)
    return found


def make_random(factors: Mapping[str, Sequence[str]], seed: int, count: int) -> list[Combination]:
    """So many combinations that can be built, drawn at random."""
    drawn = _draw(factors, random.Random(seed))
    return list(itertools.islice((entry for entry in drawn if not expected_errors(entry)), count))


def _draw(factors: Mapping[str, Sequence[str]], generator: random.Random) -> Iterator[Combination]:
    while True:
        drawn = {name: generator.choice(list(levels)) for name, levels in factors.items()}
        if is_possible(drawn):
            yield drawn


def cover_levels(combinations: Sequence[Combination], count: int) -> list[Combination]:
    """So many of the combinations, among them each level at least once, and then as many pairs as fit."""
    chosen: list[Combination] = []
    left = list(combinations)
    levels, pairs = set[tuple[str, str]](), set[frozenset[tuple[str, str]]]()

    def gain(combination: Combination) -> tuple[int, int]:
        return len(set(combination.items()) - levels), len(_pairs_of(combination) - pairs)

    while left and len(chosen) < count:
        best = max(left, key=gain)
        left.remove(best)
        chosen.append(best)
        levels |= set(best.items())
        pairs |= _pairs_of(best)
    return chosen


def _pairs_of(combination: Combination) -> set[frozenset[tuple[str, str]]]:
    items = list(combination.items())
    return {frozenset((one, other)) for number, one in enumerate(items) for other in items[number + 1 :]}


def count_pairs(combinations: Sequence[Combination]) -> int:
    """How many pairs of levels are in the combinations."""
    return len(set().union(*map(_pairs_of, combinations)))


def identify(combination: Combination) -> str:
    """A combination in a few letters, for the name of its test."""
    words = (
        combination[name] for name in ("python", "front-end", "environment", "release", "project", "target")
    )
    return "-".join(re.sub(r"[^a-z0-9.]+", "_", word.lower()) for word in words)
