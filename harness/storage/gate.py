"""Checks that run before any path of a table is opened: the name must be possible, and the file must be regular.

Table metadata may be written by anyone. If a path is a directory, some readers fail and others read the files inside. C
libraries cut a path at a NUL. Opening a pipe waits forever. Therefore every path is checked here first.
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
"""Returns the file that a link leads to. Raises HarnessError if that file may not be read."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LINKS = (errno.ELOOP, errno.EMLINK)
"""Error numbers of opening a link without following it. FreeBSD uses EMLINK."""
_QUERY = re.compile(r"\?[^\s'\"<>]*|(?<=://)[^\s/@]*@")  # the query of a URL, and the user before its host
_SHOWN = 300  # characters
_LONGEST = 32_767
"""The maximum number of characters of a path on Windows.

Linux allows 4,095, object stores 1,024. Resolving links in longer paths takes extremely long.
"""
ABSENT = "it does not exist"
DENIED = "permission denied"
IRREGULAR = "IrregularFile"
"""The cause if the path exists and is not a regular file."""
_REASONS = {
    errno.ENOENT: ABSENT,
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of its path is a file, not a directory",
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ELOOP: "its path contains circular links, or became a link while it was opened",
    errno.ENAMETOOLONG: "its name is too long",
}
_NOT_REGULAR = (errno.EISDIR, errno.ELOOP)
_CODES_BY_CLASS = {
    FileNotFoundError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
}
# Errors that mean that nothing exists at a local path, as opposed to a failed check.
_ABSENT_CODES = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_possible_name(path: str) -> bool:
    """Return whether a file can have this path: not too long for any system, no NUL, and no lone surrogate."""
    return len(path) <= _LONGEST and "\0" not in path and (path.isascii() or _is_encodable(path))


def name_fault(path: str) -> str | None:
    """Return why no file can have this path, or None if a file can have it."""
    if is_possible_name(path):
        return None
    if len(path) > _LONGEST:
        return f"its path has {len(path):,} characters, more than a file system allows"
    return f"its path contains {'a NUL' if chr(0) in path else 'half a character'}"


def fault(path: str, *, follow: Follow | None = None) -> str | None:
    """Return why a local path cannot be opened as a regular file, or None if it can. Takes about 3 µs.

    Args:
        path: The path.
        follow: Resolves a link and refuses targets that may not be read. None follows every link.
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
    """Return the mode of a local path with links followed, or None if nothing exists there.

    Raises:
        MissingFileError, StorageError: The path cannot be examined.
    """
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in _ABSENT_CODES:
            return None
        raise refusal(error, path) from error


def is_regular_file(path: str) -> bool:
    """Return whether a local path, links followed, is a regular file. False if nothing exists there.

    Raises:
        MissingFileError: Something other than a file is there, or a dangling link.
        StorageError: The path cannot be examined.
    """
    mode = mode_of(path)
    if mode is None and os.path.islink(path):
        raise _missing_file_error("it is a link that leads nowhere", path, IRREGULAR)
    if mode is not None and not stat.S_ISREG(mode):
        raise _missing_file_error(_irregular_reason(mode), path, IRREGULAR)
    return mode is not None


def check_name(path: str) -> None:
    """Raise MissingFileError if no file can have this path. Libraries may otherwise open a different file."""
    if not is_possible_name(path):
        raise _missing_file_error(name_fault(path) or "", path)


def open_regular(path: str, *, follow: Follow | None = None) -> BinaryIO:
    """Open a local file for reading. Never waits for the writer of a pipe.

    Args:
        path: The path.
        follow: Resolves a link if its target may be read. A file that becomes a link afterwards is not opened. None
            follows every link.

    Raises:
        MissingFileError: The file cannot be opened, or is not a regular file.
        StorageError: The file system fails.
    """
    return os.fdopen(_open_descriptor(path, follow)[0], "rb")


def read_end(path: str, length: int, *, follow: Follow | None = None) -> bytes:
    """Return the last `length` bytes of a local file, or all bytes if it is shorter.

    Arguments and errors are those of `open_regular`.
    """
    descriptor, size = _open_descriptor(path, follow)
    try:
        length = min(length, size)  # os.read allocates the requested length, even if the file is shorter
        os.lseek(descriptor, size - length, os.SEEK_SET)
        return os.read(descriptor, length)
    except OSError as error:
        raise refusal(error, path) from error
    finally:
        os.close(descriptor)


def _open_descriptor(path: str, follow: Follow | None) -> tuple[int, int]:
    """Open a regular file for reading and return its descriptor and its size."""
    check_name(path)
    try:
        descriptor = os.open(path, _FLAGS) if follow is None else _descriptor(path, follow)
    except OSError as error:
        if error.errno == errno.ENXIO:  # opening a socket raises this, and so does a failing disk
            is_regular_file(path)
        raise refusal(error, path) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _missing_file_error(_irregular_reason(status.st_mode), path, IRREGULAR)
    return descriptor, status.st_size


def _descriptor(path: str, follow: Follow) -> int:
    """Open a file by its own path or, if it is a link, by the path of its target."""
    if not _NO_LINK and os.path.islink(path):
        path = follow(path)
    try:
        return os.open(path, _FLAGS | _NO_LINK)
    except OSError as error:
        if error.errno not in _LINKS:
            raise
    return os.open(follow(path), _FLAGS | _NO_LINK)


def refusal(error: Exception, path: str, secrets: Iterable[str] = ()) -> HarnessError:
    """Return the error for a failed read: MissingFileError if the file is missing, else the result of `failure`."""
    # Errors of client libraries have no number; their class tells the reason.
    number = next(
        (code for kind, code in _CODES_BY_CLASS.items() if isinstance(error, kind)), getattr(error, "errno", None)
    )
    if number not in _REASONS:
        return failure(error, path, secrets)
    return _missing_file_error(_REASONS[number], path, IRREGULAR if number in _NOT_REGULAR else None)


def failure(error: Exception, path: str, secrets: Iterable[str] = ()) -> StorageError:
    """Return a StorageError for a failure, with all secrets removed from the client's message."""
    text = without_secrets(_QUERY.sub("", f"{error}"), secrets)[:_SHOWN]
    return StorageError(f"Cannot read file: its storage failed: {type(error).__name__}: {text}", file=path)


