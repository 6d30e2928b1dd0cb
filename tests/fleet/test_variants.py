"""Wheel variants of a site, chosen by the real uv for GPUs that are described to it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.version import Version

from fleet.sites import SiteRecipe, fleet_of
from torchwheel.fleet.site import update_site
from torchwheel.hardware.architecture import Architecture
from torchwheel.verification.outcome import Outcome
from torchwheel.verification.verify import read_subject, run_checks
from torchwheel.wheel import variant
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.variant import properties_of
from wheel_samples import agrees_with_record, compressed

UV = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
FORCED_GPU, FORCED_DRIVER = (
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH",
    "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION",
)


def reads_variants() -> bool:
    """Whether uv is one that knows this form of variants."""
    if UV is None:
        return False
    said = subprocess.run([UV, "--version"], capture_output=True, encoding="utf-8", check=True).stdout
    return Version(said.split()[1]) >= Version("0.13.9")


real_uv = pytest.mark.skipif(not reads_variants(), reason="uv 0.13.9 or newer is not here")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server for the site in the test's folder."""
    handler = functools.partial(Quiet, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def installed(folder: Path, address: str, machine: Mapping[str, str], *more: str, name: str = "torch") -> str:
    """The version that a module has of itself, once uv installed it."""
    target = folder / "installed"
    shutil.rmtree(target, ignore_errors=True)
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        [
            str(UV), "pip", "install", "--preview-features", "wheel-variants", "--index-url", f"{address}/simple",
            "--python", sys.executable, "--target", str(target), "--no-cache", name, *more,
        ],
        env={**kept, "UV_NO_CONFIG": "1", **machine},
        capture_output=True,
        encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = {}
    exec((target / name / "version.py").read_text(), found)
    assert (target / f"{name}-{Version(found['__version__']).public}.dist-info").is_dir()
    return found["__version__"].partition("+")[2]


def forced(gpu: str, driver: str = "13.1") -> dict[str, str]:
    return {FORCED_GPU: gpu, FORCED_DRIVER: driver}


@real_uv
@pytest.mark.slow
def test_every_machine_takes_its_own(tmp_path: Path, address: str) -> None:
    update_site(tmp_path / "site", fleet_of(tmp_path / "dist"), {}, variants=True)
    machines = {
        "9.0": "cu130.sm90",
        "12.0": "cu130.sm120",
        "12.1": "cu130.sm120",
        "8.6": "cpu",
        "10.0": "cpu",
    }
    assert {gpu: installed(tmp_path, address, forced(gpu)) for gpu in machines} == machines
    assert installed(tmp_path, address, forced("12.0", driver="12.8")) == "cpu"
    assert installed(tmp_path, address, {}) == "cpu"


@real_uv
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_of_several_gpus_the_newest_decides(tmp_path: Path, address: str) -> None:
    """That is uv's choice; `torchwheel get` looks at all of them."""
    update_site(tmp_path / "site", fleet_of(tmp_path / "dist"), {}, variants=True)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$*" in\n  *compute_cap*) echo 9.0; echo 12.0;;\n  *driver_version*) echo 580.1;;\n'
        "  *) echo 'CUDA Version : 13.0';;\nesac\n"
    )
    program.chmod(0o755)
    machine = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    assert installed(tmp_path, address, machine) == "cu130.sm120"


@real_uv
@pytest.mark.slow
def test_uv_takes_what_it_is_believed_to_take(tmp_path: Path, address: str) -> None:
    """The model of NVIDIA's provider in wheel/variant.py against the one that uv has built in."""
    made = {
        "cu130.sm80": ["sm80"],
        "cu130.sm86.ptx86": ["sm86", "ptx86"],
        "cu130.sm70.ptx90": ["sm70", "ptx90"],
    }
    for label, code in made.items():
        shutil.rmtree(tmp_path / "site", ignore_errors=True)
        cpu = SiteRecipe("2.14.1+cpu", code=()).write(tmp_path / "dist")
        wheel = SiteRecipe(f"2.14.1+{label}", code=code).write(tmp_path / "dist")
        update_site(tmp_path / "site", [cpu, wheel], {}, variants=True)
        values = properties_of(inspect_wheel(wheel), "13.0")[0] or {}
        for gpu in ("7.0", "8.0", "8.6", "9.0", "12.0"):
            believed = variant._installer_takes(values["sm_arch"], Architecture.of(gpu))
            assert installed(tmp_path, address, forced(gpu)) == (label if believed else "cpu"), (label, gpu)


@real_uv
@pytest.mark.slow
def test_without_the_list_of_variants_nothing_is_installed(tmp_path: Path, address: str) -> None:
    update_site(tmp_path / "site", fleet_of(tmp_path / "dist"), {}, variants=True)
    (tmp_path / "site/simple/torch/torch-2.14.1-variants.json").unlink()
    with pytest.raises(AssertionError, match=r"variants\.json"):
        installed(tmp_path, address, forced("12.0"))
    assert not (tmp_path / "installed" / "torch").exists()


