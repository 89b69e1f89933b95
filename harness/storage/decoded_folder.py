"""Entries as files of one private directory, which several processes may use at once.

A file is written under another name and then renamed, so that nobody sees half of it. Directory and files are this
user's alone. A failure while an entry is kept or found costs the entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

import pyarrow as pa

from harness.errors import RequestError
from harness.storage.decoded import Key
from harness.storage.records import dataclass

MOST_BYTES: Final = 1 << 30
_NAME = "harness-1"  # of the directory within the one that the user names, which others may use, too
_ENTRY = re.compile(r"[0-9a-f]{40}")
_UNFINISHED = re.compile(r"[0-9a-f]{40}\.[0-9a-f]{16}")
_ABANDONED_S = 3600
_FULL = 0.9
"""The share of the allowed bytes that remains after files were removed. So not each new file removes another."""
_LOOK_EVERY = 16
"""Other processes write, too: the directory is looked through after each such part of the allowed bytes."""
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """The contents of a directory. size, most: bytes that there are, and that may be."""

    path: str
    entries: int
    size: int
    most: int


class Folder:
    """The entries in a directory; raises RequestError for one that cannot be made, or is not private to this user.

    directory: the user's; what is in it besides `harness-1` is left alone.
    most: bytes that the files may have together; those that were not used for longest are removed.
    """

    def __init__(self, directory: str, *, most: int = MOST_BYTES) -> None:
        self._path = os.path.join(os.path.abspath(os.path.expanduser(directory)), _NAME)
        self._most = most
        self._unseen: int | None = None  # bytes written since the directory was looked through
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path, 0o700)
            found = os.lstat(self._path)
        except OSError as error:
            raise _refusal(f"cannot make {self._path}: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode):
            raise _refusal(f"{self._path} is no directory")
        if not _is_ours(found):
            raise _refusal(f"{self._path} belongs to another user")
        if os.name != "nt" and found.st_mode & 0o077:
            raise _refusal(f"others may use {self._path}; chmod 700 it, or remove it")

    def get(self, name: str) -> bytes | None:
        """The bytes of an entry; None: there is none that may be read. It counts as used now."""
        path = os.path.join(self._path, name)
        try:
            opened = os.open(path, _READ)
            with os.fdopen(opened, "rb") as stream:
                found = os.fstat(opened)
                if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
                    return None
                data = stream.read()
            os.utime(path)
        except OSError:
            return None
        return data

    def put(self, name: str, data: bytes) -> None:
        """Keeps an entry, in place of those that were not used for longest."""
        if len(data) > self._most * _FULL:
            return
        path = os.path.join(self._path, name)
        unfinished = f"{path}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(unfinished, _WRITE, 0o600), "wb") as stream:
                stream.write(data)
            os.replace(unfinished, path)
        except OSError:  # no space, no right, no directory
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            return
        if self._unseen is None or self._unseen + len(data) > self._most // _LOOK_EVERY:
            self._unseen = 0
            self._remove_oldest()
        self._unseen += len(data)

    def drop(self, name: str) -> None:
        """Removes an entry."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._path, name))

    def usage(self) -> Usage:
        """The present contents."""
        sizes = [found.st_size for _, found in self._files()]
        return Usage(self._path, len(sizes), sum(sizes), self._most)

    def clear(self) -> Usage:
        """Removes all entries, and gives what there was."""
        usage = self.usage()
        for name, _ in self._files(_ENTRY, _UNFINISHED):
            self.drop(name)
        return usage

    def _remove_oldest(self) -> None:
        now = time.time()
        for name, found in self._files(_UNFINISHED):
            if now - found.st_mtime > _ABANDONED_S:  # its process ended before it was written
                self.drop(name)
        files = sorted(self._files(), key=lambda file: file[1].st_mtime_ns)
        size = sum(found.st_size for _, found in files)
        if size <= self._most:
            return
        for name, found in files:
            if size <= self._most * _FULL:
                return
            self.drop(name)
            size -= found.st_size

    def _files(self, *names: re.Pattern[str]) -> Iterator[tuple[str, os.stat_result]]:
        try:
            found = sorted(path.name for path in Path(self._path).iterdir())
        except OSError:
            return
        for name in found:
            if any(pattern.fullmatch(name) for pattern in names or (_ENTRY,)):
                with contextlib.suppress(OSError):  # another process removed it
                    yield name, os.lstat(os.path.join(self._path, name))


def _is_ours(found: os.stat_result) -> bool:
    return os.name == "nt" or found.st_uid == os.geteuid()


def _refusal(reason: str) -> RequestError:
    return RequestError(f"Cannot keep a cache there: {reason}", options=("cache_dir",))


# Entries as bytes: a digest, the key, and columns as an Arrow IPC file. Nothing in them is ever run.
#
# Columns are validated first: offsets which lead out of an entry are an error here and not a crash later.


_MAGIC = b"HRNSENT1"
_DIGEST_BYTES = 16
_HEAD = struct.Struct(f"<{len(_MAGIC)}s{_DIGEST_BYTES}sI")  # magic, digest of what follows it, bytes of the key


class StrangeEntryError(Exception):
    """The bytes are no entry of that key, or hold other columns than they should."""


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An entry whose digest was right. size: of all of it, in bytes."""

    size: int
    _body: pa.Buffer = field(repr=False)

    @property
    def about(self) -> Mapping[bytes, bytes]:
        """Values beside the columns."""
        return self._opened(None).schema.metadata or {}

    def columns(self, schema: pa.Schema) -> pa.Table:
        """The columns of these names and types; others are not looked at.

        Raises StrangeEntryError: it has no such columns, or they are damaged.
        """
        try:
            found = self._opened(None).schema
            places = [found.get_field_index(name) for name in schema.names]
            if any(place < 0 or found.types[place] != type_ for place, type_ in zip(places, schema.types, strict=True)):
                raise StrangeEntryError("other columns")
            table = self._opened(places).read_all().select(schema.names)
            table.validate(full=True)
            return table.cast(schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StrangeEntryError(f"{error}") from error

    def _opened(self, places: list[int] | None) -> pa.ipc.RecordBatchFileReader:
        return pa.ipc.open_file(self._body, options=pa.ipc.IpcReadOptions(included_fields=places))


def encode(key: Key, table: pa.Table, about: Mapping[bytes, bytes]) -> bytes:
    """The bytes of an entry. about: stands beside the columns."""
    codec = "zstd" if pa.Codec.is_available("zstd") else None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
    with pa.ipc.new_file(sink, table.schema.with_metadata(dict(about)), options=options) as writer:
        writer.write_table(table.combine_chunks())
    body = sink.getvalue()
    return b"".join((_HEAD.pack(_MAGIC, _digest(key.text, body), len(key.text)), key.text, body))


def decode(data: bytes, key: Key) -> KeptEntry:
    """The entry in `data`. Raises StrangeEntryError: it is damaged, or none of that key."""
    if len(data) < _HEAD.size:
        raise StrangeEntryError("too short")
    magic, digest, length = _HEAD.unpack_from(data)
    start = _HEAD.size + length
    body = pa.py_buffer(data)[start:] if start <= len(data) else pa.py_buffer(b"")
    text = data[_HEAD.size : start]
    if magic != _MAGIC or text != key.text or digest != _digest(text, body):
        raise StrangeEntryError("other bytes")
    return KeptEntry(len(data), body)


def _digest(text: bytes, body: pa.Buffer) -> bytes:
    digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES)
    digest.update(body)
    return digest.digest()
