"""Servers of catalogs and stores, each started and stopped by a test session."""

import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build" / "catalogs"
KEY, SECRET = "a-key", "a-secret"
_PATIENCE_S = 60


@contextlib.contextmanager
def rest_catalog(folder: Path, warehouse: str, *, iceberg: str | None = None, **more: str) -> Iterator[str]:
    """Start Iceberg's REST catalog over SQLite in a JVM, and yield its URI.

    Args:
        folder: Where the database is.
        warehouse: Where the tables are.
        iceberg: The release of Iceberg. None for that of pom.xml.
        more: Properties of the catalog behind it, and those for RestCatalog.java, which start with `vend.`, `table.`,
            or `plan.`.
    """
    database = f"jdbc:sqlite:{folder}/rest-{time.monotonic_ns()}.db"
    own = {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "uri": database, "warehouse": warehouse, **more}
    arguments = [f"{key}={value}" for key, value in own.items()]
    command = ["java", "-Xmx512m", "-cp", _class_path(iceberg), str(HERE / "RestCatalog.java"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            if not port:
                _, said = server.communicate(timeout=10)
                pytest.skip(f"the REST catalog does not start: {said.strip()[-300:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _class_path(iceberg: str | None) -> str:
    """Return the jars of pom.xml, which are resolved once for each release of Iceberg."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"the REST catalog needs {program}")
    pom = HERE / "pom.xml"
    chosen = [] if iceberg is None else [f"-Diceberg={iceberg}"]
    key = hashlib.sha256(pom.read_bytes() + "".join(chosen).encode()).hexdigest()[:12]
    kept = BUILD / f"class-path-{key}.txt"
    if not kept.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        maven = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={kept}", *chosen]
        found = subprocess.run(maven, capture_output=True, text=True, check=False)
        if found.returncode:
            kept.unlink(missing_ok=True)
            pytest.skip(f"Maven does not give the jars of the REST catalog: {found.stdout.strip()[:300]}")
    return kept.read_text("utf-8").strip()


@contextlib.contextmanager
def aws() -> Iterator[str]:
    """Start a server with S3 and Glue, and yield its URL."""
    pytest.importorskip("moto.server", reason="S3 and Glue need moto[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    # The server prints a line for each request. It would stop if its output were a pipe that fills up.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while server.poll() is None and time.monotonic() < end:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    pytest.skip("moto's server does not start")


def s3(url: str) -> dict[str, str]:
    """Return PyIceberg's properties for a bucket of the server."""
    return {"s3.endpoint": url, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": "us-east-1"}


def s3_catalog(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties with which the REST catalog itself writes to S3, under the names that Java uses."""
    java = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": properties["s3.region"],
        "http-client.type": "urlconnection",
    }
    return {**java, "s3.path-style-access": "true", **properties}


Answer = Callable[[str], tuple[int, dict[str, str], Any]]
"""A map from the path of a request to a status, headers, and a JSON document or bytes."""


@dataclass
class Recorded:
    """A host, and the text of all requests that it received."""

    uri: str = ""
    requests: list[str] = field(default_factory=list)


@contextlib.contextmanager
def recording(answer: Answer) -> Iterator[Recorded]:
    """Start a server that records its requests, and answers them by the map."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            recorded.requests.append(f"{self.requestline}\n{self.headers}\n{body}")
            status, headers, document = answer(self.path)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_HEAD = _handle

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    recorded.uri = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
