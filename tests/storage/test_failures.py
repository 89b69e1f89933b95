"""Failures of stores: the client that reads, retries, and one error line with a remedy and no secret."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

import harness
from harness.engines.data_files import FileName, check_file
from harness.errors import HarnessError, StorageError
from harness.storage.object_client import translate_error
from harness.storage.option_names import StoreKind
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


class ClientError(Exception):
    """An error like in botocore and aiohttp, where errors are not OSErrors."""


class Failing(fsspec.AbstractFileSystem):
    """A file system that fails in each call and counts the calls."""

    protocol = "failing"
    cachable = False
    error: ClassVar[Exception | None] = None
    asked: ClassVar[list[str]] = []
    content: ClassVar[bytes] = b"PAR1"

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return self._answer("GET", self.content[start or 0 : end])

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return self._answer("HEAD", {"name": path, "type": "file", "size": len(self.content)})

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        return self._answer("LIST", [])

    def isdir(self, path: str) -> bool:
        return self._answer("LIST", False)

    def _answer(self, call: str, value: Any) -> Any:
        Failing.asked.append(call)
        if self.error is not None:
            raise self.error
        return value


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> type[Failing]:
    fsspec.register_implementation("failing", Failing, clobber=True)
    monkeypatch.setattr(Failing, "asked", [])
    return Failing


ASKS: dict[str, Callable[[Storage, str], object]] = {
    "read": Storage.read,
    "exists": Storage.exists,
    "is_directory": Storage.is_directory,
    "size": Storage.size,
    "status": Storage.status,
    "names": Storage.names,
    "entries": Storage.entries,
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ClientError("Access to https://h/x?X-Amz-Signature=secret denied"),
            "ClientError: Access to https://h/x denied",
        ),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (ConnectionResetError(errno.ECONNRESET, "reset by peer"), "ConnectionResetError"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("no such region"), "ValueError: no such region"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failing_client(store, monkeypatch, ask, error, words):
    monkeypatch.setattr(store, "error", error)
    with pytest.raises(StorageError) as caught:
        ask(Storage(), "failing://b/t/f")
    assert caught.value.file == "failing://b/t/f"
    assert words in caught.value.message
    assert "secret" not in str(caught.value)
    assert type(caught.value.__cause__).__name__ == type(error).__name__
    assert "secret" not in repr(caught.value.__cause__)


def test_the_first_get_tells_whether_a_file_is_there(store: type[Failing]) -> None:
    check_file(FileName("f", "failing://b/t/f"), Storage(), table="t")
    assert store.asked == ["GET"]
    assert Storage().fault("failing://b/t/f") is None
    assert store.asked == ["GET"]


def test_errors_name_the_metadata_file_in_a_store(store: type[Failing]) -> None:
    with pytest.raises(HarnessError):
        harness.open_table("failing://b/t/metadata/v1.metadata.json")
    assert store.asked == ["HEAD", "GET"]


def test_a_file_that_cannot_be_looked_at_is_not_taken_for_absent(tmp_path, monkeypatch):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    stat = os.stat

    def fail(path: Any, *more: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("v2.metadata.json"):  # the newest version: without it, the previous one would be read
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return stat(path, *more, **options)

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(StorageError, match=r"v2\.metadata\.json"):
        harness.open_table(str(tmp_path / "t"))


NAMES = ["x" * 300, "x/" * 3000 + "f", "circle/f", "file/below"]


@pytest.mark.parametrize("name", NAMES, ids=["long name", "long path", "circle", "below a file"])
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_impossible_paths(tmp_path: Path, table_format: str, name: str) -> None:
    table: Any = (IcebergTable if table_format == "iceberg" else DeltaTable).create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    (tmp_path / "t" / "circle").symlink_to("circle")
    (tmp_path / "t" / "file").write_text("")
    path = f"{tmp_path}/t/{name}"
    if table_format == "iceberg":
        data.data_file["file_path"] = path
    else:
        data.add["path"] = f"file://{path}"
    table.append(data)
    for engine in ("duckdb", "oracle"):
        with pytest.raises(HarnessError) as caught:
            harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(engine=engine)
        assert path in str(caught.value.file)


@pytest.mark.parametrize(
    ("location", "service", "extra"),
    [
        ("s3://b/t", "S3", "s3"),
        ("s3a://b/t", "S3", "s3"),
        ("abfss://c@a.dfs.core.windows.net/t", "Azure", "azure"),
        ("gs://b/t", "Google Cloud Storage", "gcs"),
    ],
)
def test_a_store_without_its_client(monkeypatch: pytest.MonkeyPatch, location: str, service: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    options = {"max_retries": 4}  # a name that no other test uses, so its client is new
    with pytest.raises(harness.RequestError) as caught:
        Storage(options).read(f"{location}/f")
    assert caught.value.message == (
        f"Cannot open {service}: obstore is not installed; pip install 'lakeharness[{extra}]'"
    )
    assert caught.value.file == f"{location}/f"


URL = "http://127.0.0.1:5555/lake/t/f"


def answer(status: int, code: str = "") -> str:
    body = f"<Error><Code>{code}</Code><Message>key AKIASECRET</Message></Error>" if code else ""
    return (
        f"Generic S3 error: Error performing GET {URL}?X-Amz-Signature=AKIASECRET in 2ms - "
        f"Server returned non-2xx status code: {status} Reason: {body}\n\nDebug source:\nAKIASECRET"
    )


@pytest.mark.parametrize(
    ("text", "listing", "cause", "message"),
    [
        (answer(404, "NoSuchBucket"), False, "NoSuchBucket", "there is no such bucket; check its name, or set"),
        (answer(404), True, "NoSuchBucket", "there is no such bucket"),
        (answer(403, "AccessDenied"), True, "Forbidden", "access is denied with these credentials; set access_key_id"),
        (answer(403, "AccessDenied"), False, "Denied", "it does not exist or access is denied with these cred"),
        (answer(403, "InvalidAccessKeyId"), False, "Forbidden", "the store does not know the access key; set acc"),
        (answer(403, "SignatureDoesNotMatch"), False, "Forbidden", "set secret_access_key"),
        (answer(403, "RequestTimeTooSkewed"), False, "ClockSkew", "the clock of this machine differs from the store's"),
        (answer(400, "ExpiredToken"), False, "ExpiredCredentials", "have expired; get new ones, and set session_token"),
        (answer(400, "AuthorizationHeaderMalformed"), False, "OtherRegion", "in another region or at another endpoint"),
        (answer(301), False, "OtherRegion", "set region or endpoint (301)"),
        (
            answer(503, "SlowDown"),
            False,
            "Throttled",
            "throttling or busy, even after retries; try again later (SlowDown)",
        ),
        (answer(429), False, "Throttled", "try again later (429)"),
        (answer(500, "InternalError"), False, "Storage", "the store returned an error (InternalError)"),
        (
            f"Generic S3 error: Error performing GET {URL} in 1ms - HTTP error: error sending request\n"
            "Connection refused AKIASECRET",
            False,
            "Unreachable",
            "http://127.0.0.1:5555 does not answer (connection refused); set endpoint, or try again",
        ),
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 5s AKIASECRET",
            False,
            "NoCredentials",
            "no credentials were found in options, environment, profiles, or this machine's role; set access_key_id",
        ),
    ],
)
def test_answers(text: str, listing: bool, cause: str, message: str) -> None:
    error = translate_error(Exception(text), "s3://lake/t/f", StoreKind.S3, listing=listing)
    assert isinstance(error, StorageError)
    assert error.cause == cause
    assert error.message.startswith("Cannot read from the store: ")
    assert message in error.message
    assert error.file == "s3://lake/t/f"
    assert "AKIASECRET" not in str(error)


@pytest.mark.parametrize("text", [answer(404, "NoSuchKey"), answer(404), answer(404, "BlobNotFound")])
def test_http_404_is_a_missing_file(text: str) -> None:
    assert isinstance(translate_error(Exception(text), "s3://lake/t/f", StoreKind.S3), FileNotFoundError)
