"""Bytes by location: the only module that opens files, each only where its table's roots allow."""

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
from harness.storage.paths import SCHEME, PhysicalPath, canonical_path, is_local, local_path, secret_texts
from harness.storage.records import dataclass
from harness.storage.threads import Lock

if TYPE_CHECKING:
    from harness.storage.clients import Client
    from harness.storage.renewal import Renewal


T = TypeVar("T")
R = TypeVar("R")


# Names, sizes and times of files.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


UNREADABLE = -1
"""The size of a directory, a pipe, a socket, a device, or a link that leads nowhere."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a listing.

    name: without its directory. size: in bytes; `UNREADABLE` of what is no regular file. modified_ms: see `FileStatus`.
    is_link: True for a symbolic link, whose size and time are those of its target.
    """

    name: str
    size: int
    modified_ms: int | None
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The status of a file now.

    size: in bytes.
    modified_ms: last modification, milliseconds since 1970-01-01 UTC, rounded down; None where the storage has none.
    etag: of these bytes, as the store spells it; None where it has none.
    """

    size: int
    modified_ms: int | None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file. size: bytes. token: the storage's word on the version."""

    size: int
    token: str


_SETTLED_NS = 2_000_000_000
"""A clock of files may stand still for so long: within it, two versions of a file can have one time."""


def _local_version(status: os.stat_result) -> FileVersion:
    token = f"{status.st_dev}-{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}"
    return FileVersion(status.st_size, token)


