"""The arms of a read: per file group, which rows are deleted and where the values of each column come from.

An engine reads the files of an arm with one scan, translates its values, drops the deleted rows, and unites the arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

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
from harness.engines.key_sets import key_roots, scopes
from harness.metadata.model.schema import METADATA, Field, IntegerType, StringType, StructType, Type, UnknownType
from harness.metadata.plan.projection import check_stored, find_named, find_stored
from harness.metadata.plan.scan_plan import Partition, ScanPlan
from harness.storage.records import dataclass

DELETED = METADATA["_deleted"].id
"""Id of the column that no arm has a value for: it is true where a row is deleted, and then no row is dropped."""
_INT, _LONG = IntegerType(32), IntegerType(64)
_METADATA_IDS = frozenset(f.id for f in METADATA.values())


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """The columns of `ScanPlan.files` as Python values, by ordinal."""

    path: list[str]
    physical: list[str]
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
    def of(plan: ScanPlan) -> PlannedFiles:
        """The files of a plan."""
        columns = {label: plan.files.column(label).to_pylist() for label in plan.files.column_names if label != "size"}
        return PlannedFiles(partition_index=columns.pop("partition"), partitions=plan.partitions, **columns)

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
    planned: PlannedFiles
    columns: tuple[Field, ...]
    roots: tuple[Field, ...]
    fields: tuple[Field, ...]
    group: FileGroup
    files: tuple[ScanFile, ...]
    deleted: tuple[BitMap64, ...] | None

    @property
    def scope(self) -> Scope:
        """Which equality deletes hit the arm's rows."""
        return self.group.split[0]

    @property
    def flags_deleted(self) -> bool:
        """Whether the arm yields all rows, and says of each whether it is deleted."""
        return any(f.id == DELETED for f in self.columns)

    def key_labels(self) -> dict[Field, str]:
        """The labels of `roots` among `values`; none where no equality delete hits the arm."""
        return {} if self.scope is None else {root: f"e{i}" for i, root in enumerate(self.roots)}

    def values(self) -> dict[str, ColumnValue]:
        """What is read of the files, by label.

        `c0`, `c1`, …: `columns`, but for `_deleted`, which has its number and no value. `e0`, `e1`, …: `roots`. Where
        deletes are pooled, `sq` and `sp`: the data sequence number of the row's file, and the index of its partition.
        """
        partitions = [file.constants for file in self.files]
        resolved = column_values(self.fields, self.group.sources, partitions)
        stored: dict[Field, ColumnValue] = dict(zip(self.fields, resolved, strict=True))
        columns = {f"c{i}": f for i, f in enumerate(self.columns) if f.id != DELETED}
        values = {label: self._metadata(f) if is_metadata(f) else stored[f] for label, f in columns.items()}
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

    def _metadata(self, column: Field) -> ColumnValue:
        """Where the values of a metadata column come from (iceberg 5.17, 5.18; delta W2, W3)."""
        match column.name:
            case "_file":
                return self._constant(self.planned.path, StringType())
            case "_pos":
                return Position()
            case "_spec_id":
                return self._constant(self.planned.spec_id, _INT)
            case "_partition":
                # No spec of the table has a field: null. A file whose own spec has none: a struct of nulls.
                has_fields = isinstance(column.type, StructType)
                partitions = [self.planned.partition(ordinal) for ordinal in self.group.members]
                return constant([p.values if has_fields else None for p in partitions], column.type)
            case "_row_id":
                first = self._first_row_id()
                return Lineage(first, self._stored_or(column, PositionFrom(first)))
            case "_last_updated_sequence_number":
                return Lineage(self._first_row_id(), self._stored_or(column, self._sequence_number()))
            case "_row_commit_version":
                versions = self.plan.row_commit_versions
                own = [None if versions is None else versions[o].as_py() for o in self.group.members]
                return self._stored_or(column, constant(own, _LONG))
            case other:
                raise AssertionError(f"no metadata column is called {other}")

    def _stored_or(self, column: Field, inherited: Constant | PositionFrom) -> Constant | PositionFrom | StoredOr:
        """The value that the files hold, and where it is null or they have none, the inherited one."""
        if self.plan.lookup.is_delta:
            name = self.plan.materialized.get(column.name)
            source = None if name is None else find_named(name, self.group.schema)
        else:
            source = find_stored(column.id, self.group.schema)
        if source is None or isinstance(source.physical.type, UnknownType):
            return inherited
        place = {"file_path": str(self.files[0].name), "table": self.plan.table}
        check_stored(column, source, **place, lookup=self.plan.lookup)
        return StoredOr(StoredColumn(column, source), inherited)

    def _sequence_number(self) -> Constant:
        return self._constant(self.planned.sequence_number, _LONG)

    def _first_row_id(self) -> Constant:
        return self._constant(self.planned.first_row_id, _LONG)

    def _constant(self, values: Sequence[Any], type_: Type) -> Constant:
        return constant([values[ordinal] for ordinal in self.group.members], type_)


