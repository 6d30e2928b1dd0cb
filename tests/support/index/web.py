"""Web servers for sites: nginx as it is installed, and one that breaks what it serves."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
CONFIGURATION = """\
daemon off; master_process off; pid "{folder}/pid"; error_log "{folder}/error.log";
events {{}}
http {{
  access_log "{folder}/access.log";
  client_body_temp_path "{folder}/body"; proxy_temp_path "{folder}/proxy"; fastcgi_temp_path "{folder}/fastcgi";
  uwsgi_temp_path "{folder}/uwsgi"; scgi_temp_path "{folder}/scgi";
  types {{ text/html html; application/json json; application/octet-stream whl; }}
  server {{
    listen 127.0.0.1:{port};
    root "{site}";
{location}
  }}
}}
"""


@contextlib.contextmanager
def nginx(site: Path, folder: Path, location: str = "") -> Iterator[str]:
    """The address of a site that nginx serves.

    Args:
        folder: gets its files.
        location: more lines for the server.
    """
    if NGINX is None:
        pytest.skip("nginx is not installed")
    folder.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, site=site, location=location))
    process = subprocess.Popen([NGINX, "-e", folder / "error.log", "-c", file, "-p", folder])
    try:
        for _ in range(200):
            assert process.poll() is None, (folder / "error.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


class Breaking(SimpleHTTPRequestHandler):
    """Serves a folder, but one file in another way."""

    broken, way, other = "", "", ""
    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        if not self.broken or not self.path.endswith(self.broken):
            super().do_GET()
        elif self.way == "redirect":
            self.send_response(302)
            self.send_header("Location", f"{self.other}{self.path}")
            self.end_headers()
        elif self.way == "short":
            data = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:-10])
        elif self.way in ("long", "endless"):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(Path(self.translate_path(self.path)).read_bytes())
                while True:
                    self.wfile.write(b" " if self.way == "endless" else b" " * 65536)
                    time.sleep(0.05)
        else:
            self.send_error(int(self.way))

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(site: Path) -> Iterator[tuple[str, type[Breaking]]]:
    """The address of a site, and what says how it is broken."""
    handler = type("Handler", (Breaking,), {"asked": []})
    server_class = functools.partial(handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), server_class) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
