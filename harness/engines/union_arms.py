"""The arms of a read: one per file group, with its deletes and the sources of its column values.

An engine reads the files of an arm with one scan, translates the column values, drops the deleted rows, and combines
the arms with UNION ALL.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    Lineage,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOrInherited,
    column_values,
    constant,
)
from harness.engines.data_files import FileName
from harness.engines.file_groups import Faults, FileGroup, FileOpener, Inspector, ScanFiles
from harness.errors import CorruptDeleteError, SchemaMismatchError, UnsupportedError, rule_in_format
from harness.metadata.files.roaring import to_positions
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Indices, array_of, distinct_values, from_numpy, to_numpy
from harness.metadata.plan.deletes import DatedPositions, EqualityDelete, key_fields
from harness.metadata.plan.lifetimes import EQUALITY, Span, delete_number
from harness.metadata.plan.projection import (
    ColumnSource,
    ConstantValue,
    FileColumn,
    PartitionValue,
    check_stored,
    find_named,
    find_stored,
)
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.engines.change_roles import Role

DELETED = dt.METADATA["_deleted"].id
"""The id of the metadata column `_deleted`, which is true in deleted rows. If a plan has it, no rows are dropped."""
_INT, _LONG = dt.IntegerType(32), dt.IntegerType(64)
DELETED_BY = dt.LIFETIMES["_deleted_by"].id
"""The id of the column `_deleted_by`, which only plans with lifetimes have."""
_COMPUTED = frozenset({DELETED, DELETED_BY})
"""The columns that engines compute from the deletes of a row."""
_METADATA_IDS = frozenset(f.id for f in (*dt.METADATA.values(), *dt.LIFETIMES.values()))


class DeletePool(enum.Enum):
    """Marks data files that share all equality deletes of the plan instead of having their own set, see `scopes`."""

    ALL = "all deletes of the plan, each with its sequence number and partition"


Scope: TypeAlias = int | DeletePool | None
"""The equality deletes of a file. An int is an index into `ScanPlan.delete_sets`; None means that there are none."""


def data_files(
    plan: PlannedScan, deleted: Collection[int], *, exact: bool, roles: Sequence[Role] | None = None
) -> ScanFiles:
    """Return the data files of a plan. Their numbers are their ordinals in the plan.

    Args:
        plan: The plan.
        deleted: The ordinals of files that have deleted positions.
        exact: If True, all files must have their recorded row counts. Files with deleted positions always must, and so
            must Avro and ORC files: a file that was cut between two Avro blocks looks complete.
        roles: The roles of the files in a plan with lifetimes, else None.
    """
    files = plan.files
    path, physical, formats = (files.column(name).to_pylist() for name in ("path", "physical", "format"))
    has_deleted = np.zeros(len(path), np.bool_)
    has_deleted[list(deleted)] = True
    is_exact = np.ones_like(has_deleted) if exact else has_deleted.copy()
    is_exact[[number for number, format_ in enumerate(formats) if format_ != "parquet"]] = True
    joined = np.array([scope + 2 if isinstance(scope, int) else int(scope is DeletePool.ALL) for scope in scopes(plan)])
    split = joined[to_numpy(files.column("delete_set"))] * 2 + has_deleted
    if roles is not None:
        numbers = {role: number for number, role in enumerate(dict.fromkeys(roles))}
        split = split * len(numbers) + np.array([numbers[role] for role in roles])
    return ScanFiles(
        path=path,
        physical=physical,
        format=formats,
        recorded_rows=files.column("record_count"),
        exact=is_exact,
        partition=to_numpy(files.column("partition")),
        constants=[partition.constants for partition in plan.partitions],
        split=split,
        are_data=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionArm:
    """Data files that are read in the same way and have the same equality deletes.

    Attributes:
        plan: The plan.
        columns: The columns that the arm yields: stored columns and metadata columns.
        roots: The columns that hold keys of equality deletes, in the types used to compare keys.
        fields: The stored columns among `columns`, followed by `roots`. The entries of `group.sources` belong to these.
        files: The files of the plan.
        group: The arm's file group. `group.members` are ordinals in the plan.
        scope: The equality deletes that apply to the arm's rows.
        deleted: The deleted positions by ordinal, for each file of the arm. None if no file has any, or if the plan has
            lifetimes.
        role: The changes that the rows of the files may be. None if the plan has no lifetimes.
        dated: True if position deletes of a plan with lifetimes may apply to the rows.
    """

    plan: PlannedScan
    columns: tuple[dt.Field, ...]
    roots: tuple[dt.Field, ...]
    fields: tuple[dt.Field, ...]
    files: ScanFiles
    group: FileGroup
    scope: Scope
    deleted: Mapping[int, BitMap64] | None
    role: Role | None = None
    dated: bool = False

    @property
    def names(self) -> list[FileName]:
        """The recorded and physical paths of the arm's files."""
        return self.files.names(self.group.members)

    @property
    def shows_deleted(self) -> bool:
        """True if the arm yields all rows, and the deleted ones are marked in a column."""
        return self.plan.lifetimes is not None or any(f.id == DELETED for f in self.columns)

    def key_labels(self) -> dict[dt.Field, str]:
        """Return the labels of `roots` in `values`. Empty if no equality delete applies to the arm."""
        return {} if self.scope is None else {root: f"e{i}" for i, root in enumerate(self.roots)}

    def values(self) -> dict[str, ColumnValue]:
        """Return the values to read from the files, by label.

        The labels `c0`, `c1`, … are for `columns`; the labels of `_deleted` and `_deleted_by` are skipped because the
        engine computes these columns. The labels `e0`, `e1`, … are for `roots`. If the deletes are pooled, `sq` is the
        data sequence number of the row's file and `sp` is the index of its partition. In a plan with lifetimes, `fa`
        and `fr` are then the commits that added and removed the file. If position deletes are dated, `fn` is the
        ordinal of the file and `ps` the position of the row.
        """
        partitions = self.files.partition_values(self.group.members)
        resolved = column_values(self.fields, self.group.sources, partitions)
        stored: dict[dt.Field, ColumnValue] = dict(zip(self.fields, resolved, strict=True))
        columns = {f"c{i}": f for i, f in enumerate(self.columns) if f.id not in _COMPUTED}
        values = {label: self._metadata(f) if f.id in _METADATA_IDS else stored[f] for label, f in columns.items()}
        values |= {label: stored[root] for root, label in self.key_labels().items()}
        if self.scope is DeletePool.ALL:
            values["sq"] = self._sequence_number()
            values["sp"] = self._constant("partition", _LONG)
            if self.plan.lifetimes is not None:
                values["fa"] = self._metadata(dt.LIFETIMES["_added_commit"])
                values["fr"] = self._metadata(dt.LIFETIMES["_removed_commit"])
        if self.dated:
            values |= {"fn": self._metadata(dt.LIFETIMES["_file_number"]), "ps": Position()}
        return values

    def _metadata(self, column: dt.Field) -> ColumnValue:
        """Return the value of a metadata column (iceberg 5.17, 5.18; delta W2, W3)."""
        match column.name:
            case "_file":
                return self._constant("path", dt.StringType())
            case "_pos":
                return Position()
            case "_spec_id":
                return self._constant("spec_id", _INT)
            case "_partition":
                # Null if no partition spec of the table has a field; a struct of nulls if only the file's own spec has
                # none.
                has_fields = isinstance(column.type, dt.StructType)
                numbers = self.files.partition[self.group.members].tolist()
                partitions = [self.plan.partitions[number] for number in numbers]
                return constant([p.values if has_fields else None for p in partitions], column.type)
            case "_row_id":
                first = self._constant("first_row_id", _LONG)
                return Lineage(first, self._stored_or(column, PositionFrom(first)))
            case "_last_updated_sequence_number":
                first = self._constant("first_row_id", _LONG)
                return Lineage(first, self._stored_or(column, self._sequence_number()))
            case "_row_commit_version":
                return self._stored_or(column, self._constant("commit_version", _LONG))
            case "_file_number":
                return constant(self.group.members.tolist(), column.type)
            case "_added_commit":
                return constant([span.added for span in self._spans()], column.type)
            case "_removed_commit":
                return constant([span.removed for span in self._spans()], column.type)
            case other:
                raise AssertionError(f"no metadata column is called {other}")

    def _spans(self) -> list[Span]:
        assert self.plan.lifetimes is not None, "only plans with lifetimes have these columns"
        return [self.plan.lifetimes.files[number] for number in self.group.members.tolist()]

    def _stored_or(
        self, column: dt.Field, inherited: Constant | PositionFrom
    ) -> Constant | PositionFrom | StoredOrInherited:
        """Return the stored value, or the inherited value if the stored one is null or absent."""
        if self.plan.lookup.is_delta:
            name = self.plan.materialized.get(column.name)
            source = None if name is None else find_named(name, self.group.form.schema)
        else:
            source = find_stored(column.id, self.group.form.schema)
        if source is None or isinstance(source.physical.type, dt.UnknownType):
            return inherited
        first = str(self.files.name(int(self.group.members[0])))
        check_stored(column, source, file_path=first, table=self.plan.table, lookup=self.plan.lookup)
        return StoredOrInherited(StoredColumn(column, source), inherited)

    def _sequence_number(self) -> Constant:
        return self._constant("sequence_number", _LONG)

    def _constant(self, name: str, type_: dt.Type) -> Constant:
        """Return a column of `FILES` as a value per file."""
        return self._of_members(self.plan.files.column(name), type_)

    def _of_members(self, values: pa.Array | pa.ChunkedArray, type_: dt.Type) -> Constant:
        return constant(values.take(from_numpy(self.group.members)).to_pylist(), type_)


