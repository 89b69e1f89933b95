"""The cache of one opened table: this process's memory, before a directory if the user names one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from harness.cache.keys import Key
from harness.errors import MissingFileError, RequestError, StorageError
from harness.records import dataclass
from harness.storage.listings import FileVersion
from harness.storage.paths import is_local

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.cache.entries import Entry
    from harness.cache.folder import Folder
    from harness.storage.stores import Storage

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
        from harness.cache.entries import StrangeEntryError, decode
        from harness.cache.memory import SHARED

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
        from harness.cache.entries import decode, encode
        from harness.cache.memory import SHARED

        data = encode(key, table, about or {})
        SHARED.put(key.name, decode(data, key))
        if self.folder is not None:
            self.folder.put(key.name, data)

    def drop(self, key: Key) -> None:
        """Forgets an entry that turned out to be strange."""
        from harness.cache.memory import SHARED

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
    from harness.cache.folder import MOST_BYTES, Folder

    text = os.environ.get(BYTES, "") or str(MOST_BYTES)
    if not (text.isascii() and text.isdecimal()):
        raise RequestError(f"Invalid {BYTES}={text!r}: expected a whole number of bytes")
    return Folder(directory, most=int(text))
