"""`pull`: a slice of a table in a directory, a valid table of the same format whose rows are the source's.

    harness.pull("s3://bucket/orders", "slice", where="day >= DATE '2024-06-01'")

The law: under the filter, the slice gives the rows that the source gives. Whole files are taken, so without the filter
it may give more, unless it is to be exact.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import RequestError, warn
from harness.metadata.delta.table import DeltaTable
from harness.metadata.model.arguments import checked
from harness.snapshot import Snapshot, reading
from harness.storage.paths import shown
from harness.table import Table, open_table
from harness.tools.slices.place import Slice, SlicePlace, discard_stale, fetch
from harness.tools.slices.request import SliceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The result of a pull, or of a trial.

    directory: of the slice, as given. format: `iceberg` or `delta`. snapshots: ids or versions, oldest first.
    files, bytes: of the source. reused: files that were there from an interrupted pull.
    made: True: a slice was made, or made newer. notes: a sentence for each lack of the slice.
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
    deletes. Schemas, specs, ids, sequence numbers, properties and protocol are the source's; the metadata names only
    files of the slice. `_harness_slice.json` says where it came from.

    If a pull is interrupted, no table is there, and the same call goes on where it ended.

    Args:
        source: a snapshot; or a table, or its location: the current snapshot.
        directory: a new or empty local directory. Recorded paths are absolute: other readers want it to stay there.
        where: a boolean SQL expression; None: all rows.
        last: the newest `last` snapshots, up to `source`; the oldest becomes the root.
        columns: names of the slice's columns; None: all. Columns that partitions, equality deletes and generated
            columns need must be among them.
        exact: leave out rows that the filter drops. Files that lose rows are written anew, and positions of deletes
            follow.
        sample_rows: keep so many rows of those that the filter lets through, the same ones for the same `seed`, and
            deleted rows in their measure.
        compact: apply the deletes: the slice has live rows, and no deletes.
        anonymise: a key, which chooses other values: of the same types, null where they were null, equal where they
            were equal, in every slice that is made with this key. Texts that people or writers left in the metadata
            are left out. `docs/how-to/pull-a-slice.md` says what can be told from the slice all the same.
        max_bytes: more bytes of the source are an error, before anything is copied.
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

    refreshed: the number of refreshes of the slice in the directory, with this one; 0: there is none.
    """
    source: Any = snapshot.source
    selection: Any = snapshot.selection
    place = SlicePlace(directory, "_delta_log" if isinstance(source, DeltaTable) else "metadata")
    if not refreshed:
        place.check()
    planned: Slice
    if isinstance(source, DeltaTable):  # no module of the other format is imported
        from harness.tools.slices.delta import pulling as delta

        planned = delta.planned_slice(source, selection, request, refreshed)
    else:
        from harness.tools.slices.iceberg import pulling as iceberg

        planned = iceberg.planned_slice(source, selection, request, refreshed)
    files, storage = planned.files, planned.storage
    size = sum(storage.size(file.physical) if file.size is None else file.size for file in files)
    size += planned.read_besides
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
        "identity": identity_of(snapshot),
        "snapshots": list(planned.points),
        "request": request.as_dict(),
        "refreshed": refreshed,
    }
    place.begin(origin, refresh=refreshed > 0)
    fetched, reused = fetch(files, storage, place, max_bytes=request.max_bytes)
    notes = planned.write(place, fetched)
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {shown(snapshot.source.location)}: {sentence}")
    is_anonymised = request.anonymise is not None
    if is_anonymised:
        origin |= {"location": None, "identity": None}
    note = {
        "harness": sys.modules["harness"].__version__,  # the package itself imports what is above this layer
        "pulled": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **origin,
        "files": told.files,
        "bytes": told.bytes,
        "notes": notes,
    }
    place.publish(note, journal=not is_anonymised)
    if refreshed:
        discard_stale(place.directory, fetched, refreshed)
    for sentence in notes:
        warn(f"Slice {place.directory}: {sentence}")
    return replace(told, reused=reused, notes=tuple(notes))


def newest(source: Snapshot | Table | str | os.PathLike[str]) -> Snapshot:
    """A snapshot, or the current one of a table."""
    if isinstance(source, Snapshot):
        return source
    return (source if isinstance(source, Table) else open_table(source)).snapshot()


def identity_of(snapshot: Snapshot) -> str | None:
    """The identity of a snapshot's table among tables at its place."""
    source: Any = snapshot.source
    selection: Any = snapshot.selection
    found: str | None = selection.snapshot.state.metadata.id if isinstance(source, DeltaTable) else source.metadata.uuid
    return found
