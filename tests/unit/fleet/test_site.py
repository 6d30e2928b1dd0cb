"""Sites of wheels: what enters, what is written again, and what installers read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fleet.sites import SiteRecipe, fleet_of
from refusals import ids_of
from torchwheel.fleet.site import Choices, SiteUpdate, update_site

SM120 = "cu130.sm120/simple/torch/torch-2.14.1+cu130.sm120-py3-none-linux_x86_64.whl"


def update(site: Path, *sources: Path, variants: bool = False, choices: Choices | None = None) -> SiteUpdate:
    return update_site(site, sources, {}, choices or Choices(variants=variants))


def refused(site: Path, *sources: Path, choices: Choices | None = None) -> list[str]:
    return ids_of(update, site, *sources, choices=choices)


def state(site: Path) -> dict[str, tuple[int, int]]:
    """When each file was written last, and its inode."""
    files = (path for path in site.rglob("*") if path.is_file())
    return {str(path.relative_to(site)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


class Links(HTMLParser):
    """The links of a page, with their attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[dict[str, str | None]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_label_has_an_index(tmp_path: Path) -> None:
    wheels = fleet_of(tmp_path / "dist")
    site = tmp_path / "site"
    done = update(site, tmp_path / "dist")
    labels = ("cpu", "cu130.sm120", "cu130.sm90", "cu130.sm90a")
    assert sorted(done.added) == [
        f"{label}/simple/torch/torch-2.14.1+{label}-py3-none-linux_x86_64.whl" for label in labels
    ]
    assert sorted(path.name for path in site.iterdir() if path.is_dir()) == list(labels)
    wheel, folder = wheels[1], site / "cu130.sm120" / "simple" / "torch"
    assert (folder / wheel.name).samefile(wheel)
    metadata = (folder / f"{wheel.name}.metadata").read_bytes()
    assert metadata.startswith(b"Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1+cu130.sm120\n")
    (link,) = Links(folder / "index.html").links
    said = hashlib.sha256(metadata).hexdigest()
    assert link == {
        "href": f"{wheel.name.replace('+', '%2B')}#sha256={sha256(wheel)}",
        "data-requires-python": ">=3.10",
        "data-core-metadata": f"sha256={said}",
        "data-dist-info-metadata": f"sha256={said}",
    }
    document = json.loads((folder / "index.json").read_bytes())
    assert document == {
        "meta": {"api-version": "1.1"},
        "name": "torch",
        "versions": ["2.14.1+cu130.sm120"],
        "files": [
            {
                "filename": wheel.name,
                "url": wheel.name.replace("+", "%2B"),
                "size": wheel.stat().st_size,
                "hashes": {"sha256": sha256(wheel)},
                "requires-python": ">=3.10",
                "core-metadata": {"sha256": said},
            }
        ],
    }
    root = folder.parent
    assert [link["href"] for link in Links(root / "index.html").links] == ["torch/"]
    assert json.loads((root / "index.json").read_bytes())["projects"] == [{"name": "torch"}]


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    site, dist = tmp_path / "site", tmp_path / "dist"
    fleet_of(dist)
    update(site, dist, variants=True)
    before = state(site)
    assert update(site, dist).added == ()
    assert state(site) == before
    SiteRecipe("2.13.0+cu130.sm90", code=["sm90"]).write(dist)
    (added,) = update(site, dist).added
    changed = {path for path, when in state(site).items() if before.get(path) != when}
    folder = "cu130.sm90/simple/torch"
    variant = "simple/torch/torch-2.13.0-py3-none-linux_x86_64-cu130.sm90.whl"
    assert changed == {
        added,
        f"{added}.metadata",
        variant,
        f"{variant}.metadata",
        "simple/torch/torch-2.13.0-variants.json",
        *(f"{one}/index.{kind}" for one in (folder, "simple/torch") for kind in ("html", "json")),
        "wheels.json",
    }


def test_no_wheel_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, dist = tmp_path / "site", tmp_path / "dist"
    fleet_of(dist)
    update(site, dist, variants=True)

    def read(*_: object) -> Any:
        raise AssertionError("a wheel is read")

    for name in ("inspect_wheel", "file_sha256", "write_variant"):
        monkeypatch.setattr(f"torchwheel.fleet.site.{name}", read)
    assert len(update(site, dist).wheels) == 4
    assert len(update(site).wheels) == 4


def test_a_wheel_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, SiteRecipe().write(tmp_path / "dist"))
    before = state(site)
    other = SiteRecipe(content="x = 1").write(tmp_path / "other")
    good = SiteRecipe("2.14.1+cpu", code=()).write(tmp_path / "good")
    assert refused(site, good, other) == ["wheel-has-other-content"]
    assert state(site) == before
    twice = SiteRecipe(content="x = 2").write(tmp_path / "twice")
    assert refused(tmp_path / "new", twice, other) == ["wheel-has-other-content"]


