"""The pages of a site of wheels: simple indexes for installers, as HTML and as JSON, and one page for people."""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from torchwheel.hardware.architecture import known_architectures
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.index.catalogue import SiteFile, SiteWheel
from torchwheel.wheel.variant import OLDEST_UV

_VERSION = "1.1"  # https://packaging.python.org/specifications/simple-repository-api/
_HTML, _JSON = "index.html", "index.json"
_ADDRESS = "ADDRESS"


@dataclass(frozen=True)
class PageFile:
    """A file on a page of an index; ``yanked`` is why installers leave it out unless it is pinned."""

    path: str
    size: int
    sha256: str
    metadata_sha256: str | None = None
    requires_python: str | None = None
    yanked: str = ""

    @classmethod
    def of(cls, wheel: SiteWheel, file: SiteFile) -> PageFile:
        return cls(file.path, file.size, file.sha256, file.metadata_sha256, wheel.requires_python, wheel.held)

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    def link(self, page: str) -> str:
        """The element of an HTML page. Sources: PEP 503, PEP 592, and PEP 658 with its name of before PEP 714."""
        metadata = self.metadata_sha256 and f"sha256={self.metadata_sha256}"
        attributes = {
            "href": f"{self._address(page)}#sha256={self.sha256}",
            "data-requires-python": self.requires_python,
            "data-core-metadata": metadata,
            "data-dist-info-metadata": metadata,
            "data-yanked": self.yanked,
        }
        text = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items() if value)
        return f"<a {text}>{escape(self.name)}</a><br>"

    @property
    def version(self) -> str:
        return self.name.split("-")[1]

    def _address(self, page: str) -> str:
        return quote(posixpath.relpath(self.path, page))

    def document(self, page: str) -> dict[str, object]:
        optional = {
            "requires-python": self.requires_python,
            "core-metadata": self.metadata_sha256 and {"sha256": self.metadata_sha256},
            "yanked": self.yanked,
        }
        return {
            "filename": self.name,
            "url": self._address(page),
            "size": self.size,
            "hashes": {"sha256": self.sha256},
            **{key: value for key, value in optional.items() if value},
        }


def project_page(page: str, files: Sequence[PageFile]) -> dict[str, str]:
    name = posixpath.basename(page)
    ordered = sorted(files, key=lambda file: file.name)
    versions = sorted({file.version for file in files})
    document = {"name": name, "versions": versions, "files": [file.document(page) for file in ordered]}
    return _index_page(name, [file.link(page) for file in ordered], document)


def root_page(names: Iterable[str]) -> dict[str, str]:
    ordered = sorted(names)
    links = [f'<a href="{quote(name)}/">{escape(name)}</a><br>' for name in ordered]
    return _index_page("Simple index", links, {"projects": [{"name": name} for name in ordered]})


def newest_versions(wheels: Iterable[SiteWheel]) -> list[str]:
    newest = {wheel.name: wheel.version for wheel in sorted(wheels, key=lambda one: one.version)}
    return [f"{name}=={version}" for name, version in sorted(newest.items())]


def _index_page(title: str, links: Iterable[str], document: Mapping[str, object]) -> dict[str, str]:
    head = f'<meta charset="utf-8"><meta name="pypi:repository-version" content="{_VERSION}">'
    text = json.dumps({"meta": {"api-version": _VERSION}, **document}, indent=1) + "\n"
    return {_HTML: _html_page(title, links, head), _JSON: text}


def _html_page(title: str, body: Iterable[str], head: str) -> str:
    lines = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<title>{escape(title)}</title></head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{lines}\n</body></html>\n"
    )


_HEAD = """<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
pre{background:#f4f4f4;padding:.6em;white-space:pre-wrap}</style>"""
# A page's address is known only in the browser.
_SCRIPT = """<script>
for (const element of document.querySelectorAll("var"))
  element.textContent = new URL(".", location.href).href.replace(/\\/$/, "");
</script>"""


