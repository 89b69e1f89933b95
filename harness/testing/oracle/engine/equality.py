"""Equality deletes: every delete file becomes a set of keys, and a data row dies if its own key is in one of them.

Spec: Iceberg, "Equality Delete Files" and "Scan Planning"; iceberg section 4d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.errors import CorruptDeleteError, HarnessError
from harness.metadata.model.schema import Field
from harness.metadata.plan.scan_plan import EqualityDelete, ScanPlan
from harness.testing.oracle.engine.columns import FileColumns
from harness.testing.oracle.engine.files import check_whole, open_file, shown

Key: TypeAlias = tuple[Hashable, ...]
RowKey: TypeAlias = Callable[[Sequence[Any]], Key]
"""From a row of a data file to its key."""


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """The equality deletes of a plan; a delete file is read when the first data file in its scope is."""

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
    """Reads a row's key, in the types in which keys are compared.

    Args:
        delete: says what the key is.
        columns: of the file that has the row.

    Raises:
        SchemaMismatchError, UnsupportedError: the file cannot give the key.
    """
    readers = [columns.reader(root) for root in delete.keys]

    def read(row: Sequence[Any]) -> Key:
        parts = zip(readers, delete.key_paths, strict=True)
        return tuple(_comparable(_inside(reader(row), path[1:])) for reader, path in parts)

    return read


def _inside(value: Any, path: Sequence[int]) -> Any:
    """The value below a struct; null if a struct on the way is (iceberg 4.23)."""
    for field_id in path:
        if value is None:
            return None
        value = value[field_id]
    return value


def _comparable(value: Any) -> Hashable:
    """A value that Python finds equal to another one exactly if the deletes do: NaN is NaN (iceberg 4.23).

    Null is None, which equals nothing else; -0.0 and 0.0 are equal in Python too; the types of both sides are the same.
    """
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value  # type: ignore[no-any-return]


def _read_keys(plan: ScanPlan, delete: EqualityDelete) -> frozenset[Key]:
    """All keys in a delete file."""
    file = shown(delete.path, delete.physical)
    stored = open_file(delete.path, delete.physical, delete.format, plan.storage, table=plan.table)
    constants = {} if delete.partition is None else plan.partitions[delete.partition].constants
    columns = FileColumns.of(plan, stored, delete.keys, constants, file=file, file_format=delete.format)
    read = key_reader(delete, columns)
    for root in delete.keys:
        _check_key(plan, delete, columns, root)
    try:
        keys = [read(row) for row in stored.rows]
    except ValueError as error:
        raise CorruptDeleteError(f"Cannot read an equality delete: {error}", table=plan.table, file=file) from error
    except HarnessError as error:
        raise error.within(table=plan.table, file=file) from None
    check_whole(delete.format, delete.record_count, len(keys), table=plan.table, file=delete.path)
    return frozenset(keys)


def _check_key(plan: ScanPlan, delete: EqualityDelete, columns: FileColumns, root: Field) -> None:
    """Refuses a delete file without its key: to take it for null could delete or keep any row (iceberg 4.25)."""
    if not columns.provides(root):
        raise CorruptDeleteError(
            f"Cannot apply an equality delete: its file has no column for its key {root.name!r}; rewrite the delete",
            cause="UnknownEqualityField",
            table=plan.table,
            file=delete.path,
            field=root.name,
            rule="iceberg 4.25",
        )
