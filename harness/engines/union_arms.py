"""The arms of a read: per file group, which rows are deleted and where the values of each column come from.

An engine reads the files of an arm with one scan, translates its values, drops the deleted rows, and unites the arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    Lineage,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOr,
    column_values,
    constant,
)
from harness.engines.data_files import FileName
from harness.engines.file_groups import FileGroup, Inspector, Looks, Pooled, ScanFile, Scope, Split
from harness.errors import CorruptDeleteError, SchemaMismatchError, UnsupportedError, in_format
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import from_numpy, to_numpy
from harness.metadata.plan.projection import (
    ColumnSource,
    PartitionValue,
    Stored,
    Value,
    check_stored,
    find_named,
    find_stored,
)
from harness.metadata.plan.scan_plan import EqualityDelete, Partition, ScanPlan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

DELETED = dt.METADATA["_deleted"].id
"""Id of the column that no arm has a value for: it is true where a row is deleted, and then no row is dropped."""
_INT, _LONG = dt.IntegerType(32), dt.IntegerType(64)
_METADATA_IDS = frozenset(f.id for f in dt.METADATA.values())


@dataclass(frozen=True, slots=True)
class FilesByOrdinal:
    """The columns of `ScanPlan.files` as Python values, by ordinal."""

    path: list[str]
    physical: list[PhysicalPath]
    format: list[str]
    record_count: list[int | None]
    spec_id: list[int]
    partition_index: list[int]
    sequence_number: list[int | None]
    first_row_id: list[int | None]
    delete_set: list[int]
    has_positions: list[bool]
    partitions: tuple[Partition, ...]

    @staticmethod
    def of(plan: ScanPlan) -> FilesByOrdinal:
        """The files of a plan."""
        columns = {label: plan.files.column(label).to_pylist() for label in plan.files.column_names if label != "size"}
        return FilesByOrdinal(partition_index=columns.pop("partition"), partitions=plan.partitions, **columns)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.path)))

    def partition(self, ordinal: int) -> Partition:
        """The partition tuple of a file."""
        return self.partitions[self.partition_index[ordinal]]

    def scan_file(self, ordinal: int, split: Split, *, exact: bool) -> ScanFile:
        """The file, to be read. `exact`: its row count must be the recorded one.

        A file cut between two Avro blocks looks whole, so files that are not Parquet must always have their count.
        """
        count = self.record_count[ordinal]
        return ScanFile(
            name=FileName(self.path[ordinal], self.physical[ordinal]),
            format=self.format[ordinal],
            constants=self.partition(ordinal).constants,
            exact_rows=count if exact or self.format[ordinal] != "parquet" else None,
            recorded_rows=count,
            is_data=True,
            split=split,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionArm:
    """Data files that are read in one way, with the same equality deletes.

    columns: what the arm yields: stored columns and metadata columns.
    roots: the columns that hold keys of equality deletes, in the types in which keys are compared.
    fields: the stored ones of `columns`, then `roots`: what `group.sources` are the sources of.
    files: the members of the group; their ordinals are `group.members`.
    deleted: deleted positions of each file; None: no file has any.
    """

    plan: ScanPlan
    planned: FilesByOrdinal
    columns: tuple[dt.Field, ...]
    roots: tuple[dt.Field, ...]
    fields: tuple[dt.Field, ...]
    group: FileGroup
    files: tuple[ScanFile, ...]
    deleted: tuple[BitMap64, ...] | None

    @property
    def scope(self) -> Scope:
        """The equality deletes that hit the arm's rows."""
        return self.group.split[0]

    @property
    def shows_deleted(self) -> bool:
        """Tells whether the arm yields all rows, and says of each whether it is deleted."""
        return any(f.id == DELETED for f in self.columns)

    def key_labels(self) -> dict[dt.Field, str]:
        """The labels of `roots` among `values`; none where no equality delete hits the arm."""
        return {} if self.scope is None else {root: f"e{i}" for i, root in enumerate(self.roots)}

    def values(self) -> dict[str, ColumnValue]:
        """The values that are read of the files, by label.

        `c0`, `c1`, …: `columns`, but for `_deleted`, which has its number and no value. `e0`, `e1`, …: `roots`. Where
        deletes are pooled, `sq` and `sp`: the data sequence number of the row's file, and the index of its partition.
        """
        partitions = [file.constants for file in self.files]
        resolved = column_values(self.fields, self.group.sources, partitions)
        stored: dict[dt.Field, ColumnValue] = dict(zip(self.fields, resolved, strict=True))
        columns = {f"c{i}": f for i, f in enumerate(self.columns) if f.id != DELETED}
        values = {label: self._metadata(f) if f.id in _METADATA_IDS else stored[f] for label, f in columns.items()}
        values |= {label: stored[root] for root, label in self.key_labels().items()}
        if self.scope is Pooled.ALL:
            values["sq"] = self._sequence_number()
            values["sp"] = self._constant(self.planned.partition_index, _LONG)
        return values

    def part(self, places: Sequence[int]) -> UnionArm:
        """The arm of some of its files."""
        members, rows = self.group.members, self.group.rows
        group = replace(self.group, members=tuple(members[i] for i in places), rows=tuple(rows[i] for i in places))
        return replace(
            self,
            group=group,
            files=tuple(self.files[i] for i in places),
            deleted=None if self.deleted is None else tuple(self.deleted[i] for i in places),
        )

    def _metadata(self, column: dt.Field) -> ColumnValue:
        """The values of a metadata column (iceberg 5.17, 5.18; delta W2, W3)."""
        match column.name:
            case "_file":
                return self._constant(self.planned.path, dt.StringType())
            case "_pos":
                return Position()
            case "_spec_id":
                return self._constant(self.planned.spec_id, _INT)
            case "_partition":
                # No spec of the table has a field: null. A file whose own spec has none: a struct of nulls.
                has_fields = isinstance(column.type, dt.StructType)
                partitions = [self.planned.partition(ordinal) for ordinal in self.group.members]
                return constant([p.values if has_fields else None for p in partitions], column.type)
            case "_row_id":
                first = self._constant(self.planned.first_row_id, _LONG)
                return Lineage(first, self._stored_or(column, PositionFrom(first)))
            case "_last_updated_sequence_number":
                first = self._constant(self.planned.first_row_id, _LONG)
                return Lineage(first, self._stored_or(column, self._sequence_number()))
            case "_row_commit_version":
                versions = self.plan.row_commit_versions
                own = [None if versions is None else versions[o].as_py() for o in self.group.members]
                return self._stored_or(column, constant(own, _LONG))
            case other:
                raise AssertionError(f"no metadata column is called {other}")

    def _stored_or(self, column: dt.Field, inherited: Constant | PositionFrom) -> Constant | PositionFrom | StoredOr:
        """The value that the files hold, and where it is null or they have none, the inherited one."""
        if self.plan.lookup.is_delta:
            name = self.plan.materialized.get(column.name)
            source = None if name is None else find_named(name, self.group.schema)
        else:
            source = find_stored(column.id, self.group.schema)
        if source is None or isinstance(source.physical.type, dt.UnknownType):
            return inherited
        place = {"file_path": str(self.files[0].name), "table": self.plan.table}
        check_stored(column, source, **place, lookup=self.plan.lookup)
        return StoredOr(StoredColumn(column, source), inherited)

    def _sequence_number(self) -> Constant:
        return self._constant(self.planned.sequence_number, _LONG)

    def _constant(self, values: Sequence[Any], type_: dt.Type) -> Constant:
        return constant([values[ordinal] for ordinal in self.group.members], type_)