def people_page(wheels: Sequence[SiteWheel]) -> str:
    body = []
    if any(wheel.variant for wheel in wheels):
        names = sorted({wheel.name for wheel in wheels if wheel.variant})
        command = f"uv pip install --preview-features wheel-variants --index {_ADDRESS}/simple"
        body += [
            "<h2>uv chooses by the GPU</h2>",
            f"<p>With wheel variants, which are a draft: uv {OLDEST_UV} or newer needs "
            "<code>--preview-features wheel-variants</code>. uv locks none of them: see "
            "<a href='#lock'>Projects that uv locks</a>.</p>",
            _format_block(f"{command} {name}" for name in names),
        ]
    body.append(
        "<p>Each label has an index of its own. The line for your GPU installs a version with that label, which no "
        "other index has.</p>"
    )
    labels = sorted({wheel.label for wheel in wheels if wheel.label})
    for label in labels:
        own = [wheel for wheel in wheels if wheel.label == label]
        body += [f"<h2>{escape(label)}</h2>", f"<p>{escape(_describe_hardware(own[0]))}</p>"]
        # An extension's label starts with the hardware's label, which its PyTorch has.
        indexes = [label, *(other for other in labels if label.startswith(f"{other}."))]
        body += [_install_lines(pinned, indexes) for pinned in newest_versions(own)]
    body += _lock_recipe(wheels)
    if companions := sorted({wheel.name for wheel in wheels if not wheel.label}):
        body += ["<h2>Companions</h2>", f"<p>Every index also has {escape(', '.join(companions))}.</p>"]
    return _html_page("Wheels", [*body, _SCRIPT], _HEAD)


def _lock_recipe(wheels: Sequence[SiteWheel]) -> list[str]:
    """The lines of a pyproject.toml with an extra for each label; uv lock and uv sync refuse variants."""
    labels: dict[str, list[str]] = defaultdict(list)
    for label, project in sorted({(wheel.label, wheel.name) for wheel in wheels if wheel.label}):
        labels[project].append(label)
    name = max(labels, key=lambda one: (len(labels[one]), one == "torch"), default="")
    if len(labels[name]) < 2:
        return []
    extras = {label.replace(".", "-"): label for label in labels[name]}
    conflicts = ", ".join(f'{{ extra = "{extra}" }}' for extra in extras)
    lines = ["[project.optional-dependencies]", *(f'{extra} = ["{name}"]' for extra in extras)]
    lines += ["", "[tool.uv]", f"conflicts = [[{conflicts}]]", "", "[tool.uv.sources]", f"{name} = ["]
    lines += [*(f'  {{ index = "{extra}", extra = "{extra}" }},' for extra in extras), "]"]
    for extra, label in extras.items():
        lines += ["", "[[tool.uv.index]]", f'name = "{extra}"']
        lines += [f'url = "{_ADDRESS}/{label}/simple"', "explicit = true"]
    first = next(iter(extras))
    return [
        "<h2 id='lock'>Projects that uv locks</h2>",
        "<p>An extra for each label; the lock file has the hashes of all. Its machine chooses with "
        f"<code>uv sync --extra {escape(first)}</code>.</p>",
        _format_block(lines),
    ]


def _install_lines(pinned: str, indexes: Sequence[str]) -> str:
    ways = (("pip install", "--extra-index-url"), ("uv pip install", "--index"))
    return _format_block(
        " ".join((command, pinned, *(f"{option} {_ADDRESS}/{index}/simple" for index in indexes)))
        for command, option in ways
    )


def _format_block(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>".replace(_ADDRESS, f"<var>{_ADDRESS}</var>")


def _describe_hardware(wheel: SiteWheel) -> str:
    if not wheel.code:
        return "For machines without an NVIDIA GPU, and for those whose GPU none of the others is for."
    known = (one.capability for one in known_architectures() if not one.renamed_to)
    able = [one for one in known if wheel.verdict_on(one).how.runs]
    titles = [gpu.title for gpu in read_gpus() if gpu.compute_capability in able]
    driver = f"; the driver must support CUDA {wheel.cuda}" if wheel.cuda else ""
    capabilities = ", ".join(one.dotted for one in able)
    return f"For compute capability {capabilities}: {', '.join(titles)}{driver}."
