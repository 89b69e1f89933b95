"""The actions in one Parquet file of a checkpoint, read batch by batch (delta L17)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError
from harness.metadata.delta.action_lines import VECTOR_KEYS, Body
from harness.metadata.delta.actions import ADDS, FILES_STATE
from harness.metadata.delta.commits import FIELDS, REMOVE_IDENTITY, Locator, check_vectors, ids_of
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.parquet import open_parquet, row_count
from harness.metadata.model.arrow_values import (
    children_of,
    empty_table,
    field_at,
    from_numpy,
    to_numpy,
    to_plain,
    with_children,
)
from harness.storage.limits import Limits, contained
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq


BATCH_ROWS = 32_768


@dataclass(slots=True)
class MemoryBudget:
    """The memory that the decoded columns of one file may use.

    Attributes:
        limits: The limits that a LimitError names.
        file: The path of the file, for errors.
        maximum: The budget in bytes.
        spent: The bytes used so far.
    """

    limits: Limits
    file: str
    maximum: int
    spent: int = 0

    @staticmethod
    def for_file(limits: Limits, file: str, size: int) -> MemoryBudget:
        """Return the budget for the columns of a file of `size` bytes."""
        return MemoryBudget(limits, file, 100 * size + limits.spare_bytes)

    def spend(self, size: int) -> None:
        """Subtract `size` bytes from the budget. Raise LimitError if the budget is exceeded."""
        self.spent += size
        self.limits.check("spare_bytes", self.spent, "bytes of columns", file=self.file, allowed=self.maximum)


def struct_field_names(schema: pa.Schema, name: str) -> frozenset[str]:
    """Return the field names of the struct column `name`, or an empty set if there is no such struct."""
    index = schema.get_field_index(name)
    if index < 0 or not pa.types.is_struct(schema.field(index).type):
        return frozenset()
    return frozenset(child.name for child in schema.field(index).type)


def _leaves_of(columns: Iterable[str]) -> list[str]:
    return [".".join(FIELDS[name]) for name in columns if name in FIELDS]


def action_batches(
    parquet: pq.ParquetFile,
    action: str,
    leaves: Iterable[str],
    *,
    groups: list[int] | None = None,
    size: int = BATCH_ROWS,
) -> Iterator[tuple[int, pa.StructArray]]:
    """Yield the structs of the column `action` in batches, each with the index of its first row in the file.

    Args:
        parquet: The checkpoint file.
        action: The name of the column, for example `add`.
        leaves: The paths of the fields to read, below the struct. The returned structs have only these fields, in plain
            Arrow layouts.
        groups: The row groups to read, ascending. None: all of them.
        size: The maximum number of rows in a batch.
    """
    if action not in parquet.schema_arrow.names:
        return
    columns = [f"{action}.{leaf}" for leaf in leaves]
    sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
    firsts = np.cumsum([0, *sizes]).tolist()
    for row_groups in [None] if groups is None else [[group] for group in groups]:
        start = 0 if row_groups is None else firsts[row_groups[0]]
        for batch in parquet.iter_batches(batch_size=size, columns=columns, row_groups=row_groups):
            yield start, to_plain(batch.column(action))
            start += batch.num_rows


def _valid_rows(actions: pa.StructArray) -> pa.StructArray:
    return actions.filter(pc.is_valid(actions)) if actions.null_count else actions


STATS_STRUCT = "stats_parsed"
STATS_ROW = "stats_row"
"""The index of the checkpoint row with a file's unread statistics. Null: the statistics are in `stats`."""


