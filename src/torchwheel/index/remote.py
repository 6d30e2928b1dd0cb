"""Reading a site of wheels from a folder or a web server that need not be trusted, and choosing one for a machine."""

from __future__ import annotations

import base64
import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.index.catalogue import CATALOGUE, MOST_BYTES, SiteFile, SiteWheel, parse_catalogue
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import cannot_write, folder_beside, open_file
from torchwheel.versions import parse_numbers

_SECONDS_OF_SILENCE = 15.0
_SECONDS_OF_LIST, _SECONDS_OF_WHEEL = 20.0, 60 * 60.0  # a server may answer in small bits without an end
_CHUNK = 1 << 20


def read_site(place: Path | str) -> tuple[SiteWheel, ...] | None:
    origin = f"{place}/{CATALOGUE}" if isinstance(place, str) else str(place / CATALOGUE)
    try:
        with _open_file(place, CATALOGUE) as stream:
            # One byte more than allowed shows that there are more.
            data = b"".join(_read_chunks(stream, MOST_BYTES + 1, _SECONDS_OF_LIST))
    except FileNotFoundError:
        return None
    if len(data) > MOST_BYTES:
        raise refusal("malformed-site-list", origin=origin, detail=f"it has more than {MOST_BYTES:,} bytes")
    return parse_catalogue(data, origin)


