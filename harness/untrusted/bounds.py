"""The resources that a worker may use, and the limits that may be waived on systems that cannot enforce them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from harness.errors import RequestError
from harness.storage.gate import check_name, metadata_root
from harness.storage.paths import is_local, local_path, may_be_name, redact

Unenforced: TypeAlias = dict[str, str]
"""Reasons why limits cannot be enforced here, by the limit's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits on the resources of a process that reads an untrusted table.

    Attributes:
        memory_bytes: Address space in addition to the space of the loaded libraries. DuckDB may use half of it.
        cpu_seconds: Processor time of all threads together.
        wall_seconds: Time from start to end.
        output_bytes: Size of the result: rows, a document, or a report.
        open_files: Files open at the same time, including files of libraries.
        scratch_bytes: Size of all files that the process writes, for example when DuckDB sorts. They are in a directory
            that is deleted when the process ends.
        threads: Threads at the same time. DuckDB, Arrow, and the allocators start about 30.
    """

    memory_bytes: int = 4 << 30
    cpu_seconds: int = 600
    wall_seconds: int = 600
    output_bytes: int = 256 << 20
    open_files: int = 1024
    scratch_bytes: int = 4 << 30
    threads: int = 256

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is not int or not 0 < value < 1 << 62:
                raise RequestError(
                    f"Invalid bound {name}={value!r}: expected a whole number of at least 1", options=("bounds",)
                )


DOCUMENT_BYTES = 1 << 20
"""The most bytes of a JSON answer from a worker or a reader: an error, warnings, or an answer of one line."""
SPARE_THREADS = 64
"""Threads that the system allows beyond the bound, so that the watch sees a worker that exceeds it."""

WAIVABLE = ("memory_bytes", "cpu_seconds", "open_files", "scratch_bytes", "network", "processes")
"""Limits that the operating system enforces. The process that waits for the worker enforces the others."""


def check_waived(waived: Iterable[str]) -> frozenset[str]:
    """Return the names of the waived limits.

    Raises:
        RequestError: A limit does not exist, or cannot be waived.
    """
    names = (waived,) if isinstance(waived, str) else tuple(waived)
    for name in names:
        if name not in WAIVABLE:
            raise RequestError(f"Cannot waive {name!r}: expected one of {', '.join(WAIVABLE)}", options=("waived",))
    return frozenset(names)


def readable_directories(locations: Iterable[str], roots: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the directories that a worker may read, as absolute paths, both as spelled and with links resolved.

    Args:
        locations: Locations of tables. For a metadata file, the directory of its table is used, as in
            `harness.storage.gate`.
        roots: Further directories.

    Raises:
        RequestError: A location is not on a local disk, or is the name of a table in a catalog.
    """
    result: dict[str, None] = {}
    for location in locations:
        if may_be_name(location):
            raise RequestError(
                "Cannot read an untrusted table by name: the path does not exist, and the process that reads it cannot "
                "ask a catalog; pass the table's path",
                table=location,
            )
        check_name(location)
        path = _local_path(location)
        for spelled in (path, os.path.realpath(path)):
            result[metadata_root(spelled) if os.path.isfile(spelled) else spelled] = None
    for root in roots:
        check_name(root)
        result |= dict.fromkeys((_local_path(root), os.path.realpath(_local_path(root))))
    return tuple(result)


def _local_path(location: str) -> str:
    path = local_path(location)
    if not is_local(path):
        raise RequestError(
            "Cannot read an untrusted table that is not on a local disk: the process that reads it has no network; "
            "copy it to a directory first",
            table=redact(location),
        )
    return os.path.abspath(path)
