"""`pull`: a slice of a table in a directory, a valid table of the same format whose rows are the source's.

    harness.pull("s3://bucket/orders", "slice", where="day >= DATE '2024-06-01'")

The law: under the filter, the slice gives the rows that the source gives. Whole files are taken, so without the filter
it may give more, unless it is to be exact.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from harness.errors import RequestError, warn
from harness.metadata.delta.table import DeltaTable
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.model.arguments import checked
from harness.metadata.plan.scan_plan import ScanPlan
from harness.snapshot import Snapshot, reading
from harness.storage.paths import shown
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.table import Table, open_table
from harness.tools.slices.place import FetchedFile, SlicePlace, SourceFile, discard_stale, fetch
from harness.tools.slices.request import KeptRows, SliceRequest, kept_rows


class Slice(Protocol):
    """A slice of a table of some format, planned and not yet made."""

    @property
    def metadata_folder(self) -> str:
        """The folder that makes a table of the slice's files."""

    @property
    def storage(self) -> Storage:
        """Reads the source."""

    @property
    def points(self) -> tuple[int, ...]:
        """Its snapshots or versions, oldest first."""

    @property
    def identity(self) -> str | None:
        """The identity of the source among tables at its place."""

    def files(self) -> tuple[SourceFile, ...]:
        """The files to copy."""

    def plans(self) -> Iterable[ScanPlan]:
        """The filtered plans of its snapshots, oldest first."""

    def with_rows(self, rows: KeptRows) -> Slice:
        """The slice that has these rows of its files and no others."""

    def rewritten_bytes(self) -> int:
        """The size of what is read besides, to be written anew."""

    def write(self, place: SlicePlace, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The result of a pull, or, if it was a trial, what it would be.

    directory: of the slice, as it was given. format: `iceberg` or `delta`. snapshots: ids or versions, oldest first.
    files, bytes: what the slice takes of the source. reused: files that were there from a pull that was interrupted.
    made: whether a slice was made, or made newer. notes: what it lacks of the source, a sentence each.
    """

    directory: str
    format: str
    snapshots: tuple[int, ...]
    files: int
    bytes: int
    reused: int = 0
    made: bool = True
    notes: tuple[str, ...] = ()


@checked
def pull(
    source: Snapshot | Table | str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    where: str | None = None,
    last: int = 1,
    columns: Sequence[str] | None = None,
    exact: bool = False,
    sample_rows: int | None = None,
    seed: int = 0,
    compact: bool = False,
    anonymise: str | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
) -> Pulled:
    """Make a slice of a table: a table of the same format in `directory`, with the files that the filter needs.

    Under the filter the slice gives the rows that the source gives; data files are taken whole, and deletes stay
    deletes. Schemas, specs, ids, sequence numbers, properties and protocol are the source's; what the slice does not
    hold, its metadata does not name. `_harness_slice.json` says where it came from.

    If a pull is interrupted, no table is there, and the same call goes on where it ended.

    Args:
        source: a snapshot; or a table, or its location, whose current snapshot is meant.
        directory: a new or empty local directory. Recorded paths are absolute: other readers want it to stay there.
        where: a boolean SQL expression; None: all rows.
        last: the newest `last` snapshots, up to `source`; the oldest becomes the root.
        columns: names of the columns that the slice has; None: all. Those that partitions, equality deletes and
            generated columns need must be among them.
        exact: leave out rows that the filter drops: the slice gives the source's rows under the filter as it is.
            Files that lose rows are written anew, and positions of deletes follow.
        sample_rows: keep so many rows of those that the filter lets through, the same ones for the same `seed`, and
            deleted rows in their measure.
        compact: apply the deletes: the slice has live rows, and no deletes.
        anonymise: a key, which chooses other values for all of the slice's: of the same types, null where they were
            null, equal where they were equal, in every slice that is made with this key. Texts that people or writers
            left in the metadata are left out. `docs/how-to/pull-a-slice.md` says what can be told from it all the same.
        max_bytes: it is an error, before anything is copied, if the slice needs more bytes of the source.
        dry_run: say what would be copied; write nothing.

    Raises:
        RequestError: the directory is not empty, the slice is larger than `max_bytes`, or as planning a read says.
        UnsupportedError: the table has what a slice cannot hold.
        StorageError: a file cannot be read or written.
        As `harness.open_table` and `Snapshot.plan`.
    """
    request = SliceRequest(
        where=where,
        last=last,
        columns=None if columns is None else tuple(columns),
        exact=exact,
        sample_rows=sample_rows,
        seed=seed,
        compact=compact,
        anonymise=anonymise,
        max_bytes=max_bytes,
    )
    snapshot = newest(source)
    with reading(snapshot.source, snapshot.selection.snapshot):
        return make(snapshot, Path(directory), request, dry_run=dry_run)


def make(
    snapshot: Snapshot, directory: Path, request: SliceRequest, *, refreshed: int = 0, dry_run: bool = False
) -> Pulled:
    """Make a slice, or a newer one in place of it.

    refreshed: how often the slice in the directory was made newer, this time too; 0: there is none.
    """
    planned = planned_slice(snapshot, request, refreshed)
    place = SlicePlace(directory, planned.metadata_folder)
    if not refreshed:
        place.check()
    if request.cuts_rows:
        with phase("choosing rows"):
            planned = planned.with_rows(kept_rows(planned.plans(), request))
    files, storage = planned.files(), planned.storage
    size = sum(storage.size(file.physical) if file.size is None else file.size for file in files)
    size += planned.rewritten_bytes()
    if request.max_bytes is not None and size > request.max_bytes:
        raise RequestError(
            f"Cannot pull: the slice needs {size:,} bytes in {len(files):,} files, max_bytes={request.max_bytes} "
            "allows less; narrow the filter",
            table=snapshot.source.location,
            options=("max_bytes",),
        )
    told = Pulled(
        directory=str(directory),
        format=snapshot.source.format,
        snapshots=planned.points,
        files=len(files),
        bytes=size,
        made=not dry_run,
    )
    if dry_run:
        return told
    origin = {
        "format": snapshot.source.format,
        "location": shown(snapshot.source.location),
        "identity": planned.identity,
        "snapshots": list(planned.points),
        "request": request.as_dict(),
        "refreshed": refreshed,
    }
    place.begin(origin, refresh=refreshed > 0)
    fetched = fetch(files, storage, place, max_bytes=request.max_bytes)
    with phase("writing the slice"):
        notes = planned.write(place, fetched.files)
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {shown(snapshot.source.location)}: {sentence}")
    is_anonymised = request.anonymise is not None
    if is_anonymised:
        origin |= {"location": None, "identity": None}
    place.publish(_note(origin, told, notes), journal=not is_anonymised)
    if refreshed:
        discard_stale(place.directory, fetched.files, refreshed)
    for sentence in notes:
        warn(f"Slice {place.directory}: {sentence}")
    return replace(told, reused=fetched.reused, notes=tuple(notes))


def newest(source: Snapshot | Table | str | os.PathLike[str]) -> Snapshot:
    """The snapshot that is meant: of a table, the current one."""
    if isinstance(source, Snapshot):
        return source
    return (source if isinstance(source, Table) else open_table(source)).snapshot()


def planned_slice(snapshot: Snapshot, request: SliceRequest, refreshed: int = 0) -> Slice:
    """The slice that is asked for. Imports the modules of that format and no others."""
    table: Any = snapshot.source
    selection: Any = snapshot.selection
    if isinstance(table, IcebergTable):
        from harness.tools.slices.iceberg import pulling as iceberg

        return iceberg.planned_slice(table, selection, request, refreshed)
    assert isinstance(table, DeltaTable)
    from harness.tools.slices.delta import pulling as delta

    return delta.planned_slice(table, selection, request, refreshed)


def _note(origin: Mapping[str, Any], told: Pulled, notes: list[str]) -> dict[str, Any]:
    """The origin of the slice, for people and for a refresh."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "harness": sys.modules["harness"].__version__,  # the package itself imports what is above this layer
        "pulled": now,
        **origin,
        "files": told.files,
        "bytes": told.bytes,
        "notes": notes,
    }