def _is_encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeError:
        return False
    return True


def _irregular_reason(mode: int) -> str:
    return "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file"


def _missing_file_error(reason: str, path: str, cause: str | None = None) -> MissingFileError:
    shortened = path if len(path) <= _LONGEST else f"{path[:_SHOWN]}…"
    return MissingFileError(f"Cannot read file: {reason}", cause=cause, file=shortened)


# Each path is checked by its directory, in canonical form with links resolved. The result for each directory is cached.


_SHOWN_FOLDERS = 5


class Outside(enum.Enum):
    """The treatment of a path that leaves the roots but stays in the table's store."""

    WARN = "warn"
    REFUSE = "refuse"


class Containment(enum.Enum):
    """The relation of a directory to the roots."""

    INSIDE = enum.auto()
    OUTSIDE = enum.auto()  # in the table's store
    FOREIGN = enum.auto()  # in another store


def folder_of(path: str) -> str:
    """Return the directory of a physical path. A bucket or host without a path is its own directory."""
    folder = path.rpartition("/")[0]
    return path if folder.endswith(":/") else folder


def metadata_root(file: str) -> str:
    """Return a table's directory from the path of its metadata file.

    This is the parent of a directory named `metadata`, or else the directory of the file. A whole disk never counts as
    a table's directory: for `/metadata/v1.metadata.json` it is `/metadata`.
    """
    folder = folder_of(slashed(file))
    above, _, name = folder.rpartition("/")
    is_drive = os.name == "nt" and above.endswith(":")
    return above if name == "metadata" and above.strip("/") and not is_drive else folder


@dataclass(slots=True)
class _OutsideFolders:
    """The directories outside the roots that one read has used.

    Attributes:
        folders: The directories, in order of first use.
        is_reported: True if they have been named in a warning.
    """

    folders: dict[str, None] = field(default_factory=dict)
    is_reported: bool = False


_LEVELS = 3
"""The number of nested partition directories in most tables."""


