"""Names, sizes and times of files, out of the listings and look-ups of each file system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.storage.records import dataclass

# fsspec's names of the last modification, which is a number of seconds, an ISO text or a datetime.
_MODIFIED = ("mtime", "LastModified", "last_modified", "modified", "updated")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


UNREADABLE = -1
"""The size of a directory, a pipe, a socket, a device, or a link that leads nowhere."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a listing.

    name: without its directory.
    size: in bytes; `UNREADABLE` of what is there and is no regular file.
    modified_ms: last modification, milliseconds since 1970-01-01 UTC, rounded down; None where the storage has none.
    """

    name: str
    size: int
    modified_ms: int | None


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
    """One version of a file. size: bytes. token: the storage's word on the version."""

    size: int
    token: str


_TAGS = ("ETag", "etag", "e_tag", "VersionId", "version_id", "generation", "md5Hash", "content_md5")
"""Names of properties that change with each version of an object."""
_SETTLED_NS = 2_000_000_000
"""A clock of files may stand still for so long: within it, two versions of a file can have one time."""


def remote_version(info: Mapping[str, Any]) -> FileVersion | None:
    """The version of a file by what a file system of fsspec says of it; None: that does not tell."""
    tags = [f"{name}={info[name]}" for name in _TAGS if isinstance(info.get(name), str | int) and info[name] != ""]
    size = info.get("size")
    if not tags or not isinstance(size, int):
        return None
    return FileVersion(size, ";".join([*tags, f"modified={_modified_ms(info, *_MODIFIED)}"]))


def local_version(status: os.stat_result, *, now_ns: int) -> FileVersion | None:
    """The version of a local file; None: it was changed just now, so the next change might not show."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if not 0 <= changed <= now_ns - _SETTLED_NS:
        return None
    return FileVersion(status.st_size, f"{status.st_dev}-{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}")


def remote_status(info: Mapping[str, Any]) -> FileStatus:
    """The status in fsspec's answer about one file."""
    return FileStatus(int(info["size"]), _modified_ms(info, *_MODIFIED))


def remote_entry(info: Mapping[str, Any]) -> Entry:
    """A file by what a file system of fsspec says of it in a listing."""
    modified_ms = _modified_ms(info, *_MODIFIED, "created")
    return Entry(info["name"].rsplit("/", 1)[-1], int(info.get("size") or 0), modified_ms)


def local_entries(directory: str) -> Iterator[Entry]:
    """The entries directly in a local directory; nothing if there is no such directory.

    Things that are no regular files are in it: one in the place of a file must not pass for no file.
    """
    if not os.path.isdir(directory):
        return
    with os.scandir(directory) as found:
        for item in found:
            try:
                if item.is_file():
                    status = item.stat()
                    yield Entry(item.name, status.st_size, status.st_mtime_ns // 1_000_000)
                else:
                    status = item.stat(follow_symlinks=False)
                    yield Entry(item.name, UNREADABLE, status.st_mtime_ns // 1_000_000)
            except FileNotFoundError:  # removed since the directory was read
                continue


def local_directories(directory: str) -> Iterator[str]:
    """Names of the directories directly in a local directory; none if there is no such directory."""
    if not os.path.isdir(directory):
        return
    with os.scandir(directory) as found:
        yield from (item.name for item in found if item.is_dir())


def _modified_ms(info: Mapping[str, Any], *keys: str) -> int | None:
    """The first time that `info` has under one of the keys, milliseconds since 1970-01-01 UTC."""
    value = next((info[key] for key in keys if info.get(key) is not None), None)
    if isinstance(value, int | float):
        return round(value * 1_000_000) // 1000
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return milliseconds(value) if isinstance(value, datetime) else None


def milliseconds(time: datetime) -> int:
    """Since 1970-01-01 UTC, rounded down; a time without a zone is in UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
