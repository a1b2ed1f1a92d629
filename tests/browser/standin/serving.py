"""Real sockets for the tests: TLS under the Hub's own host names, and a plain static site, in threads."""

import base64
import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import trustme
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from browser.standin.answers import HUB_HOST
from browser.standin.hub import CDN_HOST, DEAD_CDN_HOST, OTHER_CDN_HOST

START_TIMEOUT_S = 20
UNUSED_PORT = 9
"""Discard: nobody listens there."""


@contextlib.contextmanager
def served(app: ASGIApp, *, certificate: Path | None = None) -> Generator[int]:
    """Serve an application on a free local port, over TLS when there is a certificate; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        lifespan="off",
        ws="none",
        ssl_certfile=certificate,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the test server did not start")
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(START_TIMEOUT_S)
        listener.close()


def issue_certificate(path: Path) -> str:
    """Write key and certificate for the Hub's host names.

    Gives the hash of the public key, by which Chromium is told to trust it.
    """
    issued = trustme.CA().issue_cert(HUB_HOST, CDN_HOST, OTHER_CDN_HOST, DEAD_CDN_HOST)
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    leaf = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    public_key = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(public_key).digest()).decode()


def resolver_rules(port: int) -> str:
    """Chromium's --host-resolver-rules: the Hub's names come here, every other name is not found."""
    alive = [f"MAP {host}:443 127.0.0.1:{port}" for host in (HUB_HOST, CDN_HOST, OTHER_CDN_HOST)]
    dead = f"MAP {DEAD_CDN_HOST}:443 127.0.0.1:{UNUSED_PORT}"
    return ", ".join([*alive, dead, "MAP * ~NOTFOUND", "EXCLUDE localhost", "EXCLUDE 127.0.0.1"])


def static_site(mounts: Mapping[str, Path]) -> ASGIApp:
    """Folders under URL paths (`"/"`, `"/docs/app"`), index.html for a folder; the longest path wins."""
    ordered = sorted(mounts.items(), key=lambda mount: -len(mount[0]))
    routes = [Mount(path.rstrip("/"), StaticFiles(directory=folder, html=True)) for path, folder in ordered]
    return Starlette(routes=routes)
