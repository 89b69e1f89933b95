"""Output files, which are written to a temporary file first and then renamed into place.

Only regular files are ever replaced: links are not followed, and devices, pipes, and directories are left alone. All
files that harness writes at a path chosen by the user are written through this module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from harness.errors import RequestError

OUTPUT_FILE = "the output file"


@contextlib.contextmanager
def write_errors(name: str, file: Path | None) -> Iterator[None]:
    """Turn operating system errors into errors that name the output.

    Args:
        name: The output in words, for example `the directory`.
        file: Its path, or None if it has none.

    Raises:
        RequestError: The operating system failed.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = None if file is None else str(file)
        raise RequestError(f"Cannot write to {name}: {error.strerror or error}", file=where) from error


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends. It gets the owner and permissions of an existing file.

    If the block raises, an existing file stays unchanged.

    Raises:
        RequestError: `path` is not a regular file, or cannot be written.
    """
    with write_errors(OUTPUT_FILE, path):
        before = _existing_status(path)
        descriptor, temporary = tempfile.mkstemp(prefix=".harness-", dir=path.parent)
    file = os.fdopen(descriptor, "wb")
    try:
        yield file
        with write_errors(OUTPUT_FILE, path):
            file.flush()
            _copy_ownership(file.fileno(), before)
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # closing writes the rest again, which a full disk refused
            file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, with backslash escapes for text that UTF-8 cannot encode.

    Raises the same errors as `new_file`.
    """
    with new_file(path) as file, write_errors(OUTPUT_FILE, path):
        file.write(text.encode("utf-8", "backslashreplace"))


def create_path_below(directory: Path, name: str) -> Path:
    """Return the path of `name` below a directory, and create the parent directories.

    The directory itself may be a link, because the user named it. Directories below it may not.

    Raises:
        RequestError: A parent is a link or not a directory, or cannot be created.
    """
    path = directory / name
    with write_errors(OUTPUT_FILE, path):
        directory.mkdir(parents=True, exist_ok=True)
        for folder in reversed(path.relative_to(directory).parents[:-1]):
            parent = directory / folder
            if parent.is_symlink():
                raise RequestError(
                    "Cannot write below a link: remove it, or choose another directory", file=str(parent)
                )
            parent.mkdir(exist_ok=True)
    return path


def _existing_status(path: Path) -> os.stat_result | None:
    """Return the status of an existing regular file that may be replaced, or None if nothing exists."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = (
            "a directory" if stat.S_ISDIR(status.st_mode) else "a link" if stat.S_ISLNK(status.st_mode) else "a device"
        )
        raise RequestError(f"Cannot write to {OUTPUT_FILE}: it is {kind}, not a regular file", file=str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return status


def _copy_ownership(descriptor: int, before: os.stat_result | None) -> None:
    """Give a new file the owner and permissions of the file it replaces, or the default permissions."""
    if before is None or os.name == "nt":
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    else:
        with contextlib.suppress(PermissionError):  # only root may change the owner
            os.fchown(descriptor, before.st_uid, before.st_gid)
        mode = stat.S_IMODE(before.st_mode)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
