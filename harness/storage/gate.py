"""The gate of every path of a table: before anything opens it, it must be a possible name, and that of a regular file.

Anyone may have written the metadata. A path of a directory makes one reader fail and another read the files inside; a
library in C opens what stands before a NUL; a pipe makes a reader wait for ever. So each path passes here first.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import BinaryIO, TypeAlias

from harness.errors import (
    HarnessError,
    MissingFileError,
    OutsideTableError,
    OutsideTableWarning,
    StorageError,
    warn,
    without_secrets,
)
from harness.storage.paths import (
    CanonicalPath,
    PhysicalPath,
    absolute,
    canonical_path,
    climbs,
    is_local,
    local_path,
    possible_targets,
    redact,
    slashed,
)
from harness.storage.records import dataclass

Follow: TypeAlias = Callable[[str], str]
"""Resolves a link to its file. Raises HarnessError where that file may not be read."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LINKS = (errno.ELOOP, errno.EMLINK)
"""Error numbers of opening a link that is not followed; EMLINK is FreeBSD's."""
_QUERY = re.compile(r"\?[^\s'\"<>]*|(?<=://)[^\s/@]*@")  # of a URL, and the user before its host
_SHOWN = 300  # characters
_LONGEST = 32_767
"""Characters of a path, on Windows; Linux has 4,095, object stores 1,024. What resolves links takes for ever beyond."""
ABSENT = "it does not exist"
DENIED = "permission denied"
IRREGULAR = "IrregularFile"
"""Cause of the error for what is there and is no regular file: nothing else may stand for it."""
_REASONS = {
    errno.ENOENT: ABSENT,
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of its path is a file, not a directory",
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ELOOP: "its path is a circle of links, or became a link while it was opened",
    errno.ENAMETOOLONG: "its name is longer than a file's can be",
}
_NOT_REGULAR = (errno.EISDIR, errno.ELOOP)
_CODES_BY_CLASS = {
    FileNotFoundError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
}
# What says of a local path that nothing is there, rather than that it cannot be looked at.
_ABSENT_CODES = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_possible_name(path: str) -> bool:
    """Tells whether a file can be called so: no longer than any system's, without a NUL or half of a character."""
    return len(path) <= _LONGEST and "\0" not in path and (path.isascii() or _is_encodable(path))


def name_fault(path: str) -> str | None:
    """Why no file can be called so; None: one can."""
    if is_possible_name(path):
        return None
    if len(path) > _LONGEST:
        return f"its path has {len(path):,} characters, more than a file's can have"
    return f"no file that is read can have {'a NUL' if chr(0) in path else 'half a character'} in its path"


def fault(path: str, *, follow: Follow | None = None) -> str | None:
    """Why a local path is not of a file that can be opened, links followed; None: it is of a regular file. About 3 µs.

    follow: says whether a link's target may be read; None: it may.
    """
    if not is_possible_name(path):
        return name_fault(path)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            path = path if follow is None else follow(path)
            mode = os.stat(path).st_mode
    except OSError as error:
        return _REASONS.get(error.errno or 0, f"{error.strerror}")
    if not stat.S_ISREG(mode):
        return _irregular_reason(mode)
    may_read = os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
    return None if may_read else DENIED


