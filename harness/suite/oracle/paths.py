"""Paths as both formats record them, the current physical paths, and local files.

A recorded path identifies a file: deletes match its text, and `_file` shows it. It is therefore never normalized
(iceberg 1.14). The physical path differs if the table was copied or moved (iceberg 1.11).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from harness.errors import MissingFileError, UnsupportedError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOCAL = re.compile(r"(?:file:(?://(?:localhost)?(?=/))?)?(?:(?:\./+)+(?=.))?", re.IGNORECASE | re.DOTALL)


def local_path(path: str) -> str:
    """Return the path without the prefix of a local URI. `file:/x`, `file:///x` and `/x` are one file; `./x` is `x`."""
    return path if path.startswith("/") else _LOCAL.sub("", path, count=1)


def is_local(path: str) -> bool:
    """Return whether a path is in the local file system."""
    return path.startswith("/") or _SCHEME.match(local_path(path)) is None


def join(directory: str, *names: str) -> str:
    """Return the path of names below a directory."""
    return "/".join((directory.rstrip("/"), *names))


def directory_of(path: str) -> str:
    """Return the directory of a path, without the prefix of a local URI."""
    plain = local_path(path)
    return plain.rpartition("/")[0] if "/" in plain else "."


def path_text(path: str, physical: str) -> str:
    """Return a file's name for messages: the recorded path and, if it differs, the physical path."""
    return path if path == physical else f"{path} ({physical})"


@dataclass(frozen=True)
class Entry:
    """A directory entry.

    Attributes:
        size: The size in bytes. Negative if the entry is not a regular file.
        modified_ms: The modification time in milliseconds since 1970. None if unknown.
    """

    name: str
    size: int
    modified_ms: int | None


class Files:
    """The local file system. A subclass may read an object store."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a regular file. Raise MissingFileError if there is none; pipes are not waited for."""
        if not self.opens(path):
            raise UnsupportedError("Cannot open files of this scheme", file=path)
        try:
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(local_path(path), flags), "rb") as stream:
                if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    return stream.read()
        except (OSError, ValueError) as error:
            reason = "the path contains a NUL" if "\0" in path else error
            raise MissingFileError(f"Cannot read file: {reason}", file=path) from error
        raise MissingFileError("Cannot read file: it is not a regular file", cause="IrregularFile", file=path)

    def has_file(self, path: str) -> bool:
        """Return whether there is a regular file. Raise MissingFileError if the path is anything else."""
        plain = local_path(path)
        if os.path.lexists(plain) and not os.path.isfile(plain):
            raise MissingFileError("Cannot read file: it is not a regular file", cause="IrregularFile", file=path)
        return os.path.isfile(plain)

    def is_directory(self, path: str) -> bool:
        """Return whether there is a directory."""
        return self.opens(path) and os.path.isdir(local_path(path))

    def entries(self, directory: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name. The list is empty if there is no directory."""
        entries = []
        for item in os.scandir(local_path(directory)) if self.is_directory(directory) else ():
            is_file = item.is_file()
            status = item.stat(follow_symlinks=is_file)
            entries.append(Entry(item.name, status.st_size if is_file else -1, status.st_mtime_ns // 1_000_000))
        return sorted(entries, key=lambda entry: entry.name)

    def opens(self, path: str) -> bool:
        """Return whether paths of this scheme can be opened."""
        return is_local(path)


@dataclass(frozen=True)
class PathPrefixes:
    """Prefixes of recorded paths with their replacements. The first prefix that matches is replaced (iceberg 1.12)."""

    prefixes: tuple[tuple[str, str], ...]
    files: Files

    def physical(self, recorded: str) -> str:
        """Return the absolute physical path of a recorded path."""
        plain = local_path(recorded)
        for old, new in self.prefixes:
            prefix = local_path(old).rstrip("/")
            if prefix and (plain == prefix or plain.startswith(prefix + "/")):
                plain = new.rstrip("/") + plain[len(prefix) :]
                break
        return os.path.join(os.getcwd(), local_path(plain)) if is_local(plain) else plain

    def read(self, recorded: str) -> bytes:
        """Return the bytes of a file. If it is missing, the error names the recorded and the physical path."""
        physical = self.physical(recorded)
        try:
            return self.files.read(physical)
        except MissingFileError as error:
            error.file = path_text(recorded, physical)
            raise
