"""Reading of files by location. All table I/O goes through this module, limited to the roots of each table."""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from harness.errors import CorruptFileError, HarnessError, RequestError, StorageError, raise_from
from harness.storage import gate
from harness.storage.gate import Roots, check_name, is_possible_name, metadata_root, open_regular, refusal
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.paths import SCHEME, PhysicalPath, is_local, local_path, secret_texts
from harness.storage.records import dataclass
from harness.storage.scoped_options import Owners, options_at
from harness.storage.threads import Lock

if TYPE_CHECKING:
    from harness.storage.clients import Client
    from harness.storage.renewal import Renewal


T = TypeVar("T")
R = TypeVar("R")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


UNREADABLE = -1
"""The size of an entry that is not a readable file: a directory, pipe, socket, device, or dangling link."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a directory listing.

    Attributes:
        name: The name without the directory.
        size: Size in bytes, or `UNREADABLE` if the entry is not a regular file.
        modified_ms: As in `FileStatus`.
        is_link: True for a symbolic link. Size and time then belong to its target.
    """

    name: str
    size: int
    modified_ms: int | None
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The current status of a file.

    Attributes:
        size: Size in bytes.
        modified_ms: Last modification in milliseconds since 1970-01-01 UTC, rounded down, or None if unknown.
        etag: The store's etag of these bytes, or None.
    """

    size: int
    modified_ms: int | None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file: its size in bytes, and a token that the storage changes with each version."""

    size: int
    token: str


_SETTLED_NS = 2_000_000_000
"""The coarsest resolution of file times. Two versions written within it may have the same time."""


def _local_version(status: os.stat_result) -> FileVersion:
    token = f"{status.st_dev}-{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}"
    return FileVersion(status.st_size, token)


