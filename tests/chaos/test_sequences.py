"""Random sequences of edits, changes of the environment, copies, moves and kills: each wheel is that of a fresh build.

`make chaos` runs a short one for each kind of project, `make chaos CHAOS=full` 200 in all. CHAOS_SEED chooses the
same ones again, and CHAOS_SEQUENCES how many of each kind.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from backend.builds import snapshot
from chaos.subjects import CACHES, FLAGS, KINDS, PLACES, SETTINGS, VARIABLES, Subject
from chaos.world import ASKED, after_seconds
from put import put

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at Linux's /proc"),
    pytest.mark.timeout(4 * 3600),
]
FULL = os.environ.get("CHAOS", "short") == "full"
SEQUENCES = int(os.environ.get("CHAOS_SEQUENCES", "40" if FULL else "1"))
"""For each kind of project."""
STEPS = 8 if FULL else 5
TRIVIAL = 2
"""Sequences that hypothesis begins with, of one rule again and again: nothing is built in these."""
SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
VICTIMS = ("parent", "child", "group", *ASKED)
OLD = 1_000_000_000


class Report:
    """What the sequences of a kind of project did; wrong wheels fail at the end, with the steps that led there."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.begun = self.sequences = self.builds = self.kills = self.different = 0
        self.wrong: list[str] = []

    def end(self) -> None:
        print(
            f"{self.subject.kind}: {self.sequences} sequences, {self.builds} builds compared with fresh ones, "
            f"{self.kills} killed, {len(self.subject.fresh_wheels)} different states, {len(self.wrong)} wrong "
            f"(CHAOS_SEED={SEED})",
            flush=True,
        )
        assert self.wrong == []