def test_a_variant_is_the_wheel_with_another_name(tmp_path: Path) -> None:
    plain = SiteRecipe().write(tmp_path / "dist")
    update_site(tmp_path / "site", [plain], {}, variants=True)
    folder = tmp_path / "site/simple/torch"
    made = folder / "torch-2.14.1-py3-none-any-cu130.sm120.whl"
    properties = {"nvidia": {"sm_arch": ["120_real"], "cuda_version_lower_bound": ["13.0"]}}
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {
            "nvidia": {
                "requires": ["nvidia-variant-provider"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            }
        },
        "variants": {"cu130.sm120": properties},
    }
    assert json.loads((folder / "torch-2.14.1-variants.json").read_bytes()) == document
    members, own = compressed(made), compressed(plain)
    libraries = [name for name in own if not name.startswith("torch-")]
    assert {name: members[name][0] for name in libraries} == {name: own[name][0] for name in libraries}
    renamed = tmp_path / "torch-2.14.1-py3-none-any.whl"
    shutil.copyfile(made, renamed)
    assert agrees_with_record(renamed)
    contents = inspect_wheel(renamed)
    assert (contents.metadata.version, contents.torch_version and contents.torch_version.version) == (
        "2.14.1",
        "2.14.1+cu130.sm120",
    )
    with zipfile.ZipFile(made) as archive:
        assert json.loads(archive.read("torch-2.14.1.dist-info/variant.json")) == document


@pytest.mark.parametrize(
    ("code", "tag", "values"),
    [
        (["sm120"], "py3-none-any", ("120_real",)),
        (["sm80", "sm90", "ptx90"], "py3-none-any", ("80_real", "90_real", "90_virtual")),
        (["sm90", "sm90a"], "py3-none-any", ("90_real",)),
        (["sm90a"], "py3-none-any", None),
        (["sm100f"], "py3-none-any", None),
        (["ptx86"], "py3-none-any", None),
        # Orin is 8.7, and runs no code of other GPUs.
        (["sm80"], "cp311-cp311-linux_x86_64", ("80_real",)),
        (["sm80"], "cp311-cp311-linux_aarch64", None),
        (["sm90"], "cp311-cp311-linux_aarch64", ("90_real",)),
    ],
)
def test_what_can_be_said(code: list[str], tag: str, values: tuple[str, ...] | None, tmp_path: Path) -> None:
    contents = inspect_wheel(SiteRecipe(code=code, tag=tag).write(tmp_path))
    properties, why = properties_of(contents, "13.0")
    assert properties == (
        None if values is None else {"sm_arch": values, "cuda_version_lower_bound": ("13.0",)}
    )
    assert bool(why) is (values is None)


def test_code_that_one_library_lacks_is_not_offered(tmp_path: Path) -> None:
    """A GPU needs all libraries, and the properties name what any of them has."""
    more = {"torch/lib/libmore.so": SiteRecipe(code=["sm90"]).library()}
    recipe = SiteRecipe("2.14.1+cu130.sm80.sm90", code=["sm80"], more=more)
    contents = inspect_wheel(recipe.write(tmp_path))
    properties, why = properties_of(contents, "13.0")
    assert properties is None and "8.0" in why and "9.0" in why


def offered(folder: Path, *recipes: SiteRecipe) -> dict[str, str]:
    """The variants of a site by label, and of the others why not."""
    done = update_site(folder / "site", [one.write(folder / "dist") for one in recipes], {}, variants=True)
    return {wheel.label: wheel.no_variant for wheel in done.wheels}


def test_one_build_for_each_torch(tmp_path: Path) -> None:
    def kernels(torch: str, code: str = "sm120") -> SiteRecipe:
        return SiteRecipe(f"1.2+cu130.{code}.torch{torch}", name="my_ops", code=[code])

    found = offered(tmp_path, kernels("2.9"), kernels("2.14"), kernels("2.9", "sm90"))
    newest = "my_ops-1.2+cu130.sm120.torch2.14-py3-none-any.whl"
    assert found == {
        "cu130.sm120.torch2.9": f"an installer cannot tell it from {newest}",
        "cu130.sm120.torch2.14": "",
        "cu130.sm90.torch2.9": "",
    }


def test_a_variant_that_is_no_more_the_best_is_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "site/simple/my-ops"
    for torch in ("2.9", "2.14"):
        offered(tmp_path, SiteRecipe(f"1.2+cu130.sm120.torch{torch}", name="my_ops"))
        assert [path.name for path in folder.glob("*.whl")] == [
            f"my_ops-1.2-py3-none-any-cu130.sm120.torch{torch}.whl"
        ]


def test_what_is_installed_of_a_variant_is_what_its_manifest_says(tmp_path: Path) -> None:
    offered(tmp_path, SiteRecipe("1.2+cu130.sm120.torch2.14", name="my_ops"))
    (made,) = (tmp_path / "site/simple/my-ops").glob("*.whl")
    plain = tmp_path / "my_ops-1.2-py3-none-any.whl"
    shutil.copyfile(made, plain)
    found = list(run_checks(read_subject(plain), {}, install=False))
    assert [problem.id for check in found for problem in check.problems] == []
    assert {check.name: check.outcome for check in found}["manifest"] is Outcome.PASSED
