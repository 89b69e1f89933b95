"""Files of a table that is being built: counted names and times, places, and damage."""

from __future__ import annotations

import os
import shutil
import uuid
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from harness.errors import RequestError

FieldPath: TypeAlias = str | tuple[str, ...]
"""A column by its name, or a nested field by the names from the column down."""

FIRST_TIMESTAMP_MS = 1_700_000_000_000

UNCOMPRESSED: ContextVar[bool] = ContextVar("PLAIN", default=False)
"""Tells whether files are compressed only where the scenario says so. Then their bytes hold paths as they are."""


def default_codec(name: str, none: str) -> str:
    """The codec of files of which nothing is said: `name`, or `none` where `PLAIN` is set."""
    return none if UNCOMPRESSED.get() else name


def derived_uuid(text: str) -> uuid.UUID:
    """The UUID that stands for a text: the same one in every run."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"https://harness.invalid/{text}")


def check_inside(directory: Path, path: Path) -> Path:
    """`path`, if it is in the directory once links and `..` are followed.

    Raises:
        RequestError: it is not.
    """
    if not path.resolve().is_relative_to(directory.resolve()):
        raise RequestError(f"Cannot write {path}: it is outside of {directory}, in which the table is built")
    return path


def set_time(path: Path, time_ms: int) -> None:
    """Set access and modification time of a file, in milliseconds since 1970."""
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def copy_with_time(path: Path, target: Path) -> None:
    """A copy of a file, of the same times. Not `shutil.copy2`: a worker may set times, but no permissions."""
    shutil.copyfile(path, target)
    found = path.stat()
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def corrupt(path: Path, offset: int, xor: int = 0xFF) -> None:
    """Flip the bits `xor` of the byte at `offset`; a negative offset counts from the end."""
    content = bytearray(path.read_bytes())
    content[offset] ^= xor
    path.write_bytes(content)


def truncate(path: Path, size: int) -> None:
    """Keep the first `size` bytes of the file; a negative size says how many bytes to cut off its end."""
    content = path.read_bytes()
    path.write_bytes(content[:size])


def replace_by_directory(path: Path) -> None:
    """Put a directory of the file's name in its place, and the file into it."""
    aside = path.rename(path.with_name(f"{path.name}.aside"))
    path.mkdir()
    aside.rename(path / path.name)
