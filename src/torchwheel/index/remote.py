"""Reading a site of wheels from a folder or a web server that need not be trusted."""

from __future__ import annotations

import base64
import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from torchwheel.index.catalogue import CATALOGUE, MOST_BYTES, SiteFile, SiteWheel, parse_catalogue
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.files import cannot_write, folder_beside, open_file

_SECONDS_OF_SILENCE = 15.0
_SECONDS_OF_LIST, _SECONDS_OF_WHEEL = 20.0, 60 * 60.0  # a server may answer in small bits without an end
_CHUNK = 1 << 20


def read_site(place: Path | str) -> tuple[SiteWheel, ...]:
    origin = f"{place}/{CATALOGUE}" if isinstance(place, str) else str(place / CATALOGUE)
    try:
        with _open_file(place, CATALOGUE) as stream:
            # One byte more than allowed shows that there are more.
            data = b"".join(_read_chunks(stream, MOST_BYTES + 1, _SECONDS_OF_LIST))
    except FileNotFoundError:
        raise refusal("not-a-site", origin=place) from None
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