def union_arms(
    plan: ScanPlan, columns: tuple[dt.Field, ...], inspector: Inspector, deletes: Sequence[ScanFile]
) -> list[UnionArm]:
    """The arms that together have the rows of a plan, which has files; raises HarnessError about the file at fault.

    columns: what each arm yields. deletes: the plan's equality delete files, whose footers are read with the others.
    """
    planned = FilesByOrdinal.of(plan)
    loaded = plan.load_positions([i for i in planned if planned.has_positions[i]])
    deleted = {ordinal: positions for ordinal, positions in loaded.items() if len(positions)}
    shows_ids, by_set = any(f.id == dt.METADATA["_row_id"].id for f in columns), scopes(plan)
    files = [
        planned.scan_file(i, (by_set[planned.delete_set[i]], i in deleted), exact=i in deleted or shows_ids)
        for i in planned
    ]
    inspector.prefetch([*files, *deletes])
    roots = key_roots(plan)
    fields = tuple(f for f in columns if f.id not in _METADATA_IDS) + roots
    arms = []
    for group in inspector.groups(files, fields):
        inspector.check_partition_values(files[group.members[0]], group, fields)
        _, has_positions = group.split
        arms.append(
            UnionArm(
                plan=plan,
                planned=planned,
                columns=columns,
                roots=roots,
                fields=fields,
                group=group,
                files=tuple(files[i] for i in group.members),
                deleted=tuple(deleted[i] for i in group.members) if has_positions else None,
            )
        )
    return arms


# The first files of a plan that have enough rows for `SELECT * FROM orders LIMIT 5`. Footers count, less the deleted
# positions: recorded counts may be wrong (iceberg 7.2). A file that an equality delete may hit counts for nothing.


