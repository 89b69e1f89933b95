"""What equality delete files compare, said once for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.engines.column_values import ColumnValue, Constant, column_values, constant
from harness.engines.data_files import FileName
from harness.engines.file_groups import FileGroup, Pooled, ScanFile, Scope
from harness.errors import CorruptDeleteError
from harness.metadata.model.schema import Field, IntegerType, Type, UnknownType, children
from harness.metadata.plan.projection import ColumnSource, PartitionValue, Stored, Value
from harness.metadata.plan.scan_plan import EqualityDelete, ScanPlan
from harness.storage.records import dataclass

_LONG = IntegerType(64)


@dataclass(frozen=True, slots=True)
class KeySet:
    """One set of key ids.

    keys: per key the root column that holds it. names: per key, from its root down. types: per key, its own.
    """

    keys: tuple[Field, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[Type, ...]

    @staticmethod
    def of(delete: EqualityDelete) -> KeySet:
        """The key set of a delete file."""
        names, types = [], []
        for root, ids in zip(delete.keys, delete.key_paths, strict=True):
            below, current = [], root
            for field_id in ids[1:]:
                current = next(f for f in children(current.type) if f.id == field_id)
                below.append(current.name)
            names.append(tuple(below))
            types.append(current.type)
        return KeySet(delete.keys, tuple(names), tuple(types))


def key_roots(plan: ScanPlan) -> tuple[Field, ...]:
    """Every column that holds a key of the plan's deletes, in the type in which keys are compared."""
    return tuple(dict.fromkeys(key for delete in plan.equality_deletes for key in delete.keys))


def key_sets(plan: ScanPlan, members: Sequence[int]) -> dict[KeySet, list[int]]:
    """The delete files `members` (indexes into `plan.equality_deletes`) by what they compare."""
    sets: dict[KeySet, list[int]] = {}
    for member in members:
        sets.setdefault(KeySet.of(plan.equality_deletes[member]), []).append(member)
    return sets


def delete_files(plan: ScanPlan) -> tuple[ScanFile, ...]:
    """The plan's equality delete files, to be read."""
    return tuple(
        ScanFile(
            name=FileName(d.path, d.physical),
            format=d.format,
            constants=_constants(plan, d),
            # An Avro file cut between two blocks looks whole, and would lose deletes.
            exact_rows=d.record_count if d.format != "parquet" else None,
            recorded_rows=d.record_count,
        )
        for d in plan.equality_deletes
    )


def scopes(plan: ScanPlan) -> list[Scope]:
    """By delete set, the equality deletes that its data files are joined with."""
    by_set = joins_by_set(plan)
    return [None if not members else i if by_set else Pooled.ALL for i, members in enumerate(plan.delete_sets)]


def joins_by_set(plan: ScanPlan) -> bool:
    """Whether each delete set gets a join of its own, or all data files share one that compares sequence numbers.

    A join per set sees exactly the deletes that hit its files. With many sets (a stream that commits deletes every
    minute) it would read each delete file once per set.
    """
    work = sum(map(len, plan.delete_sets))
    return len(plan.delete_sets) <= 64 and work <= 2 * len(plan.equality_deletes) + 16


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The rows of delete files that are read in one way.

    roots: of each root column of the key set, where its values come from.
    sequence_number: of the delete. partition: index of the partition that it hits; null: it hits all.
    """

    roots: tuple[ColumnValue, ...]
    sequence_number: Constant
    partition: Constant


def deleted_keys(plan: ScanPlan, key_set: KeySet, group: FileGroup, members: Sequence[int]) -> DeletedKeys:
    """What delete files hold.

    Args:
        group: the files, with the key set's roots resolved.
        members: indexes into `plan.equality_deletes` of the files that were grouped.

    Raises:
        CorruptDeleteError: they have no value for a key; taking it for null could delete or keep any row
            (iceberg 4.25).
    """
    deletes = [plan.equality_deletes[members[i]] for i in group.members]
    _check_keys(plan, key_set, group, deletes[0])
    return DeletedKeys(
        roots=column_values(key_set.keys, group.sources, [_constants(plan, d) for d in deletes]),
        sequence_number=constant([d.sequence_number for d in deletes], _LONG),
        partition=constant([d.partition for d in deletes], _LONG),
    )


def _constants(plan: ScanPlan, delete: EqualityDelete) -> Mapping[int, Any]:
    """What the delete file's partition tuple says about columns that the file lacks (iceberg 4.25, 5.2)."""
    return {} if delete.partition is None else plan.partitions[delete.partition].constants


def _check_keys(plan: ScanPlan, key_set: KeySet, group: FileGroup, delete: EqualityDelete) -> None:
    for root, path, source in zip(key_set.keys, delete.key_paths, group.sources, strict=True):
        if not _has_value(root, source):
            raise CorruptDeleteError(
                f"Cannot apply an equality delete: its file has no column for its key {root.name!r}"
                f" (field id {path[-1]}). Rewrite the delete",
                cause="UnknownEqualityField",
                table=plan.table,
                file=delete.path,
                field=str(path[-1]),
                rule="iceberg 4.25",
            )


def _has_value(wanted: Field, source: ColumnSource) -> bool:
    """Whether something provides the single key below `wanted`."""
    below = children(wanted.type)
    match source:
        case PartitionValue():
            return True
        case Stored(parts=parts):
            return not below or _has_value(below[0], parts[0])
        case Value(value=value) if below and value is not None:
            return _has_value(below[0], Value(value.get(below[0].id)))
        case Value(value=value):
            return value is not None or isinstance(wanted.type, UnknownType)
