"""Plans with lifetimes that tests state directly, and their rows, read through every interface of an engine.

The files of the plans are live in one snapshot of a real table. The tests choose when each file and delete was live.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from reading import in_order, values

import harness
from harness.engines.column_values import conform
from harness.engines.duckdb.instance import connect
from harness.metadata.filters.parse import parse_filter
from harness.metadata.model.schema import LIFETIMES, METADATA, SNAPSHOT_CHANGES, Schema
from harness.metadata.plan.deletes import DatedDelete, DatedPositions, InlineVector, PositionDeletes
from harness.metadata.plan.lifetimes import BEFORE, ChangeMode, ChangeRange, Lifetimes, RangeCommit, Span
from harness.metadata.planned_scan import PlannedScan
from harness.snapshot import PlannedRows
from harness.writing.iceberg.builder import IcebergTable

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)]
COMMIT_ID = 100
"""The id of the first commit. The ids of the next ones follow."""
Dated = tuple[Sequence[int], Span]
"""Deleted positions, and when the delete was live."""


class History:
    """A table whose files have lifetimes."""

    def __init__(self, directory: Path, schema: Any, **more: Any) -> None:
        self.table = IcebergTable.create(directory / "t", schema, **{"format_version": 3, **more})
        self._files: dict[str, tuple[Span, Sequence[Dated]]] = {}
        self._deletes: dict[str, Span] = {}

    def add(
        self,
        rows: Sequence[Mapping[str, object]],
        added: int = BEFORE,
        removed: int | None = None,
        *,
        dated: Sequence[Dated] = (),
        **options: Any,
    ) -> str:
        """Add a data file with a span and dated position deletes, and return its path. Files count from the first."""
        handle = self.table.write_data(rows, **options)
        self.table.append(handle)
        self._files[handle.path] = (Span(added, removed), dated)
        return handle.path

    def delete(
        self,
        keys: Sequence[str],
        rows: Sequence[Mapping[str, object]],
        added: int,
        removed: int | None = None,
        **options: Any,
    ) -> None:
        """Add an equality delete with a span. It applies to the files that were added to the table before it."""
        handle = self.table.write_equality_deletes(keys, rows, **options)
        self.table.commit(add=[handle])
        self._deletes[handle.path] = Span(added, removed)

    def plan(
        self,
        mode: str | None,
        columns: Sequence[str],
        where: str | None = None,
        *,
        keys: Sequence[str] = (),
        row_ids: bool = False,
        rewrites: Sequence[int] = (),
        replaces: Sequence[int] = (),
        commits: int = 5,
    ) -> PlannedScan:
        """Return a plan of the rows.

        Args:
            mode: The value of a `ChangeMode`, or None.
            columns: Columns of the table, and all metadata columns.
            where: A condition over the same columns.
            keys: The columns that identify rows.
            row_ids: Whether row ids do.
            rewrites: The numbers of the commits that removed and added files.
            replaces: The numbers of the commits that show no changes.
            commits: The number of commits of the range.
        """
        base = harness.open_table(self.table.location).snapshot().plan()
        schema = base.schema
        fields = {**METADATA, **SNAPSHOT_CHANGES, **LIFETIMES, **{f.name: f for f in schema.fields}}
        condition = None
        if where is not None:
            condition = parse_filter(where, Schema(fields=(*schema.fields, *SNAPSHOT_CHANGES.values())))
        paths = base.files.column("path").to_pylist()
        shown = [number for number in range(commits) if number not in replaces]
        lifetimes = Lifetimes(
            commits=tuple(
                RangeCommit(
                    id=COMMIT_ID + number,
                    ordinal=shown.index(number) if number in shown else None,
                    rewrites=number in rewrites,
                )
                for number in range(commits)
            ),
            files=tuple(self._files[path][0] for path in paths),
            equality_deletes=tuple(self._deletes[each.path] for each in base.equality_deletes),
            mode=None if mode is None else ChangeMode(mode),
            keys=tuple(fields[name] for name in keys),
            row_ids=row_ids,
        )
        return self._with_positions(
            replace(base, columns=tuple(fields[name] for name in columns), filter=condition, lifetimes=lifetimes), paths
        )

    def _with_positions(self, plan: PlannedScan, paths: Sequence[str]) -> PlannedScan:
        sets, indexes, bitmaps = [], [], {}
        for number, path in enumerate(paths):
            dated = self._files[path][1]
            indexes.append(len(sets) if dated else None)
            if dated:
                vector = InlineVector(text="", length=0, record_count=0)
                sets.append(DatedPositions(tuple(DatedDelete(vector, span) for _, span in dated)))
                bitmaps[number] = tuple(BitMap64(positions) for positions, _ in dated)
        place = plan.files.schema.get_field_index("positions")
        files = plan.files.set_column(place, plan.files.schema.field(place), pa.array(indexes, pa.int32()))
        members = {name: getattr(plan, name) for name in PlannedScan.__dataclass_fields__}
        members |= {"files": files, "position_deletes": PositionDeletes(sets=tuple(sets))}
        return StatedScan(**members, bitmaps=bitmaps)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatedScan(PlannedScan):
    """A plan whose deleted positions are stated, not stored."""

    bitmaps: Mapping[int, tuple[BitMap64, ...]]

    def load_dated(self, ordinals: Sequence[int]) -> Mapping[int, tuple[BitMap64, ...]]:
        return {ordinal: self.bitmaps[ordinal] for ordinal in ordinals}


def read_changes(plan: PlannedScan, engine: str) -> list[tuple[Any, ...]]:
    """Return the rows of a plan in a fixed order, after asserting that every interface of DuckDB returns them."""
    reads = PlannedRows(plan)
    at_once = reads.to_arrow(engine=engine)
    if engine == "duckdb":
        with reads.to_batches() as batches:
            assert values(pa.Table.from_batches(batches, batches.schema)) == values(at_once)
        connection = connect()
        reads.to_duckdb(connection, name="changes")
        assert values(conform(pa.table(connection.sql("FROM changes")), at_once.schema)) == values(at_once)
        assert connection.execute("SELECT count(*) FROM changes").fetchall() == [(at_once.num_rows,)]
    return values(at_once)


def changes(expected: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows in the order of `read_changes`, given their values, then the change type and the commit's number."""
    return in_order((*rest, kind, number, COMMIT_ID + number) for *rest, kind, number in expected)