def with_enough(plan: ScanPlan, looks: Looks) -> ScanPlan:
    """The plan of as many of its first files as have `plan.enough` rows, or of all; files are looked at until then."""
    total, enough = plan.files.num_rows, plan.enough
    if enough is None or plan.filter is not None:
        return plan
    rows, start, end = 0, 0, 1
    while start < total:
        rows += _rows(plan, start, min(end, total), looks)
        if rows >= enough:
            count, versions = min(end, total), plan.row_commit_versions  # ordinals stay, and all that goes by them
            versions = None if versions is None else versions.slice(0, count)
            return replace(plan, files=plan.files.slice(0, count), row_commit_versions=versions)
        start, end = end, 2 * end + 1  # looks wait for each other, so there are more with each
    return plan


def _rows(plan: ScanPlan, start: int, end: int, looks: Looks) -> int:
    """The rows that certainly are in the files of these ordinals."""
    part = plan.files.slice(start, end - start)
    planned = FilesByOrdinal.of(replace(plan, files=part))
    counted = [i for i in planned if planned.format[i] == "parquet" and not plan.delete_sets[planned.delete_set[i]]]
    files = [planned.scan_file(i, (None, False), exact=False) for i in counted]
    looks.prefetch(files)
    deleted = plan.load_positions([start + i for i in counted if planned.has_positions[i]])
    found = [looks.opened(file).rows or 0 for file in files]
    return sum(max(rows - len(deleted.get(start + i, ())), 0) for i, rows in zip(counted, found, strict=True))


# Fewer delete sets: data files that the rules give the same equality deletes share one join.
#
# A plan leaves out deletes by bounds, so that each file may have a set of its own. Each costs an engine a join: on
# Spark two broadcasts; on DuckDB more than smaller hash tables save, for 60 files of 2,000 rows and 10 of 2 million.


Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

_MOST_ROWS = 1_000_000
"""Most rows of the deletes of a merged set: a hash table of more costs what its bounds spare."""
_MOST_WORK = 1_000_000
"""Deletes over all sets of a plan that is looked at."""


def with_merged_scopes(plan: ScanPlan) -> ScanPlan:
    """The plan with the delete sets of a class made one, where that has a known and moderate number of rows.

    By the rules of sequence numbers and partitions a delete hits all files of a class or none (iceberg 4.6, 4.29): they
    are older than the same deletes, and in one partition, or in partitions that no delete is for alone.
    """
    sets, place = plan.delete_sets, plan.files.schema.get_field_index("delete_set")
    if len(sets) < 2 or plan.files.column("sequence_number").null_count or sum(map(len, sets)) > _MOST_WORK:
        return plan
    own: Numbers = to_numpy(plan.files.column(place))
    merged, shared = own.copy(), list(sets)
    hit = np.flatnonzero(np.isin(own, [number for number, members in enumerate(sets) if members]))
    classes = _classes(plan)[hit]
    by_class: dict[int, list[int]] = {}
    for class_, number in np.unique(np.stack([classes, own[hit]]), axis=1).T.tolist():
        by_class.setdefault(class_, []).append(number)
    shares = np.full(len(own), -1)
    for class_, numbers in by_class.items():
        members = sorted({member for number in numbers for member in sets[number]})
        counts = [plan.equality_deletes[member].record_count for member in members]
        rows = sum(float("inf") if count is None else count for count in counts)
        if len(numbers) > 1 and rows <= _MOST_ROWS:
            shares[class_] = len(shared)
            shared.append(tuple(members))
    merged[hit] = np.where(shares[classes] < 0, own[hit], shares[classes])
    used, numbered = np.unique(merged, return_inverse=True)
    files = plan.files.set_column(place, plan.files.schema.field(place), from_numpy(numbered.ravel().astype(np.int32)))
    return replace(plan, files=files, delete_sets=tuple(shared[number] for number in used.tolist()))


def _classes(plan: ScanPlan) -> Numbers:
    """The class of each file, as a number below that of the files."""
    deletes = plan.equality_deletes
    numbers, partitions = (to_numpy(plan.files.column(name)) for name in ("sequence_number", "partition"))
    age = np.searchsorted(np.unique([d.sequence_number for d in deletes]), numbers, side="right")
    alone = np.isin(partitions, [d.partition for d in deletes if d.partition is not None])
    return np.unique(np.stack([age, np.where(alone, partitions, -1)]), axis=1, return_inverse=True)[1].ravel()


# Equality deletes: the keys that are compared, and which deletes hit which data file.


