"""Checkpoints: all actions that hold at one version, in one file, in parts, or with sidecars (delta L11 to L20).

A checkpoint of a large table is a large file, so only the columns that a reader of snapshots needs are read, batch by
batch, and rows are never looked at one by one. Which layout a file has is told by its content, never by its name or by
hints (delta L10, L13).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.action_lines import VECTOR_KEYS, Body, ParsedActions, collect, parse_actions
from harness.delta.actions import ADDS, DomainMetadata, Metadata, Protocol, Transaction
from harness.delta.checkpoint_columns import BATCH_ROWS, Room, batches, child, children, held, leaves_of, rows_held
from harness.delta.checkpoint_rows import ActionRows
from harness.delta.checkpoint_statistics import CheckpointPart, CheckpointStatistics
from harness.delta.commits import FIELDS, REMOVED, Locator, check_vectors, file_actions, ids_of
from harness.delta.log_files import Checkpoint, CheckpointKind, LogFile
from harness.delta.paths import decode
from harness.delta.stats_structs import STATS_ROW, STATS_STRUCT
from harness.errors import CorruptFileError, HarnessError, InvalidTableError, MissingFileError
from harness.files.avro_numbers import DAMAGE
from harness.files.row_counts import row_count
from harness.limits import contained
from harness.model.arrow_values import from_numpy
from harness.model.repeated import first_repeated
from harness.storage.paths import join
from harness.storage.stores import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Statistics: TypeAlias = Literal["none", "any", "all", "later"]
"""Which statistics of files are read: none; JSON, and structs where JSON is missing; both wherever they are; or only
those that are not in Parquet, where the others are found by the column `stats_row`."""

_ONCE = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """What a checkpoint says.

    adds: tables of schema `ADDS`, some perhaps with `stats_parsed`; keys are unique over all of them.
    actions: how many there are, tombstones too; None in a V2 checkpoint, whose writers count them differently.
    statistics: what the column `stats_row` of `adds` leads to; None: they have no such column.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    adds: tuple[pa.Table, ...]
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    actions: int | None = None
    statistics: CheckpointStatistics | None = None

    @property
    def files(self) -> int:
        """How many live files there are."""
        return sum(table.num_rows for table in self.adds)


@dataclass(frozen=True, slots=True)
class UnreadableCheckpoint:
    """A checkpoint that cannot be read, while the log may still be sound: another base must do (delta L15, L19).

    error: to raise if there is no other.
    """

    error: HarnessError


def read_checkpoint(
    checkpoint: Checkpoint, storage: Storage, locator: Locator, *, statistics: Statistics = "any"
) -> CheckpointContent | UnreadableCheckpoint:
    """What `checkpoint` says, or why it cannot be read: damaged, incomplete, gone, or with such sidecars.

    Raises:
        InvalidTableError: it can be read and contradicts itself. Rules: delta L14, L18.
        UnsupportedError: it names files that cannot be opened.
        LimitError: a file of it asks for more than the limits of the storage allow.
    """
    reader = _Reader(storage, locator, statistics, ParsedActions(checkpoint.files[0].path))
    try:
        for file in checkpoint.files:
            reader.read_top(file)
        reader.read_sidecars(checkpoint)
        content = reader.content(checkpoint)
    except (CorruptFileError, MissingFileError) as error:
        return UnreadableCheckpoint(error)
    return content