def is_metadata(field: Field) -> bool:
    """Whether a column describes the row's place instead of coming from the table's schema."""
    return field.id in _METADATA_IDS


def union_arms(
    plan: ScanPlan, columns: tuple[Field, ...], inspector: Inspector, deletes: Sequence[ScanFile]
) -> list[UnionArm]:
    """The arms that together have the rows of a plan.

    Args:
        plan: what to read; it has files.
        columns: what each arm yields.
        inspector: opens the files.
        deletes: the plan's equality delete files, whose footers are read along with the others.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, SchemaMismatchError, UnsupportedError: about the file
            at fault.
    """
    planned = PlannedFiles.of(plan)
    loaded = plan.load_positions([i for i in planned if planned.has_positions[i]])
    deleted = {ordinal: positions for ordinal, positions in loaded.items() if len(positions)}
    shows_ids, by_set = any(f.id == METADATA["_row_id"].id for f in columns), scopes(plan)
    files = [
        planned.scan_file(i, (by_set[planned.delete_set[i]], i in deleted), exact=i in deleted or shows_ids)
        for i in planned
    ]
    inspector.prefetch([*files, *deletes])
    roots = key_roots(plan)
    fields = tuple(f for f in columns if not is_metadata(f)) + roots
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


# The first files of a plan that have enough rows, where a query is content with any: `SELECT * FROM orders LIMIT 5`.
#
# Rows are counted by the files' own footers, less the deleted positions: recorded counts may be wrong (iceberg 7.2). A
# file that a filter or an equality delete may take rows from counts for nothing.


def with_enough(plan: ScanPlan, looks: Looks) -> ScanPlan:
    """The plan of as many of its first files as have `plan.enough` rows, or of all; files are looked at until then.

    Raises:
        HarnessError: as looking at the files, and reading their positional deletes.
    """
    total, enough = plan.files.num_rows, plan.enough
    if enough is None or plan.filter is not None:
        return plan
    rows, start, end = 0, 0, 1
    while start < total:
        rows += _rows(plan, start, min(end, total), looks)
        if rows >= enough:
            return _first(plan, min(end, total))
        start, end = end, 2 * end + 1  # looks wait for each other, so there are more with each
    return plan


def _rows(plan: ScanPlan, start: int, end: int, looks: Looks) -> int:
    """The rows that certainly are in the files of these ordinals."""
    part = plan.files.slice(start, end - start)
    planned = PlannedFiles.of(replace(plan, files=part))
    counted = [i for i in planned if planned.format[i] == "parquet" and not plan.delete_sets[planned.delete_set[i]]]
    files = [planned.scan_file(i, (None, False), exact=False) for i in counted]
    looks.prefetch(files)
    deleted = plan.load_positions([start + i for i in counted if planned.has_positions[i]])
    found = [looks.opened(file).rows or 0 for file in files]
    return sum(max(rows - len(deleted.get(start + i, ())), 0) for i, rows in zip(counted, found, strict=True))


def _first(plan: ScanPlan, count: int) -> ScanPlan:
    """The plan of the first files. A file's ordinal stays what it is, so all that goes by ordinals does."""
    versions = plan.row_commit_versions
    return replace(
        plan,
        files=plan.files.slice(0, count),
        row_commit_versions=None if versions is None else versions.slice(0, count),
    )
