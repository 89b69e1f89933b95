"""Bytes by location: the only module that opens files, and the one that knows recorded from physical paths.

A *recorded* path is the string in the metadata. It is a file's identity: deletes match it, `_file` shows it, and it
is never normalised (iceberg 1.14). The *physical* path is where the bytes are now: a plain local path, or a URI that
fsspec opens. They differ when a table was copied (iceberg 1.11); `PathMap` turns the one into the other.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import fsspec

from harness.errors import HarnessError, RequestError
from harness.limits import DEFAULT, Limits, contained
from harness.storage import gate
from harness.storage.gate import failure, is_name, open_regular, refusal, refuse_no_name

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
_LOCAL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
# Names of one store under several clients; for I/O only (iceberg 1.14).
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gs": "gcs"}
# What the file systems of fsspec call the last modification, as a number of seconds, an ISO text or a datetime.
_MODIFIED = ("mtime", "LastModified", "last_modified", "modified", "updated")
# File systems of fsspec that several threads may ask at once, beside its asynchronous ones. It promises this of no
# other: one of them may read all its files through one handle, such as that of an archive.
_FOR_THREADS = {"LocalFileSystem", "ArrowFSWrapper", "MemoryFileSystem"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def local_path(path: str) -> str:
    """`path` without the prefix of a local URI: `file:/x`, `file:///x` and `/x` are one file. No percent-decoding."""
    return path if path.startswith("/") else _LOCAL.sub("", path, count=1)


def is_local(path: str) -> bool:
    """Whether `path`, physical, is on the local file system."""
    return path.startswith("/") or _SCHEME.match(local_path(path)) is None


def shown(location: str) -> str:
    """A location without what may be secret: a user with a password before the host, a signature after `?`."""
    match = _SCHEME.match(location)
    if match is None:
        return location
    authority, slash, path = location[match.end() + len("://") :].partition("/")
    user, _, host = authority.rpartition("@")
    # `abfss://container@account` names a container.
    return f"{match[0]}://{host if ':' in user else authority}{slash}{path.partition('?')[0]}"


def absolute(path: str, base: str) -> str:
    """`path`, physical, as one that no later change of the process's directory moves.

    base: the local directory, absolute, at which relative paths start. What is absolute, or a URI, comes as it is.
    """
    if path.startswith("/"):  # nearly always, and this is asked of every file of a table
        return path
    plain = local_path(path)
    return path if not is_local(plain) or os.path.isabs(plain) else os.path.join(base, plain)


def join(directory: str, *names: str) -> str:
    """`directory`/names…, with exactly one slash between the parts."""
    return "/".join((directory.rstrip("/"), *names))


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a listing.

    name: without its directory.
    size: in bytes.
    modified_ms: last modification, milliseconds since 1970-01-01 UTC, rounded down; None where the storage has none.
    """

    name: str
    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What storage says of a file now.

    size: in bytes.
    modified_ms: last modification, milliseconds since 1970-01-01 UTC, rounded down; None where the storage has none.
    """

    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True)
class PathMap:
    """Prefix replacements from recorded to physical paths (iceberg 1.12).

    prefixes: (recorded prefix, physical prefix) pairs, tried in order, the first that matches wins. A prefix matches
    only at a path-component boundary. Paths that no prefix matches stay as recorded.
    base: where relative paths start, recorded ones and physical prefixes alike: the process's directory when the table
    was opened. Rows are read later, and partly by processes that are elsewhere (Spark's).
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    base: str = field(default_factory=os.getcwd)

    def physical(self, recorded: str) -> str:
        """Where the file that the metadata calls `recorded` should be; never a relative path."""
        plain = local_path(recorded)
        for old, new in self.prefixes:
            prefix = local_path(old).rstrip("/")
            if not prefix:  # the root, or nothing, is a prefix of everything: that would be no mapping but a guess
                continue
            if plain == prefix or plain.startswith(prefix + "/"):
                return absolute(new.rstrip("/") + plain[len(prefix) :], self.base)
        return absolute(plain, self.base)


@dataclass(frozen=True)
class Storage:
    """Reads local files and everything that fsspec has a file system for.

    options: passed to fsspec for every non-local location (`key`, `secret`, `endpoint_url`, …).
    limits: what the decoders of its bytes let a file ask for.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = DEFAULT

    @cached_property
    def _file_systems(self) -> dict[str, fsspec.AbstractFileSystem]:
        return {}

    def file_system(self, path: str) -> tuple[fsspec.AbstractFileSystem, str]:
        """The file system of `path`, physical, and `path` as that file system spells it.

        Raises:
            RequestError: no installed file system serves the scheme.
        """
        match = _SCHEME.match(path)
        scheme = match.group(0).lower() if match else "file"
        protocol = _SCHEME_ALIASES.get(scheme, scheme)
        if protocol not in self._file_systems:
            try:
                options = {} if protocol == "file" else dict(self.options)
                self._file_systems[protocol] = fsspec.filesystem(protocol, **options)
            except (ValueError, ImportError) as error:
                raise RequestError(f"Cannot open {scheme}:// locations: {error}", file=path) from error
            except Exception as error:  # a client that asks for its credentials, or the first connection
                raise failure(error, path) from error
        return self._file_systems[protocol], protocol + path[len(scheme) :] if match else local_path(path)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or `length` of them from `offset` (in bytes; fewer at the end of the file).

        Threads may call this at once: each call reads by its own offset.

        Raises:
            MissingFileError: there is no such file.
            StorageError: its storage failed. LimitError: there is no memory for it.
        """
        local = local_path(path)
        refuse_no_name(local)
        if is_local(local):
            with _answering(path), open_regular(local) as stream:
                stream.seek(offset)
                return stream.read(-1 if length is None else length)
        file_system, name = self.file_system(local)
        end = None if length is None else offset + length
        with _answering(path), _turn(file_system):
            return bytes(file_system.cat_file(name, start=offset, end=end))

    def exists(self, path: str) -> bool:
        """Whether `path` is a file. Raises StorageError where that cannot be told: an absence must not be guessed."""
        local = local_path(path)
        if not is_name(local):
            return False
        if is_local(local):
            return os.path.isfile(local)
        file_system, name = self.file_system(local)
        with _answering(path), _turn(file_system):
            return _kind(file_system, name) == "file"

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory (on an object store: a prefix of some file). Raises as `exists`."""
        local = local_path(path)
        if not is_name(local):
            return False
        if is_local(local):
            return os.path.isdir(local)
        file_system, name = self.file_system(local)
        with _answering(path), _turn(file_system):
            # `isdir` takes every failure for a no; some file systems know directories by it alone.
            return _kind(file_system, name) == "directory" or bool(file_system.isdir(name))

    def size(self, path: str) -> int:
        """The size of a file in bytes.

        Raises:
            MissingFileError: there is no such file.
        """
        local = local_path(path)
        refuse_no_name(local)
        if is_local(local):
            with _answering(path):
                return os.path.getsize(local)
        file_system, name = self.file_system(local)
        with _answering(path), _turn(file_system):
            return int(file_system.size(name))

    def status(self, path: str) -> FileStatus:
        """A file's size and its last modification, asked for afresh; one request to an object store.

        Raises:
            MissingFileError: there is no such file, or it is none but a directory.
            StorageError: the storage failed, or does not tell the size.
        """
        local = local_path(path)
        refuse_no_name(local)
        file_system, name = self.file_system(local)
        with _answering(path), _turn(file_system):
            file_system.invalidate_cache(name)
            info = file_system.info(name)
            if info["type"] == "directory":
                raise IsADirectoryError(path)
            if info["size"] is None:
                raise OSError("it does not tell the file's size")
        return FileStatus(int(info["size"]), _modified_ms(info, *_MODIFIED))

    def fault(self, path: str) -> str | None:
        """Why nothing can be read at `path`, as far as that shows without a request; None: it does not.

        Of a remote file its name shows, of a local one also whether it is there and regular.
        """
        local = local_path(path)
        return gate.fault(local) if is_local(local) else gate.name_fault(local)

    def names(self, directory: str) -> tuple[str, ...]:
        """Names (not paths) of the files directly in `directory`, sorted; empty if there is no such directory."""
        local = local_path(directory)
        if not is_name(local):
            return ()
        if is_local(local):
            if not os.path.isdir(local):
                return ()
            with _answering(directory), os.scandir(local) as entries:
                return tuple(sorted(entry.name for entry in entries if entry.is_file()))
        file_system, name = self.file_system(local)
        with _answering(directory), _turn(file_system):
            try:
                listed = file_system.ls(name, detail=True)
            except FileNotFoundError:
                return ()
        return tuple(sorted(info["name"].rstrip("/").rsplit("/", 1)[-1] for info in listed if info["type"] == "file"))

    def entries(self, directory: str) -> tuple[Entry, ...]:
        """The files directly in `directory`, listed afresh, sorted by name; empty if there is no such directory."""
        local = local_path(directory)
        if not is_name(local):
            return ()
        if is_local(local):
            with _answering(directory):
                return tuple(sorted(_local_entries(local), key=lambda entry: entry.name))
        file_system, name = self.file_system(local)
        with _answering(directory), _turn(file_system):
            file_system.invalidate_cache(name)
            try:
                listed = file_system.ls(name, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return ()
        files = (
            Entry(
                info["name"].rsplit("/", 1)[-1], int(info.get("size") or 0), _modified_ms(info, *_MODIFIED, "created")
            )
            for info in listed
            if info["type"] == "file"
        )
        return tuple(sorted(files, key=lambda entry: entry.name))


@contextmanager
def _answering(path: str) -> Iterator[None]:
    """Whatever storage fails with is an error of harness that names the path; clients have classes of their own."""
    try:
        with contained(file=path):
            yield
    except HarnessError:
        raise
    except Exception as error:
        raise refusal(error, path) from error


def _kind(file_system: fsspec.AbstractFileSystem, name: str) -> str | None:
    """`file`, `directory` or what else the file system calls it; None: it is not there."""
    try:
        return str(file_system.info(name)["type"])
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _turn(file_system: fsspec.AbstractFileSystem) -> AbstractContextManager[object]:
    """To be entered around each call of a file system: by one thread at a time, unless it is made for several."""
    names = {kind.__name__ for kind in type(file_system).__mro__}
    if getattr(file_system, "async_impl", False) or not names.isdisjoint(_FOR_THREADS):
        return nullcontext()
    # Kept on the file system, so that whatever has it has the lock; what pickles a file system leaves it behind.
    lock: threading.RLock = vars(file_system).setdefault("_harness_lock", threading.RLock())
    return lock


def _local_entries(directory: str) -> Iterator[Entry]:
    if not os.path.isdir(directory):
        return
    with os.scandir(directory) as found:
        for item in found:
            try:
                if item.is_file():
                    status = item.stat()
                    yield Entry(item.name, status.st_size, status.st_mtime_ns // 1_000_000)
            except FileNotFoundError:  # removed since the directory was read, or a dangling link: not a file
                continue


def _modified_ms(info: Mapping[str, Any], *keys: str) -> int | None:
    """The first time that `info` has under one of the keys, milliseconds since 1970-01-01 UTC."""
    value = next((info[key] for key in keys if info.get(key) is not None), None)
    if isinstance(value, int | float):
        return round(value * 1_000_000) // 1000
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    return None