@dataclass(slots=True)
class _Reader:
    """Collects the actions of the files of one checkpoint."""

    storage: Storage
    locator: Locator
    statistics: Statistics
    few: ParsedActions
    adds: list[pa.Table] = field(default_factory=list)
    remove_ids: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    parts: list[CheckpointPart] = field(default_factory=list)
    without_adds: list[str] = field(default_factory=list)

    def read_top(self, file: LogFile) -> None:
        data = self.storage.read(file.path)
        if file.name.endswith(".json"):
            self._read_json(data, file.path)
        else:
            self._read_parquet(data, file.path)

    def read_sidecars(self, checkpoint: Checkpoint) -> None:
        top = checkpoint.files[0].path
        self._check_layout(checkpoint, top)
        if self.few.sidecars:
            self.without_adds.clear()  # the files are in the sidecars
        for sidecar in self.few.sidecars:
            path, size = sidecar.get("path"), sidecar.get("sizeInBytes")
            if type(path) is not str:
                raise CorruptFileError("A sidecar of the checkpoint has no path", cause="LogCorrupt", file=top)
            physical = self._sidecar_path(path, top)
            data = self.storage.read(physical)
            if type(size) is int and len(data) < size:
                raise CorruptFileError(
                    f"A sidecar of the checkpoint is cut short: {len(data)} bytes, expected {size}",
                    cause="LogCorrupt",
                    file=physical,
                    rule="delta L15",
                )
            self._read_parquet(data, physical, is_sidecar=True)

    def content(self, checkpoint: Checkpoint) -> CheckpointContent:
        self._refuse_repeats(checkpoint.files[0].path)
        content = CheckpointContent(
            protocol=self.few.protocol,
            metadata=self.few.only_metadata,
            adds=tuple(self.adds),
            transactions=tuple(self.few.transactions),
            domains=tuple(self.few.domains),
            actions=None if self.few.checkpoint_metadata else self.rows,
            statistics=CheckpointStatistics(tuple(self.parts)) if self.parts else None,
        )
        self._require_adds()
        return content

    def _read_json(self, data: bytes, file: str) -> None:
        parsed = self.few = parse_actions(data, file=file, limits=self.storage.limits)
        if parsed.adds:
            self.adds.append(file_actions(parsed.adds, ADDS, locator=self.locator, file=file))
        if parsed.removes:
            self.remove_ids.append(ids_of(file_actions(parsed.removes, REMOVED, locator=self.locator, file=file)))

    def _read_parquet(self, data: bytes, file: str, *, is_sidecar: bool = False) -> None:
        limits = self.storage.limits
        try:
            import pyarrow.parquet as pq

            with contained(file=file), pq.ParquetFile(pa.BufferReader(data)) as parquet:
                allowed = len(data) + limits.spare_records
                count = row_count(parquet.metadata, file=file, cause="LogCorrupt")
                limits.check("spare_records", count, "rows", file=file, allowed=allowed)
                _require_paths(parquet.schema_arrow, file)
                _refuse_unknown_vectors(parquet, file)
                rows = ActionRows(count)
                room = Room(limits, file, 100 * len(data) + limits.spare_bytes)
                for name, body in _actions(parquet, _ONCE, rows, room):
                    if not is_sidecar:
                        collect(self.few, name, body, place="of the checkpoint")
                room.empty()
                adds = self._read_adds(parquet, file, room, rows)
                removes = list(self._read_remove_ids(parquet, file, room, rows))
                others = [name for name in parquet.schema_arrow.names if name not in {"add", "remove", *_ONCE}]
                rows.check(parquet, file, others=others, batch_rows=BATCH_ROWS)
                self.adds += adds
                self.remove_ids += removes
                if self.statistics == "later" and adds:
                    self.parts.append(CheckpointPart(file, data, self.rows, limits))
                self.rows += count
                if "add" not in parquet.schema_arrow.names:
                    self.without_adds.append(file)
        except (pa.ArrowException, OSError, *DAMAGE) as error:
            raise CorruptFileError(
                f"Cannot read the checkpoint: {error}", cause="LogCorrupt", file=file, rule="delta L19"
            ) from error

    def _read_adds(self, parquet: pq.ParquetFile, file: str, room: Room, rows: ActionRows) -> list[pa.Table]:
        now = self.statistics in ("any", "all")
        with_struct = now and STATS_STRUCT in children(parquet.schema_arrow, "add")
        first = list(self._add_tables(parquet, file, room, rows, struct=with_struct and self.statistics == "all"))
        if not with_struct or self.statistics == "all" or not any(t.column("stats").null_count for t in first):
            return first
        room.empty()
        return list(self._add_tables(parquet, file, room, None, struct=True))

    def _add_tables(
        self, parquet: pq.ParquetFile, file: str, room: Room, rows: ActionRows | None, *, struct: bool
    ) -> Iterator[pa.Table]:
        leaves = leaves_of(name for name in ADDS.names if name != "stats" or self.statistics in ("any", "all"))
        for start, batch in batches(parquet, "add", [*leaves, STATS_STRUCT] if struct else leaves):
            if rows is not None:
                rows.note(start, batch)
            actions = held(batch)
            if not len(actions):
                continue
            table = self._located(actions, ADDS, file)
            parsed = child(actions, (STATS_STRUCT,)) if struct else None
            if parsed is not None:
                table = table.append_column(STATS_STRUCT, parsed)
            if self.statistics == "later":
                table = table.append_column(STATS_ROW, from_numpy(self.rows + rows_held(start, batch)))
            room.take(table.nbytes)
            yield table

    def _read_remove_ids(self, parquet: pq.ParquetFile, file: str, room: Room, rows: ActionRows) -> Iterator[pa.Array]:
        for start, batch in batches(parquet, "remove", leaves_of(REMOVED.names)):
            rows.note(start, batch)
            if len(actions := held(batch)):
                ids = ids_of(self._located(actions, REMOVED, file))
                room.take(ids.nbytes)
                yield ids

    def _located(self, actions: pa.StructArray, schema: pa.Schema, file: str) -> pa.Table:
        columns = {target.name: _column(actions, target) for target in schema if target.name not in ("key", "physical")}
        for name, values in columns.items():
            if values.null_count and not schema.field(name).nullable:
                raise CorruptFileError(
                    f"A file of the checkpoint has no {name}", cause="LogCorrupt", file=file, rule="delta L17"
                )
        columns["key"] = columns["physical"] = self.locator.locate(columns["path"], file=file)
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        table.validate(full=True)  # text that is no UTF-8 would show only where it is printed
        check_vectors(table, file=file)
        return table

    def _sidecar_path(self, recorded: str, top: str) -> str:
        try:
            if recorded.startswith("/") or ":" in recorded.split("/", 1)[0]:
                return self.locator.path_map.physical(self.locator.root.canonical(recorded))
            return join(self.locator.root.log, "_sidecars", decode(recorded))
        except HarnessError as error:
            raise error.within(file=top) from None

    def _check_layout(self, checkpoint: Checkpoint, top: str) -> None:
        """delta L14."""
        marks = self.few.checkpoint_metadata
        if len(marks) > 1:
            raise _malformed(f"it has {len(marks)} checkpointMetadata actions, expected one", top)
        if not marks and checkpoint.kind is CheckpointKind.UUID:
            raise _malformed("it has no checkpointMetadata action, as its name says that it must", top)
        if not marks and self.few.sidecars:
            raise _malformed("it has sidecars, but no checkpointMetadata action", top)
        if marks and marks[0].get("version") != checkpoint.version:
            version = marks[0].get("version")
            raise _malformed(f"it says that it is of version {version}, its name says {checkpoint.version}", top)

    def _require_adds(self) -> None:
        """Against delta L17, the column `add` may not be missing from a file that could list live files.

        Every writer makes it, and without it the table would have no rows, as if none were meant.
        """
        if self.without_adds:
            raise CorruptFileError(
                "Cannot read the checkpoint: it has no column add, so the files that it lists are lost",
                cause="LogCorrupt",
                file=self.without_adds[0],
                rule="delta L17",
            )

    def _refuse_repeats(self, top: str) -> None:
        """delta L18."""
        keys = pa.chunked_array([chunk for table in self.adds for chunk in table.column("key").chunks], pa.string())
        repeated = first_repeated(keys)
        if repeated is not None:
            raise _malformed(f"it holds the file {repeated} twice", top, rule="delta L18")
        removed = pa.chunked_array(self.remove_ids, pa.string())
        if not len(removed):
            return
        for table in self.adds:
            ids = ids_of(table)
            both = ids.filter(pc.is_in(ids, value_set=removed))
            if len(both):
                path = both[0].as_py().partition("\x00")[0]
                raise _malformed(f"it holds the file {path} both as added and as removed", top, rule="delta L18")


