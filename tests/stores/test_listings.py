"""Store listings that never end, and stores that do not respond while the user waits."""

import os
import signal
import sys
import threading
from typing import Any

import answering_server
import pytest

import harness
from harness.storage import object_client
from harness.storage.stores import Storage

pytestmark = pytest.mark.external

FILE = (
    "<Contents><Key>t/_delta_log/{:020}.json</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    "<ETag>x</ETag><Size>3</Size></Contents>"
)


def page(*files: int, token: str | None) -> tuple[int, bytes]:
    more = "" if token is None else f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}"
    more += "" if token is None else "</NextContinuationToken>"
    text = f"<?xml version='1.0'?><ListBucketResult>{more}{''.join(map(FILE.format, files))}</ListBucketResult>"
    return 200, text.encode()


def options(server: answering_server.RequestLog) -> dict[str, Any]:
    return {"endpoint": server.endpoint, "access_key_id": "a", "secret_access_key": "b", "max_retries": 0}


@pytest.fixture
def soon(monkeypatch):
    """Check a listing immediately and abandon it soon after."""
    monkeypatch.setattr(object_client, "QUICK_LISTING_S", 0.1)
    monkeypatch.setattr(object_client, "LONGEST_LISTING_S", 0.2)


@pytest.mark.parametrize(
    ("files", "seconds", "message"),
    [
        pytest.param(lambda number: [0], 60, "lists the same files repeatedly", id="the same page"),
        pytest.param(lambda number: [number % 5], 60, "lists the same files repeatedly", id="five pages"),
        pytest.param(lambda number: [number], 0.2, "its listing did not end after", id="new files without an end"),
        pytest.param(lambda number: [], 0.2, "its listing did not end after", id="empty pages"),
    ],
)
def test_a_listing_without_an_end_is_an_error(soon, monkeypatch, files, seconds, message):
    monkeypatch.setattr(object_client, "LONGEST_LISTING_S", seconds)
    with answering_server.server(lambda number, path: page(*files(number), token="again")) as asked:
        with pytest.raises(harness.StorageError, match=message):
            Storage(options(asked)).entries("s3://lake/t/_delta_log")
        with pytest.raises(harness.StorageError, match=message):
            Storage(options(asked)).directories("s3://lake/t/_delta_log")


def test_empty_pages_do_not_hide_whether_there_is_a_directory(soon):
    with (
        answering_server.server(lambda number, path: page(token="again")) as asked,
        pytest.raises(harness.StorageError, match="its listing did not end after"),
    ):
        Storage(options(asked)).is_directory("s3://lake/t")


def test_a_slow_listing_is_followed_to_its_end(monkeypatch):
    monkeypatch.setattr(object_client, "QUICK_LISTING_S", 0.0)

    def answer(_: int, path: str) -> tuple[int, bytes]:
        number = int(path.partition("continuation-token=")[2].partition("&")[0] or 0)
        return page(number, token=None if number == 3 else f"{number + 1}")

    with answering_server.server(answer) as asked:
        found = Storage(options(asked)).names("s3://lake/t/_delta_log")
    assert found == tuple(f"{number:020}.json" for number in range(4))


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT is sent to a process there")
@pytest.mark.parametrize("location", ["s3://lake/t", "s3://lake/t/metadata/v1.metadata.json"])
def test_ctrl_c_does_not_wait_for_a_store(location):
    released, answered = threading.Event(), threading.Event()

    def stall(number: int, path: str) -> tuple[int, bytes]:
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        released.wait(20)
        answered.set()
        return 404, b""

    with answering_server.server(stall) as asked:
        # A process that a shell starts in the background ignores SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                harness.open_table(location, storage_options=options(asked))
            assert not answered.is_set()
        finally:
            signal.signal(signal.SIGINT, before)
            released.set()
