"""`refresh`: a slice brought to its source's newest snapshot, as if it were pulled anew, fetching what is new."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import HarnessError, RequestError
from harness.metadata.delta.table import DeltaTable
from harness.metadata.iceberg.table import IcebergTable
from harness.snapshot import Snapshot, reading
from harness.table import Table, open_table
from harness.tools.slices.place import NOTE
from harness.tools.slices.pulling import Pulled, make, newest
from harness.tools.slices.request import SliceRequest


def refresh(source: Snapshot | Table | str | os.PathLike[str], directory: str | os.PathLike[str]) -> Pulled:
    """Bring a slice to the newest snapshot of its source, under the filter and the options that it was pulled with.

    Files that are there are not fetched again, but those that `exact`, `columns`, `sample_rows` and `compact` change.
    The slice is as if it were pulled anew: what its older snapshots had and the newest have not goes.

    Args:
        source: the table that the slice was pulled from, or its location.
        directory: of the slice.

    Raises:
        RequestError: the directory is no slice, or one that cannot follow its source: another table is there, it was
            rolled back, the slice's snapshot has expired, or the slice was written to. Pull anew.
        As `harness.pull`.
    """
    place = Path(directory)
    note = _note(place)
    snapshot = newest(source)
    with reading(snapshot.source, snapshot.selection.snapshot):
        _check(snapshot, note, place)
        request = SliceRequest(**{**note["request"], **_tuples(note["request"])})
        before = note["snapshots"]
        if before and snapshot.id == before[-1]:
            return Pulled(
                directory=str(directory), format=note["format"], snapshots=tuple(before), files=0, bytes=0, made=False
            )
        return make(snapshot, place, request, refreshed=note["refreshed"] + 1)


def _note(place: Path) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads((place / NOTE).read_text(encoding="utf-8"))
        if not {"format", "identity", "snapshots", "request", "refreshed"} <= note.keys():
            raise ValueError("it lacks a part")
    except (OSError, ValueError) as error:
        raise RequestError(f"Cannot refresh {place}: it is no slice, as its {NOTE} cannot be read ({error})") from error
    return note


def _tuples(request: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) for name, value in request.items() if isinstance(value, list)}


def _check(snapshot: Snapshot, note: dict[str, Any], place: Path) -> None:
    """Refuses what the slice cannot follow."""
    table = snapshot.source
    if "follows" in note["request"]:
        _refuse(place, "it has the rows that another slice refers to")
    if "anonymised" in note["request"]:
        _refuse(place, "it is anonymised, so its note does not say what it was pulled from, nor by which filter")
    if table.format != note["format"]:
        _refuse(place, f"its format is {note['format']}, and the source's is {table.format}")
    if _identity(snapshot) != note["identity"]:
        _refuse(place, "another table is at the source's place now")
    base = note["snapshots"][-1] if note["snapshots"] else None
    if base is not None and not _follows(snapshot, base):
        _refuse(place, f"its snapshot {base} has expired in the source, or is not in the newest one's past")
    try:
        own = open_table(place, format_hint=note["format"])
    except HarnessError as error:
        _refuse(place, f"it cannot be read ({error.message})")
    if (None if own.source.current is None else own.source.current.id) != base:
        _refuse(place, "it was written to since it was pulled")


def _identity(snapshot: Snapshot) -> str | None:
    table: Any = snapshot.source
    if isinstance(table, IcebergTable):
        return table.metadata.uuid
    assert isinstance(table, DeltaTable)
    return table.latest.state.metadata.id


def _follows(snapshot: Snapshot, base: int) -> bool:
    """Whether `base` is in the past of a snapshot, as far as the source still knows it."""
    table: Any = snapshot.source
    if isinstance(table, DeltaTable):
        return any(base in versions and snapshot.id in versions for versions in table.readable())
    snapshots = table.metadata.snapshots
    at, seen = snapshots.get(snapshot.id), set()
    while at is not None and at.id not in seen:
        if at.id == base:
            return True
        seen.add(at.id)
        at = None if at.parent_id is None else snapshots.get(at.parent_id)
    return False


def _refuse(place: Path, reason: str) -> NoReturn:
    raise RequestError(f"Cannot refresh {place}: {reason}; pull anew")