@dataclass(frozen=True, slots=True)
class KeySet:
    """A set of key ids.

    keys: per key the root column that holds it. types: per key, its own.
    names: per key, those of the fields below its root, down to the key; empty for a top-level column.
    """

    keys: tuple[dt.Field, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[dt.Type, ...]

    @staticmethod
    def of(delete: EqualityDelete) -> KeySet:
        """The key set of a delete file."""
        names, types = [], []
        for root, ids in zip(delete.keys, delete.key_paths, strict=True):
            below, current = [], root
            for field_id in ids[1:]:
                current = next(f for f in dt.children(current.type) if f.id == field_id)
                below.append(current.name)
            names.append(tuple(below))
            types.append(current.type)
        return KeySet(delete.keys, tuple(names), tuple(types))


def key_roots(plan: ScanPlan) -> tuple[dt.Field, ...]:
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
    """The equality deletes that data files are joined with, by delete set."""
    by_set = joins_by_set(plan)
    return [None if not members else i if by_set else Pooled.ALL for i, members in enumerate(plan.delete_sets)]


def joins_by_set(plan: ScanPlan) -> bool:
    """Tells whether each delete set gets a join of its own, or all data files share one that compares sequence numbers.

    With many sets (a stream that commits deletes every minute) a join per set would read each delete file once per set.
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
    """The keys that delete files hold.

    group: the files, with the key set's roots resolved. members: the indexes of what was grouped, as of `key_sets`.

    Raises CorruptDeleteError: they have no value for a key; null could delete or keep any row (iceberg 4.25).
    """
    deletes = [plan.equality_deletes[members[i]] for i in group.members]
    for root, path, source in zip(key_set.keys, deletes[0].key_paths, group.sources, strict=True):
        if not _has_value(root, source):
            raise CorruptDeleteError(
                f"Cannot apply an equality delete: its file has no column for its key {root.name!r}"
                f" (field id {path[-1]}). Rewrite the delete",
                cause="UnknownEqualityField",
                table=plan.table,
                file=deletes[0].path,
                field=str(path[-1]),
                rule="iceberg 4.25",
            )
    return DeletedKeys(
        roots=column_values(key_set.keys, group.sources, [_constants(plan, d) for d in deletes]),
        sequence_number=constant([d.sequence_number for d in deletes], _LONG),
        partition=constant([d.partition for d in deletes], _LONG),
    )


def _constants(plan: ScanPlan, delete: EqualityDelete) -> Mapping[int, Any]:
    """The values of columns that the delete file lacks, by its partition tuple (iceberg 4.25, 5.2)."""
    return {} if delete.partition is None else plan.partitions[delete.partition].constants


def _has_value(wanted: dt.Field, source: ColumnSource) -> bool:
    """Tells whether something provides the single key below `wanted`."""
    below = dt.children(wanted.type)
    match source:
        case PartitionValue():
            return True
        case Stored(parts=parts):
            return not below or _has_value(below[0], parts[0])
        case Value(value=value) if below and value is not None:
            return _has_value(below[0], Value(value.get(below[0].id)))
        case Value(value=value):
            return value is not None or isinstance(wanted.type, dt.UnknownType)


# Names that an engine could confuse (iceberg 5.21): no engine may answer where another one cannot.


def columns_to_read(plan: ScanPlan) -> tuple[dt.Field, ...]:
    """The plan's columns, each once, and after them those that only its filter needs.

    Raises:
        UnsupportedError: nobody knows the type of a column (iceberg 1.22).
        SchemaMismatchError: fields of a struct have names that differ only by case, which not every engine can show.
    """
    chosen = {f.id: f for f in plan.columns}
    if plan.filter is not None:
        chosen |= {f.id: f for f in plan.filter.columns if f.id not in chosen}
    columns = tuple(chosen.values())
    for path, f in dt.walk(columns):
        if isinstance(f.type, dt.OpaqueType):
            raise UnsupportedError(
                f"Cannot read column {'.'.join(path)}: its type {f.type.text!r} is not known; leave the column out",
                cause="UnsupportedType",
                table=plan.table,
                field=".".join(path),
                rule=in_format("iceberg 1.22", plan.format),
            )
        if isinstance(f.type, dt.StructType):
            names = [part.name.lower() for part in f.type.fields]
            if len(set(names)) < len(names):
                raise SchemaMismatchError(
                    "Cannot read a struct: names of its fields differ only by case; leave the column out",
                    cause="AmbiguousColumn",
                    table=plan.table,
                    field=".".join(path),
                    rule="iceberg 5.21",
                )
    return columns


def refuse_same_names(columns: Sequence[dt.Field], table: str) -> None:
    """Raises SchemaMismatchError for columns whose names differ only by case, or not at all."""
    seen: dict[str, dt.Field] = {}
    for column in columns:
        other = seen.setdefault(column.name.lower(), column)
        if other is not column:
            raise SchemaMismatchError(
                f"Cannot show columns {other.name!r} and {column.name!r} in one result: they differ only by case; "
                "choose one with columns=, or read them with to_arrow() in Python",
                cause="AmbiguousColumn",
                table=table,
                field=column.name,
                rule="iceberg 5.21",
                options=("columns",),
            )