def local_entries(directory: str) -> Iterator[Entry]:
    """Return the entries of a local directory, including those that are not regular files."""
    for item in _scan_directory(directory):
        try:
            is_file = _is_kind(item, os.DirEntry.is_file)
            status = item.stat(follow_symlinks=is_file)
        except FileNotFoundError:  # removed after the directory was read
            continue
        size = status.st_size if is_file else UNREADABLE
        yield Entry(item.name, size, status.st_mtime_ns // 1_000_000, item.is_symlink())


def _is_kind(item: os.DirEntry[str], is_kind: Callable[[os.DirEntry[str]], bool]) -> bool:
    """Return `is_kind(item)`, or False for circular links."""
    try:
        return is_kind(item)
    except OSError:
        if item.is_symlink():
            return False
        raise


def _scan_directory(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return list(entries)


def milliseconds(time: datetime) -> int:
    """Return a time in milliseconds since 1970-01-01 UTC, rounded down. A time without a zone is in UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


# Ends of remote files are read in advance and kept, so that parsing a footer needs no second request. A reader that
# knows a file's size and etag requires both for all further bytes, so rows never mix two versions of a file.


MOST_END_BYTES = 64 << 20


@dataclass(slots=True)
class _End:
    status: FileStatus
    data: bytes


@dataclass(slots=True, eq=False)
class FileEnds:
    """The last bytes of a table's files, up to 64 MiB in total, and the status of each file."""

    _ends: OrderedDict[str, _End] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[FileEnds], tuple[()]]:
        """Pickle without the bytes. Another process reads them again."""
        return FileEnds, ()

    def fetch(self, client: Client, path: str, length: int) -> bytes:
        """Read the last bytes of a file now, and keep these bytes."""
        data, status = client.end(path, length)
        if len(data) != min(length, status.size):
            raise StorageError(
                f"Cannot read file: its storage returned {len(data)} bytes for the last {length}", file=path
            )
        with self._lock:
            old = self._ends.pop(path, None)
            self._ends[path] = _End(status, data)
            self._bytes += len(data) - (0 if old is None else len(old.data))
            if self._bytes > MOST_END_BYTES:
                for other in self._ends.values():
                    self._bytes, other.data = self._bytes - len(other.data), b""
                    if self._bytes <= MOST_END_BYTES // 2:
                        break
        return data

    def status(self, path: PhysicalPath) -> FileStatus | None:
        """Return the status that a file had when its end was read, or None if its end was not read."""
        end = self._ends.get(path)
        return None if end is None else end.status

    def read(self, client: Client, path: str, offset: int, length: int | None, expected: FileStatus | None) -> bytes:
        """Return bytes of a file, from the kept end if it contains them. For `expected` see `Storage.read`."""
        end = self._ends.get(path)
        if end is not None and length is not None and end.status == expected:
            data, size = end.data, end.status.size
            start = offset - (size - len(data))
            if start >= 0 and offset + length <= size:
                return data[start : start + length]
        data, status = client.read(path, offset, length)
        if status is not None and expected is not None and (status.size, status.etag) != (expected.size, expected.etag):
            raise StorageError("Cannot read file: it was replaced while it was read; read the table again", file=path)
        return data


@dataclass()
class Storage:
    """A reader of local files, object stores, and every other file system that fsspec supports.

    An instance keeps its open clients and the ends of files that it has read.

    Attributes:
        options: Options for remote locations, under the names in `harness.storage.option_names` for object stores, or
            fsspec's names for others. A key that is a URI, for example `s3://bucket`, holds the options of the paths
            that start with it, see `harness.storage.scoped_options`.
        limits: Limits for decoders of the files.
        stores: The stores (scheme, host, and bucket, see `harness.storage.paths`) to which the plain options apply.
            None means all.
        roots: The roots that may be read. None means everything.
        untrusted: True if contradictions in the table are errors. Otherwise they are warnings.
        renewal: Replaces `options` if they expire. None if they do not.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = DEFAULT
    stores: frozenset[str] | None = field(default=None, repr=False)
    roots: Roots | None = None
    untrusted: bool = False
    renewal: Renewal | None = field(default=None, repr=False, compare=False)
    _clients: dict[tuple[str, str | None, int], Client] = field(default_factory=dict, repr=False, compare=False)
    _owners: tuple[Mapping[str, Any], Owners] | None = field(default=None, repr=False, compare=False)
    _ends: FileEnds = field(default_factory=FileEnds, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without caches and clients. Another process creates its own."""
        roots = None if self.roots is None else self.roots.without_cache()
        options = self.options if self.renewal is None else self.renewal.current()
        return {
            **self.__dict__,
            "options": options,
            "roots": roots,
            "_clients": {},
            "_owners": None,
            "_ends": FileEnds(),
        }

    def for_read(self) -> Storage:
        """Return the same storage for one read of a table, see `Roots.for_read`."""
        return self if self.roots is None else replace(self, roots=self.roots.for_read())

    def including_table(self, location: str, metadata_file: str) -> Storage:
        """Return a storage that may also read the table of a metadata file.

        Args:
            location: The location that the user named. If it is the metadata file itself and a link, the table that the
                link leads to may be read too. A link inside the table's directory is not trusted in this way.
            metadata_file: The physical path of the metadata file.
        """
        if self.roots is None:
            return self
        roots = {metadata_root(metadata_file)}
        if is_local(local_path(metadata_file)):
            plain = os.path.abspath(local_path(metadata_file))
            roots = {metadata_root(plain)}
            if metadata_file == location:
                roots.add(metadata_root(os.path.realpath(plain)))
        return replace(self, roots=self.roots.including(*sorted(roots)))

    def check(self, path: PhysicalPath, recorded: str | None = None) -> None:
        """Raise if a file may not be read, see `Roots.check`. Contacts no store."""
        if self.roots is not None:
            self.roots.check(path if path.startswith("/") else local_path(path), recorded)

    def client(self, path: PhysicalPath) -> Client:
        """Return the client for the store of a remote physical path. Raises the same errors as `check`.

        Raises:
            RequestError: No installed library serves the scheme, or an option is wrong.
        """
        from harness.storage import clients  # reading local files does not need it

        match = SCHEME.match(path)
        try:
            if match is None:
                self.check(path)
                return clients.local_client()
            end = path.find("/", match.end() + len("://"))
            base = path if end < 0 else path[:end]
            options, generation = (self.options, 0) if self.renewal is None else self.renewal.versioned()
            key = base, self._owners_of(options).of(path), generation
            if key not in self._clients:
                clients.check_scheme(match[0])
                self.check(path)
                client = clients.open_client(base, options_at(path, options, self.stores))
                self._clients.setdefault(key, client)  # two threads that start together must share one client
            self.check(path)
        except HarnessError as error:
            raise error.within(file=path) from error.__cause__
        except (ValueError, ImportError) as error:
            raise RequestError(
                f"Cannot open {match[0] if match else 'file'}:// locations: {error}", file=path
            ) from error
        except Exception as error:  # errors of a client library
            secrets = secret_texts(self._last_options)
            raise_from(refusal(error, path, secrets), error, secrets)
        return self._clients[key]

    def store_options(self, location: str) -> dict[str, str]:
        """Return the options for the object store of a location, by canonical name.

        The options of a store differ between locations if they were set by prefix.

        Raises RequestError if an option is wrong.
        """
        from harness.storage import object_client

        options = self.options if self.renewal is None else self.renewal.current()
        return object_client.bucket_options(location, options_at(location, options, self.stores))

    def owner(self, location: str) -> str | None:
        """Return the URI whose options apply to a location, or None if the plain options do."""
        return self._owners_of(self.options if self.renewal is None else self.renewal.current()).of(location)

    def _owners_of(self, options: Mapping[str, Any]) -> Owners:
        if self._owners is None or self._owners[0] is not options:
            self._owners = options, Owners(options)
        return self._owners[1]

    @property
    def _last_options(self) -> Mapping[str, Any]:
        """The options that were valid last, for messages without their secrets."""
        return self.options if self.renewal is None else self.renewal.options

    def read_whole(self, path: PhysicalPath, size: int | None) -> bytes:
        """Return the bytes of a file, and refuse a truncated file.

        A log file that was truncated at the end of a line would look complete.

        Args:
            path: The file's physical path.
            size: The file's listed or recorded size in bytes, or None if unknown. The file may be longer, because it
                may have been appended to since.

        Raises:
            CorruptFileError: The file has fewer bytes. The cause is `CutShort`.
            MissingFileError, OutsideTableError, StorageError, LimitError: As for `read`.
        """
        data = self.read(path)
        if size is not None and len(data) < size:
            message = (
                f"The file is cut short: its storage returned {len(data)} bytes of {size}; read again, or restore it"
            )
            raise CorruptFileError(message, cause="CutShort", file=path)
        return data

    def read(
        self, path: PhysicalPath, *, offset: int = 0, length: int | None = None, expected: FileStatus | None = None
    ) -> bytes:
        """Return the bytes of a file or of a part of it. Threads may call this at the same time.

        On a store this is one request, or none if `end` has read the bytes.

        Args:
            path: The file's physical path.
            offset: The first byte.
            length: The number of bytes, fewer at the end of the file. None means all.
            expected: The status that a remote file must still have. None means any.

        Raises:
            MissingFileError: The file does not exist.
            OutsideTableError: The table may not read it.
            StorageError: The storage fails, or the file was replaced.
            LimitError: There is not enough memory.
        """
        local = local_path(path)
        if is_local(local):
            self.check(local)
            with _storage_errors(path), open_regular(local, follow=self._follow) as stream:
                stream.seek(offset)
                return stream.read(-1 if length is None else length)
        check_name(local)
        client = self.client(local)
        with _storage_errors(path, self._last_options):
            return self._ends.read(client, local, offset, length, expected)

    def end(self, path: PhysicalPath, length: int) -> bytes:
        """Return the last `length` bytes of a file, or the whole file if it is shorter.

        Raises the same errors as `read`.

        In an object store, this is one request. The bytes and the status of the file are kept for `read` and
        `known_status`.
        """
        local = local_path(path)
        self.check(local)
        if is_local(local):
            return gate.read_end(local, length, follow=self._follow)
        check_name(local)
        client = self.client(local)
        with _storage_errors(path, self._last_options):
            return self._ends.fetch(client, local, length)

    def reads_ends(self, path: PhysicalPath) -> bool:
        """Return whether it is faster to call `end` than `status` for many files. `end` also keeps their status."""
        local = local_path(path)
        return is_local(local) or self.client(local).reads_ends

    def known_status(self, path: PhysicalPath) -> FileStatus:
        """Return the status of a file that `end` has kept, or else the result of `status`."""
        status = self._ends.status(local_path(path))
        return self.status(path) if status is None else status

    def exists(self, path: PhysicalPath) -> bool:
        """Return whether `path` is a file.

        Raises StorageError if that cannot be determined, because the file might be the newest metadata.
        """
        return self._is(path, "file")

    def has_file(self, path: PhysicalPath) -> bool:
        """Return whether `path` is a file. The result is False only if it is certain that nothing is at `path`.

        Raises:
            MissingFileError: Something other than a file is at `path`.
            StorageError: The path cannot be examined.
        """
        local = local_path(path)
        if not is_possible_name(local) or not is_local(local):
            return self.exists(path)
        self.check(local)
        return gate.is_regular_file(local)

    def is_directory(self, path: PhysicalPath) -> bool:
        """Return whether `path` is a directory or, on an object store, the prefix of a file.

        Raises the same errors as `exists`.
        """
        return self._is(path, "directory")

    def _is(self, path: PhysicalPath, kind: Literal["file", "directory"]) -> bool:
        local = local_path(path)
        if not is_possible_name(local):
            return False
        if is_local(local):
            self.check(local)
            mode = gate.mode_of(local)
            return mode is not None and (stat.S_ISREG(mode) if kind == "file" else stat.S_ISDIR(mode))
        client = self.client(local)
        with _storage_errors(path, self._last_options):
            return client.is_directory(local) if kind == "directory" else client.is_file(local)

    def size(self, path: PhysicalPath) -> int:
        """Return the size of a file in bytes. Raises the same errors as `read`."""
        return self.status(path).size

    def status(self, path: PhysicalPath) -> FileStatus:
        """Return the current size and modification time of a file. One request to an object store.

        Raises the same errors as `read`.
        """
        local = local_path(path)
        check_name(local)
        if is_local(local):
            self.check(local)
            with _storage_errors(path):
                status = os.stat(self._resolve_link(local))
                return FileStatus(status.st_size, status.st_mtime_ns // 1_000_000)
        client = self.client(local)
        with _storage_errors(path, self._last_options):
            return client.status(local)

    def version(self, path: PhysicalPath) -> FileVersion | None:
        """Return the current version of a file, or None if the storage cannot distinguish versions.

        Raises the same errors as `read`.

        Call this before reading the file. It is one request to an object store.
        """
        local = local_path(path)
        check_name(local)
        if is_local(local):
            self.check(local)
            with _storage_errors(path):
                status = os.stat(self._resolve_link(local))
            changed = max(status.st_mtime_ns, status.st_ctime_ns)
            if not 0 <= changed <= time.time_ns() - _SETTLED_NS:
                return None  # changed a moment ago, so the time might not change with the next version
            return _local_version(status)
        client = self.client(local)
        with _storage_errors(path, self._last_options):
            return client.version(local)

    def fault(self, path: PhysicalPath) -> str | None:
        """Return why nothing can be read at `path`, or None, without sending a request.

        Raises the same errors as `check`.

        For a remote file only the name is checked. A local file must also exist and be regular.
        """
        local = path if path.startswith("/") else local_path(path)
        if self.roots is None:
            return gate.fault(local) if is_local(local) else gate.name_fault(local)
        self.roots.check(local)
        return gate.fault(local, follow=self.roots.resolve_link) if is_local(local) else gate.name_fault(local)

    def names(self, directory: PhysicalPath) -> tuple[str, ...]:
        """Return the sorted names of the files directly in `directory`, or an empty tuple if it does not exist.

        On file systems with directories, other entries are included. Raise StorageError if listing fails.
        """
        items = self._list(directory, _scan_directory, lambda client, path: client.entries(path))
        return tuple(sorted(item.name for item in items))

    def directories(self, directory: PhysicalPath) -> tuple[str, ...]:
        """Return the sorted names of the directories directly in `directory`. Like `names` otherwise."""

        def below(path: str) -> list[str]:
            return [item.name for item in _scan_directory(path) if _is_kind(item, os.DirEntry.is_dir)]

        return tuple(sorted(self._list(directory, below, lambda client, path: client.directories(path))))

    def entries(self, directory: PhysicalPath) -> tuple[Entry, ...]:
        """Return the files directly in `directory`, listed without a cache and sorted by name. Like `names` otherwise.

        On a local disk, other entries are included with the size `UNREADABLE`.
        """
        entries = self._list(directory, local_entries, lambda client, path: client.entries(path))
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def _list(
        self, directory: PhysicalPath, local: Callable[[str], Iterable[T]], remote: Callable[[Client, str], Iterable[R]]
    ) -> list[T] | list[R]:
        path = local_path(directory)
        if not is_possible_name(path):
            return []
        if is_local(path):
            self.check(path)
            with _storage_errors(directory):
                return list(local(path)) if os.path.isdir(path) else []
        client = self.client(path)
        with _storage_errors(directory, self._last_options):
            try:
                return list(remote(client, path))
            except (FileNotFoundError, NotADirectoryError):
                return []

    @property
    def _follow(self) -> gate.Follow | None:
        return None if self.roots is None else self.roots.resolve_link

    def _resolve_link(self, path: PhysicalPath) -> PhysicalPath:
        return path if self.roots is None or not os.path.islink(path) else self.roots.resolve_link(path)


class _storage_errors:
    """A context that turns errors of the operating system or a client library into errors that name the file.

    Args:
        path: The file.
        options: The options of the file's store. Their secrets are removed from errors.
    """

    __slots__ = ("_options", "_path")

    def __init__(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        self._path, self._options = path, options

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, HarnessError):
            return
        contained(file=self._path).__exit__(kind, error, trace)
        # client libraries like botocore, aiohttp, and Google's have their own error classes
        if isinstance(error, Exception):
            secrets = () if self._options is None else secret_texts(self._options)
            raise_from(refusal(error, self._path, secrets), error, secrets)
