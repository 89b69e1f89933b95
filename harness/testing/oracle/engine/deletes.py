"""Deleted rows of data files, by key and by position.

Every equality delete file becomes a set of keys; a data row dies if its own key is in one of the sets. Position deletes
and deletion vectors become a set of row numbers per data file.

Spec: Iceberg, "Equality Delete Files", "Position Delete Files", "Deletion Vectors" and "Scan Planning" (iceberg section
4); Delta, "Deletion Vectors".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, HarnessError
from harness.metadata.plan.scan_plan import EqualityDelete, PositionDelete, ScanPlan
from harness.testing.oracle.engine.bitmaps import delta_vector, puffin_vector
from harness.testing.oracle.engine.columns import FileColumns
from harness.testing.oracle.engine.conversions import inside
from harness.testing.oracle.engine.files import check_whole, open_file, position_deletes, shown

Key: TypeAlias = tuple[Hashable, ...]
RowKey: TypeAlias = Callable[[Sequence[Any]], Key]
"""Reads the key of a row of a data file."""


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The equality deletes of a plan. A delete file is read with the first data file in its scope."""

    plan: ScanPlan
    _keys: dict[int, frozenset[Key]] = field(default_factory=dict)

    def of_file(self, ordinal: int, row: Mapping[str, Any]) -> list[tuple[EqualityDelete, frozenset[Key]]]:
        """The delete files that hit a data file, with their keys (iceberg 4.6).

        Args:
            ordinal: of the data file.
            row: its row of `ScanPlan.files`.
        """
        hits = []
        for index in self.plan.delete_sets[row["delete_set"]]:
            delete = self.plan.equality_deletes[index]
            sequence_number = row["sequence_number"]
            if sequence_number is None or sequence_number >= delete.sequence_number:
                continue
            if delete.partition is not None and delete.partition != row["partition"]:
                continue
            if index not in self._keys:
                self._keys[index] = _read_keys(self.plan, delete)
            hits.append((delete, self._keys[index]))
        return hits


def key_reader(delete: EqualityDelete, columns: FileColumns) -> RowKey:
    """Reads a row's key: values that Python compares as the deletes do, with NaN equal to NaN (iceberg 4.23).

    Args:
        delete: the delete that has the key.
        columns: of the file that has the row.

    Raises:
        SchemaMismatchError, UnsupportedError: the file cannot give the key.
    """
    readers = [columns.reader(root) for root in delete.keys]

    def read(row: Sequence[Any]) -> Key:
        parts = zip(readers, delete.key_paths, strict=True)
        values = (inside(reader(row), path[1:]) for reader, path in parts)  # null if a struct on the way is
        return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)

    return read


def _read_keys(plan: ScanPlan, delete: EqualityDelete) -> frozenset[Key]:
    """All keys in a delete file."""
    file = shown(delete.path, delete.physical)
    stored = open_file(delete.path, delete.physical, delete.format, plan.storage, table=plan.table)
    constants = {} if delete.partition is None else plan.partitions[delete.partition].constants
    columns = FileColumns.of(plan, stored, delete.keys, constants, file=file, file_format=delete.format)
    read = key_reader(delete, columns)
    for root in delete.keys:
        if not columns.provides(root):  # null in its place could delete or keep any row (iceberg 4.25)
            raise CorruptDeleteError(
                f"Cannot apply an equality delete: its file has no column for key {root.name!r}; rewrite the delete",
                cause="UnknownEqualityField",
                table=plan.table,
                file=delete.path,
                field=root.name,
                rule="iceberg 4.25",
            )
    try:
        keys = [read(row) for row in stored.rows]
    except ValueError as error:
        raise CorruptDeleteError(f"Cannot read an equality delete: {error}", table=plan.table, file=file) from error
    except HarnessError as error:
        raise error.within(table=plan.table, file=file) from None
    check_whole(delete.format, delete.record_count, len(keys), table=plan.table, file=delete.path)
    return frozenset(keys)


_DELTA_FRAME_BYTES = 8
_FIRST_OFFSET = 1
"""The start of vectors in a Delta file without an offset: after the version byte (delta D6)."""


def deleted_positions(plan: ScanPlan) -> dict[int, set[int]]:
    """Deleted row positions by ordinal of the data file; files without any are absent.

    `ScanPlan.load_positions` is asked first in any case, for its refusals: which deletes contradict the table is a
    question of planning (iceberg 4.3, 4.4, 4.21). It also gives what the plan does not carry: vectors inside Delta's
    log, and the difference of two vectors in a change feed.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, UnsupportedError: about the delete at fault.
    """
    flags = plan.files.column("has_positions").to_pylist()
    loaded = plan.load_positions([ordinal for ordinal, has_positions in enumerate(flags) if has_positions])
    deleted: dict[int, set[int]] = {}
    for source in plan.position_deletes:
        if source.physical is not None:
            for ordinal, positions in _positions(plan, source, source.physical):
                deleted.setdefault(ordinal, set()).update(positions)
    unnamed = {i for source in plan.position_deletes if source.physical is None for i in source.files}
    deleted |= {ordinal: set(loaded.get(ordinal, ())) for ordinal in unnamed}
    return {ordinal: positions for ordinal, positions in deleted.items() if positions}


def _positions(plan: ScanPlan, source: PositionDelete, physical: str) -> Iterator[tuple[int, Iterable[int]]]:
    """The deleted positions of one delete, by data file."""
    if source.kind == "position delete file":
        deletes = position_deletes(
            source.path,
            physical,
            source.format or "parquet",
            plan.storage,
            table=plan.table,
            record_count=source.record_count,
        )
        by_path: dict[str, set[int]] = {}
        for path, position in deletes:
            by_path.setdefault(path, set()).add(position)
        paths = plan.files.column("path")
        for ordinal in source.files:
            yield ordinal, by_path.get(paths[ordinal].as_py(), ())
        return
    vector = _vector(plan, source, physical)
    for ordinal in source.files:
        rows = plan.files.column("record_count")[ordinal].as_py()
        if rows is not None and vector and max(vector) >= rows:
            raise CorruptDeleteError(
                f"A deletion vector deletes row {max(vector)} of a file with {rows} rows; restore it",
                table=plan.table,
                file=source.path,
                rule="iceberg 4.19" if plan.format == "iceberg" else "delta D9",
            )
        yield ordinal, vector


def _vector(plan: ScanPlan, source: PositionDelete, physical: str) -> BitMap64:
    length = source.length or 0
    try:
        if plan.format == "iceberg":
            positions = puffin_vector(plan.storage.read(physical, offset=source.offset or 0, length=length))
        else:
            offset = source.offset or _FIRST_OFFSET
            frame = plan.storage.read(physical, offset=offset, length=length + _DELTA_FRAME_BYTES)
            if int.from_bytes(frame[:4], "big") != length:
                raise ValueError(f"it does not say that it has {length} bytes")
            positions = delta_vector(frame)
        if source.record_count is not None and len(positions) != source.record_count:
            raise ValueError(f"it has {len(positions)} positions, the metadata says {source.record_count}")
    except ValueError as error:
        raise CorruptDeleteError(
            f"Cannot decode deletion vector: {error}; restore it", table=plan.table, file=shown(source.path, physical)
        ) from error
    return positions