@dataclass(slots=True, kw_only=True)
class Roots:
    """The directories and stores that a table may read. Results for directories are cached.

    Attributes:
        table: The table's location, for messages.
        home: The table's store.
        outside: The treatment of paths elsewhere in that store.
        names: The roots as given, for messages.
        allowed: The roots in canonical form.
        exact: The paths of the roots. A root may be a file, which is then read whatever its directory is.
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
    def for_table(location: str, roots: Iterable[str] = (), *, outside: Outside = Outside.WARN) -> Roots:
        """Return the roots of a table.

        Args:
            location: The table's location. Relative paths start at the current directory.
            roots: Further roots that the caller allows.
            outside: The treatment of paths elsewhere in the table's store.

        Raises:
            MissingFileError: No file can have the path of the location or of a root.
        """
        check_name(location)
        root = _spelled(location)
        forms = _forms(root)
        home = forms[-1 if is_local(root) else 0].store  # a local path's store is taken after links are resolved
        return Roots(table=redact(location), home=home, outside=outside)._with({root: forms}).including(*roots)

    def including(self, *roots: str) -> Roots:
        """Return these roots with further ones, for the same read. Raises the same errors as `for_table`."""
        for root in roots:
            check_name(root)
        spelled = list(map(_spelled, roots))
        return self if self.exact.issuperset(spelled) else self._with({root: _forms(root) for root in spelled})

    def _with(self, forms_by_root: Mapping[str, tuple[CanonicalPath, ...]]) -> Roots:
        """Return these roots with further ones. `forms_by_root` has their canonical forms by spelling."""
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
        """Return the same roots for a new read, which issues warnings of its own."""
        return replace(self, _outside_folders=_OutsideFolders())

    def without_cache(self) -> Roots:
        """Return the same roots without cached results."""
        return replace(self, _containments={}, _above={}, _outside_folders=_OutsideFolders())

    def containment(self, folder: str) -> Containment:
        """Return the relation of a physical directory to the roots, with links in its path resolved."""
        containment = self._containments.get(folder)
        if containment is None:
            containment = self._containments[folder] = self._classify(folder)
        return containment

    def check(self, path: PhysicalPath, recorded: str | None = None) -> None:
        """Raise OutsideTableError if a file may not be read because of its directory.

        Args:
            path: The physical path.
            recorded: The path in the metadata, if it may differ.
        """
        folder, _, name = path.rpartition("/")
        is_encoded = "%" in name and not is_local(path)  # a store that decodes the name may look in another directory
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
        # A path of another machine may not exist here. The read then reports a missing file instead.
        if folder in outside.folders or (is_local(folder) and not os.path.isdir(folder)):
            return
        outside.folders[folder] = None
        if outside.is_reported:  # a link among the data files is only found when it is opened
            outside.is_reported = False
            warn(f"Table {self.table}: {self._sentence((folder,))}", OutsideTableWarning)

    def resolve_link(self, link: str) -> PhysicalPath:
        """Return the local file that a link leads to, if it may be read. Raises the same errors as `check`."""
        path = PhysicalPath(os.path.realpath(link))
        if link.rstrip("/") not in self.exact:
            self.check(path, link)
        return path

    def outside_notice(self) -> str | None:
        """Return a sentence about the outside directories used so far, or None if none was used.

        If another outside directory is used later, it issues its own warning.
        """
        folders = tuple(self._outside_folders.folders)
        self._outside_folders.is_reported = True
        return self._sentence(folders) if folders else None

    def _sentence(self, folders: tuple[str, ...]) -> str:
        listed = ", ".join(map(redact, folders[:_SHOWN_FOLDERS]))
        rest = f" and {len(folders) - _SHOWN_FOLDERS} more" if len(folders) > _SHOWN_FOLDERS else ""
        remedy = "if this is intended, add these directories to allowed_roots"
        return f"Files outside of the table are read, in {listed}{rest}; {remedy}"

    def _classify(self, folder: str) -> Containment:
        if folder in self.exact or not is_possible_name(folder):
            return Containment.INSIDE  # a root, or an impossible name, which the gate reports
        if not is_local(folder):
            return self._containment_of(possible_targets(folder))
        real, is_inside = self._resolve(folder, _LEVELS)
        return Containment.INSIDE if is_inside else self._containment_of(_local_forms(folder, real))

    def _resolve(self, folder: str, levels: int) -> tuple[str, bool]:
        """Resolve the links of a local directory, and return whether it is inside the roots.

        Up to `levels` parent directories are resolved and cached, so that sibling directories share the work.
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
        is_same = recorded is None or recorded == path
        return OutsideTableError(
            f"Cannot read a file beyond the table's roots: {reason}. The roots are "
            f"{', '.join(map(redact, self.names))}; add a root with "
            "allowed_roots, or map the path to the file's location with path_map",
            table=self.table,
            file=redact(path) if is_same else f"{redact(recorded or '')} ({redact(path)})",
            options=("allowed_roots", "path_map", "outside"),
        )


def _spelled(root: str) -> str:
    """Return a root as the user wrote it, without a local prefix and trailing slashes."""
    plain = local_path(root)
    return slashed(plain).rstrip("/") or ("/" if plain else ".")


def _forms(root: str) -> tuple[CanonicalPath, ...]:
    """Return the canonical forms of a root, with links resolved."""
    if not is_local(root):
        return possible_targets(root)
    path = _absolute(root)
    return _local_forms(path, os.path.realpath(path))


def _local_forms(path: str, resolved: str) -> tuple[CanonicalPath, ...]:
    """Return a local path with links resolved. For a network share or a doubled slash, also return it as written."""
    spelled = canonical_path(path)
    target = spelled if resolved == path else canonical_path(resolved)
    return (target,) if spelled.store == "file" else (spelled, target)


def _absolute(location: str) -> str:
    return os.path.abspath(local_path(location)) if is_local(location) else location
