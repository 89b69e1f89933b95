"""The pulling and refreshing of slices. A slice is a valid table of the source's format with some of its rows.

    harness.open_table("s3://bucket/orders").pull("slice", where="day >= DATE '2024-06-01'")

Under the filter, the slice and its source return the same rows. Whole files are copied, so without the filter the slice
may also return rows that do not match it, unless it is pulled with `exact`.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import HarnessError, RequestError, warn
from harness.metadata.delta.table import DeltaTable
from harness.slices.directory import NOTE, Slice, SliceDirectory, discard_stale, fetch
from harness.slices.request import SliceRequest
from harness.snapshot import Snapshot, read_context
from harness.storage.paths import redact
from harness.storage.threads import phase
from harness.table import open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """The result of a pull or a refresh.

    Attributes:
        directory: The slice's directory, as the caller spelled it.
        format: `iceberg` or `delta`.
        snapshots: The ids or versions in the slice, oldest first.
        files: The number of files of the source.
        bytes: The size of these files.
        reused: The number of files that an interrupted pull had already fetched.
        made: False if a refresh found nothing new.
        notes: A sentence for each thing that the slice lacks.
    """

    directory: str
    format: str
    snapshots: tuple[int, ...]
    files: int
    bytes: int
    reused: int = 0
    made: bool = True
    notes: tuple[str, ...] = ()


def make_slice(snapshot: Snapshot, directory: Path, request: SliceRequest, *, refreshed: int = 0) -> PullResult:
    """Make a slice, or replace it with a newer one.

    Args:
        snapshot: The snapshot to pull.
        directory: The slice's directory.
        request: The options.
        refreshed: The number of refreshes of the slice in the directory, including this one. 0 for a new slice.
    """
    source: Any = snapshot._source
    selection: Any = snapshot._selection
    place = SliceDirectory(directory, "_delta_log" if isinstance(source, DeltaTable) else "metadata")
    if not refreshed:
        place.check()
    planned: Slice
    if isinstance(source, DeltaTable):  # imports no modules of the second format
        from harness.slices.delta import pulling as delta

        planned = delta.plan_slice(source, selection, request, refreshed)
    else:
        from harness.slices.iceberg import pulling as iceberg

        planned = iceberg.plan_slice(source, selection, request, refreshed)
    files, storage = planned.files, planned.storage
    size = sum(storage.size(file.physical) if file.size is None else file.size for file in files)
    size += planned.rewritten_bytes
    pulled = PullResult(
        directory=str(directory),
        format=snapshot._source.format,
        snapshots=planned.points,
        files=len(files),
        bytes=size,
    )
    origin = {
        "format": snapshot._source.format,
        "location": redact(snapshot._source.location),
        "identity": identity_of(snapshot),
        "snapshots": list(planned.points),
        "request": request.as_dict(),
        "refreshed": refreshed,
    }
    place.begin(origin, refresh=refreshed > 0)
    fetched, reused = fetch(files, storage, place, link=request.link)
    with phase("writing the slice"):
        notes = planned.write(place, fetched)
    sentence = None if storage.roots is None else storage.roots.outside_notice()
    if sentence is not None:
        warn(f"Table {redact(snapshot._source.location)}: {sentence}")
    is_anonymised = request.anonymise is not None
    if is_anonymised:
        origin |= {"location": None, "identity": None}
    note = {
        "harness": sys.modules["harness"].__version__,  # `harness` itself imports modules above this layer
        "pulled": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **origin,
        "files": pulled.files,
        "bytes": pulled.bytes,
        "notes": notes,
    }
    place.publish(note, journal=not is_anonymised)
    if refreshed:
        discard_stale(place.directory, fetched, refreshed)
    for sentence in notes:
        warn(f"Slice {place.directory}: {sentence}")
    return replace(pulled, reused=reused, notes=tuple(notes))


def identity_of(snapshot: Snapshot) -> str | None:
    """Return the id of a snapshot's table, which distinguishes it from other tables at the same location."""
    source: Any = snapshot._source
    selection: Any = snapshot._selection
    result: str | None = (
        selection.snapshot.state.metadata.id if isinstance(source, DeltaTable) else source.metadata.uuid
    )
    return result


def refresh(snapshot: Snapshot, place: Path) -> PullResult:
    """Update the slice in a directory to a newer snapshot of its source, with the same options: see `Table.pull`.

    Raises:
        RequestError: The directory is not a slice, or the slice cannot follow its source.
        HarnessError: As for `make_slice`.
    """
    note = _read_note(place)
    before = note["snapshots"]
    with read_context(snapshot._source, snapshot._selection.snapshot):
        table = snapshot._source
        if "anonymised" in note["request"]:
            _fail_refresh(place, "it is anonymised, so its note does not record its source and filter")
        if table.format != note["format"]:
            _fail_refresh(place, f"its format is {note['format']}, and the source's is {table.format}")
        if identity_of(snapshot) != note["identity"]:
            _fail_refresh(place, "another table is at the source's location now")
        base = before[-1] if before else None
        if base is not None and not _descends_from(snapshot, base):
            _fail_refresh(
                place, f"its snapshot {base} has expired in the source, or is not an ancestor of the newest one"
            )
        try:
            local_table = open_table(place, format_hint=note["format"])
        except HarnessError as error:
            _fail_refresh(place, f"it cannot be read ({error.message})")
        if (None if local_table._source.current is None else local_table._source.current.id) != base:
            _fail_refresh(place, "it was written to since it was pulled")
        if base is not None and snapshot.id == base:
            return PullResult(
                directory=str(place), format=note["format"], snapshots=tuple(before), files=0, bytes=0, made=False
            )
        requested: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in note["request"].items()
        }
        return make_slice(snapshot, place, SliceRequest(**requested), refreshed=note["refreshed"] + 1)


def _read_note(place: Path) -> dict[str, Any]:
    try:
        note: dict[str, object] = json.loads((place / NOTE).read_text(encoding="utf-8"))
        if not {"format", "identity", "snapshots", "request", "refreshed"} <= note.keys():
            raise ValueError("a key is missing")
    except (OSError, ValueError) as error:
        raise RequestError(
            f"Cannot refresh {place}: it is not a slice, because its {NOTE} cannot be read ({error})"
        ) from error
    return note


def _descends_from(snapshot: Snapshot, base: int) -> bool:
    """Return whether `base` is an ancestor of a snapshot, as far as the source's history shows."""
    table: Any = snapshot._source
    if isinstance(table, DeltaTable):
        return any(base in versions and snapshot.id in versions for versions in table.readable())
    snapshots = table.metadata.snapshots
    at, visited_ids = snapshots.get(snapshot.id), set[int]()
    while at is not None and at.id not in visited_ids and at.id != base:
        visited_ids.add(at.id)
        at = None if at.parent_id is None else snapshots.get(at.parent_id)
    return at is not None and at.id == base


def _fail_refresh(place: Path, reason: str) -> NoReturn:
    raise RequestError(f"Cannot refresh {place}: {reason}; pull it again")