def mode_of(path: str) -> int | None:
    """The mode at a local path, links followed; None: nothing is there. Raises MissingFileError, StorageError."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in _ABSENT_CODES:
            return None
        raise refusal(error, path) from error


def is_regular_file(path: str) -> bool:
    """Tells whether a regular file is at a local path, links followed; False: nothing is.

    Raises MissingFileError: something else is, or a link that leads nowhere. StorageError: that cannot be told.
    """
    mode = mode_of(path)
    if mode is None and os.path.islink(path):
        raise _missing_file_error("it is a link that leads nowhere", path, IRREGULAR)
    if mode is not None and not stat.S_ISREG(mode):
        raise _missing_file_error(_irregular_reason(mode), path, IRREGULAR)
    return mode is not None


def check_name(path: str) -> None:
    """Raises MissingFileError for what no file can be called, before a library takes it for something else."""
    if not is_possible_name(path):
        raise _missing_file_error(name_fault(path) or "", path)


def open_regular(path: str, *, follow: Follow | None = None) -> BinaryIO:
    """A local file, open for reading; never waits for the other end of a pipe.

    follow: says where a link leads, if that may be read; what becomes a link after that is not opened. None: all links
        are followed.

    Raises MissingFileError: it cannot be opened, or is no regular file. StorageError: the file system fails.
    """
    return os.fdopen(_open_descriptor(path, follow)[0], "rb")


def read_end(path: str, length: int, *, follow: Follow | None = None) -> bytes:
    """The last `length` bytes of a local file, or all of a shorter one, without a stream; else as `open_regular`."""
    descriptor, size = _open_descriptor(path, follow)
    try:
        length = min(length, size)  # as much memory as is asked for is taken, whatever there is
        os.lseek(descriptor, size - length, os.SEEK_SET)
        return os.read(descriptor, length)
    except OSError as error:
        raise refusal(error, path) from error
    finally:
        os.close(descriptor)


def _open_descriptor(path: str, follow: Follow | None) -> tuple[int, int]:
    """The descriptor of a regular file that was opened for reading, and the file's size."""
    check_name(path)
    try:
        descriptor = os.open(path, _FLAGS) if follow is None else _descriptor(path, follow)
    except OSError as error:
        if error.errno == errno.ENXIO:  # of a socket; also of a disk that fails
            is_regular_file(path)
        raise refusal(error, path) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _missing_file_error(_irregular_reason(status.st_mode), path, IRREGULAR)
    return descriptor, status.st_size


def _descriptor(path: str, follow: Follow) -> int:
    """The descriptor of a file, opened by its own path or, for a link, by the path of its target."""
    if not _NO_LINK and os.path.islink(path):
        path = follow(path)
    try:
        return os.open(path, _FLAGS | _NO_LINK)
    except OSError as error:
        if error.errno not in _LINKS:
            raise
    return os.open(follow(path), _FLAGS | _NO_LINK)


def refusal(error: Exception, path: str, secrets: Iterable[str] = ()) -> HarnessError:
    """The error that names the file: that there is no such file, if `error` says so, or that its storage failed."""
    # An error that is not the operating system's has no number, and says by its class what it means.
    number = next(
        (code for kind, code in _CODES_BY_CLASS.items() if isinstance(error, kind)), getattr(error, "errno", None)
    )
    if number not in _REASONS:
        return failure(error, path, secrets)
    return _missing_file_error(_REASONS[number], path, IRREGULAR if number in _NOT_REGULAR else None)


def failure(error: Exception, path: str, secrets: Iterable[str] = ()) -> StorageError:
    """The error for storage that failed, without what a client's message may hold of secrets."""
    text = without_secrets(_QUERY.sub("", f"{error}"), secrets)[:_SHOWN]
    return StorageError(f"Cannot read file: its storage failed: {type(error).__name__}: {text}", file=path)


def _is_encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeError:
        return False
    return True


def _irregular_reason(mode: int) -> str:
    return "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file"


def _missing_file_error(reason: str, path: str, cause: str | None = None) -> MissingFileError:
    shortened = path if len(path) <= _LONGEST else f"{path[:_SHOWN]}…"
    return MissingFileError(f"Cannot read file: {reason}", cause=cause, file=shortened)


# Roots: the directories that a table may be read from, and what becomes of a path that leads out of them.
#
# Every path is held against them by its directory, in canonical form, links resolved; each directory is judged once.


_SHOWN_FOLDERS = 5


class Outside(enum.Enum):
    """The fate of a path that leaves the roots within the table's store."""

    WARN = "warn"
    REFUSE = "refuse"


class Containment(enum.Enum):
    """The place of a directory, seen from the roots."""

    INSIDE = enum.auto()
    OUTSIDE = enum.auto()  # in the store of the table
    FOREIGN = enum.auto()  # in another one


def folder_of(path: str) -> str:
    """The directory of a file, physical; of a bucket or host without a path, that itself."""
    folder = path.rpartition("/")[0]
    return path if folder.endswith(":/") else folder


def metadata_root(file: str) -> str:
    """The table's directory, by the path of its metadata file: above a directory called `metadata`, else the file's.

    A whole disk is no table's directory: that of `/metadata/v1.metadata.json` is `/metadata`.
    """
    folder = folder_of(slashed(file))
    above, _, name = folder.rpartition("/")
    is_drive = os.name == "nt" and above.endswith(":")
    return above if name == "metadata" and above.strip("/") and not is_drive else folder