@contextmanager
def fetched_wheel(place: Path | str, file: SiteFile, folder: Path) -> Iterator[Path]:
    """A wheel of a site, of the size and hash that the site lists, in a hidden folder that the block deletes."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder_beside(folder / "torchwheel-get") as beside:
        wheel, digest = beside / file.name, hashlib.sha256()
        try:
            with _open_file(place, file.path) as stream, wheel.open("xb") as copy:
                for chunk in _read_chunks(stream, file.size + 1, _SECONDS_OF_WHEEL):
                    digest.update(chunk)
                    try:
                        copy.write(chunk)
                    except OSError as error:
                        raise TorchwheelError(cannot_write(folder / file.name, error)) from error
        except FileNotFoundError:
            raise refusal("site-wheel-differs/missing", origin=place, name=file.name) from None
        values = {"origin": place, "name": file.name}
        if (size := wheel.stat().st_size) != file.size:
            raise refusal("site-wheel-differs/size", **values, size=size, listed=file.size)
        if (found := digest.hexdigest()) != file.sha256:
            raise refusal("site-wheel-differs", **values, found=found, listed=file.sha256)
        yield wheel


@contextmanager
def _open_file(place: Path | str, path: str) -> Iterator[BinaryIO | IO[bytes]]:
    """A file of a site, to read; raises FileNotFoundError where the site has none."""
    try:
        if isinstance(place, Path):
            with open_file(place / path) as stream:
                yield stream
        else:
            request = _make_request(f"{place.rstrip('/')}/{quote(path)}")
            with _make_opener().open(request, timeout=_SECONDS_OF_SILENCE) as answer:
                yield answer
    except FileNotFoundError:
        raise
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            raise FileNotFoundError(path) from None
        said = f"the server answers {error.code} {error.reason}"
        raise refusal("site-not-readable", origin=place, path=path, reason=said) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise refusal("site-not-readable", origin=place, path=path, reason=str(reason)[:200]) from None


def _read_chunks(stream: BinaryIO | IO[bytes], most: int, seconds: float) -> Iterator[bytes]:
    # read() would wait for a whole chunk, and a slow server could keep it beyond the limit.
    read = getattr(stream, "read1", stream.read)
    end, left = time.monotonic() + seconds, most
    while left and (chunk := read(min(left, _CHUNK))):
        if time.monotonic() > end:
            raise OSError(f"it took longer than {seconds:g} seconds")
        left -= len(chunk)
        yield chunk


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follow no redirect to another host: the user trusts the named one, and may send it a password."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.netloc != old.netloc or new.scheme != old.scheme:
            raise refusal("site-not-readable/redirect", origin=req.full_url, other=new.netloc)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _make_opener() -> urllib.request.OpenerDirector:
    """What reads HTTP and HTTPS and nothing else, by way of the proxies that the environment names."""
    # urlopen() would also open file:, ftp: and data: addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
        _SameHost,
    ):
        opener.add_handler(handler())
    return opener


def _make_request(address: str) -> urllib.request.Request:
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if user:
        word = base64.b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {word}")
    return request


@dataclass(frozen=True)
class Machine:
    """What a wheel is wanted for; the tags that the interpreter takes each have their place in its order."""

    gpus: tuple[NamedGpu, ...]
    python: str
    tags: Mapping[Tag, int]
    takes_cuda: Callable[[str], bool]


@dataclass(frozen=True)
class SiteChoice:
    wheel: SiteWheel | None
    reasons: tuple[str, ...]


def choose_wheel(
    wheels: Iterable[SiteWheel], wanted: Requirement, machine: Machine, *, without_gpu: bool
) -> SiteChoice:
    """Return the newest wheel that runs on all GPUs of a machine, and of several the one that runs best.

    Args:
        without_gpu: whether a wheel without device code may be the last resort; without GPUs it is the only kind.
    """
    named = [wheel for wheel in wheels if wheel.name == canonicalize_name(wanted.name)]
    if not named:
        return SiteChoice(None, (f"no wheel of {wanted.name}",))
    passed_over: dict[str, list[str]] = {}
    able: list[SiteWheel] = []
    for wheel in named:
        if why := _why_refused(wheel, wanted, machine, without_gpu):
            passed_over.setdefault(why, []).append(wheel.file.name)
        else:
            able.append(wheel)
    # As installers do it: a pre-release only where it is asked for, or nothing else fits.
    final = [wheel for wheel in able if not wheel.version.is_prerelease]
    if not wanted.specifier.prereleases and final:
        able = final
    reasons = [f"{why}: {join_items(names, 3)}" for why, names in passed_over.items()]
    if not able:
        return SiteChoice(None, tuple(reasons))
    best = max(able, key=lambda wheel: _rank_wheel(wheel, machine))
    return SiteChoice(best, (_describe_choice(best, machine.gpus), *reasons))


def _why_refused(wheel: SiteWheel, wanted: Requirement, machine: Machine, without_gpu: bool) -> str:
    python = SpecifierSet(wheel.requires_python or "")
    if not wanted.specifier.contains(wheel.version, prereleases=True):
        return f"not {wanted.specifier}"
    if wheel.held:
        return f"held back ({wheel.held})"
    if wheel.tags.isdisjoint(machine.tags) or not python.contains(machine.python, prereleases=True):
        return "for other Pythons or platforms"
    if not machine.gpus:
        return "for GPUs" if wheel.code or wheel.cuda else ""
    if not wheel.code:
        return "" if without_gpu else "for the CPU"
    lacking = [gpu.name for gpu in machine.gpus if not wheel.verdict_on(gpu.compute_capability).how.runs]
    if lacking:
        return f"does not run on {join_items(lacking)}"
    return "" if wheel.cuda is None or machine.takes_cuda(wheel.cuda) else "for a newer driver"


def _rank_wheel(wheel: SiteWheel, machine: Machine) -> tuple[object, ...]:
    """The greater, the better: by the GPU that it runs worst on."""
    on_gpus = [wheel.verdict_on(gpu.compute_capability) for gpu in machine.gpus] if wheel.code else []
    # Of code for two earlier minor revisions, that for the later one.
    # 120 of sm_120a
    numbers = [int("".join(filter(str.isdigit, one.image or "")) or 0) for one in on_gpus]
    ranks = (-one.how.rank for one in on_gpus)
    how = min(zip(ranks, numbers, strict=True), default=(0, 0))
    tag = min(machine.tags[tag] for tag in wheel.tags & machine.tags.keys())
    torch = parse_numbers(wheel.label.partition("torch")[2])
    version = Version(wheel.version.public)
    return bool(wheel.code), version, how, parse_numbers(wheel.cuda or ""), torch, -tag


def _describe_choice(wheel: SiteWheel, gpus: Sequence[NamedGpu]) -> str:
    if wheel.code:
        return "; ".join(f"{gpu.name}: {wheel.verdict_on(gpu.compute_capability).sentence}" for gpu in gpus)
    return "no wheel has device code for the GPU, and this one needs none" if gpus else "it needs no GPU"
