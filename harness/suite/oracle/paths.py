"""Paths as both formats record them, where their bytes are now, and local files, opened plainly.

A recorded path is a file's identity: deletes match the text, `_file` shows it, and nobody normalises it (iceberg 1.14).
The bytes are elsewhere where a table was copied or moved (iceberg 1.11).
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
    """The path without the prefix of a local URI: `file:/x`, `file:///x` and `/x` are one file; `./x` is `x`."""
    return path if path.startswith("/") else _LOCAL.sub("", path, count=1)


def is_local(path: str) -> bool:
    """Tells whether a path is of this computer's files."""
    return path.startswith("/") or _SCHEME.match(local_path(path)) is None


def join(directory: str, *names: str) -> str:
    """The path of names below a directory."""
    return "/".join((directory.rstrip("/"), *names))


def directory_of(path: str) -> str:
    """The directory of a path, without the prefix of a local URI."""
    plain = local_path(path)
    return plain.rpartition("/")[0] if "/" in plain else "."


def shown(path: str, physical: str) -> str:
    """The name of a file in messages: as recorded, and where the bytes should be."""
    return path if path == physical else f"{path} ({physical})"


@dataclass(frozen=True)
class Entry:
    """A file in a directory. size: in bytes, negative of no regular file. modified_ms: since 1970; None: unknown."""

    name: str
    size: int
    modified_ms: int | None


class Files:
    """The files of this computer, opened plainly; a subclass may open those of a store."""

    def read(self, path: str) -> bytes:
        """All bytes of a file; a pipe is not waited for. Raises MissingFileError: no regular file is there."""
        if not self.opens(path):
            raise UnsupportedError("Cannot open files of this scheme", file=path)
        try:
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(local_path(path), flags), "rb") as stream:
                if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    return stream.read()
        except (OSError, ValueError) as error:
            reason = "no file has a NUL in its path" if "\0" in path else error
            raise MissingFileError(f"Cannot read file: {reason}", file=path) from error
        raise MissingFileError("Cannot read file: it is not a regular file", cause="IrregularFile", file=path)

    def has_file(self, path: str) -> bool:
        """Tells whether there is a regular file; MissingFileError for anything else in its place."""
        plain = local_path(path)
        if os.path.lexists(plain) and not os.path.isfile(plain):
            raise MissingFileError("Cannot read file: it is not a regular file", cause="IrregularFile", file=path)
        return os.path.isfile(plain)

    def is_directory(self, path: str) -> bool:
        """Tells whether there is a directory."""
        return self.opens(path) and os.path.isdir(local_path(path))

    def entries(self, directory: str) -> list[Entry]:
        """The contents of a directory, sorted by name; none where there is no directory."""
        found = []
        for item in os.scandir(local_path(directory)) if self.is_directory(directory) else ():
            is_file = item.is_file()
            status = item.stat(follow_symlinks=is_file)
            found.append(Entry(item.name, status.st_size if is_file else -1, status.st_mtime_ns // 1_000_000))
        return sorted(found, key=lambda entry: entry.name)

    def opens(self, path: str) -> bool:
        """Tells whether paths of this scheme can be opened."""
        return is_local(path)


@dataclass(frozen=True)
class PathMap:
    """Prefixes of recorded paths, and the prefixes in their place; the first that matches counts (iceberg 1.12)."""

    prefixes: tuple[tuple[str, str], ...]
    files: Files

    def physical(self, recorded: str) -> str:
        """The place of a file's bytes, which is never relative."""
        plain = local_path(recorded)
        for old, new in self.prefixes:
            prefix = local_path(old).rstrip("/")
            if prefix and (plain == prefix or plain.startswith(prefix + "/")):
                plain = new.rstrip("/") + plain[len(prefix) :]
                break
        return os.path.join(os.getcwd(), local_path(plain)) if is_local(plain) else plain

    def read(self, recorded: str) -> bytes:
        """The bytes of a file. Raises MissingFileError with both paths of a file that is not there."""
        physical = self.physical(recorded)
        try:
            return self.files.read(physical)
        except MissingFileError as error:
            error.file = shown(recorded, physical)
            raise