@dataclass(slots=True)
class _OutsideFolders:
    """The directories outside that one read came upon. told: whether they were named in a warning."""

    folders: dict[str, None] = field(default_factory=dict)
    is_reported: bool = False


_LEVELS = 3
"""Directories of partitions as most tables nest them."""


@dataclass(slots=True, kw_only=True)
class Roots:
    """The directories and stores that one table may read. The object keeps its verdicts on directories.

    table: its location, for messages.
    home: the store that it is in.
    outside: what becomes of paths elsewhere in that store.
    names: the roots as they were given, for messages.
    allowed: the roots in canonical form.
    exact: the paths of roots, each of which may be a file, and so is read whatever its directory is.
    """

    table: str
    home: str = field(repr=False)
    outside: Outside
    names: tuple[str, ...] = field(default=(), repr=False)
    allowed: tuple[CanonicalPath, ...] = field(default=(), repr=False)
    exact: frozenset[str] = field(default=frozenset(), repr=False)
    _containments: dict[str, Containment] = field(default_factory=dict, repr=False, compare=False)
    _above: dict[str, tuple[str, bool]] = field(default_factory=dict, repr=False, compare=False)
    _outside_folders: _OutsideFolders = field(default_factory=_OutsideFolders, repr=False, compare=False)

    @staticmethod
    def of(location: str, more: Iterable[str] = (), *, outside: Outside = Outside.WARN) -> Roots:
        """The roots of the table at `location`; `more`: others that the caller names. Relative ones start here.

        Raises MissingFileError where no file can be called like one of them.
        """
        check_name(location)
        root = _spelled(location)
        forms = _forms(root)
        home = forms[-1 if is_local(root) else 0].store  # of a local path, links resolved
        return Roots(table=redact(location), home=home, outside=outside)._with({root: forms}).including(*more)

    def including(self, *roots: str) -> Roots:
        """These roots and others, for the same read. Raises as `of`."""
        for root in roots:
            check_name(root)
        spelled = list(map(_spelled, roots))
        return self if self.exact.issuperset(spelled) else self._with({root: _forms(root) for root in spelled})

    def _with(self, forms_by_root: Mapping[str, tuple[CanonicalPath, ...]]) -> Roots:
        """These roots and others. named: the canonical forms of roots by their spelling."""
        new = {
            root: forms
            for root, forms in forms_by_root.items()
            if self._containment_of(forms) is not Containment.INSIDE
        }
        return replace(
            self,
            names=(*self.names, *new),
            allowed=(*self.allowed, *(form for forms in new.values() for form in forms)),
            exact=self.exact.union(forms_by_root, (absolute(root, os.getcwd()) for root in forms_by_root)),
            _containments={},
            _above={},
        )

    def for_read(self) -> Roots:
        """The same roots for a read of its own, which gives its own warning."""
        return replace(self, _outside_folders=_OutsideFolders())

    def without_cache(self) -> Roots:
        """The same roots, with nothing known of any directory."""
        return replace(self, _containments={}, _above={}, _outside_folders=_OutsideFolders())

    def containment(self, folder: str) -> Containment:
        """The verdict on a physical directory, links in its path resolved."""
        containment = self._containments.get(folder)
        if containment is None:
            containment = self._containments[folder] = self._classify(folder)
        return containment

    def check(self, path: PhysicalPath, recorded: str | None = None) -> None:
        """Raises OutsideTableError for a file that may not be read, by the directory that it is in.

        path: physical. recorded: its path in the metadata, if that is known to be another.
        """
        folder, _, name = path.rpartition("/")
        is_encoded = "%" in name and not is_local(path)  # a store that decodes may find it in another directory
        if path.rstrip("/") in self.exact or (not is_encoded and self._containments.get(folder) is Containment.INSIDE):
            return
        folder = folder_of(path)
        containment = self._containment_of(possible_targets(path)) if is_encoded else self.containment(folder)
        if containment is Containment.INSIDE:
            return
        if containment is Containment.FOREIGN:
            raise self._refusal("it is in another store than the table", path, recorded)
        if climbs(path) or (recorded is not None and climbs(recorded)):
            raise self._refusal("its path leads out of the table by '..'", path, recorded)
        if self.outside is Outside.REFUSE:
            raise self._refusal("outside='refuse' is set", path, recorded)
        outside = self._outside_folders
        # A path of another machine leads nowhere on this one: that is said of the file, which is missing.
        if folder in outside.folders or (is_local(folder) and not os.path.isdir(folder)):
            return
        outside.folders[folder] = None
        if outside.is_reported:  # a link between the data files shows only when they are opened
            outside.is_reported = False
            warn(f"Table {self.table}: {self._sentence((folder,))}", OutsideTableWarning)

    def resolve_link(self, link: str) -> PhysicalPath:
        """The file that a link leads to, local, if that may be read. Raises as `check`."""
        path = PhysicalPath(os.path.realpath(link))
        if link.rstrip("/") not in self.exact:
            self.check(path, link)
        return path

    def told(self) -> str | None:
        """A sentence on the outside directories met so far, if any; the first one after that gives its own warning."""
        folders = tuple(self._outside_folders.folders)
        self._outside_folders.is_reported = True
        return self._sentence(folders) if folders else None

    def _sentence(self, folders: tuple[str, ...]) -> str:
        listed = ", ".join(map(redact, folders[:_SHOWN_FOLDERS]))
        more = f" and {len(folders) - _SHOWN_FOLDERS} more" if len(folders) > _SHOWN_FOLDERS else ""
        return f"Files outside of the table are read, in {listed}{more}; name these as allowed roots if that is right"

    def _classify(self, folder: str) -> Containment:
        if folder in self.exact or not is_possible_name(folder):
            return Containment.INSIDE  # a root; or no file is there, as the gate says of the path
        if not is_local(folder):
            return self._containment_of(possible_targets(folder))
        real, is_inside = self._resolve(folder, _LEVELS)
        return Containment.INSIDE if is_inside else self._containment_of(_local_forms(folder, real))

    def _resolve(self, folder: str, levels: int) -> tuple[str, bool]:
        """A local directory with links resolved, and whether it is inside.

        Of directories side by side, those above them are resolved once, so many levels up.
        """
        resolved = self._above.get(folder)
        if resolved is None:
            parent, slash, name = folder.rpartition("/")
            if levels and slash and name not in ("", ".", "..") and os.name != "nt":
                above, is_inside = self._resolve(parent, levels - 1)
                if is_inside and not os.path.islink(f"{above}/{name}"):
                    resolved = f"{above}/{name}", True
            if resolved is None:
                real = os.path.realpath(folder or "/")
                resolved = real, self._containment_of(_local_forms(folder, real)) is Containment.INSIDE
            if levels < _LEVELS:
                self._above[folder] = resolved
        return resolved

    def _containment_of(self, forms: tuple[CanonicalPath, ...]) -> Containment:
        if all(any(form.is_within(root) for root in self.allowed) for form in forms):
            return Containment.INSIDE
        return Containment.OUTSIDE if forms[0].store == self.home else Containment.FOREIGN

    def _refusal(self, reason: str, path: str, recorded: str | None) -> OutsideTableError:
        same = recorded is None or recorded == path
        return OutsideTableError(
            f"Cannot read a file beyond the table's roots: {reason}. The roots are "
            f"{', '.join(map(redact, self.names))}; add a root with "
            "allowed_roots, or map the path to the file's location with path_map",
            table=self.table,
            file=redact(path) if same else f"{redact(recorded or '')} ({redact(path)})",
            options=("allowed_roots", "path_map", "outside"),
        )


def _spelled(root: str) -> str:
    """Return a root as the user wrote it, without a local prefix and the slashes at its end."""
    plain = local_path(root)
    return slashed(plain).rstrip("/") or ("/" if plain else ".")


def _forms(root: str) -> tuple[CanonicalPath, ...]:
    """The canonical forms of a root, links resolved."""
    if not is_local(root):
        return possible_targets(root)
    path = _absolute(root)
    return _local_forms(path, os.path.realpath(path))


def _local_forms(path: str, resolved: str) -> tuple[CanonicalPath, ...]:
    """The places of a local path: with links resolved, and as spelled for a share or a doubled slash."""
    spelled = canonical_path(path)
    target = spelled if resolved == path else canonical_path(resolved)
    return (target,) if spelled.store == "file" else (spelled, target)


def _absolute(location: str) -> str:
    return os.path.abspath(local_path(location)) if is_local(location) else location
