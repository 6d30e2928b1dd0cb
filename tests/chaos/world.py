"""A tree that is built, attacked and built again, and what an undisturbed build makes of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.builds import clean_environment, make_tree, snapshot, torchwheel
from torchwheel.plan.output import is_only_how

SECONDS = 500
EDITED = {
    "CMakeLists.txt": "# {0}\n",
    "c10/util/Exception.cpp": 'extern const char torch_variant[]; const char torch_variant[] = "{0}";\n',
    "c10/core/Device.h": '#define TORCH_VARIANT "{0}"\n',
    "torch/cuda/__init__.py": "VARIANT = '{0}'\n",
}
MANIFEST = re.compile(r"\.dist-info/(?:RECORD$|torchwheel\.json)")
ASKED = {"interrupted": signal.SIGINT, "terminated": signal.SIGTERM}
FOLDERS = {"the whole cache": "", "the builds": "builds"}
VARIANTS = ("one", "other")
Trigger = Callable[[list[str]], bool]
ERROR = re.compile(r"torchwheel: .*?\[[a-z-]+\]\n", re.DOTALL)


@dataclass(frozen=True)
class Result:
    """How a command ended.

    Attributes:
        code: its exit status; negative for the signal that ended it.
        output: all that it printed.
        struck: whether the attack came before it ended.
        wheel: the contents of the wheel that it made; None if there is none.
    """

    code: int
    output: str
    struck: bool
    wheel: dict[str, str] | None


class Builder:
    """Runs a build command, undisturbed or attacked, and reads the wheel that it makes.

    Args:
        root: has a folder ``out`` for the wheel.
        environment: the command's.
    """

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self.root, self.out, self.environment = root, root / "out", environment

    @property
    def command(self) -> list[str]:
        """The build command."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """Where the command runs."""
        return self.root

    @contextlib.contextmanager
    def started(self) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
        """A build, and the lines that it prints, as they come."""
        for wheel in self.out.glob("*.whl"):
            wheel.unlink()
        lines: list[str] = []
        process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            # What runs in the background of a shell ignores an interrupt.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            yield process, lines
            process.wait(SECONDS)
        finally:
            process.kill()
            process.wait()
            reader.join(10)

    def build(self) -> Result:
        """Build undisturbed."""
        return self.attacked(lambda _lines: False, "nobody")

    def attacked(self, now: Trigger, victim: str) -> Result:
        """Build, and strike the victim as soon as the trigger says so."""
        struck = False
        with self.started() as (process, lines):
            deadline = time.monotonic() + SECONDS
            while process.poll() is None and not struck and time.monotonic() < deadline:
                if now(lines):
                    self.strike(process.pid, victim)
                    struck = True
                time.sleep(0.002)
        wheels = [contents(wheel) for wheel in self.out.glob("*.whl")] if process.returncode == 0 else []
        return Result(process.returncode, "".join(lines), struck, wheels[0] if wheels else None)

    def strike(self, leader: int, victim: str) -> None:
        """Attack a running build."""
        kill(leader, victim)


class World(Builder):
    """One tree in two variants, with a cache, an output folder and a memory of what belongs into their wheels.

    Args:
        generation: ``scikit-build-core`` or ``setup.py``.
        root: an empty folder.
        build_env: where the tree's requirements come from.
    """

    def __init__(self, generation: str, root: Path, build_env: str = "current") -> None:
        self.generation, self.cache = generation, root / "cache"
        super().__init__(root, clean_environment(self.cache, CCACHE_DIR=str(root / "ccache")))
        self.tree = make_tree(generation, root / "tree")
        self._texts = {name: (self.tree / name).read_text(encoding="utf-8") for name in EDITED}
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.build_env = build_env
        self.seconds = 0.0
        self._expected: dict[str, dict[str, str]] = {}
        for variant in VARIANTS:
            self.edit(variant)
            began = time.monotonic()
            result = self.build()
            self.seconds = time.monotonic() - began
            assert result.code == 0, result.output
            assert result.wheel is not None
            self._expected[variant] = result.wheel
        assert self._expected["one"] != self._expected["other"]

    @property
    def command(self) -> list[str]:
        what = (
            "--target",
            "cpu",
            "--disable",
            "tests,mpi",
            "-C",
            "package-version=2.14.1",
            "-C",
            "jobs=2",
            "-C",
            f"build-env={self.build_env}",
        )
        return torchwheel("build", self.tree, *what, "-o", self.out)

    def edit(self, variant: str) -> None:
        """Give the tree a variant's sources."""
        self.variant = variant
        for name, text in EDITED.items():
            (self.tree / name).write_text(self._texts[name] + text.format(variant), encoding="utf-8")
        self.before = snapshot(self.tree)

    def other(self) -> None:
        """Give the tree the other variant's sources."""
        self.edit(VARIANTS[1 - VARIANTS.index(self.variant)])

    def forget(self) -> None:
        """Remove all builds."""
        subprocess.run(["rm", "-rf", self.cache / "builds"], check=True)

    def strike(self, leader: int, victim: str) -> None:
        """Kill somebody, or delete a folder."""
        if victim in FOLDERS:
            shutil.rmtree(self.cache / FOLDERS[victim], ignore_errors=True)
        else:
            super().strike(leader, victim)

    def faults(self, attacked: Result, after: Result) -> list[str]:
        """What is wrong after an attack and the build that followed it; empty if nothing is."""
        found = []
        if after.code != 0:
            found.append(f"the next build ended with {after.code}:\n{after.output[-3000:]}")
        elif after.wheel != self._expected[self.variant]:
            found.append(f"the next wheel is another: {different(after.wheel, self._expected[self.variant])}")
        # A probe that was killed has not answered, and the manifest says less of the machine.
        others = different(attacked.wheel, self._expected[self.variant])
        if attacked.code == 0 and [name for name in others if not MANIFEST.search(name)]:
            found.append(f"a wrong wheel: {others}")
        # Ctrl-C while Python itself starts, before there is any torchwheel, is Python's to tell.
        starting = (
            attacked.output.rstrip().endswith("KeyboardInterrupt") and "torchwheel" not in attacked.output
        )
        if (
            0 < attacked.code < 128
            and not starting
            and (
                not ERROR.search(attacked.output)
                or "Traceback (most" in attacked.output.split("torchwheel: ")[-1]
            )
        ):
            found.append(f"no clear error: {attacked.output[-3000:]}")
        if snapshot(self.tree) != self.before:
            found.append("the tree was written to")
        if left := sorted(str(path.relative_to(self.root)) for path in self.leftovers()):
            found.append(f"left: {left}")
        return found

    def leftovers(self) -> Iterator[Path]:
        yield from self.out.glob(".*")
        yield from self.cache.rglob(".*.part")
        yield from self.cache.glob("builds/*/wheel/*")


