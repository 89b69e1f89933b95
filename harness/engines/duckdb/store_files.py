"""Files in object stores as DuckDB opens them, through a file system that harness implements.

DuckDB 2.0 reads one Python file handle from several threads, by `seek` and then `read`. If either call releases the
interpreter lock, another thread moves the position in between, and rows are wrong without an error
(docs/suite/reports/duckdb-python-file-handles.md). DuckDB also selects a file system by a path's protocol alone, so one
of two stores would be read with the credentials of the other. So no file system of fsspec is ever registered. Instead
each database gets one `StoreFiles` under a random protocol name. It opens only files that a plan has named, uses the
storage of the file's own table, and reads by offset.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import duckdb
import fsspec

from harness.engines.duckdb.instance import mark_errors, with_physical_paths
from harness.errors import StorageError
from harness.metadata.filters import sqltext
from harness.storage.paths import PhysicalPath
from harness.storage.stores import FileStatus, Storage
from harness.storage.threads import Lock

_ESCAPED = re.compile(r"\[([\[*?])\]")


def store_files_of(connection: duckdb.DuckDBPyConnection) -> StoreFiles:
    """Return the `StoreFiles` of a connection's database. Register a new one if there is none.

    All cursors share it for as long as the database is open.
    """
    for name in connection.list_filesystems():
        existing = _registered.get(name)
        if existing is not None:
            return existing
    files = StoreFiles()
    connection.register_filesystem(files)
    _registered[files.protocol] = files
    return files


def forget(connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
    """Revoke a connection's permission to read files in SQL, except for files that other connections may still read.

    Args:
        connection: The connection.
        unless: Returns whether a file is still needed, given the file's text in SQL.
    """
    for name in connection.list_filesystems():
        files = _registered.get(name)
        if files is not None:
            files.forget(connection, unless=unless)


@dataclass(slots=True)
class _Planned:
    """A file that may be opened.

    Attributes:
        physical: The physical path.
        storage: The storage that reads the file.
        holders: The number of connections that may open it.
        status: Its status when it was last opened.
    """

    physical: PhysicalPath
    storage: Storage
    holders: int = 0
    status: FileStatus | None = None


class StoreFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A read-only file system for planned files, with paths `<protocol>://<number of the store>/<physical path>`.

    It implements only the methods that DuckDB calls (1.5.5, 2.0.0), under the names that DuckDB requires. Opening a
    file requests its status unless its end was already read. Later reads notice if the file was replaced. A file
    without a modification time is reported as modified just now, so that DuckDB does not cache its bytes.
    """

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.protocol = f"harness-{secrets.token_hex(16)}"
        self._stores: dict[Hashable, int] = {}
        self._files: dict[str, _Planned] = {}
        self._held: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()
        self._lock = Lock()

    def admit(self, physical: PhysicalPath, storage: Storage, connection: duckdb.DuckDBPyConnection) -> str:
        """Allow a connection to open a file in SQL and return the file's name.

        Raises the errors of `Storage.client`.
        """
        # Two reads may begin with the same options and renew them differently.
        renewal = None if storage.renewal is None else storage.renewal.number
        store = storage.client(physical).identity, renewal
        with self._lock:
            number = self._stores.setdefault(store, len(self._stores))
            name = f"{self.protocol}://{number}/{physical}"
            planned = self._files.setdefault(name, _Planned(physical, storage))
            names = self._held.setdefault(connection, set())
            if name not in names:
                names.add(name)
                planned.holders += 1
        return name

    def forget(self, connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
        """Revoke a connection's permissions. Files that another connection may open stay."""
        with self._lock:
            names = self._held.pop(connection, set())
            needed = {name for name in names if unless(sqltext.text(sqltext.escape_glob(name)))}
            if needed:
                self._held[connection] = needed
            for name in names - needed:
                self._files[name].holders -= 1
                if self._files[name].holders == 0:
                    del self._files[name]

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the planned file with this name, whether or not it exists.

        Pattern characters in `path` are escaped.
        """
        name = _ESCAPED.sub(r"\1", path)
        return [name] if name in self._files else []

    def unstrip_protocol(self, name: str) -> str:
        """Return the name unchanged: names include the protocol."""
        return name

    def isfile(self, path: str) -> bool:
        """Return whether the file may be opened."""
        return path in self._files

    def isdir(self, path: str) -> bool:
        """Return False. DuckDB calls this before it writes."""
        return False

    @mark_errors
    def open(self, path: str, mode: str = "rb", **_: Any) -> PlannedFile:
        """Open a planned file for reading.

        Raises:
            OSError: The file was not planned, does not exist, or `mode` is not for reading.
        """
        planned = self._files.get(path)
        if planned is None or mode != "rb":
            raise PermissionError(f"Cannot open {with_physical_paths(path)} this way: only harness may use it")
        planned.status = planned.storage.known_status(planned.physical)
        return PlannedFile(planned.physical, planned.storage, planned.status)

    @mark_errors
    def size(self, path: str) -> int:
        """Return the size in bytes."""
        return self._status(path).size

    @mark_errors
    def modified(self, path: str) -> datetime:
        """Return the time of the last modification, or the current time if the store has none."""
        milliseconds = self._status(path).modified_ms
        return datetime.now(UTC) if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)

    def _status(self, path: str) -> FileStatus:
        planned = self._files[path]
        if planned.status is None:
            planned.status = planned.storage.known_status(planned.physical)
        return planned.status


class PlannedFile:
    """A file handle for use by several threads.

    Each thread has its own offset, and each read fetches only its bytes.
    """

    def __init__(self, physical: PhysicalPath, storage: Storage, status: FileStatus) -> None:
        self._physical, self._storage, self._status = physical, storage, status
        # Keyed by thread. A `threading.local` would lose a DuckDB thread's value between two calls.
        self._offsets: dict[int, int] = {}

    def seek(self, offset: int) -> int:
        """Set and return the offset of this thread's next read."""
        self._offsets[_thread()] = offset
        return offset

    def tell(self) -> int:
        """Return the offset of this thread's next read."""
        return self._offsets[_thread()]

    @mark_errors
    def read(self, length: int) -> bytes:
        """Return exactly the next `length` bytes of this thread.

        If there are fewer, DuckDB would use garbage for the rest.
        """
        offset = self.tell()
        data = (
            self._storage.read(self._physical, offset=offset, length=length, expected=self._status) if length else b""
        )
        if len(data) != length:
            raise StorageError(
                f"Cannot read {self._physical}: its storage returned {len(data)} bytes instead of {length} at offset "
                f"{offset} of {self._status.size}; the file was replaced during the read, or the storage does not "
                "support ranges"
            )
        self.seek(offset + length)
        return data

    def close(self) -> None:
        """Do nothing: no resource is open between reads."""


def _thread() -> int:
    return threading.get_ident()


_registered: WeakValueDictionary[str, StoreFiles] = WeakValueDictionary()
"""The file systems by protocol. Only its database keeps a file system alive."""
