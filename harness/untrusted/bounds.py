"""The resources that a worker may use, and the limits that may be waived where a system cannot hold them."""

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
    """The resources of a process that reads an untrusted table.

    memory_bytes: of address space, beyond that of its loaded libraries. DuckDB gets half of it.
    cpu_seconds: of processor time, of all threads together. wall_seconds: from start to end.
    output_bytes: of its result: rows, a document or a report.
    open_files: at once, its libraries' among them.
    scratch_bytes: of all that it writes, such as sorts of DuckDB on disk, in a directory that goes with it.
    threads: at once. DuckDB, Arrow and the allocators start some 30.
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
                    f"Invalid bound {name}={value!r}: expected a whole number from 1 on", options=("bounds",)
                )


DOCUMENT_BYTES = 1 << 20
"""Most bytes of what a worker or a reader tells as JSON: an error, warnings, or an answer of one line."""
SPARE_THREADS = 64
"""Threads that the system allows beyond the bound, so that the watch finds a worker that is beyond."""

WAIVABLE = ("memory_bytes", "cpu_seconds", "open_files", "scratch_bytes", "network", "processes")
"""Limits that the system must hold. The process that waits for the worker holds the others."""


def check_waived(waived: Iterable[str]) -> frozenset[str]:
    """The limits that need not hold. Raises RequestError: there is no such limit, or it always holds."""
    chosen = (waived,) if isinstance(waived, str) else tuple(waived)
    for name in chosen:
        if name not in WAIVABLE:
            raise RequestError(f"Cannot waive {name!r}: there are {', '.join(WAIVABLE)}", options=("waived",))
    return frozenset(chosen)


def readable_directories(locations: Iterable[str], roots: Iterable[str] = ()) -> tuple[str, ...]:
    """The directories to which a worker is confined: absolute, as they are spelled and with links resolved.

    locations: of tables; of a metadata file, the table around it counts, as `harness.storage.gate` has it.

    Raises RequestError: a location is not on a local disk, or the name of a table in a catalog.
    """
    found: dict[str, None] = {}
    for location in locations:
        if may_be_name(location):
            raise RequestError(
                "Cannot read an untrusted table by name: there is no such path, and no catalog is asked where it is "
                "read; give its path",
                table=location,
            )
        check_name(location)
        path = _local_path(location)
        for spelled in (path, os.path.realpath(path)):
            found[metadata_root(spelled) if os.path.isfile(spelled) else spelled] = None
    for root in roots:
        check_name(root)
        found |= dict.fromkeys((_local_path(root), os.path.realpath(_local_path(root))))
    return tuple(found)


def _local_path(location: str) -> str:
    path = local_path(location)
    if not is_local(path):
        raise RequestError(
            "Cannot read an untrusted table that is not on a local disk: there is no network where it is read; copy it "
            "to a directory first",
            table=redact(location),
        )
    return os.path.abspath(path)
