"""A site behind nginx, from which pip, uv and ``torchwheel get`` install."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from answered import answered
from fleet.sites import SiteRecipe, fleet_of
from index.web import nginx
from torchwheel.fleet.site import Choices, update_site

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="Debian's nginx")]

UV = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
PIP = [sys.executable, "-m", "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check", "install"]
SM120 = "cu130.sm120/simple/torch/torch-2.14.1+cu130.sm120-py3-none-linux_x86_64.whl"
# What a server needs to answer with JSON whoever asks for it.
JSON = """
    add_header Vary Accept;
    location ~ /simple/([^/]*/)?$ {
      if ($http_accept ~ "application/vnd.pypi.simple.v1\\+json") { rewrite ^(.*)$ $1index.json last; }
    }
    location ~ /simple/.*index\\.json$ { types { application/vnd.pypi.simple.v1+json json; } }
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "a site"
    update_site(folder, fleet_of(tmp_path / "built"), {}, Choices(variants=True))
    return folder


@pytest.fixture
def address(site: Path, tmp_path: Path) -> Iterator[str]:
    with nginx(site, tmp_path / "nginx") as found:
        yield found


def run(folder: Path, *command: str) -> tuple[int, str, str]:
    """The status of an installer, the label of the torch that it installed, and what it said."""
    target = folder / "installed"
    shutil.rmtree(target, ignore_errors=True)
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    python = ("--python", sys.executable, "--no-cache", "--no-config") if command[0] == UV else ()
    done = answered(
        [*command, *python, "--target", str(target)],
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "UV_HTTP_RETRIES": "0"},
    )
    found: dict[str, str] = {"__version__": "+"}
    if (target / "torch").exists():
        exec((target / "torch" / "version.py").read_text(), found)
    return done.returncode, found["__version__"].partition("+")[2], done.stdout + done.stderr


def installers() -> Iterator[tuple[str, list[str], str]]:
    """Each with its way of naming an index beside the default one."""
    yield "pip", PIP, "--extra-index-url"
    if UV is not None:
        yield "uv", [UV, "pip", "install"], "--index"


INSTALLERS = pytest.mark.parametrize(
    ("command", "option"), [(c, o) for _, c, o in installers()], ids=[name for name, _, _ in installers()]
)


@INSTALLERS
@pytest.mark.parametrize("kind", ["html", "json"])
def test_the_pages_are_read(command: list[str], option: str, kind: str, site: Path, tmp_path: Path) -> None:
    # The one that is not to be read is no page.
    other = "json" if kind == "html" else "html"
    (site / f"cu130.sm120/simple/torch/index.{other}").write_text("!")
    location = JSON if kind == "json" else ""
    with nginx(site, tmp_path / "nginx", location) as address:
        status, found, said = run(tmp_path, *command, "torch", "--index-url", f"{address}/cu130.sm120/simple")
        assert (status, found) == (0, "cu130.sm120"), said
        for accept in ("text/html", "application/vnd.pypi.simple.v1+json") if location else ():
            page = Request(f"{address}/cu130.sm120/simple/torch/", headers={"Accept": accept})
            with urlopen(page) as answer:
                assert (answer.headers["Content-Type"], answer.headers["Vary"]) == (accept, "Accept")
    assert ".whl.metadata HTTP" in (tmp_path / "nginx/access.log").read_text()


@INSTALLERS
def test_a_stranger_with_a_higher_version_changes_nothing(
    command: list[str], option: str, address: str, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    update_site(stranger, [SiteRecipe("99.0+cpu", code=()).write(tmp_path / "x")], {}, Choices())
    with nginx(stranger, tmp_path / "other") as other:
        words = ("--index-url", f"{other}/cpu/simple", option, f"{address}/cu130.sm120/simple")
        constraints = ("-c", f"{address}/cu130.sm120/constraints.txt")
        status, found, said = run(tmp_path, *command, "torch", *constraints, *words)
        assert (status, found) == (0, "cu130.sm120"), said
        # Without constraints it is uv alone whose first index with a package decides.
        status, found, said = run(tmp_path, *command, "torch", *words)
        assert found == ("cpu" if command is PIP else "cu130.sm120")


@pytest.mark.long
@INSTALLERS
@pytest.mark.parametrize("how", ["another", "short"])
def test_another_wheel_is_not_installed(
    command: list[str], option: str, how: str, address: str, site: Path, tmp_path: Path
) -> None:
    data = (site / SM120).read_bytes()
    (site / SM120).unlink()
    other = SiteRecipe(content="x = 1").write(tmp_path / "other").read_bytes()
    (site / SM120).write_bytes(data[:-1] if how == "short" else other)
    status, found, said = run(tmp_path, *command, "torch", "--index-url", f"{address}/cu130.sm120/simple")
    assert (status != 0, found) == (True, ""), said
    assert how == "short" or "hash" in said.lower()


@INSTALLERS
def test_a_server_that_fails(command: list[str], option: str, site: Path, tmp_path: Path) -> None:
    with nginx(site, tmp_path / "nginx", "    location ~ \\.whl$ { return 500; }") as address:
        index = f"{address}/cu130.sm120/simple"
        retries = ("--retries", "0") if command is PIP else ()
        status, found, said = run(tmp_path, *command, "torch", "--index-url", index, *retries)
        assert (status != 0, found) == (True, ""), said
        assert "500" in said


@pytest.mark.skipif(UV is None, reason="uv is not here")
def test_the_lines_of_the_page_can_be_locked(address: str, site: Path, tmp_path: Path) -> None:
    text = unescape(re.sub("<[^>]+>", "", (site / "index.html").read_text()))
    lines = re.findall(r"\[project.optional-dependencies\].*explicit = true", text, re.DOTALL)[0]
    project = tmp_path / "project"
    project.mkdir()
    head = '[project]\nname = "app"\nversion = "1.0"\nrequires-python = ">=3.10"\n'
    (project / "pyproject.toml").write_text(head + lines.replace("ADDRESS", address))
    environment = {"UV_NO_CONFIG": "1", "UV_NO_CACHE": "1", "UV_PYTHON": sys.executable}
    kept = {key: os.environ[key] for key in ("HOME", "PATH") if key in os.environ}
    for words in (("lock",), ("sync", "--extra", "cu130-sm90"), ("sync", "--extra", "cu130-sm120")):
        command = [str(UV), *words, "--project", str(project)]
        done = answered(command, env={**kept, **environment})
        assert done.returncode == 0, done.stderr
        if words[0] == "sync":
            (version,) = project.glob(".venv/lib/*/site-packages/torch/version.py")
            assert f"+{words[2].replace('-', '.')}'" in version.read_text()
