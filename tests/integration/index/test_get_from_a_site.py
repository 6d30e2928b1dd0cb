"""``torchwheel get --from SITE`` without a source tree: whose wheel is taken, and what a broken server costs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.fixtures import here, torchwheel, wide
from cli.running import Run
from fleet.sites import SiteRecipe, fleet_of
from index.web import Breaking, serving
from torchwheel.engine.cache import store_wheel
from torchwheel.fleet.site import Choices, update_site
from torchwheel.index import remote

__all__ = ["here", "torchwheel", "wide"]

SM120 = "torch-2.14.1+cu130.sm120-py3-none-linux_x86_64.whl"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with wheels for 9.0, 12.0, 9.0a and the CPU."""
    folder = tmp_path / "a site"
    update_site(folder, fleet_of(tmp_path / "built"), {}, Choices())
    return folder


@pytest.fixture
def server(site: Path) -> Iterator[tuple[str, type[Breaking]]]:
    with serving(site) as found:
        yield found


@pytest.fixture
def gpus(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts an nvidia-smi with these GPUs and this driver on PATH."""
    if sys.platform == "win32":
        pytest.skip("the stand-in is a shell script")

    def describe(*rows: str, driver: str = "590.10") -> None:
        folder = here / "bin"
        folder.mkdir(exist_ok=True)
        lines = "\n".join(rows)
        (folder / "nvidia-smi").write_text(
            f'#!/bin/sh\ncase "$*" in *driver*) echo {driver};; *) cat <<END\n{lines}\nEND\nesac\n'
        )
        (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return describe


def taken(torchwheel: Run, here: Path, *words: str | Path) -> str:
    """The label of the wheel that is in the output folder afterwards."""
    shutil.rmtree(here / "out", ignore_errors=True)
    document = torchwheel("get", *words, "-o", "out", "--json").document("get")
    (wheel,) = (here / "out").iterdir()
    assert (document["way"], document["wheel"]) == ("ready", str(wheel))
    assert document["install"].startswith("pip install ")
    return wheel.name.split("-")[1].partition("+")[2]


def refused(torchwheel: Run, here: Path, *words: str | Path) -> tuple[int, str]:
    """The status and the id of the one error; nothing is left of a wheel."""
    result = torchwheel("get", *words, "-o", "out", "--json")
    (problem,) = json.loads(result.out)["problems"]
    assert not list((here / "out").glob("*")) and not list((here / "out").glob(".*"))
    return result.status, problem["id"]


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("rtx5070", "cu130.sm120"),
        ("12.1", "cu130.sm120"),
        ("h100", "cu130.sm90"),
        ("9.0", "cu130.sm90"),
        ("cpu", "cpu"),
    ],
)
def test_a_target_takes_its_wheel(torchwheel: Run, here: Path, site: Path, target: str, label: str) -> None:
    assert taken(torchwheel, here, "--from", site, "--target", target) == label


def test_the_gpus_of_the_machine_decide(
    torchwheel: Run, here: Path, server: tuple[str, type[Breaking]], gpus: Callable[..., None]
) -> None:
    address, _ = server
    gpus("NVIDIA GeForce RTX 5070, 12.0")
    assert taken(torchwheel, here, "--from", address) == "cu130.sm120"
    gpus("NVIDIA H100, 9.0")
    assert taken(torchwheel, here, "torch", "--from", address) == "cu130.sm90"
    gpus("NVIDIA A40, 8.6")
    assert taken(torchwheel, here, "torch==2.14.1", "--from", address) == "cpu"
    gpus("NVIDIA H100, 9.0", "NVIDIA GeForce RTX 5070, 12.0")
    assert taken(torchwheel, here, "--from", address) == "cpu"
    gpus("NVIDIA GeForce RTX 5070, 12.0", driver="550.10")
    assert taken(torchwheel, here, "--from", address) == "cpu"
    gpus()
    assert taken(torchwheel, here, "--from", address) == "cpu"


def test_the_best_of_several(torchwheel: Run, here: Path, site: Path, tmp_path: Path) -> None:
    for version, code in (
        ("2.14.1+cu130.sm80", ["sm80"]),
        ("2.14.1+cu130.sm86", ["sm86"]),
        ("2.13.0+cu130.sm89", ["sm89"]),
        ("2.14.1+cu130.sm70.ptx70", ["sm70", "ptx70"]),
    ):
        update_site(site, [SiteRecipe(version, code=code).write(tmp_path / "more")], {}, Choices())
    assert taken(torchwheel, here, "--from", site, "--target", "8.6") == "cu130.sm86"
    assert taken(torchwheel, here, "--from", site, "--target", "8.9") == "cu130.sm86"
    assert taken(torchwheel, here, "torch<2.14", "--from", site, "--target", "8.9") == "cu130.sm89"
    assert taken(torchwheel, here, "--from", site, "--target", "8.0,8.6") == "cu130.sm80"
    assert taken(torchwheel, here, "--from", site, "--target", "10.0") == "cu130.sm70.ptx70"
    # What variants cannot say.
    (site / "cu130.sm90/simple/torch/torch-2.14.1+cu130.sm90-py3-none-linux_x86_64.whl").unlink()
    update_site(site, [], {}, Choices())
    assert taken(torchwheel, here, "--from", site, "--target", "h100") == "cu130.sm90a"


def test_why_others_were_passed_over(torchwheel: Run, wide: None, here: Path, site: Path) -> None:
    result = torchwheel("get", "--from", site, "--target", "rtx5070", "--dry-run")
    words = " ".join(result.out.split())
    assert f"takes {SM120} from {site} because " in words
    assert "sm_120 runs on 12.0" in words
    assert "does not run on rtx5070: torch-2.14.1+cu130.sm90-" in words
    assert "for the CPU: torch-2.14.1+cpu-" in words
    assert not (here / "dist").exists()


def test_no_wheel_for_a_machine(torchwheel: Run, here: Path, site: Path) -> None:
    assert refused(torchwheel, here, "my-ops", "--from", site, "--target", "h100") == (
        2,
        "no-wheel-for-machine",
    )
    assert refused(torchwheel, here, "--from", site, "--target", "gb10") == (2, "no-wheel-for-machine")
    assert refused(torchwheel, here, "--from", site, "--target", "rtx9999") == (2, "unknown-gpu")
    assert refused(torchwheel, here, "--from", here, "--target", "h100") == (2, "not-a-site")
    (site / "wheels.json").write_text("{}")
    assert refused(torchwheel, here, "--from", site, "--target", "h100") == (2, "malformed-site-list")


@pytest.mark.parametrize(
    ("broken", "way", "status", "problem"),
    [
        ("wheels.json", "500", 2, "site-not-readable"),
        ("wheels.json", "404", 2, "not-a-site"),
        ("wheels.json", "redirect", 2, "site-not-readable"),
        (".whl", "500", 2, "site-not-readable"),
        (".whl", "404", 3, "site-wheel-differs"),
        (".whl", "redirect", 2, "site-not-readable"),
        (".whl", "short", 3, "site-wheel-differs"),
        (".whl", "long", 3, "site-wheel-differs"),
        ("wheels.json", "endless", 2, "site-not-readable"),
        ("wheels.json", "long", 2, "malformed-site-list"),
    ],
)
def test_a_broken_server(
    torchwheel: Run,
    here: Path,
    server: tuple[str, type[Breaking]],
    broken: str,
    way: str,
    status: int,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "_SECONDS_OF_LIST", 2.0)
    monkeypatch.setattr(remote, "MOST_BYTES", 100_000)
    address, handler = server
    handler.broken, handler.way = broken, way
    # The same server under another name.
    handler.other = address.replace("127.0.0.1", "localhost")
    assert refused(torchwheel, here, "--from", address, "--target", "rtx5070") == (status, problem)
    handler.other = address
    if way == "redirect":
        return
    handler.broken = ""
    assert taken(torchwheel, here, "--from", address, "--target", "rtx5070") == "cu130.sm120"


def test_a_wheel_with_another_content(torchwheel: Run, here: Path, site: Path, tmp_path: Path) -> None:
    folder = site / "cu130.sm120" / "simple" / "torch"
    data = bytearray((folder / SM120).read_bytes())
    data[100] ^= 1
    (folder / SM120).unlink()
    (folder / SM120).write_bytes(data)
    assert refused(torchwheel, here, "--from", site, "--target", "rtx5070") == (3, "site-wheel-differs")


def test_nobody_listens(torchwheel: Run, here: Path) -> None:
    assert refused(torchwheel, here, "--from", "http://127.0.0.1:9", "--target", "cpu") == (
        2,
        "site-not-readable",
    )


def test_a_password_is_sent_and_never_shown(
    torchwheel: Run, here: Path, server: tuple[str, type[Breaking]]
) -> None:
    address, handler = server
    secret = address.replace("//", "//me:sec%40ret@")
    result = torchwheel("get", "--from", secret, "--target", "rtx5070", "-o", "out")
    assert result.status == 0 and "sec" not in result.out + result.err
    assert {authorization for _, authorization in handler.asked} == {"Basic bWU6c2VjQHJldA=="}


def test_the_store_is_not_asked(torchwheel: Run, wide: None, here: Path, site: Path, tmp_path: Path) -> None:
    """The store's wheel of this name may be another project's."""
    cache = Path(os.environ["TORCHWHEEL_CACHE_DIR"])
    cache.mkdir(mode=0o700)
    update_site(site, [SiteRecipe("1.0+cu130.sm120", name="my_ops").write(tmp_path / "a")], {}, Choices())
    wheel = SiteRecipe("1.1+cu130.sm120", name="my_ops").write(cache)
    store_wheel(cache, "key", wheel, cache / "builds" / "x", tmp_path)
    assert torchwheel("get", "my-ops", "--from", site, "--target", "rtx5070", "-o", "out").status == 0
    assert [path.name for path in (here / "out").iterdir()] == [
        "my_ops-1.0+cu130.sm120-py3-none-linux_x86_64.whl"
    ]
    result = torchwheel("get", "torch==2.14.1", "--from", site, "--target", "gtx1080ti")
    assert result.status == 2
    assert "[no-wheel-for-machine]" in result.err
    assert "[contradiction]" in torchwheel("get", "my-ops", "--from", site, "--jobs", "3").err
