"""Plans carried out with real compilers and ninja, against a PyTorch of the test's own."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from extension.planning import inputs as planned_inputs
from extension.planning import installed, stepped
from put import put
from refusals import error_of
from torchwheel.extension.compile.ninja_build import announced_build, ninja_text, run_steps
from torchwheel.extension.extension_plan import Extension, ExtensionPlan, Step, StepKind
from torchwheel.extension.planning import make_extension_plan
from torchwheel.host.this import this_host
from torchwheel.progress.build_record import read_build_record

pytestmark = pytest.mark.skipif(os.name == "nt", reason="compiles with GCC's or Clang's options")

LIBRARIES = ("c10", "torch", "torch_cpu")
HEADER = "int answer();\n"
ANSWER = '#include "answer.h"\n#include <torch_of_the_test.h>\nint answer() { return OF_TORCH; }\n'
MODULE = """\
#include <Python.h>
#include "answer.h"
static PyObject* ask(PyObject*, PyObject*) { return PyLong_FromLong(answer()); }
static PyMethodDef methods[] = {{"answer", ask, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def torch_root(tmp_path: Path) -> Path:
    """A package with a header and a library, as far as compiling and linking go."""
    root = tmp_path / "site-packages" / "torch"
    (root / "include").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "include" / "torch_of_the_test.h").write_text("#define OF_TORCH 42\n", encoding="utf-8")
    source = put(root / "c10.cpp", "namespace c10 { int registered; }\n")
    for name in LIBRARIES:
        subprocess.run(["c++", "-shared", "-fPIC", "-o", root / "lib" / f"lib{name}.so", source], check=True)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two sources and a header, in a folder with a space and an umlaut."""
    folder = tmp_path / "mein Projekt ü"
    (folder / "csrc").mkdir(parents=True)
    for name, text in (("answer.h", HEADER), ("answer.cpp", ANSWER), ("module.cpp", MODULE)):
        (folder / "csrc" / name).write_text(text, encoding="utf-8")
    return folder


def plan_for(project: Path, torch_root: Path, cache: Path, *, macros: tuple[str, ...] = ()) -> ExtensionPlan:
    extension = Extension(name="pkg._C", sources=("csrc/answer.cpp", "csrc/module.cpp"))
    torch = installed(root=torch_root, cuda=None, nvidia_library_dirs=())
    given = planned_inputs(
        cache,
        extension,
        host=this_host(os.environ),
        torch=torch,
        toolkit=None,
        project=str(project),
        cache=str(cache),
    )
    plan = make_extension_plan(given)
    steps = tuple(_steps(extension.sources, macros))
    return replace(plan, extensions=tuple(replace(one, steps=steps) for one in plan.extensions))


def _steps(sources: Sequence[str], macros: tuple[str, ...]) -> Iterator[Step]:
    flags = ("c++", "-fPIC", *macros, "-isystem", "torch/include")
    flags += (f"-I{sysconfig.get_path('include')}",)
    outputs = tuple(f"pkg._C/{source}.o" for source in sources)
    for source, output in zip(sources, outputs, strict=True):
        depfile, path = f"{output}.d", f"source/{source}"
        command = (*flags, "-MMD", "-MF", depfile, "-c", path, "-o", output)
        yield Step(StepKind.COMPILE_CXX, (path,), output, command, depfile, sources=(source,))
    module = f"pkg._C/_C{EXTENSION_SUFFIXES[0]}"
    linked = ("c++", "-shared", *outputs, "-Ltorch/lib", "-lc10", "-o", module)
    yield Step(StepKind.LINK, outputs, module, linked)


def build_extensions(plan: ExtensionPlan, environment: Mapping[str, str]) -> dict[str, Path]:
    """Run a plan's steps as those of one extension; its modules."""
    vars(plan.project)["environment"] = environment
    with announced_build(plan):
        steps = [step for one in plan.extensions for step in one.steps]
        run_steps(plan, place(plan), steps)
    return {one.file_name: place(plan) / one.steps[-1].output for one in plan.extensions}


def place(plan: ExtensionPlan) -> Path:
    """The extension's own folder."""
    return plan.folder / plan.extensions[0].folder


def build(plan: ExtensionPlan, environment: Mapping[str, str] | None = None) -> tuple[Path, list[str]]:
    """The module, and what was done for it."""
    (module,) = build_extensions(plan, {**os.environ, **(environment or {})}).values()
    log = (place(plan) / "build.log").read_text(encoding="utf-8").splitlines()[1:]
    said = [line.partition("Z ")[2] for line in log]
    return module, [line.partition("] ")[2] or line for line in said]


def answer_of(module: Path) -> int:
    specification = importlib.util.spec_from_file_location("pkg._C", module)
    assert specification is not None and specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return int(loaded.answer())


def test_nothing_is_compiled_twice(project: Path, torch_root: Path, tmp_path: Path) -> None:
    plan = plan_for(project, torch_root, tmp_path / "cache")
    link = f"link pkg._C/_C{EXTENSION_SUFFIXES[0]}"
    build(plan)
    assert build(plan)[1] == ["ninja: no work to do."]
    put(project / "csrc" / "module.cpp", MODULE + "// changed\n")
    assert build(plan)[1] == ["compile csrc/module.cpp", link]
    (project / "csrc" / "answer.h").write_text(HEADER + "// changed\n", encoding="utf-8")
    assert sorted(build(plan)[1]) == ["compile csrc/answer.cpp", "compile csrc/module.cpp", link]
    other_flags = plan_for(project, torch_root, tmp_path / "cache", macros=("-DNDEBUG2=1",))
    assert other_flags.folder == plan.folder
    assert len(build(other_flags)[1]) == 3


def test_a_header_is_not_forgotten_where_cl_lists_headers_in_another_language(
    project: Path, torch_root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ninja knows only the English line: https://ninja-build.org/manual.html#_deps (msvc_deps_prefix)."""

    def as_cl(step: Step, listed: str) -> Step:
        if not step.cacheable:
            return step
        script = f'echo "{listed} source/csrc/answer.h"; exec "$@"'
        return replace(step, command=("sh", "-c", script, "cl", *step.command), depfile=None)

    def plan(listed: str) -> ExtensionPlan:
        made = plan_for(project, torch_root, tmp_path / "cache")
        extensions = (
            replace(one, steps=tuple(as_cl(step, listed) for step in one.steps)) for one in made.extensions
        )
        return replace(made, extensions=tuple(extensions))

    header = project / "csrc" / "answer.h"
    german, english = plan("Hinweis: Einlesen der Datei: "), plan("Note: including file: ")
    build(german)
    header.write_text(HEADER + "#define OF_TORCH 43\n", encoding="utf-8")
    (torch_root / "include" / "torch_of_the_test.h").write_text("", encoding="utf-8")
    capfd.readouterr()
    assert answer_of(build(german)[0]) == 43
    said = [line for line in capfd.readouterr().out.splitlines() if "headers" in line]
    assert said == [
        "torchwheel: ninja learned of no headers in csrc/answer.cpp, csrc/module.cpp, so these are compiled "
        "each time: where cl speaks another language, install Visual Studio's English language pack, "
        "and set VSLANG=1033"
    ]
    build(english)
    assert build(english)[1] == ["ninja: no work to do."]
    assert not [line for line in capfd.readouterr().out.splitlines() if "headers" in line][1:]


def test_a_compiler_cache_is_called_for_every_compile_and_no_link(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.c", "a.cpp", "k.cu"))
    given = planned_inputs(tmp_path, extension)
    made = stepped(make_extension_plan(given))
    lines = [
        line
        for line in ninja_text(made, made.extensions[0].steps).splitlines()
        if line.startswith("  command = ")
    ]
    assert [line.startswith("  command = ./compiler_launcher ") for line in lines[3:]] == [True] * 3 + [False]
    assert lines[:3] == ["  command = $command"] * 3


def test_a_compiler_error_is_reported_with_its_place_and_the_log(
    project: Path, torch_root: Path, tmp_path: Path
) -> None:
    (project / "csrc" / "module.cpp").write_text("int f() { return nonsense; }\n", encoding="utf-8")
    plan = plan_for(project, torch_root, tmp_path / "cache")
    (problem,) = error_of(build, plan).problems
    assert problem.id == "extension-build-failed"
    assert "nonsense" in problem.what
    assert problem.origin == str(project)
    assert str(place(plan) / "build.log") in problem.why
    output = next(step.output for step in plan.extensions[0].steps if "module" in step.inputs[0])
    assert problem.remedy.endswith(f" -v -C {shlex.quote(str(place(plan)))} {output}")
    record = read_build_record(place(plan) / "record.json")
    assert record is not None
    assert (record.now, record.build.tree) == ("failed", str(project))
    assert [step.source for step in record.made] == ["source/csrc/answer.cpp"]
