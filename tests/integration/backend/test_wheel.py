"""The wheel of both generations: what is in it, what it says of itself, and that it works."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from pathlib import Path

import jsonschema
import pytest

from backend.builds import (
    GENERATIONS,
    HEADERS,
    LICENSES,
    MODULES,
    check,
    clean_environment,
    compiled,
    compute,
    dist_info,
    hashes,
    install,
    make_tree,
    manifest,
    names_in,
    read,
    recorded,
    run,
    snapshot,
    version_file,
)
from backend.builds import torchwheel as command
from backend.conftest import Site
from wheel_samples import manifest_schema

PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"

linux = pytest.mark.skipif(sys.platform != "linux", reason="the names of libraries are Linux's")


def expected_names(generation: str) -> set[str]:
    info = {"METADATA", "RECORD", "WHEEL", "torchwheel.json", "sboms/torchwheel.cdx.json"}
    info |= {f"licenses/{name}" for name in LICENSES}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    functorch = set()
    if generation == "setup.py":
        info.add("top_level.txt")
        functorch = {"functorch/__init__.py", f"functorch/_C{suffix}"}
    return functorch | {
        *(f"torch/include/{name}" for name in HEADERS),
        *(f"torch/{name}" for name in MODULES),
        *(f"torch/lib/lib{name}.so" for name in ("c10", "torch_cpu", "torch_python")),
        f"torch/_C{suffix}",
        *(f"torch-2.14.1+cpu.nompi.noopenmp.dist-info/{name}" for name in info),
    }


@linux
def test_it_holds_exactly_these_files(site: Site) -> None:
    assert names_in(site.wheel) == expected_names(site.generation)


def test_file_name_metadata_and_version_file_agree(site: Site) -> None:
    assert site.wheel.name == f"torch-2.14.1+cpu.nompi.noopenmp-{PYTHON}-{PYTHON}-{PLATFORM}.whl"
    metadata = read(site.wheel, f"{dist_info(site.wheel)}/METADATA").decode().splitlines()
    assert metadata[1:3] == ["Name: torch", "Version: 2.14.1+cpu.nompi.noopenmp"]
    said = version_file(site.wheel)
    assert (said["__version__"], said["cuda"]) == ("2.14.1+cpu.nompi.noopenmp", None)


def test_record_names_every_file_with_its_hash(site: Site) -> None:
    assert recorded(site.wheel) == hashes(site.wheel)


def test_the_manifest_is_valid_and_tells_of_the_build(site: Site) -> None:
    document = manifest(site.wheel)
    jsonschema.validate(document, manifest_schema())
    plan = document["plan"]
    assert document["wheel"] == {
        "name": "torch",
        "version": "2.14.1+cpu.nompi.noopenmp",
        "tags": [f"{PYTHON}-{PYTHON}-{PLATFORM}"],
    }
    assert document["machine_code"] == []
    assert plan["target"] == ["cpu"]
    assert plan["source"] == {
        "version": "2.14.1a0",
        "commit": None,
        "release_tag": None,
        "dirty": None,
        "untracked": None,
    }
    assert re.fullmatch("[0-9a-f]{12}", plan["fingerprint"])
    asked = plan["options"]["requested"]
    assert {
        name: asked[name] for name in ("BUILD_TEST", "USE_CUDA", "USE_MPI", "USE_OPENMP")
    } == dict.fromkeys(("BUILD_TEST", "USE_CUDA", "USE_MPI", "USE_OPENMP"), "OFF")
    assert plan["options"]["effective"].keys() == asked.keys()
    # What minitorch's CMake files look for and a machine rarely has; nothing that was asked for.
    assert set(plan["options"]["switched_off"]) <= {"USE_CUPTI_SO", "USE_MAGMA", "USE_NUMA", "USE_NUMPY"}
    assert "USE_MAGMA" in plan["options"]["switched_off"]
    assert plan["toolchain"].keys() >= {
        "c_compiler",
        "cmake",
        "cxx_compiler",
        "generator",
        "python",
        "tree_backend",
    }
    assert plan["skipped_checks"] == []


def test_the_constraints_file_pins_it(site: Site) -> None:
    constraints = site.wheel.with_name("constraints-torch-2.14.1+cpu.nompi.noopenmp.txt")
    assert constraints.read_text(encoding="utf-8").splitlines()[-1] == "torch==2.14.1+cpu.nompi.noopenmp"
    assert {path.name for path in site.wheel.parent.iterdir()} == {site.wheel.name, constraints.name}


def test_the_tree_is_as_it_was(site: Site) -> None:
    assert snapshot(site.tree) == site.before
    assert {path.name for path in site.project.iterdir()} == {"pyproject.toml"}


def test_installed_it_computes(site: Site, tmp_path: Path) -> None:
    python = install(site.wheel, tmp_path, site.cache)
    version, product, place = compute(python, tmp_path, site.cache)
    assert (version, product) == ("2.14.1+cpu.nompi.noopenmp", [[7.0, 10.0], [15.0, 22.0]])
    assert tmp_path in Path(place).parents
    config = json.dumps(manifest(site.wheel)["plan"]["options"]["effective"])
    assert '"USE_OPENMP": "OFF"' in config or '"USE_OPENMP": "0"' in config


@linux
def test_a_wheel_without_its_own_libraries_is_not_handed_over(site: Site, tmp_path: Path) -> None:
    if site.generation == "setup.py":
        pytest.skip("setuptools knows no wheel.exclude")
    build = command("build", site.project, "-C", "wheel.exclude=torch/lib/lib*", "-o", tmp_path / "out")
    done = run(*build, cwd=tmp_path, env=clean_environment(site.cache))
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert ("[library-not-found]" in done.stderr, "torch/_C." in done.stderr) == (True, True)
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.long
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_source_that_is_added_or_deleted_is_so_in_the_next_wheel(generation: str, tmp_path: Path) -> None:
    """CMake finds it by a pattern, and setup.py runs CMake once: the wheel lacked it, and nothing said so."""
    tree = make_tree(generation, tmp_path / "tree")
    added = tree / "c10" / "util" / "Added.cpp"
    build = command(
        "build", tree, "--target", "cpu", "-C", "build-env=current", "-C", "disable=tests,openmp,mpi"
    )
    for content in (None, 'extern "C" int an_added_symbol() { return 1; }\n', None):
        if content:
            added.write_text(content, encoding="utf-8")
        else:
            added.unlink(missing_ok=True)
        check(*build, "-o", tmp_path / "out", cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
        (wheel,) = (tmp_path / "out").glob("*.whl")
        library = next(
            name for name in names_in(wheel) if ("c10" in name and ".so" in name) or "c10.dll" in name
        )
        assert (b"an_added_symbol" in read(wheel, library)) == bool(content)


@pytest.mark.long
def test_setup_py_is_configured_again_only_where_cmake_reads_something_else(tmp_path: Path) -> None:
    tree, cache = make_tree("setup.py", tmp_path / "tree"), tmp_path / "cache"
    build = command("build", tree, "--target", "cpu", "-C", "build-env=current", "-C", "disable=tests,openmp")

    def configured(*options: str, **variables: str) -> tuple[bool, str]:
        """Whether CMake ran, and the version that it knows."""
        check(
            *build, *options, "-o", tmp_path / "out", cwd=tmp_path, env=clean_environment(cache, **variables)
        )
        (folder,) = (cache / "builds").iterdir()
        entries = (folder / "source/build/CMakeCache.txt").read_text(encoding="utf-8")
        (version,) = re.findall(r"^TORCH_BUILD_VERSION:\w+=(.*)$", entries, re.MULTILINE)
        return "Configuring done" in (folder / "build.log").read_text(encoding="utf-8"), version

    assert configured() == (True, "2.14.1a0+cpu.noopenmp")
    assert configured() == (False, "2.14.1a0+cpu.noopenmp")
    assert configured("-C", "jobs=1") == (False, "2.14.1a0+cpu.noopenmp")
    assert configured(Redis_ROOT=str(tmp_path)) == (True, "2.14.1a0+cpu.noopenmp")
    assert configured("-C", "package-version=2.14.2", Redis_ROOT=str(tmp_path)) == (
        True,
        "2.14.2+cpu.noopenmp",
    )


@pytest.mark.long
@pytest.mark.parametrize("generation", GENERATIONS)
def test_another_version_and_number_of_jobs_compile_only_what_holds_the_version(
    generation: str, tmp_path: Path
) -> None:
    """The tree writes the version into one source file, for torch.__config__, as PyTorch does into macros.h."""
    tree, cache = make_tree(generation, tmp_path / "tree"), tmp_path / "cache"
    build = command("build", tree, "--target", "cpu", "-C", "build-env=current", "-C", "disable=tests,openmp")
    made = []
    for options in (
        (),
        ("-C", "package-version=2.14.2"),
        ("-C", "package-version=2.14.3", "-C", "jobs=1", "-v"),
    ):
        check(*build, *options, "-o", tmp_path / "out", cwd=tmp_path, env=clean_environment(cache))
        made.append(compiled(cache))
    assert len(made[0]) > 10
    assert made[1:] == [["BuildSettings.cpp"], ["BuildSettings.cpp"]]