def contents(wheel: Path) -> dict[str, str]:
    """Each member of a wheel with its digest, and each line of the manifest.

    Without what a wheel from the wheel store may have of an earlier build: how it was built, and what was found on the
    machine then.
    """
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = next(name for name in members if name.endswith(".dist-info/torchwheel.json"))
    record = manifest.replace("torchwheel.json", "RECORD")
    document = json.loads(members.pop(manifest))
    plan = document["plan"]
    plan["layers"] = [layer for layer in plan["layers"] if not is_only_how(layer["key"])]
    del plan["findings"]
    lines = {f"{manifest}: {line}": "" for line in json.dumps(document, indent=1).splitlines()}
    kept = (line for line in members[record].splitlines() if not line.startswith(manifest.encode()))
    members[record] = b"\n".join(kept)
    return lines | {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}


def different(one: dict[str, str] | None, other: dict[str, str]) -> list[str]:
    one = one or {}
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def after_seconds(seconds: float) -> Trigger:
    began: list[float] = []

    def now(_lines: list[str]) -> bool:
        began[:] = began or [time.monotonic()]
        return time.monotonic() - began[0] >= seconds

    return now


def at_line(pattern: str) -> Trigger:
    regex, seen = re.compile(pattern), [0]

    def now(lines: list[str]) -> bool:
        first, seen[0] = seen[0], len(lines)
        return any(regex.search(line) for line in lines[first : seen[0]])

    return now


def at_file(folder: Path, pattern: str) -> Trigger:
    return lambda _lines: next(folder.glob(pattern), None) is not None


def kill(leader: int, victim: str) -> None:
    """End torchwheel alone, one of those that it started, or all of them, without asking; or ask torchwheel."""
    children = descendants(leader)
    if victim in ASKED:
        os.kill(leader, ASKED[victim])
        return
    if victim == "parent":
        chosen = [leader]
    elif victim == "child":
        chosen = [random.choice(children)] if children else [leader]
    else:
        chosen = [leader, *children]
    for pid in chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(leader: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = [leader]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]
