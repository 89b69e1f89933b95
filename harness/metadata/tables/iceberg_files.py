"""Metadata tables of an Iceberg snapshot's manifests: data and delete files, entries, and partitions.

Data files stay columns from the manifests' bytes on; delete files, of which there are few, and entries, which show what
was deleted too, are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.iceberg.columns.entries import DataFiles, statistic
from harness.metadata.iceberg.columns.reading import SIZES, live, read_data_files, recorded, recorded_schema
from harness.metadata.iceberg.delete_scope import read_schema_first
from harness.metadata.iceberg.manifests import (
    ALL,
    Content,
    DataFile,
    ManifestEntry,
    ManifestFile,
    ManifestReader,
    Statistics,
    open_manifest,
)
from harness.metadata.iceberg.source import ScanSource
from harness.metadata.iceberg.values import Partitions, all_partition_fields, decode_bound
from harness.metadata.model.arrow_values import array_of, from_numpy, to_numpy
from harness.metadata.model.schema import Field, Schema, StructType, Type, children
from harness.metadata.tables.iceberg_positions import position_deletes
from harness.metadata.tables.reading import (
    INT,
    LONG,
    TEXT,
    TIME,
    map_of,
    partition_column,
    schema_of,
    table_of,
    tuple_struct,
    tuples_of,
    values_of,
)
from harness.storage.limits import contained
from harness.storage.threads import cached_property

# `readable_metrics`: what is known of each column of a file, by the column's name, bounds as values of its type.


METRICS = "readable_metrics"
_METRIC_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_METRIC_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def metrics_field(schema: Schema) -> pa.Field:
    """The column of that name: a struct with one of metrics for each column that holds no others."""
    parts = [pa.field(name, _metrics(field.type)) for name, field in _leaves(schema)]
    return pa.field(METRICS, pa.struct(parts) if parts else pa.null())


def metrics_of(files: pa.Table, schema: Schema) -> pa.Array:
    """The column for files whose statistics are there, as maps by field id."""
    field = metrics_field(schema)
    if not schema.fields or not len(files):
        return pa.nulls(len(files), field.type)
    columns = {name: _Maps.of(files.column(name)) for name in (*_METRIC_COUNTS.values(), *_METRIC_BOUNDS.values())}
    found = []
    for _, leaf in _leaves(schema):
        known = {name: maps.values(leaf.id) for name, maps in columns.items()}
        counts = [known[name] for name in _METRIC_COUNTS.values()]
        bounds = [_decoded(known[name], leaf.type) for name in _METRIC_BOUNDS.values()]
        found.append(pa.StructArray.from_arrays([*counts, *bounds], fields=list(_metrics(leaf.type))))
    return pa.StructArray.from_arrays(found, fields=list(field.type))


@dataclass(frozen=True, slots=True)
class _Maps:
    """Maps by field id, item by item. `pyarrow.compute.map_lookup` would go through all of them for each id.

    owners: which map each item is of. size: how many maps there are.
    """

    keys: npt.NDArray[np.int32]
    items: pa.Array
    owners: npt.NDArray[np.int64]
    size: int

    @staticmethod
    def of(column: pa.ChunkedArray) -> _Maps:
        maps = pa.concat_arrays(column.chunks)
        offsets = to_numpy(maps.offsets)
        owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
        items = slice(int(offsets[0]), int(offsets[-1]))
        return _Maps(to_numpy(maps.keys)[items], maps.items[items], owners, len(maps))

    def values(self, key: int) -> pa.Array:
        """The value of a key in each map; null where there is none."""
        hits = np.flatnonzero(self.keys == key)
        places = np.full(self.size, -1, dtype=np.int64)
        places[self.owners[hits]] = hits
        return self.items.take(from_numpy(places, missing=places < 0))


def _decoded(encoded: pa.Array, type_: Type) -> pa.Array:
    """Bounds as values; null where there is none, or it says nothing. Each of several equal ones is decoded once."""
    distinct = encoded.dictionary_encode()
    values = [None if data is None else decode_bound(type_, data) for data in distinct.dictionary.to_pylist()]
    return values_of(values, type_).take(distinct.indices)


def _metrics(type_: Type) -> pa.DataType:
    bound = values_of([], type_).type
    counts = [pa.field(name, pa.int64()) for name in _METRIC_COUNTS]
    return pa.struct([*counts, *(pa.field(name, bound) for name in _METRIC_BOUNDS)])


def _leaves(schema: Schema) -> Sequence[tuple[str, Field]]:
    """Columns without columns in them, by their paths with dots. DuckDB has no two of one name: others get their id."""
    found = [(".".join(path), field) for path, field in schema.walk() if not children(field.type)]
    names = [name.casefold() for name, _ in found]
    return [(name if names.count(name.casefold()) == 1 else f"{name}_{field.id}", field) for name, field in found]


_COUNTS, _BOUNDS = pa.map_(INT, LONG), pa.map_(INT, pa.binary())
_STATISTICS = {
    **dict.fromkeys((SIZES, *_METRIC_COUNTS.values()), _COUNTS),
    **dict.fromkeys(_METRIC_BOUNDS.values(), _BOUNDS),
}
_NUMBERS = schema_of(
    status=INT,  # 0: existing, 1: added, 2: deleted
    snapshot_id=LONG,
    sequence_number=LONG,
    file_sequence_number=LONG,
)
_LAST_UPDATED = {"last_updated_at": TIME, "last_updated_snapshot_id": LONG}
_RECORDED = {SIZES, "sort_order_id", "split_offsets"}


@dataclass(frozen=True, kw_only=True)
class SnapshotFiles:
    """The files of one snapshot.

    source: of the table, with the partition specs of all manifests.
    schema: of the read, for the types of partition values.
    manifests: of the snapshot, in order.
    """

    source: ScanSource
    schema: Schema
    manifests: Sequence[ManifestFile]

    @cached_property
    def partition(self) -> StructType | None:
        """The type of partition tuples; None: no spec has fields. Raises UnsupportedError for unknown types."""
        return tuple_struct(all_partition_fields(self.source.metadata, self._schemas))

    def files_schema(self) -> pa.Schema:
        """The columns of `files`."""
        return self.plain_schema().append(metrics_field(self.schema))

    def plain_schema(self) -> pa.Schema:
        """The columns of `files` but `readable_metrics`, which is made of others."""
        return schema_of(
            content=INT,  # 0: data, 1: position deletes, 2: equality deletes
            file_path=TEXT,
            file_format=TEXT,
            spec_id=INT,
            **partition_column(self.partition),
            record_count=LONG,
            file_size_in_bytes=LONG,
            **_STATISTICS,
            key_metadata=pa.binary(),  # null: what is encrypted is refused
            split_offsets=pa.list_(LONG),
            equality_ids=pa.list_(INT),
            sort_order_id=INT,
            first_row_id=LONG,
            referenced_data_file=TEXT,
            content_offset=LONG,
            content_size_in_bytes=LONG,
        )

    def entries_schema(self) -> pa.Schema:
        """The columns of `entries`."""
        return pa.schema(
            [*_NUMBERS, pa.field("data_file", pa.struct(list(self.plain_schema()))), metrics_field(self.schema)]
        )

    def partitions_schema(self) -> pa.Schema:
        """The columns of `partitions`."""
        counts = ("record_count", "file_count", "total_data_file_size_in_bytes", *_DELETE_COUNTS)
        return schema_of(
            **partition_column(self.partition), spec_id=INT, **dict.fromkeys(counts, LONG), **_LAST_UPDATED
        )

    def files(self, *, data: bool, deletes: bool, columns: AbstractSet[str]) -> pa.Table:
        """Live files; statistics only where `columns` names them, and nulls in their place."""
        tables = [self.plain_schema().empty_table()]
        if data:
            manifests = self._of(deletes=False)
            wanted = self._leaves() if {METRICS, *_STATISTICS} & columns else ()
            found = self._recorded(manifests, wanted) if _RECORDED & columns or METRICS in columns else None
            tables.append(self._of_columns(self._read(manifests, wanted), found, columns))
        if deletes:
            tables.append(self._of_entries([entry.file for entry in self._entries(self._of(deletes=True))]))
        return self._with_metrics(pa.concat_tables(tables), columns)

    def entries(self, *, columns: AbstractSet[str]) -> pa.Table:
        """All entries, those of deleted files too; files only where `columns` names them, and nulls in their place.

        Those of data manifests without deleted files stay columns; the others are decoded one by one, and come last.
        """
        wants_files = bool({"data_file", METRICS} & columns)
        wanted = self._leaves() if wants_files else ()
        data = self._of(deletes=False)
        recorded_ = self._recorded(data, wanted)
        whole = [place for place, table in enumerate(recorded_) if len(live(table)) == len(table)]
        found = self._read([data[place] for place in whole], wanted)
        rest = [data[place] for place in range(len(data)) if place not in set(whole)]
        others = list(
            self._entries([*rest, *self._of(deletes=True)], live_only=False, statistics=ALL if wants_files else None)
        )
        plain = pa.concat_tables([recorded_schema(wanted).empty_table(), *(recorded_[place] for place in whole)])
        columns_of = {name: plain.column(name) for name in plain.column_names}
        columns_of["sequence_number"] = found.table.column("sequence_number")
        whole_numbers = pa.Table.from_arrays([columns_of[name] for name in _NUMBERS.names], schema=_NUMBERS)
        rows = [(int(e.status), e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in others]
        numbers = pa.concat_tables([whole_numbers, table_of(_NUMBERS, rows)]).combine_chunks()
        schema = self.entries_schema()
        if not wants_files:
            missing = [pa.nulls(len(numbers), schema.field(name).type) for name in ("data_file", METRICS)]
            return pa.Table.from_arrays([*numbers.columns, *missing], schema=schema)
        files = pa.concat_tables(
            [self._of_columns(found, [plain], frozenset({METRICS})), self._of_entries([entry.file for entry in others])]
        )
        metrics = self._with_metrics(files, columns).column(METRICS)
        struct = files.combine_chunks().to_struct_array()
        return pa.Table.from_arrays([*numbers.columns, struct, metrics], schema=schema)

    def position_deletes(self) -> pa.Table:
        """The positions that live delete files and deletion vectors list."""
        entries = [e for e in self._entries(self._of(deletes=True)) if e.file.content is Content.POSITION_DELETES]
        return position_deletes(entries, self.source, self.partition)

    def partitions(self, *, columns: AbstractSet[str]) -> pa.Table:
        """A row for each partition that has live files; when it was last updated only where `columns` names that."""
        partitions = Partitions(self.source.metadata.specs, self._schemas)
        files = self._read(self._of(deletes=False), ())
        numbers = _numbers(files, partitions)
        entries = list(self._entries(self._of(deletes=True)))
        deletes = [(partitions.index_of(entry.file.spec_id, entry.file.partition), entry.file) for entry in entries]
        size = len(partitions.all())
        table = files.table
        sums = [
            _sums(numbers, table.column("record_count"), size),
            np.bincount(numbers, minlength=size),
            _sums(numbers, table.column("size"), size),
            *_delete_sums(deletes, size),
        ]
        schema = self.partitions_schema()
        arrays = [array_of([p.spec_id for p in partitions.all()], pa.int32())]
        if self.partition is not None:
            arrays.insert(0, tuples_of([p.values for p in partitions.all()], self.partition))
        updates = [pa.nulls(size, type_) for type_ in _LAST_UPDATED.values()]
        if _LAST_UPDATED.keys() & columns:
            facts = [live(found).column("snapshot_id") for found in self._recorded(self._of(deletes=False), ())]
            snapshots = [each for found in facts for each in found.to_pylist()] + [e.snapshot_id for e in entries]
            updates = self._last_updated([*numbers.tolist(), *(number for number, _ in deletes)], snapshots, size)
        return pa.Table.from_arrays([*arrays, *map(from_numpy, sums), *updates], schema=schema)

    def _last_updated(self, numbers: Sequence[int], snapshots: Sequence[int], size: int) -> list[pa.Array]:
        """The time and snapshot of the newest live file of each partition; null: the snapshot has expired."""
        known = self.source.metadata.snapshots
        newest: dict[int, tuple[int, int]] = {}
        for number, snapshot in set(zip(numbers, snapshots, strict=True)):
            if snapshot in known:
                newest[number] = max(newest.get(number, (-1, -1)), (known[snapshot].timestamp_ms, snapshot))
        found = [newest.get(number) for number in range(size)]
        schema = schema_of(**_LAST_UPDATED)
        table = table_of(schema, [each or (None, None) for each in found])
        return [_flat(table.column(name)) for name in schema.names]

    @property
    def _schemas(self) -> tuple[Schema, ...]:
        return read_schema_first(self.source.metadata.schemas, self.schema)

    def _of(self, *, deletes: bool) -> list[ManifestFile]:
        return [manifest for manifest in self.manifests if manifest.is_deletes is deletes]

    def _read(self, manifests: Sequence[ManifestFile], statistics: Iterable[int]) -> DataFiles:
        return read_data_files(
            manifests,
            read=lambda manifest: self.source.read(manifest.path, "manifest"),
            specs=self.source.metadata.specs,
            schemas=self._schemas,
            statistics=statistics,
            limits=self.source.storage.limits,
            kept=self.source.kept_manifests(manifests),
        ).files

    def _recorded(self, manifests: Sequence[ManifestFile], keys: Sequence[int]) -> list[pa.Table]:
        return recorded(enumerate(map(self._opened, manifests)), keys)

    def _opened(self, manifest: ManifestFile) -> ManifestReader:
        data, limits = self.source.read(manifest.path, "manifest"), self.source.storage.limits
        with contained(file=manifest.path):
            specs = self.source.metadata.specs
            return open_manifest(data, manifest, specs=specs, schemas=self._schemas, limits=limits)

    def _of_columns(
        self, files: DataFiles, recorded_: Sequence[pa.Table] | None, columns: AbstractSet[str]
    ) -> pa.Table:
        """Data files as `files` has them. recorded_: of their manifests, in order; None: nothing of it is wanted."""
        schema, table, size = self.plain_schema(), files.table, len(files)
        wanted = _STATISTICS.keys() if METRICS in columns else _STATISTICS.keys() & columns
        known: dict[str, Callable[[], pa.Array]] = {
            "content": lambda: from_numpy(np.zeros(size, np.int32)),
            "file_path": lambda: _flat(table.column("path")),
            "file_format": lambda: pc.utf8_upper(_flat(table.column("format"))),
            "spec_id": lambda: _flat(table.column("spec_id")),
            "partition": lambda: self._tuples(files),
            "record_count": lambda: _flat(table.column("record_count")),
            "file_size_in_bytes": lambda: _flat(table.column("size")),
            "first_row_id": lambda: _flat(table.column("first_row_id")),
            **{
                name: partial(_map_column, files.fields, [statistic(name, key) for key in files.fields], table, type_)
                for name, type_ in _STATISTICS.items()
                if name in wanted - {SIZES}
            },
        }
        if recorded_:
            facts = pa.concat_tables(map(live, recorded_))
            assert len(facts) == size, "both are the live entries of the same manifests"
            known |= {name: partial(_flat, facts.column(name)) for name in ("sort_order_id", "split_offsets")}
            known[SIZES] = lambda: _map_column(files.fields, [f"{SIZES}.{key}" for key in files.fields], facts, _COUNTS)
        arrays = [known[f.name]() if f.name in known else pa.nulls(size, f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _with_metrics(self, files: pa.Table, columns: AbstractSet[str]) -> pa.Table:
        files = files.combine_chunks()  # DuckDB reads no structs of which a batch begins inside of a chunk
        field = metrics_field(self.schema)
        metrics = metrics_of(files, self.schema) if METRICS in columns else pa.nulls(len(files), field.type)
        return files.append_column(field, metrics)

    def _tuples(self, files: DataFiles) -> pa.Array:
        if self.partition is None:
            return pa.nulls(len(files))
        return tuples_of(files.tuples, self.partition).take(_flat(files.table.column("tuple")))

    def _leaves(self) -> tuple[int, ...]:
        """The ids of all columns that ever were, but for those that only hold others."""
        fields = (field for schema in self._schemas for _, field in schema.walk())
        return tuple(sorted({field.id for field in fields if not children(field.type)}))

    def _entries(
        self, manifests: Sequence[ManifestFile], *, live_only: bool = True, statistics: Statistics = ALL
    ) -> Iterator[ManifestEntry]:
        for manifest in manifests:
            reader = self._opened(manifest)
            with contained(file=manifest.path):
                yield from reader.entries(statistics, live_only=live_only)

    def _of_entries(self, files: Sequence[DataFile]) -> pa.Table:
        schema = self.plain_schema()
        plain = pa.schema([field for field in schema if field.name != "partition"])
        table = table_of(plain, [_row(file) for file in files])
        if self.partition is None:
            return table
        tuples, place = (
            tuples_of([file.partition for file in files], self.partition),
            schema.get_field_index("partition"),
        )
        return table.add_column(place, schema.field(place), tuples)


_DELETE_COUNTS = [f"{kind}_delete_{what}_count" for kind in ("position", "equality") for what in ("record", "file")]


def _row(file: DataFile) -> tuple[Any, ...]:
    statistics = (getattr(file, name) for name in _STATISTICS)
    return (
        *(int(file.content), file.path, file.format.upper(), file.spec_id, file.record_count, file.size),
        *(list(found.items()) if found else None for found in statistics),
        *(None, list(file.split_offsets) if file.split_offsets else None),
        *(None if file.equality_ids is None else list(file.equality_ids), file.sort_order_id, file.first_row_id),
        *(file.referenced_data_file, file.content_offset, file.content_size),
    )


def _map_column(keys: Sequence[int], names: Sequence[str], table: pa.Table, type_: pa.DataType) -> pa.Array:
    """Maps from keys to the columns of those names; null without columns."""
    columns = [_flat(table.column(name)) for name in names]
    return map_of(keys, columns, type_) if columns else pa.nulls(len(table), type_)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _numbers(files: DataFiles, partitions: Partitions) -> npt.NDArray[np.int64]:
    """The number of each file's partition."""
    specs = files.specs_of_tuples()
    numbers = [partitions.index_of(spec, values) for spec, values in zip(specs, files.tuples, strict=True)]
    found: npt.NDArray[np.int64] = np.array(numbers, np.int64)[to_numpy(files.table.column("tuple"))]
    return found


def _sums(numbers: npt.NDArray[np.int64], values: pa.ChunkedArray, size: int) -> npt.NDArray[np.int64]:
    """The sum of each partition's values; unknown ones count as 0."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, numbers, to_numpy(values.fill_null(0)))
    return sums


def _delete_sums(deletes: Sequence[tuple[int, DataFile]], size: int) -> list[npt.NDArray[np.int64]]:
    sums = {
        (content, what): np.zeros(size, np.int64)
        for content in (Content.POSITION_DELETES, Content.EQUALITY_DELETES)
        for what in ("records", "files")
    }
    for number, file in deletes:
        sums[file.content, "records"][number] += file.record_count or 0
        sums[file.content, "files"][number] += 1
    return list(sums.values())
