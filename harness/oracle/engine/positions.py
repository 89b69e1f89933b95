"""Deleted positions: a set of row numbers per data file, read from the delete files that the plan names.

What the plan does not carry, vectors inside Delta's log and the difference of two vectors in a change feed, comes from
`ScanPlan.load_positions`. It is asked first in any case, for its refusals: which deletes contradict the table is a
question of planning (iceberg 4.3, 4.4, 4.21), and not decided here again.

Spec: Iceberg, "Position Delete Files" and "Deletion Vectors"; Delta, "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.errors import CorruptDeleteError, CorruptFileError
from harness.oracle.engine.bitmaps import decode_delta_vector, decode_puffin_vector
from harness.oracle.engine.files import check_whole, open_file, shown
from harness.oracle.engine.stored import Column
from harness.plan.scan_plan import PositionDelete, ScanPlan

_FILE_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_DELTA_FRAME_BYTES = 8
_FIRST_OFFSET = 1
"""Where vectors start in a Delta file that gives no offset: after the version byte (delta D6)."""


def deleted_positions(plan: ScanPlan) -> dict[int, set[int]]:
    """Deleted row positions by ordinal of the data file; files without any are absent.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, UnsupportedError: about the delete at fault.
    """
    flags = plan.files.column("has_positions").to_pylist()
    loaded = plan.load_positions([ordinal for ordinal, has_positions in enumerate(flags) if has_positions])
    deleted: dict[int, set[int]] = {}
    for source in plan.position_deletes:
        for ordinal, positions in _positions(plan, source):
            deleted.setdefault(ordinal, set()).update(positions)
    unnamed = {i for source in plan.position_deletes if source.physical is None for i in source.files}
    deleted |= {ordinal: set(loaded.get(ordinal, ())) for ordinal in unnamed}
    return {ordinal: positions for ordinal, positions in deleted.items() if positions}


def _positions(plan: ScanPlan, source: PositionDelete) -> Iterator[tuple[int, set[int]]]:
    """What one delete deletes, by data file."""
    if source.physical is None:
        return
    if source.kind == "position delete file":
        yield from _of_file(plan, source, source.physical)
        return
    vector = _of_vector(plan, source, source.physical)
    for ordinal in source.files:
        _check_within(plan, source, ordinal, vector)
        yield ordinal, vector


def _of_vector(plan: ScanPlan, source: PositionDelete, physical: str) -> set[int]:
    file, length = shown(source.path, physical), source.length or 0
    try:
        if plan.format == "iceberg":
            blob = plan.storage.read(physical, offset=source.offset or 0, length=length)
            positions = decode_puffin_vector(blob)
        else:
            offset = source.offset or _FIRST_OFFSET
            frame = plan.storage.read(physical, offset=offset, length=length + _DELTA_FRAME_BYTES)
            if int.from_bytes(frame[:4], "big") != length:
                raise ValueError(f"it does not say that it has {length} bytes")
            positions = decode_delta_vector(frame)
        if source.record_count is not None and len(positions) != source.record_count:
            raise ValueError(f"it has {len(positions)} positions, the metadata says {source.record_count}")
    except ValueError as error:
        raise CorruptDeleteError(
            f"Cannot decode deletion vector: {error}; restore it", table=plan.table, file=file
        ) from error
    return positions


def _check_within(plan: ScanPlan, source: PositionDelete, ordinal: int, positions: set[int]) -> None:
    rows = plan.files.column("record_count")[ordinal].as_py()
    if rows is not None and positions and max(positions) >= rows:
        raise CorruptDeleteError(
            f"A deletion vector deletes row {max(positions)} of a file with {rows} rows; restore it",
            table=plan.table,
            file=source.path,
            rule="iceberg 4.19" if plan.format == "iceberg" else "delta D9",
        )


def _of_file(plan: ScanPlan, source: PositionDelete, physical: str) -> Iterator[tuple[int, set[int]]]:
    """The rows of a position delete file on the data files that it may hit; others are none of its business."""
    stored = open_file(source.path, physical, source.format or "parquet", plan.storage, table=plan.table)
    path = _place(stored.columns, "file_path", _FILE_PATH_ID, source.path)
    position = _place(stored.columns, "pos", _POSITION_ID, source.path)
    by_path: dict[str, set[int]] = {}
    rows = list(stored.rows)
    check_whole(source.format, source.record_count, len(rows), table=plan.table, file=source.path)
    for row in rows:
        if row[path] is None or row[position] is None or row[position] < 0:
            raise CorruptDeleteError(
                "A position delete has no path or no position; rewrite the delete",
                table=plan.table,
                file=source.path,
                rule="iceberg 4.11",
            )
        by_path.setdefault(row[path].decode(), set()).add(row[position])
    paths = plan.files.column("path")
    for ordinal in source.files:
        yield ordinal, by_path.get(paths[ordinal].as_py(), set())


def _place(columns: Sequence[Column], name: str, field_id: int, file: str) -> int:
    """The place of a column: by its reserved id, by name if the file has no ids (iceberg 4.11)."""
    by_id = any(c.id is not None for c in columns)
    found = [i for i, c in enumerate(columns) if (c.id == field_id if by_id else c.name == name)]
    if len(found) != 1:
        raise CorruptFileError(
            f"Cannot read a position delete file: {len(found)} of its columns are {name}, expected one",
            file=file,
            field=name,
            rule="iceberg 4.11",
        )
    return found[0]