def planned_range(location: str, mode: str | None, columns: Sequence[str] | None = None, **options: Any) -> PlannedScan:
    """Return the plan of all changes in the history of a table."""
    kind = None if mode is None else ChangeMode(mode)
    keys = ("id",) if mode == "updates" else None
    request = ChangeRange(from_=None, to=None, from_inclusive=True, mode=kind, keys=keys)
    names = None if columns is None else tuple(columns)
    return harness.open_table(location, **options)._source.changes(request, names, None)


def make_range(directory: Path, version: int) -> str:
    """Create a table of a format version whose history has every kind of delete, and return its location."""
    table = IcebergTable.create(directory / "range", {"id": "long", "v": "string"}, format_version=version)
    first, second = (table.write_data([{"id": id, "v": f"v{id}"} for id in ids]) for ids in ((1, 2, 3, 4), (5, 6, 7)))
    table.append(first)
    table.append(second)
    if version >= 3:
        table.commit(add=table.write_deletion_vectors({first: [0]}))
    else:
        table.commit(add=[table.write_position_deletes([(first, 0)])])
    table.commit(
        add=[table.write_equality_deletes(["id"], [{"id": 2}, {"id": 6}]), table.write_data([{"id": 2, "v": "new"}])]
    )
    table.commit(add=[table.write_data([{"id": 3, "v": "v3"}, {"id": 4, "v": "changed"}])], remove=[first])
    return table.location


RANGE = {
    "changelog": [
        *((id, f"v{id}", "insert", 0) for id in (1, 2, 3, 4)),
        *((id, f"v{id}", "insert", 1) for id in (5, 6, 7)),
        (1, "v1", "delete", 2),
        (2, "v2", "delete", 3),
        (6, "v6", "delete", 3),
        (2, "new", "insert", 3),
        (4, "v4", "delete", 4),
        (4, "changed", "insert", 4),
    ],
    "net": [
        (5, "v5", "insert", 1),
        (7, "v7", "insert", 1),
        (2, "new", "insert", 3),
        (3, "v3", "insert", 4),
        (4, "changed", "insert", 4),
    ],
}
"""The changes in the table of `make_range`."""
RANGE["updates"] = [
    *((id, v, kind, number) for id, v, kind, number in RANGE["changelog"] if (id, number) not in {(2, 3), (4, 4)}),
    (2, "v2", "update_preimage", 3),
    (2, "new", "update_postimage", 3),
    (4, "v4", "update_preimage", 4),
    (4, "changed", "update_postimage", 4),
]