def union_arms(
    plan: PlannedScan, columns: tuple[dt.Field, ...], inspector: Inspector, deletes: ScanFiles
) -> list[UnionArm]:
    """Return the arms that together hold the rows of a plan. The plan must have files.

    Args:
        plan: The plan.
        columns: The columns that each arm yields.
        inspector: Groups and checks the files.
        deletes: The plan's equality delete files. Their footers are read at the same time as the footers of the data
            files.

    Raises:
        HarnessError: A file cannot be read. The error names the file.
    """
    arms, _, faults = readable_arms(plan, columns, inspector, deletes)
    for fault in faults.values():
        raise fault
    return arms


def readable_arms(
    plan: PlannedScan, columns: tuple[dt.Field, ...], inspector: Inspector, deletes: ScanFiles
) -> tuple[list[UnionArm], ScanFiles, Faults]:
    """Return the arms of all readable files, all files, and the errors of the unreadable files by number.

    See `union_arms` for the arguments.
    """
    marked = with_positions(plan.files)
    deleted = deleted_positions(plan, marked) if plan.lifetimes is None else {}
    dated = frozenset(marked) if plan.lifetimes is not None else frozenset()
    exact = any(f.id == dt.METADATA["_row_id"].id for f in columns)
    roles: list[Role] | None = None
    shared: list[bool] = []
    if plan.lifetimes is not None:
        from harness.engines.change_roles import file_roles, files_with_shared_ids

        roles, shared = file_roles(plan, plan.lifetimes), files_with_shared_ids(plan)
    files = data_files(plan, deleted or dated, exact=exact, roles=roles)
    inspector.opener.prefetch(files, deletes)
    faults = inspector.opener.faults(files)
    roots = key_roots(plan)
    fields = tuple(f for f in columns if f.id not in _METADATA_IDS) + roots
    by_set, sets = scopes(plan), plan.files.column("delete_set")
    arms = []
    readable = np.delete(np.arange(len(files)), list(faults))
    for group in inspector.groups(files, fields, readable):
        first = int(group.members[0])
        arms.append(
            UnionArm(
                plan=plan,
                columns=columns,
                roots=roots,
                fields=fields,
                files=files,
                group=group,
                scope=by_set[sets[first].as_py()],
                deleted=deleted if first in deleted else None,
                role=None if roles is None else replace(roles[first], old_ids=_may_have_old_ids(plan, group, shared)),
                dated=first in dated,
            )
        )
    return arms, files, faults


