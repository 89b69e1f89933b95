"""Decoded metadata: in the memory of this process, and in a directory where the user names one."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from harness.errors import MissingFileError, RequestError, StorageError
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion
from harness.storage.threads import Lock

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.storage.decoded_folder import Folder, KeptEntry
    from harness.storage.stores import Storage

LAYOUT = 2
"""The layout of entries and the rules behind their values. Entries of another layout are never used: until
layout 1, bounds of checkpoints were wrong outside the years 1901 to 2262."""


@dataclass(frozen=True, slots=True)
class Key:
    """The name of what was decoded.

    kind: what it holds, such as `manifest`. path, size, token: of the file, see `harness.storage.stores.FileVersion`.
    """

    kind: str
    path: str
    size: int
    token: str

    @property
    def text(self) -> bytes:
        """The whole key in a text that no other key has. Entries repeat the text. A path may hold a secret."""
        path = hashlib.blake2b(self.path.encode(errors="surrogatepass"), digest_size=32).hexdigest()
        return json.dumps([LAYOUT, self.kind, path, self.size, self.token]).encode()

    @property
    def name(self) -> str:
        """A name that a file can have everywhere."""
        return hashlib.blake2b(self.text, digest_size=20).hexdigest()


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def size(self) -> int:
        """Bytes."""


Held = TypeVar("Held", bound=Sized)


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

    def get(self, key: Key, kind: type[Held]) -> Held | None:
        """The value of that key, if it is of that class."""
        with self._lock:
            found = self._values.get(key)
            if not isinstance(found, kind):
                return None
            self._values.move_to_end(key)
            return found

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

    def drop(self, key: Key) -> None:
        """Forgets a value."""
        with self._lock:
            self._forget(key)

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _forget(self, key: Key) -> None:
        gone = self._values.pop(key, None)
        self._size -= 0 if gone is None else gone.size


DECODED: Final = Memory(512 << 20)
"""The memory of this process. Of a million files, all plans need 15 MB of compressed entries of Iceberg manifests, or
240 MB of a Delta checkpoint and 40 MB for each column of numbers."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of one opened table.

    folder: None: nothing is kept on disk.
    opened: the version of files whose version nobody asks for. They are taken not to change while the table is open.
    """

    folder: Folder | None = field(default=None, repr=False, compare=False)
    opened: str = field(default_factory=lambda: secrets.token_hex(8), repr=False, compare=False)

    def version(self, storage: Storage, path: PhysicalPath) -> FileVersion | None:
        """The version of a file; None: nothing may be remembered of the file. Raises as `Storage.check`.

        A store is asked only where entries are on disk: elsewhere the question costs what reading does.
        """
        if self.folder is None and not is_local(path):
            storage.check(path)
            return FileVersion(0, self.opened)
        try:
            return storage.version(path)
        except (MissingFileError, StorageError):  # reading says so, or does better
            return None

    def get(self, key: Key) -> KeptEntry | None:
        """The sound entry of that key, if there is one."""
        from harness.storage.decoded_folder import KeptEntry, StrangeEntryError, decode

        found = DECODED.get(key, KeptEntry)
        data = None if found is not None or self.folder is None else self.folder.get(key.name)
        if data is None:
            return found
        try:
            entry = decode(data, key)
        except StrangeEntryError:
            self.drop(key)
            return None
        DECODED.put(key, entry)
        return entry

    def columns(self, key: Key, schema: pa.Schema) -> pa.Table | None:
        """The columns of the sound entry of that key, if there is one."""
        from harness.storage.decoded_folder import StrangeEntryError

        entry = self.get(key)
        try:
            return None if entry is None else entry.columns(schema)
        except StrangeEntryError:
            self.drop(key)
            return None

    def put(self, key: Key, table: pa.Table, about: Mapping[bytes, bytes] | None = None) -> None:
        """Keeps columns, and what stands beside them."""
        from harness.storage.decoded_folder import decode, encode

        data = encode(key, table, about or {})
        DECODED.put(key, decode(data, key))
        if self.folder is not None:
            self.folder.put(key.name, data)

    def drop(self, key: Key) -> None:
        """Forgets an entry that turned out to be strange."""
        DECODED.drop(key)
        if self.folder is not None:
            self.folder.drop(key.name)


DIRECTORY = "HARNESS_CACHE_DIR"
BYTES = "HARNESS_CACHE_BYTES"


def open_cache(cache_dir: str | None, *, untrusted: bool = False) -> Cache | None:
    """The cache for one table; None for one of a stranger's.

    cache_dir: where entries are kept on disk; None: where the environment variable HARNESS_CACHE_DIR says. Empty,
        either: nowhere, and this process remembers all the same.

    Raises RequestError: the directory is not private, or one is given for a table of a stranger's.
    """
    if untrusted:
        if cache_dir:
            raise RequestError("Cannot keep a cache of an untrusted table: leave it out", options=("cache_dir",))
        return None
    directory = os.environ.get(DIRECTORY, "") if cache_dir is None else str(cache_dir)
    return Cache(open_folder(directory) if directory else None)


def open_folder(directory: str) -> Folder:
    """The entries in a directory; the environment variable HARNESS_CACHE_BYTES says how large it may become.

    Raises RequestError where the directory is not private, or the variable is no number.
    """
    from harness.storage.decoded_folder import MOST_BYTES, Folder

    text = os.environ.get(BYTES, "") or str(MOST_BYTES)
    if not (text.isascii() and text.isdecimal()):
        raise RequestError(f"Invalid {BYTES}={text!r}: expected a whole number of bytes")
    return Folder(directory, most=int(text))
