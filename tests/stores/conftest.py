"""Object store servers on this machine, one of each per session. If a server cannot start, its tests are skipped."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from buckets import AZURE_ACCOUNT, AZURE_KEY, BUCKET

_SECONDS = 60


@pytest.fixture(autouse=True)
def no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's own credentials."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(command: Callable[[int], list[str]], directory: Path) -> Iterator[int]:
    """Start a server and yield its port once it responds."""
    port = free_port()
    with open(directory / "server.log", "wb") as log:
        process = subprocess.Popen(command(port), stdout=log, stderr=log, cwd=directory)
    try:
        end = time.monotonic() + _SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > end:
                pytest.skip(f"it does not start: {(directory / 'server.log').read_text('utf-8', 'replace')[-300:]}")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an S3 server with an empty bucket."""
    pytest.importorskip("moto", reason="moto is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    directory = tmp_path_factory.mktemp("moto")
    with server(lambda port: [sys.executable, "-m", "moto.server", "-p", str(port)], directory) as port:
        endpoint = f"http://127.0.0.1:{port}"
        import boto3

        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
        )
        client.create_bucket(Bucket=BUCKET)
        yield endpoint


@pytest.fixture
def options(s3: str) -> dict[str, Any]:
    return {"endpoint_url": s3, "key": "k", "secret": "s"}


def _program_path(program: str, variable: str) -> str:
    """Return the path of a program from an environment variable or PATH."""
    path = os.environ.get(variable) or shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed, and {variable} does not name it")
    return path


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an Azure server with an empty container."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    program, directory = _program_path("azurite-blob", "HARNESS_AZURITE"), tmp_path_factory.mktemp("azurite")

    def command(port: int) -> list[str]:
        return [program, "--blobPort", str(port), "--location", str(directory), "--skipApiVersionCheck"]

    with server(command, directory) as port:
        endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        _create_container(endpoint)
        yield endpoint


def _create_container(endpoint: str) -> None:
    """Create a container with a signed request, because obstore cannot create containers."""
    import base64
    import email.utils
    import hashlib
    import hmac
    import urllib.request

    date = email.utils.formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-12-02"}
    canonical = "\n".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"{canonical}\n{resource}"
    signed = base64.b64encode(hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{signed}"
    request = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request):
        pass


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a Google Cloud Storage server with an empty bucket."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    program, directory = _program_path("fake-gcs-server", "HARNESS_FAKE_GCS"), tmp_path_factory.mktemp("gcs")
    (directory / "data" / BUCKET).mkdir(parents=True)

    def command(port: int) -> list[str]:
        where = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return [program, "-scheme", "http", "-backend", "memory", "-data", str(directory / "data"), *where]

    with server(command, directory) as port:
        yield f"http://127.0.0.1:{port}"