def _may_have_old_ids(plan: PlannedScan, group: FileGroup, shared: Sequence[bool]) -> bool:
    """Return whether rows of a group of files may have the row ids of rows in other files.

    Args:
        plan: A plan with lifetimes.
        group: The group.
        shared: The result of `files_with_shared_ids`.
    """
    stores_ids = plan.lookup.is_delta or find_stored(dt.METADATA["_row_id"].id, group.form.schema) is not None
    return stores_ids or any(shared[number] for number in group.members.tolist())


def with_positions(files: pa.Table) -> list[int]:
    """Return the numbers of the files that may have deleted positions. `files` is `FILES` or a part of it."""
    column = files.column("positions")
    return [] if column.null_count == len(column) else np.flatnonzero(to_numpy(column.is_valid())).tolist()


def deleted_positions(plan: PlannedScan, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
    """Read the deleted positions of files, by ordinal. Files without deleted positions are absent."""
    return {ordinal: positions for ordinal, positions in plan.load_positions(ordinals).items() if len(positions)}


def dated_positions(plan: PlannedScan, ordinals: Sequence[int]) -> pa.Table:
    """Return the deleted positions of files in a plan with lifetimes, each once.

    Args:
        plan: The plan.
        ordinals: The ordinals of the files.

    Returns:
        The columns `f` (ordinal of the file, int32), `p` (position, int64), and `n` (the `delete_number` of the first
        delete of the row, int64).
    """
    files: list[Indices] = [np.empty(0, np.int32)]
    positions: list[Indices] = [np.empty(0, np.int64)]
    numbers: list[Indices] = [np.empty(0, np.int64)]
    sources = plan.files.column("positions").take(from_numpy(np.array(ordinals, np.int64))).to_pylist()
    loaded = plan.load_dated(ordinals)
    for ordinal, source in zip(ordinals, plan.position_deletes.sources(sources), strict=True):
        assert isinstance(source, DatedPositions), "the only source in a plan with lifetimes"
        earlier = BitMap64()
        # A vector usually contains the positions of the vector that it replaced.
        for place, (dated, bitmap) in enumerate(zip(source.deletes, loaded[ordinal], strict=True)):
            added = bitmap - earlier
            earlier |= bitmap
            files.append(np.full(len(added), ordinal, np.int32))
            positions.append(to_positions(added).astype(np.int64))
            numbers.append(np.full(len(added), delete_number(dated.span.added, place), np.int64))
    columns = {"f": files, "p": positions, "n": numbers}
    return pa.table({name: from_numpy(np.concatenate(parts)) for name, parts in columns.items()})


def with_enough_files(plan: PlannedScan, opener: FileOpener) -> PlannedScan:
    """Return the plan reduced to its first files that hold at least `plan.enough` rows, for example for a LIMIT.

    Footers are read until the rows suffice; recorded counts are not used because they may be wrong (iceberg 7.2).
    Deleted positions are subtracted, and files that an equality delete may affect count as empty.
    """
    total, enough = plan.files.num_rows, plan.enough
    if enough is None or plan.filter is not None or plan.lifetimes is not None:
        return plan
    rows, start, end = 0, 0, 1
    while start < total:
        rows += _certain_rows(plan, start, min(end, total), opener)
        if rows >= enough:
            # ordinals stay valid, because the first files are kept
            return replace(plan, files=plan.files.slice(0, min(end, total)))
        # each round of footer reads waits for the previous one, so the rounds double in size
        start, end = end, 2 * end + 1
    return plan


def _certain_rows(plan: PlannedScan, start: int, end: int, opener: FileOpener) -> int:
    """Return a lower bound for the number of live rows in the files with ordinals `start` to `end`."""
    part = plan.files.slice(start, end - start)
    is_spared = np.array([not members for members in plan.delete_sets])[to_numpy(part.column("delete_set"))]
    counted = np.flatnonzero(is_spared & np.array([name == "parquet" for name in part.column("format").to_pylist()]))
    part = part.take(from_numpy(counted))
    files = data_files(replace(plan, files=part), (), exact=False)
    opener.prefetch(files)
    rows = np.maximum(opener.opened(files, np.arange(len(files))).rows, 0)
    marked = with_positions(part)
    deleted = deleted_positions(plan, [start + int(counted[number]) for number in marked])
    for number in marked:
        rows[number] = max(rows[number] - len(deleted.get(start + int(counted[number]), ())), 0)
    return int(rows.sum())


# Merging delete sets, so that data files with the same applicable equality deletes share one join.
#
# Planning excludes deletes by bounds, so that each file may end up with its own set. Each set costs a join: on Spark
# two broadcasts, and on DuckDB more time than the smaller hash tables save (60 files of 2,000 rows, and 10 files of 2
# million).


_MOST_ROWS = 1_000_000
"""The most rows that the deletes of a merged set may have: beyond this, a hash table costs more than bounds save."""
_MOST_WORK = 1_000_000
"""The most deletes, summed over all sets of a plan. With more, merging is not tried."""


def with_merged_scopes(plan: PlannedScan) -> PlannedScan:
    """Return the plan after merging the delete sets of files that belong to the same class.

    By the rules for sequence numbers and partitions, a delete applies to all files of a class or to none (iceberg 4.6,
    4.29): the files are older than the same deletes, and they are in the same partition, or in partitions without
    deletes of their own. Sets are only merged if the row count of their deletes is known and moderate.
    """
    sets, place = plan.delete_sets, plan.files.schema.get_field_index("delete_set")
    if (
        plan.lifetimes is not None
        or len(sets) < 2
        or plan.files.column("sequence_number").null_count
        or sum(map(len, sets)) > _MOST_WORK
    ):
        return plan
    set_numbers: Indices = to_numpy(plan.files.column(place))
    merged, shared = set_numbers.copy(), list(sets)
    with_deletes = np.flatnonzero(np.isin(set_numbers, [number for number, members in enumerate(sets) if members]))
    classes = _classes(plan)[with_deletes]
    by_class: dict[int, list[int]] = {}
    for class_, number in (
        divmod(pair, len(sets)) for pair in distinct_values(classes * len(sets) + set_numbers[with_deletes]).tolist()
    ):
        by_class.setdefault(class_, []).append(number)
    shares = np.full(len(set_numbers), -1)
    for class_, numbers in by_class.items():
        members = sorted({member for number in numbers for member in sets[number]})
        counts = [plan.equality_deletes[member].record_count for member in members]
        rows = sum(float("inf") if count is None else count for count in counts)
        if len(numbers) > 1 and rows <= _MOST_ROWS:
            shares[class_] = len(shared)
            shared.append(tuple(members))
    merged[with_deletes] = np.where(shares[classes] < 0, set_numbers[with_deletes], shares[classes])
    used, numbered = np.unique(merged, return_inverse=True)
    files = plan.files.set_column(place, plan.files.schema.field(place), from_numpy(numbered.ravel().astype(np.int32)))
    return replace(plan, files=files, delete_sets=tuple(shared[number] for number in used.tolist()))


def _classes(plan: PlannedScan) -> Indices:
    """Return the class of each file, as a number smaller than the number of files."""
    deletes = plan.equality_deletes
    numbers, partitions = (to_numpy(plan.files.column(name)) for name in ("sequence_number", "partition"))
    delete_numbers = sorted({d.sequence_number for d in deletes if d.sequence_number is not None})
    age = np.searchsorted(delete_numbers, numbers, side="right")
    alone = np.isin(partitions, [d.partition for d in deletes if d.partition is not None])
    return np.unique(np.stack([age, np.where(alone, partitions, -1)]), axis=1, return_inverse=True)[1].ravel()


@dataclass(frozen=True, slots=True)
class KeySet:
    """The columns that an equality delete compares.

    Attributes:
        keys: For each key, the root column that holds it.
        names: For each key, the field names below the root down to the key. Empty for a top-level column.
        types: For each key, its type.
    """

    keys: tuple[dt.Field, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[dt.Type, ...]

    @staticmethod
    def from_delete(delete: EqualityDelete) -> KeySet:
        """Return the key set of a delete file."""
        paths = [key_fields(root) for root in delete.keys]
        names = tuple(tuple(f.name for f in path[1:]) for path in paths)
        return KeySet(delete.keys, names, tuple(path[-1].type for path in paths))


def key_roots(plan: PlannedScan) -> tuple[dt.Field, ...]:
    """Return every column that holds a key of the plan's equality deletes, in the type used to compare keys."""
    return tuple(dict.fromkeys(key for delete in plan.equality_deletes for key in delete.keys))


def key_sets(plan: PlannedScan, members: Sequence[int]) -> dict[KeySet, list[int]]:
    """Group delete files by the columns that they compare. `members` are indexes into `plan.equality_deletes`."""
    sets: dict[KeySet, list[int]] = {}
    for member in members:
        sets.setdefault(KeySet.from_delete(plan.equality_deletes[member]), []).append(member)
    return sets


def delete_files(plan: PlannedScan) -> ScanFiles:
    """Return the plan's equality delete files to read. Their numbers are indexes into `plan.equality_deletes`."""
    deletes = plan.equality_deletes
    count = len(deletes)
    return ScanFiles(
        path=[d.path for d in deletes],
        physical=[d.physical for d in deletes],
        format=[d.format for d in deletes],
        recorded_rows=array_of([d.record_count for d in deletes], pa.int64()),
        # A file that was cut between two Avro blocks looks complete, and deletes would be lost.
        exact=np.array([d.format != "parquet" for d in deletes], np.bool_),
        partition=np.arange(count),
        # If a delete file lacks a column, its partition values supply it (iceberg 4.25, 5.2).
        constants=[{} if d.partition is None else plan.partitions[d.partition].constants for d in deletes],
        split=np.zeros(count, np.int64),
        are_data=False,
    )


def scopes(plan: PlannedScan) -> list[Scope]:
    """Return the equality deletes that data files are joined with, for each delete set."""
    by_set = joins_by_set(plan)
    return [None if not members else i if by_set else DeletePool.ALL for i, members in enumerate(plan.delete_sets)]


def joins_by_set(plan: PlannedScan) -> bool:
    """Return whether each delete set gets its own join. Otherwise all data files share one join.

    The shared join compares sequence numbers. It is used for many sets, for example if a stream commits deletes every
    minute: with one join per set, each delete file would be read once per set. It is always used in a plan with
    lifetimes, to compare the spans of files and deletes, and never in a plan without sequence numbers.
    """
    if plan.lifetimes is not None:
        return False
    if plan.files.column("sequence_number").null_count:
        return True
    work = sum(map(len, plan.delete_sets))
    return len(plan.delete_sets) <= 64 and work <= 2 * len(plan.equality_deletes) + 16


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The rows of delete files that are read in the same way.

    Attributes:
        roots: The value of each root column of the key set.
        sequence_number: The sequence number of the delete.
        partition: The index of the partition that the delete applies to, or null if it applies to all.
        added: In a plan with lifetimes, the number of the commit that added the delete.
        removed: In a plan with lifetimes, the number of the commit that removed the delete, or null.
        number: In a plan with lifetimes, the `delete_number` of the delete.
    """

    roots: tuple[ColumnValue, ...]
    sequence_number: Constant
    partition: Constant
    added: Constant
    removed: Constant
    number: Constant

    def constants(self) -> dict[str, Constant]:
        """Return all values except the roots, by the label that both engines use."""
        labels = {"ks": self.sequence_number, "kp": self.partition}
        return labels | {"ka": self.added, "kr": self.removed, "kn": self.number}


def deleted_keys(plan: PlannedScan, key_set: KeySet, files: ScanFiles, group: FileGroup) -> DeletedKeys:
    """Return the keys that a group of delete files hold.

    Args:
        plan: The plan.
        key_set: The columns that the deletes compare.
        files: The files that `delete_files` returned.
        group: Some of these files, with the key set's roots resolved.

    Raises:
        CorruptDeleteError: A file has no value for a key. Treating it as null could delete or keep any row (iceberg
            4.25).
    """
    deletes = [plan.equality_deletes[number] for number in group.members.tolist()]
    for root, source in zip(key_set.keys, group.sources, strict=True):
        if not _has_value(root, source):
            key_id = key_fields(root)[-1].id
            raise CorruptDeleteError(
                f"Cannot apply an equality delete: its file has no column for its key {root.name!r}"
                f" (field id {key_id}). Rewrite the delete",
                cause="UnknownEqualityField",
                table=plan.table,
                file=deletes[0].path,
                field=str(key_id),
                rule="iceberg 4.25",
            )
    lifetimes = plan.lifetimes
    spans = [None if lifetimes is None else lifetimes.equality_deletes[number] for number in group.members.tolist()]
    numbers = [
        None if span is None else delete_number(span.added, EQUALITY + place)
        for span, place in zip(spans, group.members.tolist(), strict=True)
    ]
    return DeletedKeys(
        roots=column_values(key_set.keys, group.sources, files.partition_values(group.members)),
        sequence_number=constant([d.sequence_number for d in deletes], _LONG),
        partition=constant([d.partition for d in deletes], _LONG),
        added=constant([None if span is None else span.added for span in spans], _INT),
        removed=constant([None if span is None else span.removed for span in spans], _INT),
        number=constant(numbers, _LONG),
    )


def _has_value(field: dt.Field, source: ColumnSource) -> bool:
    """Return whether `source` provides a value for the single key in `field`."""
    below = dt.children(field.type)
    match source:
        case PartitionValue():
            return True
        case FileColumn(parts=parts):
            return not below or _has_value(below[0], parts[0])
        case ConstantValue(value=value) if below and value is not None:
            return _has_value(below[0], ConstantValue(value.get(below[0].id)))
        case ConstantValue(value=value):
            return value is not None or isinstance(field.type, dt.UnknownType)


def columns_to_read(plan: PlannedScan) -> tuple[dt.Field, ...]:
    """Return the plan's columns, each once, followed by the columns that only its filter needs.

    Raises:
        UnsupportedError: The type of a column is not known (iceberg 1.22).
        SchemaMismatchError: Fields of a struct have names that differ only in case (iceberg 5.21). Some engines cannot
            return them, so none may.
    """
    columns_by_id = {f.id: f for f in plan.columns}
    if plan.filter is not None:
        columns_by_id |= {f.id: f for f in plan.filter.columns if f.id not in columns_by_id}
    columns = tuple(columns_by_id.values())
    for path, f in dt.walk(columns):
        if isinstance(f.type, dt.OpaqueType):
            raise UnsupportedError(
                f"Cannot read column {'.'.join(path)}: its type {f.type.text!r} is not known; leave the column out",
                cause="UnsupportedType",
                table=plan.table,
                field=".".join(path),
                rule=rule_in_format("iceberg 1.22", plan.format),
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
    """Raise SchemaMismatchError if two columns have the same name, ignoring case (iceberg 5.21)."""
    columns_by_name: dict[str, dt.Field] = {}
    for column in columns:
        other = columns_by_name.setdefault(column.name.lower(), column)
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