def _actions(parquet: pq.ParquetFile, names: Sequence[str], rows: ActionRows, room: Room) -> Iterator[tuple[str, Body]]:
    """The actions of the few kinds `names`."""
    present = [name for name in names if name in parquet.schema_arrow.names]
    start = 0
    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=present) if present else ():
        for name in present:
            column = batch.column(name)
            rows.note(start, column)
            held = column.filter(pc.is_valid(column))
            room.take(held.nbytes)
            for row in held.to_pylist():
                yield name, _plain(row)
        start += batch.num_rows


def _plain(row: Body) -> Body:
    """`row` as it would be in JSON: maps as objects."""
    configuration = row.get("configuration")
    return {**row, "configuration": dict(configuration)} if isinstance(configuration, list) else row


def _require_paths(schema: pa.Schema, file: str) -> None:
    for name in ("add", "remove"):
        if name in schema.names and "path" not in children(schema, name):
            raise CorruptFileError(
                f"Cannot read the checkpoint: its column {name} has no path",
                cause="LogCorrupt",
                file=file,
                rule="delta L17",
            )


def _refuse_unknown_vectors(parquet: pq.ParquetFile, file: str) -> None:
    """Descriptors without a column that they must have cannot be read, and are not none (delta D1)."""
    for name in ("add", "remove"):
        if "deletionVector" not in children(parquet.schema_arrow, name):
            continue
        type_ = parquet.schema_arrow.field(name).type.field("deletionVector").type
        missing = [key for key in VECTOR_KEYS if not pa.types.is_struct(type_) or type_.get_field_index(key) < 0]
        if missing and _holds_anything(parquet, f"{name}.deletionVector"):
            raise CorruptFileError(
                f"Cannot read the checkpoint: deletionVector of its column {name} has no {missing[0]}",
                cause="LogCorrupt",
                file=file,
                rule="delta D1",
            )


def _holds_anything(parquet: pq.ParquetFile, column: str) -> bool:
    """Whether a leaf of the struct's field `column` has a value."""
    return any(_leaf_values(batch) for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=[column]))


def _leaf_values(batch: pa.RecordBatch) -> bool:
    read = pa.table(batch).flatten()  # the struct's fields, of which one was read
    while any(pa.types.is_struct(f.type) for f in read.schema):
        read = read.flatten()
    return any(values.null_count < len(values) for values in read.columns)


def _column(actions: pa.StructArray, target: pa.Field) -> pa.Array:
    """A column of `ADDS` or `REMOVES`; fields that the file lacks are null (delta L17)."""
    values = child(actions, FIELDS[target.name])
    return _nulls(target.type).slice(0, len(actions)) if values is None else values.cast(target.type)


@functools.cache
def _nulls(type_: pa.DataType) -> pa.Array:
    """For a batch without the column: all of them share it."""
    return pa.nulls(BATCH_ROWS, type_)


def _malformed(reason: str, file: str, *, rule: str = "delta L14") -> InvalidTableError:
    return InvalidTableError(f"The checkpoint is malformed: {reason}", cause="LogCorrupt", file=file, rule=rule)
