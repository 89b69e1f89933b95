"""Decoded metadata in the memory of this process."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from harness.errors import MissingFileError, StorageError
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion
from harness.storage.threads import Lock

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.storage.stores import Storage


@dataclass(frozen=True, slots=True)
class Key:
    """The name of what was decoded.

    kind: what it holds, such as `manifest`. path, size, token: of the file, see `harness.storage.stores.FileVersion`.
    """

    kind: str
    path: str
    size: int
    token: str


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def size(self) -> int:
        """Bytes."""


SizedValue = TypeVar("SizedValue", bound=Sized)


class Memory:
    """Decoded values of at most so many bytes, by key. The least recently used go first. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._values: OrderedDict[Key, Sized] = OrderedDict()
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self._size

    def get(self, key: Key, kind: type[SizedValue]) -> SizedValue | None:
        """The value of that key, if it is of that class."""
        with self._lock:
            value = self._values.get(key)
            if not isinstance(value, kind):
                return None
            self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Sized) -> None:
        """Keeps a value in place of those that were not used for longest, unless it is larger than the memory."""
        with self._lock:
            self._forget(key)
            if value.size > self._most:
                return
            self._values[key] = value
            self._size += value.size
            while self._size > self._most:
                self._forget(next(iter(self._values)))

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _forget(self, key: Key) -> None:
        removed = self._values.pop(key, None)
        self._size -= 0 if removed is None else removed.size


DECODED: Final = Memory(512 << 20)
"""The memory of this process. Of a million files, all plans need 15 MB of compressed entries of Iceberg manifests, or
240 MB of a Delta checkpoint and 40 MB for each column of numbers."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Columns that were decoded, compressed in memory. size: in bytes."""

    size: int
    _body: pa.Buffer = field(repr=False)

    @staticmethod
    def from_table(table: pa.Table, metadata: Mapping[bytes, bytes]) -> StoredTable:
        """Return an entry that holds a table, and values beside its columns."""
        import pyarrow as pa

        codec = "zstd" if pa.Codec.is_available("zstd") else None
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
        with pa.ipc.new_file(sink, table.schema.with_metadata(dict(metadata)), options=options) as writer:
            writer.write_table(table.combine_chunks())
        body = sink.getvalue()
        return StoredTable(body.size, body)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Values beside the columns."""
        return self._open(None).schema.metadata or {}

    def columns(self, schema: pa.Schema) -> pa.Table:
        """Return the columns that have these names and types."""
        names = self._open(None).schema.names
        table = self._open([names.index(name) for name in schema.names]).read_all()
        return table.select(schema.names).cast(schema)

    def _open(self, indexes: list[int] | None) -> pa.ipc.RecordBatchFileReader:
        import pyarrow as pa

        return pa.ipc.open_file(self._body, options=pa.ipc.IpcReadOptions(included_fields=indexes))


@dataclass(frozen=True, slots=True)
class Cache:
    """The part of `DECODED` that one opened table uses.

    Nothing is kept on disk. Entries in a directory, for the next process, were measured and removed: planning 100,000
    files on an object store (20 ms per request, 80 MB/s) took 0.6 to 1.0 of the time that it took without them.

    opened: The version of files in a store. They are taken not to change while the table is open, because to ask a
        store for a version costs as much as to read.
    """

    opened: str = field(default_factory=lambda: secrets.token_hex(8), repr=False, compare=False)

    def version(self, storage: Storage, path: PhysicalPath) -> FileVersion | None:
        """The version of a file; None: nothing may be remembered of the file. Raises as `Storage.check`."""
        if not is_local(path):
            storage.check(path)
            return FileVersion(0, self.opened)
        try:
            return storage.version(path)
        except (MissingFileError, StorageError):  # reading says so, or does better
            return None

    def get(self, key: Key) -> StoredTable | None:
        """The entry of that key, if there is one."""
        return DECODED.get(key, StoredTable)

    def columns(self, key: Key, schema: pa.Schema) -> pa.Table | None:
        """The columns of the entry of that key, if there is one."""
        entry = self.get(key)
        return None if entry is None else entry.columns(schema)

    def put(self, key: Key, table: pa.Table, metadata: Mapping[bytes, bytes] | None = None) -> None:
        """Keeps columns, and values beside them."""
        DECODED.put(key, StoredTable.from_table(table, metadata or {}))
