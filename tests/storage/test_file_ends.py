"""Ends of remote files that were read in advance are not requested again and belong to the same version."""

from typing import Any

import pytest

from harness import StorageError
from harness.storage import stores
from harness.storage.stores import FileEnds, FileStatus

OLD = FileStatus(10, 0, '"old"')


class Bucket:
    """Objects by name, and the requests for them."""

    def __init__(self, **content: bytes) -> None:
        self.content, self.etag, self.requests = content, '"old"', []

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus]:
        self.requests.append((offset, length))
        data = self.content[path]
        return data[offset : None if length is None else offset + length], FileStatus(len(data), 0, self.etag)

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        data = self.content[path]
        return data[-length:], FileStatus(len(data), 0, self.etag)


@pytest.fixture
def bucket() -> Any:
    return Bucket(f=b"0123456789", g=b"abcdefghij")


@pytest.mark.parametrize(
    ("offset", "length", "requests"),
    [(6, 4, []), (7, 2, []), (5, 4, [(5, 4)]), (0, 3, [(0, 3)]), (8, 5, [(8, 5)]), (6, None, [(6, None)])],
)
def test_bytes_of_an_end_are_at_hand(bucket: Any, offset: int, length: int | None, requests: list[Any]) -> None:
    ends = FileEnds()
    assert ends.fetch(bucket, "f", 4) == b"6789"
    expected = b"0123456789"[offset : None if length is None else offset + length]
    assert ends.read(bucket, "f", offset, length, OLD) == expected
    assert bucket.requests == requests


@pytest.mark.parametrize(("content", "etag"), [(b"0123456789", '"new"'), (b"0123456789a", '"old"')])
def test_a_file_that_was_replaced_is_not_read_on(bucket: Any, content: bytes, etag: str) -> None:
    ends = FileEnds()
    ends.fetch(bucket, "f", 4)
    bucket.content["f"], bucket.etag = content, etag
    with pytest.raises(StorageError, match="it was replaced while it was read; read the table again"):
        ends.read(bucket, "f", 0, 3, OLD)
    ends.fetch(bucket, "f", 4)  # another read of the table has started
    with pytest.raises(StorageError, match="replaced"):
        ends.read(bucket, "f", 8, 2, OLD)


def test_the_oldest_file_ends_are_evicted_and_fetched_again(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_END_BYTES", 7)
    ends = FileEnds()
    ends.fetch(bucket, "f", 4)
    ends.fetch(bucket, "g", 4)
    assert ends.status("f") == OLD
    assert [ends.read(bucket, name, 8, 2, OLD) for name in ("f", "g")] == [b"89", b"ij"]
    assert bucket.requests[0] == (8, 2)


def test_a_store_that_gives_fewer_bytes_than_it_has(bucket: Any) -> None:
    bucket.end = lambda path, length: (b"89", OLD)
    with pytest.raises(StorageError, match="returned 2 bytes for the last 4"):
        FileEnds().fetch(bucket, "f", 4)
