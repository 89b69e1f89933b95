"""The cache of one opened table: this process's memory, before a directory if the user names one."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from harness.errors import MissingFileError, RequestError, StorageError
from harness.storage.listings import FileVersion
from harness.storage.paths import is_local
from harness.storage.records import dataclass
from harness.storage.threads import Lock

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.storage.decoded_folder import Entry, Folder
    from harness.storage.stores import Storage


# What an entry is called: by what it holds, and of which version of which file.


LAYOUT = 2
"""Of entries, and of how their values came about. Another one has other names, so that no entry is taken for what it is
not: until 1, bounds of checkpoints were wrong outside the years 1901 to 2262."""


@dataclass(frozen=True, slots=True)
class Key:
    """The name of an entry.

    kind: what it holds of the file, such as `manifest`.
    path: the file's, physical. size: its bytes. token: what its storage says of the version, see
        `harness.storage.listings.FileVersion`.
    """

    kind: str
    path: str
    size: int
    token: str

    @property
    def text(self) -> bytes:
        """All of it in one text that no other key has; it stands in the entry, too. A path may hold a secret."""
        path = hashlib.blake2b(self.path.encode(errors="surrogatepass"), digest_size=32).hexdigest()
        return json.dumps([LAYOUT, self.kind, path, self.size, self.token]).encode()

    @property
    def name(self) -> str:
        """A name that a file can have everywhere."""
        return hashlib.blake2b(self.text, digest_size=20).hexdigest()


DIRECTORY = "HARNESS_CACHE_DIR"
BYTES = "HARNESS_CACHE_BYTES"


@dataclass(frozen=True, slots=True)
class Cache:
    """What was decoded of files, by key.

    folder: None: nothing is kept on disk.
    opened: a token of this table as it was opened, for files whose version is not asked for: within it they are taken
        not to change.
    """

    folder: Folder | None = field(default=None, repr=False, compare=False)
    opened: str = field(default_factory=lambda: secrets.token_hex(8), repr=False, compare=False)

    def version(self, storage: Storage, path: str) -> FileVersion | None:
        """Which version of a file there is, as far as that need be asked; None: nothing may be remembered of it.

        A store is asked only where entries are on disk: else a request for the version saves none for the file, and the
        file is taken not to change while the table is opened.

        Raises:
            OutsideTableError: the table may not read it.
        """
        if self.folder is None and not is_local(path):
            storage.check(path)
            return FileVersion(0, self.opened)
        try:
            return storage.version(path)
        except (MissingFileError, StorageError):  # reading says so, or does better
            return None

    def get(self, key: Key) -> Entry | None:
        """The entry of that key; None: there is none that is sound."""
        from harness.storage.decoded_folder import StrangeEntryError, decode

        found = SHARED.get(key.name)
        if found is not None or self.folder is None:
            return found
        data = self.folder.get(key.name)
        if data is None:
            return None
        try:
            entry = decode(data, key)
        except StrangeEntryError:
            self.folder.drop(key.name)
            return None
        SHARED.put(key.name, entry)
        return entry

    def put(self, key: Key, table: pa.Table, about: Mapping[bytes, bytes] | None = None) -> None:
        """Keeps columns, and what stands beside them."""
        from harness.storage.decoded_folder import decode, encode

        data = encode(key, table, about or {})
        SHARED.put(key.name, decode(data, key))
        if self.folder is not None:
            self.folder.put(key.name, data)

    def drop(self, key: Key) -> None:
        """Forgets an entry that turned out to be strange."""
        SHARED.drop(key.name)
        if self.folder is not None:
            self.folder.drop(key.name)


def open_cache(cache_dir: str | None, *, untrusted: bool = False) -> Cache | None:
    """The cache for one table.

    Args:
        cache_dir: where entries are kept on disk; None: where the environment variable HARNESS_CACHE_DIR says. Empty,
            either: nowhere, and this process remembers all the same.
        untrusted: whether a stranger wrote the table: then there is none.

    Raises:
        RequestError: the directory is not private, or one is given for a table of a stranger's.
    """
    if untrusted:
        if cache_dir:
            raise RequestError("Cannot keep a cache of an untrusted table: leave it out", options=("cache_dir",))
        return None
    directory = os.environ.get(DIRECTORY, "") if cache_dir is None else str(cache_dir)
    return Cache(open_folder(directory) if directory else None)


def open_folder(directory: str) -> Folder:
    """The entries in a directory; the environment variable HARNESS_CACHE_BYTES says how large it may become.

    Raises:
        RequestError: the directory is not private, or the variable is no number.
    """
    from harness.storage.decoded_folder import MOST_BYTES, Folder

    text = os.environ.get(BYTES, "") or str(MOST_BYTES)
    if not (text.isascii() and text.isdecimal()):
        raise RequestError(f"Invalid {BYTES}={text!r}: expected a whole number of bytes")
    return Folder(directory, most=int(text))


# Entries that this process has made or read, in its memory: the least recently used go first.


MOST_BYTES: Final = 64 << 20
"""Entries are compressed: what a plan needs of a million files takes 15 MB."""


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def size(self) -> int:
        """Bytes."""


Held = TypeVar("Held", bound=Sized)


class Memory(Generic[Held]):
    """Entries by name, or others that know their size. Threads may use it at once.

    most: bytes that all entries together may have.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._size = 0
        self._entries: OrderedDict[str, Held] = OrderedDict()
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self._size

    def get(self, name: str) -> Held | None:
        """The entry of that name; None: there is none."""
        with self._lock:
            found = self._entries.get(name)
            if found is not None:
                self._entries.move_to_end(name)
            return found

    def put(self, name: str, entry: Held) -> None:
        """Keeps an entry, in place of those that were not used for longest; one that is too large is not kept."""
        with self._lock:
            self._forget(name)
            if entry.size > self._most:
                return
            self._entries[name] = entry
            self._size += entry.size
            while self._size > self._most:
                self._forget(next(iter(self._entries)))

    def drop(self, name: str) -> None:
        """Forgets an entry."""
        with self._lock:
            self._forget(name)

    def clear(self) -> None:
        """Forgets all entries."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _forget(self, name: str) -> None:
        gone = self._entries.pop(name, None)
        self._size -= 0 if gone is None else gone.size


SHARED: Final[Memory[Entry]] = Memory()
"""The memory of this process."""