def concat_files(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables of `FILES_STATE`, with nulls for missing statistics columns.

    Only some of the tables may have the column `stats_parsed` or `stats_row`. Checkpoints of different ages store
    different fields of `stats_parsed`; the result has all fields.
    """
    if any(STATS_ROW in table.schema.names for table in tables):
        schema = FILES_STATE.append(pa.field(STATS_ROW, pa.int64()))
        whole = [
            table
            if STATS_ROW in table.schema.names
            else table.append_column(STATS_ROW, pa.nulls(table.num_rows, pa.int64()))
            for table in tables
        ]
        return pa.concat_tables([empty_table(schema), *whole])
    types = [table.schema.field(STATS_STRUCT).type for table in tables if STATS_STRUCT in table.schema.names]
    if not types:
        return pa.concat_tables([empty_table(FILES_STATE), *tables])
    united = types[0]
    for type_ in types[1:]:
        united = united if type_ == united else _common_type(united, type_) or pa.struct([])
    schema = FILES_STATE.append(pa.field(STATS_STRUCT, united))
    whole = []
    for table in tables:
        plain_table = table.select(FILES_STATE.names)
        if STATS_STRUCT in table.schema.names:
            chunks = [_cast_to(chunk, united) for chunk in table.column(STATS_STRUCT).chunks]
            whole.append(plain_table.append_column(STATS_STRUCT, pa.chunked_array(chunks, united)))
        else:
            whole.append(plain_table.append_column(STATS_STRUCT, pa.nulls(table.num_rows, united)))
    return pa.concat_tables([empty_table(schema), *whole])


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of both types without loss, or None if there is none.

    Leaving statistics out is always correct, so the caller then drops the field.
    """
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        names = [child.name for child in left]
        names += [child.name for child in right if child.name not in names]
        fields = [(name, _common_child_type(left, right, name)) for name in names]
        return pa.struct([(name, type_) for name, type_ in fields if type_ is not None])
    if pa.types.is_signed_integer(left) and pa.types.is_signed_integer(right):
        return left if left.bit_width > right.bit_width else right
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return left if left.bit_width > right.bit_width else right
    return None


def _common_child_type(left: pa.StructType, right: pa.StructType, name: str) -> pa.DataType | None:
    at, other = left.get_all_field_indices(name), right.get_all_field_indices(name)
    if len(at) > 1 or len(other) > 1:
        return None
    if not at or not other:
        return left.field(at[0]).type if at else right.field(other[0]).type
    return _common_type(left.field(at[0]).type, right.field(other[0]).type)


def _cast_to(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return `values` cast to `target`, a result of `_common_type` for their type. Missing fields become nulls."""
    if values.type == target:
        return values
    if not pa.types.is_struct(target):
        return values.cast(target)
    stored, children = children_of(values), []
    for child in target:
        index = values.type.get_field_index(child.name)
        children.append(pa.nulls(len(values), child.type) if index < 0 else _cast_to(stored[index], child.type))
    return with_children(values, children, target)


class ActionRows:
    """The number of actions in each row of one file, counted while its columns are read (delta L17).

    A total for the whole file is not enough: a row with two actions would compensate for a row that lost its action.
    """

    def __init__(self, rows: int) -> None:
        self._held = np.zeros(rows, dtype=np.uint8)

    def note(self, start: int, values: pa.Array | pa.ChunkedArray) -> None:
        """Count the actions in rows from `start` on. A row has an action of this kind if its value is not null."""
        self._held[start : start + len(values)] += _valid_mask(values)

    def check(self, parquet: pq.ParquetFile, file: str, *, others: list[str]) -> None:
        """Refuse files with rows that hold two actions or none.

        Args:
            parquet: The checkpoint file.
            file: The path of the file, for errors.
            others: The columns of unknown actions, which count too.

        Raises:
            CorruptFileError: A row holds two actions or none (rule delta L17).
        """
        several = int((self._held > 1).sum())
        if several:
            raise _checkpoint_error(f"{several} of its {len(self._held)} rows hold more than one action", file)
        has_action = self._held > 0
        if others and not has_action.all():
            start = 0
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=others):
                for values in batch.columns:
                    has_action[start : start + len(values)] |= _valid_mask(values)
                start += batch.num_rows
        empty_rows = len(has_action) - int(has_action.sum())
        if empty_rows:
            raise _checkpoint_error(
                f"{empty_rows} of its {len(has_action)} rows hold no action, so some of its columns are lost", file
            )


def _valid_mask(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return to_numpy(pc.is_valid(values))


def _checkpoint_error(reason: object, file: str, rule: str = "delta L17") -> CorruptFileError:
    return CorruptFileError(f"Cannot read the checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)


StatisticsScope: TypeAlias = Literal["none", "any", "all", "deferred"]
"""The file statistics to read.

- `none`: no statistics.
- `any`: the JSON texts, and the structs of files without a JSON text.
- `all`: both, for every file that has them.
- `deferred`: only statistics outside of Parquet files. The column `stats_row` refers to the others.
"""

_TABLE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


@dataclass(frozen=True, slots=True)
class FileActions:
    """The actions in one Parquet file of a checkpoint.

    Attributes:
        table_actions: The kind and the fields of each action that is not about a file. A table has few of them.
        adds: Tables of schema `ADDS`. They may have `stats_parsed`, or `stats_row`, which is the index of a row in this
            file.
        remove_ids: The ids of the removed files.
        rows: The number of rows in the file.
        has_adds: True if the file has a column `add`, even an empty one.
    """

    table_actions: tuple[tuple[str, Body], ...]
    adds: tuple[pa.Table, ...]
    remove_ids: tuple[pa.Array, ...]
    rows: int
    has_adds: bool


def read_checkpoint_file(
    data: bytes, file: str, locator: Locator, statistics: StatisticsScope, limits: Limits
) -> FileActions:
    """Parse the Parquet file of a checkpoint.

    Args:
        data: The content of the file.
        file: The path of the file, for errors.
        locator: Maps recorded paths to files.
        statistics: The statistics to read.
        limits: The limits on rows and memory.

    Raises:
        CorruptFileError: The file cannot be read, or some of its columns are lost. Rules: delta L17, L19.
        InvalidTableError, UnsupportedError: A path in the file is invalid.
        LimitError: The file exceeds the limits.
    """
    try:
        with contained(file=file), open_parquet(pa.BufferReader(data)) as parquet:
            count = row_count(parquet.metadata, file=file, cause="LogCorrupt")
            limits.check("spare_records", count, "rows", file=file, allowed=len(data) + limits.spare_records)
            _check_columns(parquet, file)
            rows = ActionRows(count)
            budget = MemoryBudget.for_file(limits, file, len(data))
            table_actions = tuple(_read_table_actions(parquet, rows, budget))
            budget.spent = 0
            source = _ActionReader(parquet, file, locator, statistics, budget, rows)
            adds, removes = tuple(source.adds()), tuple(source.remove_ids())
            names = parquet.schema_arrow.names
            others = [name for name in names if name not in {"add", "remove", *_TABLE_ACTIONS}]
            rows.check(parquet, file, others=others)
            return FileActions(table_actions, adds, removes, count, "add" in names)
    except (pa.ArrowException, OSError, *DAMAGE) as error:
        raise _checkpoint_error(error, file, rule="delta L19") from error


@dataclass(frozen=True, slots=True)
class _ActionReader:
    parquet: pq.ParquetFile
    file: str
    locator: Locator
    statistics: StatisticsScope
    budget: MemoryBudget
    rows: ActionRows

    def adds(self) -> list[pa.Table]:
        now = self.statistics in ("any", "all")
        with_struct = now and STATS_STRUCT in struct_field_names(self.parquet.schema_arrow, "add")
        first = list(self._add_tables(self.rows, struct=with_struct and self.statistics == "all"))
        if not with_struct or self.statistics == "all" or not any(t.column("stats").null_count for t in first):
            return first
        self.budget.spent = 0
        return list(self._add_tables(None, struct=True))

    def _add_tables(self, rows: ActionRows | None, *, struct: bool) -> Iterator[pa.Table]:
        leaves = _leaves_of(name for name in ADDS.names if name != "stats" or self.statistics in ("any", "all"))
        for start, batch in action_batches(self.parquet, "add", [*leaves, STATS_STRUCT] if struct else leaves):
            if rows is not None:
                rows.note(start, batch)
            actions = _valid_rows(batch)
            if not len(actions):
                continue
            table = self._table(actions, ADDS)
            parsed = field_at(actions, (STATS_STRUCT,)) if struct else None
            if parsed is not None:
                table = table.append_column(STATS_STRUCT, parsed)
            if self.statistics == "deferred":
                table = table.append_column(STATS_ROW, from_numpy(start + np.flatnonzero(_valid_mask(batch))))
            self.budget.spend(table.nbytes)
            yield table

    def remove_ids(self) -> Iterator[pa.Array]:
        for start, batch in action_batches(self.parquet, "remove", _leaves_of(REMOVE_IDENTITY.names)):
            self.rows.note(start, batch)
            if len(actions := _valid_rows(batch)):
                ids = ids_of(self._table(actions, REMOVE_IDENTITY))
                self.budget.spend(ids.nbytes)
                yield ids

    def _table(self, actions: pa.StructArray, schema: pa.Schema) -> pa.Table:
        columns = {target.name: _column(actions, target) for target in schema if target.name != "key"}
        for name, values in columns.items():
            if values.null_count and not schema.field(name).nullable:
                message = f"A file action of the checkpoint has no {name}"
                raise CorruptFileError(message, cause="LogCorrupt", file=self.file, rule="delta L17")
        columns["key"] = self.locator.locate(columns["path"], file=self.file)
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        table.validate(full=True)  # invalid UTF-8 would otherwise only fail when it is printed
        check_vectors(table, file=self.file)
        return table


def _read_table_actions(parquet: pq.ParquetFile, rows: ActionRows, budget: MemoryBudget) -> Iterator[tuple[str, Body]]:
    """Yield the kind and the fields of each action that is not about a file."""
    present = [name for name in _TABLE_ACTIONS if name in parquet.schema_arrow.names]
    start = 0
    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=present) if present else ():
        for name in present:
            column = batch.column(name)
            rows.note(start, column)
            actions = to_plain(column).filter(pc.is_valid(column))
            budget.spend(actions.nbytes)
            for row in actions.to_pylist():
                configuration = row.get("configuration")
                # Maps arrive as lists of pairs. In JSON a map is an object.
                is_map = isinstance(configuration, list)
                yield name, {**row, "configuration": dict(configuration)} if is_map else row
        start += batch.num_rows


def _check_columns(parquet: pq.ParquetFile, file: str) -> None:
    """Refuse file actions without paths, and deletion vectors without a required key.

    If a vector cannot be read, the file must not be read as if it had none (delta D1).
    """
    schema = parquet.schema_arrow
    for name in ("add", "remove"):
        if name in schema.names and "path" not in struct_field_names(schema, name):
            raise _checkpoint_error(f"its column {name} has no path", file)
    for name in ("add", "remove"):
        if "deletionVector" not in struct_field_names(schema, name):
            continue
        type_ = schema.field(name).type.field("deletionVector").type
        missing = [key for key in VECTOR_KEYS if not pa.types.is_struct(type_) or type_.get_field_index(key) < 0]
        if missing and _has_values(parquet, f"{name}.deletionVector"):
            raise _checkpoint_error(f"deletionVector of its column {name} has no {missing[0]}", file, rule="delta D1")


def _has_values(parquet: pq.ParquetFile, column: str) -> bool:
    """Return whether any leaf of the struct field `column` has a value."""
    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=[column]):
        read = pa.table(batch)
        while any(pa.types.is_struct(f.type) for f in read.schema):
            read = read.flatten()
        if any(values.null_count < len(values) for values in read.columns):
            return True
    return False


def _column(actions: pa.StructArray, target: pa.Field) -> pa.Array:
    """Return a column of `ADDS` or `REMOVES`, with nulls if the file lacks the field (delta L17)."""
    values = field_at(actions, FIELDS[target.name])
    if values is None or (values.null_count == len(values) and values.type == target.type):
        return _nulls(target.type).slice(0, len(actions))
    return values.cast(target.type)


@functools.cache
def _nulls(type_: pa.DataType) -> pa.Array:
    """Return one batch of nulls. All batches share it if the file has no values in the column."""
    return pa.nulls(BATCH_ROWS, type_)