def test_a_wheel_of_the_site_that_was_changed_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, SiteRecipe().write(tmp_path / "dist"))
    other = SiteRecipe(content="x = 1").write(tmp_path / "other")
    (site / SM120).unlink()
    (site / SM120).write_bytes(other.read_bytes())
    assert refused(site) == ["wheel-has-other-content"]


def test_a_wheel_in_another_place_of_the_site_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, SiteRecipe().write(tmp_path / "dist"))
    SiteRecipe("2.14.1+cu130.sm90", code=["sm90"]).write(site / "cu130.sm120/simple/torch")
    assert refused(site) == ["wheel-in-another-place"]


def test_only_what_is_proved_enters(tmp_path: Path) -> None:
    site = tmp_path / "site"
    false = SiteRecipe("2.14.1+cu130.sm90", code=["sm120"]).write(tmp_path / "false")
    plain = SiteRecipe("2.14.1").write(tmp_path / "plain")
    broken = SiteRecipe().write(tmp_path / "broken")
    broken.write_bytes(broken.read_bytes()[:-30])
    good = SiteRecipe("2.14.1+cpu", code=()).write(tmp_path / "good")
    assert sorted(refused(site, tmp_path / "false", plain, broken, good)) == [
        "damaged-wheel",
        "label-not-proved",
        "wheel-without-label",
    ]
    assert [path.name for path in site.iterdir()] == [".torchwheel.lock"]
    assert false.is_file()


def test_a_wheel_is_withdrawn_by_deleting_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, *fleet_of(tmp_path / "dist"), variants=True)
    (site / SM120).unlink()
    assert update(site).removed == (SM120,)
    assert Links(site / "cu130.sm120/simple/torch/index.html").links == []
    assert Links(site / "cu130.sm120/simple/index.html").links == []
    assert (site / "cu130.sm120/constraints.txt").read_text() == ""
    left = [path.name for path in (site / "cu130.sm120/simple/torch").iterdir()]
    assert sorted(left) == ["index.html", "index.json"]
    listed = json.loads((site / "simple/torch/torch-2.14.1-variants.json").read_bytes())
    assert sorted(listed["variants"]) == ["cu130.sm90", "null"]
    assert not list((site / "simple/torch").glob("*sm120*"))
    assert "cu130.sm120" not in (site / "index.html").read_text()


def test_a_release_is_withdrawn_with_all_that_describes_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, SiteRecipe().write(tmp_path / "dist"), variants=True)
    (site / SM120).unlink()
    update(site)
    left = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    indexes = ("cu130.sm120/simple", "cu130.sm120/simple/torch", "simple", "simple/torch")
    pages = {f"{index}/index.{kind}" for index in indexes for kind in ("html", "json")}
    pins = {"cu130.sm120/constraints.txt"}
    assert left == pages | pins | {".torchwheel.lock", "index.html", "wheels.json"}
    for index in ("cu130.sm120/simple", "simple"):
        assert (
            Links(site / index / "index.html").links == Links(site / index / "torch/index.html").links == []
        )


@pytest.mark.skipif(sys.platform == "win32", reason="a link takes a right there")
def test_a_link_to_a_wheel_becomes_the_wheel(tmp_path: Path) -> None:
    site, wheel = tmp_path / "site", SiteRecipe().write(tmp_path / "dist")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / wheel.name).symlink_to(wheel)
    update(site, tmp_path / "links")
    assert not (site / SM120).is_symlink() and (site / SM120).samefile(wheel)


