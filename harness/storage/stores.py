"""Bytes by location: the only module that opens files, each only where its table's roots allow."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import HarnessError, RequestError, StorageError
from harness.limits import DEFAULT, Limits, contained
from harness.storage import gate
from harness.storage.gate import is_name, open_regular, refusal, refuse_no_name
from harness.storage.listings import (
    Entry,
    FileStatus,
    FileVersion,
    local_directories,
    local_entries,
    local_version,
    remote_entry,
    remote_status,
    remote_version,
)
from harness.storage.paths import SCHEME, is_local, local_path
from harness.storage.places import place
from harness.storage.renewal import Renewal
from harness.storage.roots import Roots, metadata_root

if TYPE_CHECKING:
    import fsspec

# Names of one store under several clients; for I/O only (iceberg 1.14).
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gs": "gcs"}
# File systems of fsspec that several threads may ask at once, beside its asynchronous ones. It promises this of no
# other: one of them may read all its files through one handle, such as that of an archive.
_FOR_THREADS = {"LocalFileSystem", "ArrowFSWrapper", "MemoryFileSystem"}


@dataclass(frozen=True)
class Storage:
    """Reads local files and everything that fsspec has a file system for.

    options: passed to fsspec for locations that are not local (`key`, `secret`, `endpoint_url`, …). Under a key that is
        a URI, such as `s3://bucket`, are those of that store; the others are of `stores`.
    limits: what the decoders of its bytes let a file ask for.
    stores: scheme, host and bucket that the plain options are for, see `harness.storage.places`; None: all.
    roots: what may be read; None: everything.
    untrusted: whether it is an error if the table says what is not so, where that is a warning else.
    renewal: gives options in place of `options` where these end; None: they do not.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = DEFAULT
    stores: frozenset[str] | None = None
    roots: Roots | None = None
    untrusted: bool = False
    renewal: Renewal | None = field(default=None, repr=False, compare=False)
    _file_systems: dict[tuple[str, ...], fsspec.AbstractFileSystem] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """Without what another process finds out by itself: it opens its own file systems."""
        roots = None if self.roots is None else self.roots.forgetting()
        state = {**self.__dict__, "roots": roots, "_file_systems": {}}
        # Who renews options has a connection of its own: another process gets those that hold now.
        return state if self.renewal is None else {**state, "options": self.renewal.current(), "renewal": None}

    def for_read(self) -> Storage:
        """The same storage for one read of a table, see `Roots.for_read`."""
        return self if self.roots is None else replace(self, roots=self.roots.for_read())

    def around(self, metadata_file: str) -> Storage:
        """The same storage, which may also read the table that a metadata file, physical, is the metadata of."""
        if self.roots is None:
            return self
        found = {metadata_root(metadata_file)}
        if is_local(local_path(metadata_file)):
            plain = os.path.abspath(local_path(metadata_file))
            found = {metadata_root(plain), metadata_root(os.path.realpath(plain))}
        return replace(self, roots=self.roots.including(*sorted(found)))

    def check(self, path: str, recorded: str | None = None) -> None:
        """Returns if a file may be read, see `Roots.check`; asks no store."""
        if self.roots is not None:
            self.roots.check(path if path.startswith("/") else local_path(path), recorded)

    def file_system(self, path: str) -> tuple[fsspec.AbstractFileSystem, str]:
        """The file system of `path`, physical, and `path` as that file system spells it.

        Raises:
            RequestError: no installed file system serves the scheme.
            OutsideTableError: the table may not read there.
        """
        import fsspec  # local files are read without it

        match = SCHEME.match(path)
        scheme = match.group(0).lower() if match else "file"
        protocol = _SCHEME_ALIASES.get(scheme, scheme)
        try:
            if match is None:
                self.check(path)
                return fsspec.filesystem("file"), local_path(path)
            end = path.find("/", match.end() + len("://"))
            base = path if end < 0 else path[:end]
            options, age = self._current_options()
            if (base, age) not in self._file_systems:
                fsspec.get_filesystem_class(protocol)
                self.check(path)
                self._file_systems[(base, age)] = self._opened(protocol, place(base).store, options, age)
            self.check(path)
        except HarnessError:
            raise
        except (ValueError, ImportError) as error:
            raise RequestError(f"Cannot open {scheme}:// locations: {error}", file=path) from error
        except Exception as error:  # a client library's own
            raise refusal(error, path) from error
        return self._file_systems[(base, age)], protocol + path[len(scheme) :]

    def _current_options(self) -> tuple[Mapping[str, Any], str]:
        """The options that hold now, and a text that changes with them."""
        if self.renewal is None:
            return self.options, ""
        return self.renewal.current(), str(self.renewal.generation)

    def _opened(self, protocol: str, store: str, given: Mapping[str, Any], age: str) -> fsspec.AbstractFileSystem:
        """The file system of one store, with the options that were given for it, and no others."""
        import fsspec

        owner = next((key for key in given if "://" in key and place(key).store == store), None)
        if owner is not None:
            options = dict(given[owner])
        elif self.stores is None or store in self.stores:
            options = {key: value for key, value in given.items() if "://" not in key}
        else:
            owner, options = "nobody", {}
        made = (protocol, owner or "", age)
        if made not in self._file_systems:
            self._file_systems[made] = fsspec.filesystem(protocol, **options)
        return self._file_systems[made]

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or `length` of them from `offset` (in bytes; fewer at the end of the file).

        Threads may call this at once: each call reads by its own offset. On a store this is one request.

        Raises:
            MissingFileError: there is no such file.
            OutsideTableError: the table may not read it.
            StorageError: the storage fails. LimitError: there is no memory for it.
        """
        local = local_path(path)
        refuse_no_name(local)
        if is_local(local):
            self.check(local)
            with _failing(path), open_regular(local, follow=self._follow) as stream:
                stream.seek(offset)
                return stream.read(-1 if length is None else length)
        file_system, name = self.file_system(local)
        end = None if length is None else offset + length
        with _failing(path), _turn(file_system):
            return bytes(file_system.cat_file(name, start=offset, end=end))

    def end(self, path: str, length: int) -> bytes:
        """The last `length` bytes of a local file, or all of a shorter one. Raises as `read`."""
        local = local_path(path)
        self.check(local)
        return gate.read_end(local, length, follow=self._follow)

    def exists(self, path: str) -> bool:
        """Whether `path` is a file.

        Raises:
            StorageError: that cannot be told: a file that is taken for absent could be the newest metadata.
        """
        return self._is(path, "file")

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory (on an object store: a prefix of some file). Raises as `exists`."""
        return self._is(path, "directory")

    def _is(self, path: str, kind: Literal["file", "directory"]) -> bool:
        local = local_path(path)
        if not is_name(local):
            return False
        if is_local(local):
            self.check(local)
            mode = gate.mode_of(local)
            return mode is not None and (stat.S_ISREG(mode) if kind == "file" else stat.S_ISDIR(mode))
        file_system, name = self.file_system(local)
        with _failing(path), _turn(file_system):
            if kind == "directory":
                return bool(file_system.isdir(name))
            try:
                return bool(file_system.info(name)["type"] == "file")
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                return False  # S3 denies what is not there to who may not list

    def size(self, path: str) -> int:
        """The size of a file in bytes.

        Raises:
            MissingFileError: there is no such file.
            OutsideTableError: the table may not read it.
            StorageError: the storage fails.
        """
        local = local_path(path)
        refuse_no_name(local)
        if is_local(local):
            self.check(local)
            with _failing(path):
                return os.path.getsize(self._followed(local))
        file_system, name = self.file_system(local)
        with _failing(path), _turn(file_system):
            return int(file_system.size(name))

    def status(self, path: str) -> FileStatus:
        """A file's size and its last modification, asked for afresh; one request to an object store.

        Raises:
            MissingFileError: there is no such file, or it is none but a directory.
            OutsideTableError: the table may not read it.
            StorageError: the storage fails, or does not tell its size.
        """
        local = local_path(path)
        refuse_no_name(local)
        file_system, name = self.file_system(self._followed(local) if is_local(local) else local)
        with _failing(path):
            with _turn(file_system):
                file_system.invalidate_cache(name)
                info = file_system.info(name)
            if info["type"] == "directory":
                raise IsADirectoryError(path)
            if info["size"] is None:
                raise StorageError("Cannot read file: its storage does not tell its size", file=path)
            return remote_status(info)

    def version(self, path: str) -> FileVersion | None:
        """Which version of a file is there now, asked for afresh; None: its storage does not tell versions apart.

        One request to an object store. To be asked before the file is read: if it is replaced in between, what was
        read is remembered under a version that never comes back.

        Raises:
            As `status`.
        """
        local = local_path(path)
        refuse_no_name(local)
        if is_local(local):
            self.check(local)
            with _failing(path):
                return local_version(os.stat(self._followed(local)), now_ns=time.time_ns())
        file_system, name = self.file_system(local)
        with _failing(path), _turn(file_system):
            file_system.invalidate_cache(name)
            return remote_version(file_system.info(name))

    def fault(self, path: str) -> str | None:
        """Why nothing can be read at `path`, as far as that shows without a request; None: it does not.

        Of a remote file its name shows, of a local one also whether it is there and regular.

        Raises:
            OutsideTableError: the table may not read it.
        """
        local = path if path.startswith("/") else local_path(path)
        if self.roots is None:
            return gate.fault(local) if is_local(local) else gate.name_fault(local)
        self.roots.check(local)
        return gate.fault(local, follow=self.roots.followed) if is_local(local) else gate.name_fault(local)

    def names(self, directory: str) -> tuple[str, ...]:
        """Names (not paths) of the files directly in `directory`, sorted; empty if there is no such directory.

        Raises:
            StorageError: the storage fails.
        """
        local = local_path(directory)
        if not is_name(local):
            return ()
        if is_local(local):
            self.check(local)
            with _failing(directory):
                if not os.path.isdir(local):
                    return ()
                with os.scandir(local) as entries:
                    return tuple(sorted(entry.name for entry in entries if entry.is_file()))
        file_system, name = self.file_system(local)
        with _failing(directory):
            try:
                with _turn(file_system):
                    listed = file_system.ls(name, detail=True)
            except FileNotFoundError:
                return ()
            files = (info["name"].rstrip("/") for info in listed if info["type"] == "file")
            return tuple(sorted(file.rsplit("/", 1)[-1] for file in files))

    def directories(self, directory: str) -> tuple[str, ...]:
        """Names (not paths) of the directories directly in `directory`, sorted; empty if there is no such directory.

        Raises:
            StorageError: the storage fails.
        """
        local = local_path(directory)
        if not is_name(local):
            return ()
        if is_local(local):
            self.check(local)
            with _failing(directory):
                return tuple(sorted(local_directories(local)))
        file_system, name = self.file_system(local)
        with _failing(directory):
            try:
                with _turn(file_system):
                    listed = file_system.ls(name, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return ()
            found = {info["name"].rstrip("/").rsplit("/", 1)[-1] for info in listed if info["type"] == "directory"}
            return tuple(sorted(found))

    def entries(self, directory: str) -> tuple[Entry, ...]:
        """The files directly in `directory`, listed afresh, sorted by name; empty if there is no such directory.

        Raises:
            StorageError: the storage fails.
        """
        local = local_path(directory)
        if not is_name(local):
            return ()
        if is_local(local):
            self.check(local)
            with _failing(directory):
                return tuple(sorted(local_entries(local), key=lambda entry: entry.name))
        file_system, name = self.file_system(local)
        with _failing(directory):
            try:
                with _turn(file_system):
                    file_system.invalidate_cache(name)
                    listed = file_system.ls(name, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return ()
            found = (remote_entry(info) for info in listed if info["type"] == "file")
            return tuple(sorted(found, key=lambda entry: entry.name))

    @property
    def _follow(self) -> gate.Follow | None:
        return None if self.roots is None else self.roots.followed

    def _followed(self, path: str) -> str:
        return path if self.roots is None or not os.path.islink(path) else self.roots.followed(path)


@contextmanager
def _failing(path: str) -> Iterator[None]:
    """Whatever the operating system or a client library raises becomes an error that names the file."""
    try:
        with contained(file=path):
            yield
    except HarnessError:
        raise
    except Exception as error:  # the classes of clients' errors are theirs: botocore's, aiohttp's, Google's
        raise refusal(error, path) from error


def _turn(file_system: fsspec.AbstractFileSystem) -> AbstractContextManager[object]:
    """To be entered around each call of a file system: by one thread at a time, unless it is made for several."""
    names = {kind.__name__ for kind in type(file_system).__mro__}
    if getattr(file_system, "async_impl", False) or not names.isdisjoint(_FOR_THREADS):
        return nullcontext()
    # Kept on the file system, so that whatever has it has the lock; what pickles a file system leaves it behind.
    lock: threading.RLock = vars(file_system).setdefault("_harness_lock", threading.RLock())
    return lock
