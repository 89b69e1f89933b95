"""Files of stores as DuckDB opens them: through a file system of harness's own.

DuckDB 2.0 reads one Python file handle from several threads, by `seek` and then `read`. Where either gives up the
interpreter, another thread moves the position in between, and rows come out wrong without an error
(docs/suite/reports/duckdb-python-file-handles.md). And it finds a file system by the protocol of a path alone, so that
one of two stores would be read with the credentials of the other. So no file system of fsspec is ever registered.
DuckDB gets `StoreFiles`, once per database, under a name that nobody can guess. It opens nothing but the files that a
plan named, each through the storage of its own table, and reads by offset.
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

from harness.engines.duckdb.instance import marked, physical
from harness.errors import StorageError
from harness.metadata.filters import sqltext
from harness.storage.paths import PhysicalPath
from harness.storage.stores import FileStatus, Storage
from harness.storage.threads import Lock

_ESCAPED = re.compile(r"\[([\[*?])\]")


def planned_files(connection: duckdb.DuckDBPyConnection) -> StoreFiles:
    """The file system of a connection's database: one for all its cursors, for as long as the database is open."""
    for name in connection.list_filesystems():
        found = _registered.get(name)
        if found is not None:
            return found
    files = StoreFiles()
    connection.register_filesystem(files)
    _registered[files.protocol] = files
    return files


def forget(connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
    """Let SQL of a connection read no more the files that it was let read, and that no other connection was.

    unless: whether something still needs a file, by the text that stands for it in SQL.
    """
    for name in connection.list_filesystems():
        files = _registered.get(name)
        if files is not None:
            files.forget(connection, unless=unless)


@dataclass(slots=True)
class _Planned:
    """A file that may be opened. holders: how many connections may. status: when it was opened last."""

    physical: PhysicalPath
    storage: Storage
    holders: int = 0
    status: FileStatus | None = None


class StoreFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Reads files that harness planned, under `<protocol>://<number of the store>/<physical path>`; writes none.

    It has just the methods that DuckDB calls (1.5.5, 2.0.0), which gives them such names. A file of which no end was
    read is asked for its status each time that it is opened; of the others, each read notices that it was replaced.
    DuckDB keeps no bytes of a file that was modified a moment ago, as is said of files without a time.
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
        """Lets a file be opened by SQL of a connection; the name under which. Raises as `Storage.client`."""
        store = storage.client(physical).identity
        with self._lock:
            number = self._stores.setdefault(store, len(self._stores))
            name = f"{self.protocol}://{number}/{physical}"
            planned = self._files.setdefault(name, _Planned(physical, storage))
            held = self._held.setdefault(connection, set())
            if name not in held:
                held.add(name)
                planned.holders += 1
        return name

    def forget(self, connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
        """Takes back what a connection was let open, as far as no other one was."""
        with self._lock:
            held = self._held.pop(connection, set())
            kept = {name for name in held if unless(sqltext.text(sqltext.glob_free(name)))}
            if kept:
                self._held[connection] = kept
            for name in held - kept:
                self._files[name].holders -= 1
                if self._files[name].holders == 0:
                    del self._files[name]

    def glob(self, path: str, **_: Any) -> list[str]:
        """The one file that is called so, whether or not it is there; the characters of patterns are escaped."""
        name = _ESCAPED.sub(r"\1", path)
        return [name] if name in self._files else []

    def unstrip_protocol(self, name: str) -> str:
        """The name itself: it is whole."""
        return name

    def isfile(self, path: str) -> bool:
        """Tells whether it may be opened."""
        return path in self._files

    def isdir(self, path: str) -> bool:
        """Never: DuckDB asks before it writes."""
        return False

    @marked
    def open(self, path: str, mode: str = "rb", **_: Any) -> PlannedFile:
        """A file, for reading; raises OSError where it was not planned, is to be written, or is not there."""
        planned = self._files.get(path)
        if planned is None or mode != "rb":
            raise PermissionError(f"Cannot open {physical(path)} in this way: it is not for other use than harness's")
        planned.status = planned.storage.known_status(planned.physical)
        return PlannedFile(planned.physical, planned.storage, planned.status)

    @marked
    def size(self, path: str) -> int:
        """The size in bytes."""
        return self._status(path).size

    @marked
    def modified(self, path: str) -> datetime:
        """The last modification."""
        found = self._status(path).modified_ms
        return datetime.now(UTC) if found is None else datetime.fromtimestamp(found / 1000, UTC)

    def _status(self, path: str) -> FileStatus:
        planned = self._files[path]
        if planned.status is None:
            planned.status = planned.storage.known_status(planned.physical)
        return planned.status


class PlannedFile:
    """A handle for many threads: each has its own offset, and each read asks the storage for just its bytes."""

    def __init__(self, physical: PhysicalPath, storage: Storage, status: FileStatus) -> None:
        self._physical, self._storage, self._status = physical, storage, status
        # By thread. Not a `threading.local`, which forgets a thread of DuckDB between two calls.
        self._offsets: dict[int, int] = {}

    def seek(self, offset: int) -> int:
        """The place where the thread reads next."""
        self._offsets[_thread()] = offset
        return offset

    def tell(self) -> int:
        """The place where the thread reads next."""
        return self._offsets[_thread()]

    @marked
    def read(self, length: int) -> bytes:
        """The next bytes of the thread, exactly as many as are asked for: DuckDB would take rubbish for the rest."""
        offset = self.tell()
        data = (
            self._storage.read(self._physical, offset=offset, length=length, expected=self._status) if length else b""
        )
        if len(data) != length:
            raise StorageError(
                f"Cannot read {self._physical}: its storage returned {len(data)} bytes for {length} from {offset} on, "
                f"of {self._status.size}; it was replaced while it was read, or is not given in parts"
            )
        self.seek(offset + length)
        return data

    def close(self) -> None:
        """Nothing is open between two reads."""


def _thread() -> int:
    return threading.get_ident()


_registered: WeakValueDictionary[str, StoreFiles] = WeakValueDictionary()
"""File systems by protocol. A database keeps its own alive; nothing else does."""