def test_a_damaged_list_is_refused_and_a_missing_one_costs_the_proofs_again(tmp_path: Path) -> None:
    """It knows which releases were withdrawn."""
    site = tmp_path / "site"
    update(site, *fleet_of(tmp_path / "dist"))
    whole = (site / "wheels.json").read_bytes()
    (site / "wheels.json").write_bytes(whole[:-100])
    assert refused(site) == ["malformed-site-list"]
    (site / "wheels.json").unlink()
    update(site)
    assert (site / "wheels.json").read_bytes() == whole


def test_a_folder_that_is_no_site_is_not_touched(tmp_path: Path) -> None:
    dist, other = tmp_path / "dist", tmp_path / "other"
    wheel = SiteRecipe().write(dist)
    other.mkdir()
    (other / "index.html").write_text("mine")
    before = state(tmp_path)
    assert refused(dist, dist) == ["not-a-folder-for-a-site"]
    assert refused(other, wheel) == ["not-a-folder-for-a-site"]
    assert refused(tmp_path / "new", other) == ["no-wheels-in-folder"]
    assert refused(tmp_path / "new", tmp_path / "nowhere") == ["unreadable-file"]
    assert refused(tmp_path / "new") == ["not-a-site"]
    assert state(tmp_path) == before and not (tmp_path / "new").exists()
    update(tmp_path / "site", dist)
    assert refused(tmp_path / "site", tmp_path / "site") == ["not-a-folder-for-a-site"]


def test_recorded_hashes_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, dist = tmp_path / "site", tmp_path / "dist"
    wheels = fleet_of(dist)
    update(site, dist)
    for wheel in (*wheels, *site.rglob("*.whl")):
        data = wheel.read_bytes()
        wheel.unlink()
        wheel.write_bytes(data)
        os.utime(wheel, (0, 0))
    monkeypatch.setattr("torchwheel.fleet.site.run_checks", None)
    assert update(site, dist).added == ()
    monkeypatch.setattr("torchwheel.fleet.site.file_sha256", None)
    for wheel in wheels:
        os.utime(wheel, (1, 1))
    assert update(site, dist).added == ()


def test_the_page_for_people(tmp_path: Path) -> None:
    site = tmp_path / "site"
    kernels = SiteRecipe("1.2+cu130.sm120.torch2.14", name="my_ops").write(tmp_path / "dist")
    update(site, *fleet_of(tmp_path / "dist"), kernels, variants=True)
    text = re.sub("<[^>]+>", "", (site / "index.html").read_text())
    assert "GeForce RTX 5070" in text and "12.0, 12.1" in text
    version = "torch==2.14.1+cu130.sm120"
    assert f"pip install {version} --extra-index-url ADDRESS/cu130.sm120/simple" in text
    assert f"uv pip install {version} --index ADDRESS/cu130.sm120/simple" in text
    assert "uv pip install --preview-features wheel-variants --index ADDRESS/simple torch" in text
    kernels_index = "ADDRESS/cu130.sm120.torch2.14/simple --index ADDRESS/cu130.sm120/simple"
    assert f"uv pip install my-ops==1.2+cu130.sm120.torch2.14 --index {kernels_index}" in text


def test_an_interrupted_run_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, dist = tmp_path / "site", tmp_path / "dist"
    SiteRecipe("2.13.0+cu130.sm120").write(dist)
    update(site, dist, variants=True)
    pages = {path: path.read_bytes() for path in site.rglob("index.*")}
    fleet_of(dist)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("torchwheel.fleet.site._write_pages", fail)
        assert refused(site, dist) == ["cannot-write"]
    assert {path: path.read_bytes() for path in pages} == pages
    update(site, dist)
    update(tmp_path / "other", dist, variants=True)
    made = (
        {path.relative_to(one).as_posix(): path.read_bytes() for path in one.rglob("index.*")}
        for one in (site, tmp_path / "other")
    )
    assert next(made) == next(made)
