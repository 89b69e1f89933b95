"""From the rows of a plan with lifetimes to versions: the file, the position, and the delete of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.canonical import canonical_rows
from harness.engines.duckdb.instance import cursor
from harness.metadata.filters import sqltext
from harness.metadata.model.arrow_values import from_numpy
from harness.metadata.model.schema import (
    LIFETIMES,
    METADATA,
    BooleanType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StructType,
    Type,
)
from harness.metadata.plan.deletes import DatedPositions, EqualityDelete, InlineVector, StoredVector, key_fields
from harness.metadata.plan.lifetimes import EQUALITY, delete_place, deleting_commit
from harness.metadata.planned_scan import PlannedScan
from harness.metadata.tables.reading import texts_of
from harness.storage.records import dataclass
from harness.trace.model import DeleteKind, RowDelete, RowVersion

PLACE = ("_file", "_pos")
_ROW_NUMBER = "_row_number"


def columns_to_read(plan: PlannedScan, fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the given columns, the keys of equality deletes, and the columns that locate a version."""
    assert plan.lifetimes is not None
    columns = {each.id: each for each in plan.schema.fields}
    roots = {root.id for delete in plan.equality_deletes for root in delete.keys}
    keys = [columns[id_] for id_ in sorted(roots & columns.keys())]
    metadata = [METADATA[name] for name in (*PLACE, *(["_row_id"] if plan.lifetimes.row_ids else []))]
    return tuple({each.id: each for each in (*fields, *keys, *metadata, *LIFETIMES.values())}.values())


def row_texts(rows: pa.Table) -> list[tuple[str | None, ...]]:
    """Return the values of rows as text, as the engine shows them, in the order of the rows."""
    numbered = rows.append_column(_ROW_NUMBER, from_numpy(np.arange(rows.num_rows)))
    texts = texts_of(cursor().from_arrow(numbered))[1]  # in any order
    return [row[:-1] for row in sorted(texts, key=lambda row: int(row[-1] or 0))]


def versions_of(plan: PlannedScan, rows: pa.Table, shown: Sequence[Field], keys: Sequence[Field]) -> list[RowVersion]:
    """Return the version that each row describes.

    Args:
        plan: The plan that was read, with the columns of `columns_to_read`.
        rows: Its rows.
        shown: The columns whose texts are shown, and whose values are compared.
        keys: The columns that identify a row without a row id.
    """
    key_literals = list(zip(*(_literals(rows.column(each.name), each.type) for each in keys), strict=True))
    names = [each.name for each in shown]
    compared = [each.name for each in shown if each in plan.schema.fields]
    texts, match = row_texts(rows.select(names)), canonical_rows(rows, compared)
    facts = {name: rows.column(name).to_pylist() for name in (*PLACE, *LIFETIMES)}
    row_ids = rows.column("_row_id").to_pylist() if "_row_id" in rows.column_names else [None] * rows.num_rows
    files = plan.files.select(["sequence_number", "partition", "positions"]).to_pylist()
    deletes = _Deletes(plan, rows)
    versions = []
    for place in range(rows.num_rows):
        number = facts["_file_number"][place]
        partition = plan.partitions[files[number]["partition"]]
        versions.append(
            RowVersion(
                file=facts["_file"][place],
                position=facts["_pos"][place],
                texts=dict(zip(names, texts[place], strict=True)),
                match=match[place],
                key=key_literals[place] if keys else (),
                added=facts["_added_commit"][place],
                removed=facts["_removed_commit"][place],
                delete=deletes.delete(place, files[number]["positions"], facts["_deleted_by"][place]),
                row_id=row_ids[place],
                sequence_number=files[number]["sequence_number"],
                partition=str(partition) if partition.values else None,
            )
        )
    return versions


@dataclass(slots=True)
class _Deletes:
    """The deletes of a plan by the numbers in its rows."""

    plan: PlannedScan
    rows: pa.Table
    literals: dict[int, list[tuple[str, str | None]]] = field(default_factory=dict)

    def delete(self, row: int, positions: int | None, number: int | None) -> RowDelete | None:
        """Return the delete with a number, as it applies to a row.

        Args:
            row: The index of the row.
            positions: `FILES.positions` of the row's file.
            number: `_deleted_by` of the row.
        """
        if number is None:
            return None
        commit, place = deleting_commit(number), delete_place(number)
        if place >= EQUALITY:
            delete = self.plan.equality_deletes[place - EQUALITY]
            return RowDelete(
                kind=DeleteKind.EQUALITY,
                path=delete.path,
                commit=commit,
                sequence_number=delete.sequence_number,
                keys=self._keys(delete, row),
            )
        assert positions is not None
        source = self.plan.position_deletes.source(positions)
        assert isinstance(source, DatedPositions)
        dated = source.deletes[place].source
        match dated:
            case InlineVector():
                return RowDelete(kind=DeleteKind.VECTOR, path=None, commit=commit)
            case StoredVector():
                return RowDelete(kind=DeleteKind.VECTOR, path=dated.path, commit=commit, offset=dated.offset)
            case _:
                file = self.plan.position_deletes.files[dated]
                return RowDelete(
                    kind=DeleteKind.POSITIONS, path=file.path, commit=commit, sequence_number=file.sequence_number
                )

    def _keys(self, delete: EqualityDelete, row: int) -> tuple[tuple[str, str | None], ...]:
        """Return the keys of a delete with the values of a row as SQL literals."""
        result = []
        for root in delete.keys:
            key = key_fields(root)[-1]
            if key.id not in self.literals:
                self.literals[key.id] = _named_literals(self.plan, self.rows, root)
            result.append(self.literals[key.id][row])
        return tuple(result)


def _named_literals(plan: PlannedScan, rows: pa.Table, root: Field) -> list[tuple[str, str | None]]:
    """Return the name of a key, and its value in each row as an SQL literal; None if the table has no such column."""
    path = key_fields(root)
    name = ".".join(each.name for each in path)
    current = next((each for each in plan.schema.fields if each.id == root.id), None)
    if current is None or current.name not in rows.column_names:
        return [(name, None)] * rows.num_rows
    values, names = rows.column(current.name), [current.name]
    for each in path[1:]:
        parts = current.type.fields if isinstance(current.type, StructType) else ()
        current = next((part for part in parts if part.id == each.id), None)
        if current is None:
            return [(name, None)] * rows.num_rows
        values, names = pc.struct_field(values, current.name), [*names, current.name]
    return [(".".join(names), literal) for literal in _literals(values, current.type)]


def _literals(values: pa.ChunkedArray, type_: Type) -> list[str]:
    """Return values as SQL literals, which are equal if and only if the values are."""
    is_plain = isinstance(type_, BooleanType | IntegerType | FloatType | DecimalType)
    texts = (row[0] for row in row_texts(pa.table({"value": values})))
    return [
        "NULL" if text is None else text if is_plain and not text.endswith(("nan", "inf")) else sqltext.text(text)
        for text in texts
    ]
