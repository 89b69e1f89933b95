"""Entries as files of one private directory, which several processes may use at once.

A file is written under another name and then renamed, so that nobody sees half of it. The directory is this user's and
nobody else's, and so is each file: another one is refused, or not read. What fails while an entry is kept or found
costs nothing but time: then there is none.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import RequestError

MOST_BYTES: Final = 1 << 30
_NAME = "harness-1"  # of the directory within the one that the user names, which others may use, too
_ENTRY = re.compile(r"[0-9a-f]{40}")
_UNFINISHED = re.compile(r"[0-9a-f]{40}\.[0-9a-f]{16}")
_ABANDONED_S = 3600
_FULL = 0.9
"""Of the bytes that are allowed, what remains after files were removed, so that not each new one removes another."""
_LOOK_EVERY = 16
"""Other processes write, too: the directory is looked through after each such part of the allowed bytes."""
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a directory holds. path: its own. size, most: bytes that there are, and that may be."""

    path: str
    entries: int
    size: int
    most: int


class Folder:
    """The entries in a directory.

    directory: the user's; what is in it besides `harness-1` is left alone.
    most: bytes that the files may have together; those that were not used for longest are removed.

    Raises:
        RequestError: the directory cannot be made, or is not private to this user.
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
        """What there is now."""
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