class Sequence(RuleBasedStateMachine):
    """One sequence, which begins with a finished build."""

    report: Report
    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.subject = self.report.subject
        self.subject.restore(self.template)
        self.steps: list[str] = []
        self.report.begun += 1
        self.is_trivial = self.report.begun <= TRIVIAL
        self.is_wrong = False
        self.pending = 0
        self.variants: dict[str, int] = {}
        self.report.sequences += not self.is_trivial
        self.chance = random.Random(f"{SEED} {self.report.sequences}")

    def did(self, step: str) -> None:
        """Remember a step; after up to three of them the wheel is built."""
        self.steps.append(step)
        self.pending += 1
        if self.pending >= self.chance.randint(1, 3):
            self.check()

    def other(self, name: str) -> int:
        """Another variant of a file than it has."""
        self.variants[name] = (self.variants.get(name, 0) + self.chance.randint(1, 2)) % 3
        return self.variants[name]

    def check(self) -> None:
        """Build, and compare the wheel with that of a fresh build."""
        self.pending = 0
        if self.is_wrong or self.is_trivial:
            return
        faults = self.subject.faults(self.subject.timed_build())
        self.report.builds += 1
        self.steps.append("build")
        if faults:
            self.is_wrong = True
            self.report.wrong.append(f"{self.subject.kind}: {', '.join(self.steps)}: {faults[0]}")
            print(self.report.wrong[-1][:3000], flush=True)

    @rule(data=st.data(), time=st.sampled_from(["now", "kept", "old"]))
    def edit(self, data: st.DataObject, time: str) -> None:
        """Edit a file; an editor gives it the time of now, ``git`` and ``tar`` may give it an older one."""
        name = data.draw(st.sampled_from(self.subject.editable_files))
        file, variant = self.subject.project / name, self.other(name)
        before = file.stat() if file.exists() else None
        self.subject.edit(name, variant)
        if time == "old":
            os.utime(file, (OLD, OLD))
        elif time == "kept" and before:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.did(f"edit {name} to {variant} (time: {time})")

    @rule(time=st.sampled_from(["now", "old"]))
    def edit_a_header_of_the_system(self, time: str) -> None:
        variant = self.other("chaos_outside.h")
        file = self.subject.write_outside("chaos_outside.h", f"#define CHAOS_OUTSIDE outside{variant}\n")
        if time == "old":
            os.utime(file, (OLD, OLD))
        self.did(f"edit chaos_outside.h to {variant} (time: {time})")

    @rule(name=st.sampled_from(["flags.txt", "link.txt"]))
    def edit_a_file_that_flags_name(self, name: str) -> None:
        variant = self.other(name)
        text = {"flags.txt": "-DCHAOS_FLAGS=flags{}\n", "link.txt": "--build-id=0x100{}\n"}[name]
        self.subject.write_outside(name, text.format(variant))
        self.did(f"edit {name} to {variant}")

    @rule()
    def add_or_remove_a_source(self) -> None:
        file = self.subject.project / self.subject.sources / "chaos_more.cpp"
        if file.exists():
            file.unlink()
        else:
            file.write_text('extern const char chaos_more[]; const char chaos_more[] = "more";\n')
        self.did("add a source" if file.exists() else "remove a source")

    @rule()
    def add_or_remove_a_folder(self) -> None:
        folder = self.subject.project / "optional"
        if folder.exists():
            shutil.rmtree(folder)
        else:
            put(folder / "CMakeLists.txt", "# nothing\n")
        self.did("add a folder" if folder.exists() else "remove a folder")

    @rule()
    def replace_a_header_by_a_link_or_back(self) -> None:
        """The link leads to a file that was there all the time."""
        file = self.subject.project / self.subject.header
        other = file.with_name("chaos_other.h")
        if file.is_symlink():
            self.subject.edit(self.subject.header, 0)
        else:
            text = file.read_text(encoding="utf-8")
            other.write_text(text.replace("inside", "linked"), encoding="utf-8")
            os.utime(other, (OLD, OLD))
            file.unlink()
            file.symlink_to(other.name)
        self.did("a header is a link" if file.is_symlink() else "a header is no link")

    @rule()
    def touch_everything(self) -> None:
        for path in self.subject.project.rglob("*"):
            if not path.is_symlink():
                os.utime(path)
        self.did("touch everything")

    @rule()
    def unpack_the_sources_again(self) -> None:
        """As ``git clone`` or ``tar`` does: other inodes and times, the same content."""
        project = self.subject.project
        shutil.copytree(project, self.subject.root / "again", symlinks=True, copy_function=shutil.copy)
        shutil.rmtree(project)
        (self.subject.root / "again").rename(project)
        self.did("unpack the sources again")

    @rule(name=st.sampled_from(VARIABLES), value=st.sampled_from(["", "one", "two"]))
    def set_a_variable(self, name: str, value: str) -> None:
        self.subject.variables[name] = value
        self.did(f"{name} is {value!r}")

    @rule(what=st.sampled_from(["generator", "library"]), time=st.sampled_from(["now", "old"]))
    def replace_a_program_or_a_library(self, what: str, time: str) -> None:
        """In place, as an installer does; -l finds the library."""
        variant = self.other(what)
        replaced = self.subject.write_generator if what == "generator" else self.subject.write_library
        file = replaced(variant)
        if time == "old":
            os.utime(file, (OLD, OLD))
        self.did(f"replace the {what} by {variant} (time: {time})")

    @rule()
    def add_or_remove_a_header_that_is_looked_for(self) -> None:
        file = self.subject.root / "outside/chaos_optional.h"
        if file.exists():
            file.unlink()
        else:
            file.write_text("#define CHAOS_OPTIONAL there\n")
            os.utime(file, (OLD, OLD))
        self.did("a looked-for header is there" if file.exists() else "a looked-for header is gone")

    @rule(way=st.sampled_from(["retarget", "replace"]))
    def change_a_link_out_of_the_project(self, way: str) -> None:
        """The file that it leads to is older than all that was made."""
        link, variant = self.subject.project / self.subject.linked, self.other("linked")
        if way == "retarget":
            link.unlink()
            link.symlink_to(self.subject.root / f"outside/linked{variant}.h")
        else:
            name = Path(os.readlink(link)).name
            file = self.subject.write_outside(name, f"#define CHAOS_LINKED replaced{variant}\n")
            os.utime(file, (OLD, OLD))
        self.did(f"{way} a link out of the project: {variant}")

    @rule(flags=st.sampled_from(FLAGS))
    def set_flags(self, flags: str) -> None:
        self.subject.flags = flags
        self.did(f"flags: {flags or 'none'}")

    @rule(setting=st.sampled_from(SETTINGS))
    def change_a_setting(self, setting: str) -> None:
        self.subject.setting = setting
        self.did(f"setting: {setting or 'none'}")

    @precondition(lambda self: self.subject.finds_packages)
    @rule(value=st.sampled_from(["", "one", "two"]))
    def install_or_remove_a_package(self, value: str) -> None:
        folder = self.subject.root / "prefix/lib/cmake/ChaosPackage"
        shutil.rmtree(folder, ignore_errors=True)
        if value:
            put(folder / "ChaosPackageConfig.cmake", f"set(CHAOS_PACKAGE_VALUE package{value})\n")
        self.did(f"package: {value or 'none'}")

    @precondition(lambda self: self.subject.cache.exists())
    @rule(way=st.sampled_from(["copy", "move"]))
    def go_on_in_another_cache(self, way: str) -> None:
        """Copy or move the cache; a copy's original may not change."""
        subject, before = self.subject, self.subject.cache
        subject.cache_name = CACHES[1 - CACHES.index(subject.cache_name)]
        subprocess.run(["rm", "-rf", subject.cache], check=True)
        if way == "move":
            before.rename(subject.cache)
            self.did("move the cache")
            return
        subprocess.run(["cp", "-r", before, subject.cache], check=True)
        original = snapshot(before)
        self.did("copy the cache")
        self.check()
        if snapshot(before) != original:
            self.report.wrong.append(f"{subject.kind}: {', '.join(self.steps)}: the original was written to")

    @rule(way=st.sampled_from(["copy", "move"]))
    def go_on_in_another_place(self, way: str) -> None:
        """Copy or move the sources."""
        subject, before = self.subject, self.subject.project
        subject.place = PLACES[1 - PLACES.index(subject.place)]
        subprocess.run(["rm", "-rf", subject.project], check=True)
        if way == "move":
            before.rename(subject.project)
        else:
            subprocess.run(["cp", "-r", before, subject.project], check=True)
        self.did(f"{way} the sources")

    @rule(name=st.sampled_from(["", "builds", "extensions", "wheels"]))
    def delete_from_the_cache(self, name: str) -> None:
        subprocess.run(["rm", "-rf", self.subject.cache / name], check=True)
        self.did(f"delete {name or 'the cache'}")

    @rule(moment=st.floats(0, 1), victim=st.sampled_from(VICTIMS))
    def kill_a_build(self, moment: float, victim: str) -> None:
        if self.is_trivial:
            return
        self.subject.refresh()
        result = self.subject.attacked(after_seconds(moment * self.subject.seconds), victim)
        self.report.kills += result.struck
        self.did(f"kill {victim} at {moment:.0%}: {result.code}")
        if result.code == 0:
            self.report.wrong += self.subject.faults(result)

    def teardown(self) -> None:
        """Each sequence ends with a build."""
        if self.is_trivial:
            return
        if self.pending:
            self.check()
        print(
            f"{self.subject.kind}: {'wrong' if self.is_wrong else 'well'}: {', '.join(self.steps)}",
            flush=True,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_each_wheel_is_that_of_a_fresh_build(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "world"
    root.mkdir()
    subject = Subject(kind, root)
    result = subject.timed_build()
    assert (result.code, subject.faults(result)) == (0, [])
    subject.save(tmp_path / "template")
    report = Report(subject)
    machine = type("Machine", (Sequence,), {"report": report, "template": tmp_path / "template"})
    run_state_machine_as_test(
        seed(SEED)(machine),
        settings=settings(
            max_examples=SEQUENCES + TRIVIAL,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    report.end()