def local_entries(directory: str) -> Iterator[Entry]:
    """The entries directly in a local directory, also those of what is no regular file and could pass for none."""
    for item in _scan_directory(directory):
        try:
            is_file = _is_kind(item, os.DirEntry.is_file)
            status = item.stat(follow_symlinks=is_file)
        except FileNotFoundError:  # removed since the directory was read
            continue
        size = status.st_size if is_file else UNREADABLE
        yield Entry(item.name, size, status.st_mtime_ns // 1_000_000, item.is_symlink())


def _is_kind(item: os.DirEntry[str], is_kind: Callable[[os.DirEntry[str]], bool]) -> bool:
    """Return whether an entry of a directory is of a kind; false for links in a circle, which lead to nothing."""
    try:
        return is_kind(item)
    except OSError:
        if item.is_symlink():
            return False
        raise


def _scan_directory(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return list(found)


def milliseconds(time: datetime) -> int:
    """Since 1970-01-01 UTC, rounded down; a time without a zone is in UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


# Ends of remote files that were read ahead of them: a footer's bytes are kept for whoever parses it.
#
# A reader that knows size and etag of a file expects both of all further bytes: no row comes out of two files.


MOST_END_BYTES = 64 << 20


@dataclass(slots=True)
class _End:
    status: FileStatus
    data: bytes


@dataclass(slots=True, eq=False)
class FileEnds:
    """The ends of the files of one table, up to 64 MiB of the latest ones; of the others, what they are."""

    _ends: OrderedDict[str, _End] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[FileEnds], tuple[()]]:
        """Another process finds out by itself."""
        return FileEnds, ()

    def fetch(self, client: Client, path: str, length: int) -> bytes:
        """The last bytes of a file, asked for now."""
        data, status = client.end(path, length)
        if len(data) != min(length, status.size):
            raise StorageError(
                f"Cannot read file: its storage gives {len(data)} bytes for the last {length}", file=path
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
        """The status of the file when its end was read; None: it was not."""
        end = self._ends.get(path)
        return None if end is None else end.status

    def read(self, client: Client, path: str, offset: int, length: int | None, expected: FileStatus | None) -> bytes:
        """Bytes of a file, without a request where they are at hand. expected: see `Storage.read`."""
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
    """Reads local files, object stores, and everything else that fsspec has a file system for.

    The object keeps the clients that it opened and the last bytes of files that it read.

    options: for locations that are not local: of object stores under any names of `harness.storage.option_names`, else
        those of fsspec. Under a key that is a URI, such as `s3://bucket`, are those of that store.
    limits: what the decoders of its bytes let a file ask for.
    stores: scheme, host and bucket that the plain options are for, see `harness.storage.paths`; None: all.
    roots: what may be read; None: everything.
    untrusted: whether it is an error if the table says what is not so, where that is a warning else.
    renewal: gives options in place of `options` where these end; None: they do not.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = DEFAULT
    stores: frozenset[str] | None = field(default=None, repr=False)
    roots: Roots | None = None
    untrusted: bool = False
    renewal: Renewal | None = field(default=None, repr=False, compare=False)
    _clients: dict[tuple[str, int], Client] = field(default_factory=dict, repr=False, compare=False)
    _ends: FileEnds = field(default_factory=FileEnds, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """Without what another process finds out by itself: it makes its own clients."""
        roots = None if self.roots is None else self.roots.without_cache()
        state = {**self.__dict__, "roots": roots, "_clients": {}, "_ends": FileEnds()}
        # Who renews options has a connection of its own: another process gets those that hold now.
        return state if self.renewal is None else {**state, "options": self.renewal.current(), "renewal": None}

    def for_read(self) -> Storage:
        """The same storage for one read of a table, see `Roots.for_read`."""
        return self if self.roots is None else replace(self, roots=self.roots.for_read())

    def including_table(self, location: str, metadata_file: str) -> Storage:
        """The same storage, which may also read the table that a metadata file, physical, is the metadata of.

        location: as the user named it. Where that is the file itself, a link, the table that the link leads to is read
            too; a link in the place of a metadata file in a table's directory is one of the table's own words.
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
        """Returns if a file may be read, see `Roots.check`; asks no store."""
        if self.roots is not None:
            self.roots.check(path if path.startswith("/") else local_path(path), recorded)

    def client(self, path: PhysicalPath) -> Client:
        """The client of the store of `path`, physical and not local.

        Raises RequestError: nothing that is installed serves the scheme, or an option is wrong. Else as `check`.
        """
        from harness.storage import clients  # local files are read without it

        match = SCHEME.match(path)
        try:
            if match is None:
                self.check(path)
                return clients.local_client()
            end = path.find("/", match.end() + len("://"))
            base = path if end < 0 else path[:end]
            options = self.options if self.renewal is None else self.renewal.current()
            key = base, 0 if self.renewal is None else self.renewal.generation
            if key not in self._clients:
                clients.check_scheme(match[0])
                self.check(path)
                client = clients.open_client(base, self._options_for(options, canonical_path(base).store))
                self._clients.setdefault(key, client)  # two threads that begin at once get one client
            self.check(path)
        except HarnessError as error:
            raise error.within(file=path) from error.__cause__
        except (ValueError, ImportError) as error:
            raise RequestError(
                f"Cannot open {match[0] if match else 'file'}:// locations: {error}", file=path
            ) from error
        except Exception as error:  # a client library's own
            secrets = secret_texts(self.options)
            raise_from(refusal(error, path, secrets), error, secrets)
        return self._clients[key]

    def store_options(self, location: str) -> dict[str, str]:
        """The options of the object store of a location, by our names; raises RequestError for wrong ones."""
        from harness.storage import object_client

        options = self.options if self.renewal is None else self.renewal.current()
        return object_client.bucket_options(location, self._options_for(options, canonical_path(location).store))

    def _options_for(self, options: Mapping[str, Any], store: str) -> dict[str, object]:
        """The options that were given for one store, and no others."""
        owner = next((key for key in options if "://" in key and canonical_path(key).store == store), None)
        if owner is not None:
            return dict(options[owner])
        if self.stores is None or store in self.stores:
            return {key: value for key, value in options.items() if "://" not in key}
        return {}

    def read_whole(self, path: PhysicalPath, size: int | None) -> bytes:
        """Return the bytes of a file, and refuse a file that is cut: a log that ends with a line looks whole.

        Args:
            path: The file's physical path.
            size: Bytes that the file has, as listed or recorded, or None if unknown. A file may have more, since it
                may have been written meanwhile.

        Raises:
            CorruptFileError: The file has fewer bytes. Cause `CutShort`.
            MissingFileError, OutsideTableError, StorageError, LimitError: As for `read`.
        """
        data = self.read(path)
        if size is not None and len(data) < size:
            message = f"The file is cut short: its storage gives {len(data)} bytes of {size}; read again, or restore it"
            raise CorruptFileError(message, cause="CutShort", file=path)
        return data

    def read(
        self, path: PhysicalPath, *, offset: int = 0, length: int | None = None, expected: FileStatus | None = None
    ) -> bytes:
        """The bytes of a file, or `length` of them from `offset` (in bytes; fewer at the end of the file).

        Threads may call this at once. On a store this is one request, or none where `end` read them.

        expected: what a remote file must still be; None: whatever it is.

        Raises:
            MissingFileError: there is no such file.
            OutsideTableError: the table may not read it.
            StorageError: the storage fails, or the file was replaced. LimitError: there is no memory for it.
        """
        local = local_path(path)
        if is_local(local):
            self.check(local)
            with _storage_errors(path), open_regular(local, follow=self._follow) as stream:
                stream.seek(offset)
                return stream.read(-1 if length is None else length)
        check_name(local)
        client = self.client(local)
        with _storage_errors(path, self.options):
            return self._ends.read(client, local, offset, length, expected)

    def end(self, path: PhysicalPath, length: int) -> bytes:
        """The last `length` bytes of a file, or all of a shorter one. Raises as `read`.

        Of a store that is one request, whose bytes and status are kept for `read` and `known_status`.
        """
        local = local_path(path)
        self.check(local)
        if is_local(local):
            return gate.read_end(local, length, follow=self._follow)
        check_name(local)
        client = self.client(local)
        with _storage_errors(path, self.options):
            return self._ends.fetch(client, local, length)

    def reads_ends(self, path: PhysicalPath) -> bool:
        """True if the ends of many files are to be read at once by `end`, which tells their status too."""
        local = local_path(path)
        return is_local(local) or self.client(local).reads_ends

    def known_status(self, path: PhysicalPath) -> FileStatus:
        """The status that `end` found, if it was called for the file; else `status`."""
        status = self._ends.status(local_path(path))
        return self.status(path) if status is None else status

    def exists(self, path: PhysicalPath) -> bool:
        """True if `path` is a file. Raises StorageError where that cannot be told: it could be the newest metadata."""
        return self._is(path, "file")

    def has_file(self, path: PhysicalPath) -> bool:
        """Tells whether there is a file at `path`, which must not be missed where there is; False: nothing is there.

        Raises MissingFileError: something else is in its place. StorageError: that cannot be told.
        """
        local = local_path(path)
        if not is_possible_name(local) or not is_local(local):
            return self.exists(path)
        self.check(local)
        return gate.is_regular_file(local)

    def is_directory(self, path: PhysicalPath) -> bool:
        """True if `path` is a directory (on an object store: a prefix of some file). Raises as `exists`."""
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
        with _storage_errors(path, self.options):
            return client.is_directory(local) if kind == "directory" else client.is_file(local)

    def size(self, path: PhysicalPath) -> int:
        """The size of a file in bytes. Raises as `read`."""
        return self.status(path).size

    def status(self, path: PhysicalPath) -> FileStatus:
        """A file's size and last modification, asked for afresh: one request to an object store. Raises as `read`."""
        local = local_path(path)
        check_name(local)
        if is_local(local):
            self.check(local)
            with _storage_errors(path):
                status = os.stat(self._resolve_link(local))
                return FileStatus(status.st_size, status.st_mtime_ns // 1_000_000)
        client = self.client(local)
        with _storage_errors(path, self.options):
            return client.status(local)

    def version(self, path: PhysicalPath) -> FileVersion | None:
        """The version of a file now, asked for afresh; None: its storage does not tell versions apart.

        To be asked before the file is read. One request to an object store. Raises as `read`.
        """
        local = local_path(path)
        check_name(local)
        if is_local(local):
            self.check(local)
            with _storage_errors(path):
                status = os.stat(self._resolve_link(local))
            changed = max(status.st_mtime_ns, status.st_ctime_ns)
            if not 0 <= changed <= time.time_ns() - _SETTLED_NS:
                return None  # changed just now, so the next change might not show
            return _local_version(status)
        client = self.client(local)
        with _storage_errors(path, self.options):
            return client.version(local)

    def fault(self, path: PhysicalPath) -> str | None:
        """Why nothing can be read at `path`, as far as that shows without a request; None: it does not.

        Of a remote file its name shows, of a local one also whether it is there and regular. Raises as `check`.
        """
        local = path if path.startswith("/") else local_path(path)
        if self.roots is None:
            return gate.fault(local) if is_local(local) else gate.name_fault(local)
        self.roots.check(local)
        return gate.fault(local, follow=self.roots.resolve_link) if is_local(local) else gate.name_fault(local)

    def names(self, directory: PhysicalPath) -> tuple[str, ...]:
        """Names (not paths) of what is directly in `directory`, sorted; empty if there is no such directory.

        On an object store, of files; else also of what is in the place of one. Raises StorageError if that fails.
        """
        items = self._list(directory, _scan_directory, lambda client, path: client.entries(path))
        return tuple(sorted(item.name for item in items))

    def directories(self, directory: PhysicalPath) -> tuple[str, ...]:
        """Names (not paths) of the directories directly in `directory`, sorted. Else as `names`."""

        def below(path: str) -> list[str]:
            return [item.name for item in _scan_directory(path) if _is_kind(item, os.DirEntry.is_dir)]

        return tuple(sorted(self._list(directory, below, lambda client, path: client.directories(path))))

    def entries(self, directory: PhysicalPath) -> tuple[Entry, ...]:
        """The files directly in `directory`, listed afresh, sorted by name. Else as `names`.

        On a local disk, also what is in the place of one; its size is `UNREADABLE`.
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
        with _storage_errors(directory, self.options):
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
    """A context in which errors of the operating system or of a client library become errors that name the file.

    Args:
        path: The file.
        options: The options of the file's store, whose secrets do not appear in errors.
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
        if isinstance(error, Exception):  # the classes of clients' errors are theirs: botocore's, aiohttp's, Google's
            secrets = () if self._options is None else secret_texts(self._options)
            raise_from(refusal(error, self._path, secrets), error, secrets)
