"""Helpers for the files of a table that is being built: reproducible ids and times, paths, and deliberate damage."""

from __future__ import annotations

import os
import shutil
import uuid
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from harness.errors import RequestError

FieldPath: TypeAlias = str | tuple[str, ...]
"""A column by its name, or a nested field as the names from the column down."""

FIRST_TIMESTAMP_MS = 1_700_000_000_000

UNCOMPRESSED: ContextVar[bool] = ContextVar("UNCOMPRESSED", default=False)
"""True if files are uncompressed unless the scenario names a codec.

The bytes of an uncompressed file contain paths as plain text.
"""


def default_codec(name: str, none: str) -> str:
    """Return the default codec: `name`, or `none` if `UNCOMPRESSED` is set."""
    return none if UNCOMPRESSED.get() else name


def derived_uuid(text: str) -> uuid.UUID:
    """Return a UUID that is derived from a text, and therefore the same in every run."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"https://harness.invalid/{text}")


def check_inside(directory: Path, path: Path) -> Path:
    """Return `path` if it is inside the directory after links and `..` are resolved.

    Raises:
        RequestError: The path is outside.
    """
    if not path.resolve().is_relative_to(directory.resolve()):
        raise RequestError(
            f"Cannot write {path}: the table is being built in {directory}, and may not write outside it"
        )
    return path


def set_time(path: Path, time_ms: int) -> None:
    """Set the access and modification time of a file, in milliseconds since 1970-01-01 UTC."""
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def copy_with_time(path: Path, target: Path) -> None:
    """Copy a file with its access and modification time.

    `shutil.copy2` also sets permissions, which a worker process may not do.
    """
    shutil.copyfile(path, target)
    source_stat = path.stat()
    os.utime(target, ns=(source_stat.st_atime_ns, source_stat.st_mtime_ns))


def corrupt(path: Path, offset: int, xor: int = 0xFF) -> None:
    """Flip bits in one byte of a file.

    Args:
        path: The file.
        offset: The position of the byte. A negative offset counts from the end.
        xor: The bits to flip.
    """
    content = bytearray(path.read_bytes())
    content[offset] ^= xor
    path.write_bytes(content)


def truncate(path: Path, size: int) -> None:
    """Keep the first `size` bytes of a file. A negative size is the number of bytes to cut off the end."""
    content = path.read_bytes()
    path.write_bytes(content[:size])


def replace_by_directory(path: Path) -> None:
    """Replace a file by a directory with the same name, and move the file into it."""
    aside = path.rename(path.with_name(f"{path.name}.aside"))
    path.mkdir()
    aside.rename(path / path.name)
