"""Ends of remote files that were read ahead of them: a footer's bytes are kept for whoever parses it.

A reader that knows what the file was, by size and etag, expects it of all further bytes: other ones under the same name
are refused, so no row comes out of two files.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field
from typing import TYPE_CHECKING

from harness.errors import StorageError
from harness.forks import Lock
from harness.records import dataclass
from harness.storage.listings import FileStatus

if TYPE_CHECKING:
    from harness.storage.clients import Client

_MOST_BYTES = 64 << 20


@dataclass(slots=True)
class _End:
    status: FileStatus
    data: bytes


@dataclass(slots=True, eq=False)
class FileEnds:
    """The ends of the files of one table, up to 64 MiB of the latest ones; of the others, what they are."""

    _known: OrderedDict[str, _End] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[FileEnds], tuple[()]]:
        """Another process finds out by itself."""
        return FileEnds, ()

    def look(self, client: Client, path: str, length: int) -> bytes:
        """The last bytes of a file, asked for now."""
        data, status = client.end(path, length)
        if len(data) != min(length, status.size):
            raise StorageError(
                f"Cannot read file: its storage gives {len(data)} bytes for the last {length}", file=path
            )
        self._keep(path, _End(status, data))
        return data

    def status(self, path: str) -> FileStatus | None:
        """What the file was when its end was read; None: it was not."""
        known = self._known.get(path)
        return None if known is None else known.status

    def read(self, client: Client, path: str, offset: int, length: int | None, expected: FileStatus | None) -> bytes:
        """Bytes of a file, without a request where they are at hand.

        expected: what the file must still be; None: whatever it is, asked for now.

        Raises:
            StorageError: the file is another one than expected.
        """
        known = self._known.get(path)
        if known is not None and length is not None and known.status == expected:
            data, size = known.data, known.status.size
            start = offset - (size - len(data))
            if start >= 0 and offset + length <= size:
                return data[start : start + length]
        data, found = client.read(path, offset, length)
        if found is not None and expected is not None and (found.size, found.etag) != (expected.size, expected.etag):
            raise StorageError("Cannot read file: it was replaced while it was read; read the table again", file=path)
        return data

    def _keep(self, path: str, end: _End) -> None:
        with self._lock:
            old = self._known.pop(path, None)
            self._known[path] = end
            self._bytes += len(end.data) - (0 if old is None else len(old.data))
            if self._bytes > _MOST_BYTES:
                for other in self._known.values():
                    self._bytes, other.data = self._bytes - len(other.data), b""
                    if self._bytes <= _MOST_BYTES // 2:
                        break
