"""Metadata tables of Iceberg manifests: data and delete files, entries, partitions, and deleted positions.

Files stay columnar, from the bytes of the manifests to the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import HarnessError
from harness.metadata.deletes.position_files import POSITION_ID, read_positions
from harness.metadata.deletes.puffin import open_puffin, read_deletion_vector
from harness.metadata.files.roaring import to_positions
from harness.metadata.iceberg.columns.entries import SIZES, DataFiles, Extent, statistic
from harness.metadata.iceberg.columns.reading import read_entries, read_files
from harness.metadata.iceberg.delete_scope import vector_of
from harness.metadata.iceberg.manifests import (
    Content,
    DataFile,
    ManifestEntry,
    ManifestFile,
    ManifestReader,
    open_manifest,
)
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.values import Partitions, all_partition_fields, decode_bound, read_schema_first
from harness.metadata.model.arrow_values import Mask, array_of, from_numpy, to_numpy
from harness.metadata.model.schema import Field, Schema, StructType, Type, children
from harness.metadata.plan.deletes import FILE_PATH_ID
from harness.metadata.tables.reading import (
    INT,
    LONG,
    TEXT,
    TIME,
    MetadataTable,
    map_of,
    partition_column,
    schema_of,
    table_of,
    tuple_struct,
    tuples_of,
    values_of,
)
from harness.storage.limits import contained
from harness.storage.paths import both_paths
from harness.storage.threads import cached_property

# `readable_metrics` holds the statistics of each column of a file by column name, with bounds as values of the column's
# type.


METRICS = "readable_metrics"
_METRIC_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_METRIC_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def metrics_field(schema: Schema) -> pa.Field:
    """Return the field `readable_metrics`: a struct with a struct of metrics for each leaf column."""
    parts = [pa.field(name, _metrics(field.type)) for name, field in _leaves(schema)]
    return pa.field(METRICS, pa.struct(parts) if parts else pa.null())


def metrics_of(files: pa.Table, schema: Schema) -> pa.Array:
    """Return the column `readable_metrics` of files whose statistics are maps by field id."""
    field = metrics_field(schema)
    if not schema.fields or not len(files):
        return pa.nulls(len(files), field.type)
    counts, bounds = ([_lookup(files.column(n)) for n in names.values()] for names in (_METRIC_COUNTS, _METRIC_BOUNDS))
    structs = []
    for (_, leaf), metrics in zip(_leaves(schema), field.type, strict=True):
        values = [value_of(leaf.id) for value_of in counts]
        for value_of in bounds:
            distinct = value_of(leaf.id).dictionary_encode()  # equal bounds are decoded once
            encoded = distinct.dictionary.to_pylist()
            decoded = [None if data is None else decode_bound(leaf.type, data) for data in encoded]
            values.append(values_of(decoded, leaf.type).take(distinct.indices))
        structs.append(pa.StructArray.from_arrays(values, fields=list(metrics.type)))
    return pa.StructArray.from_arrays(structs, fields=list(field.type))


def _lookup(column: pa.ChunkedArray) -> Callable[[int], pa.Array]:
    """Return a function that looks up a key in maps. It returns the values, null for maps without the key.

    The items are sorted by key once. Arrow's `map_lookup` would scan all items for each key.
    """
    maps = pa.concat_arrays(column.chunks)
    offsets = to_numpy(maps.offsets)
    owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
    entries = slice(int(offsets[0]), int(offsets[-1]))
    keys, items = to_numpy(maps.keys)[entries], maps.items[entries]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]

    def value_of(key: int) -> pa.Array:
        hits = order[slice(*np.searchsorted(ordered, [key, key + 1]))]
        places = np.full(len(maps), -1, dtype=np.int64)
        places[owners[hits]] = hits
        return items.take(from_numpy(places, missing=places < 0))

    return value_of


def _metrics(type_: Type) -> pa.DataType:
    bound = values_of([], type_).type
    counts = [pa.field(name, pa.int64()) for name in _METRIC_COUNTS]
    return pa.struct([*counts, *(pa.field(name, bound) for name in _METRIC_BOUNDS)])


def _leaves(schema: Schema) -> Sequence[tuple[str, Field]]:
    """Return the leaf columns, which have no nested columns, by dotted path.

    If a name is repeated, which DuckDB refuses, the field id is appended.
    """
    leaves = [(".".join(path), field) for path, field in schema.walk() if not children(field.type)]
    counts = Counter(name.casefold() for name, _ in leaves)
    return [(name if counts[name.casefold()] == 1 else f"{name}_{field.id}", field) for name, field in leaves]


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
_DATA_FILE_COLUMNS = {SIZES, "sort_order_id", "split_offsets"}
"""Columns of data files that need `Extent.has_more`."""


@dataclass(frozen=True, kw_only=True)
class ManifestTables:
    """Metadata tables of manifests.

    Attributes:
        source: The table, with the partition specs of all manifests.
        schema: The schema of the read, for the types of partition values.
        manifests: The manifests. Rows are in their order.
    """

    source: IcebergTable
    schema: Schema
    manifests: Sequence[ManifestFile]

    @cached_property
    def partition(self) -> StructType | None:
        """Return the type of partition tuples, or None if no spec has fields.

        Raises UnsupportedError for unknown types.
        """
        return tuple_struct(all_partition_fields(self.source.metadata, self._schemas))

    @cached_property
    def plain_schema(self) -> pa.Schema:
        """Return the columns of `files` except `readable_metrics`, which is computed from other columns."""
        return schema_of(
            content=INT,  # 0: data, 1: position deletes, 2: equality deletes
            file_path=TEXT,
            file_format=TEXT,
            spec_id=INT,
            **partition_column(self.partition),
            record_count=LONG,
            file_size_in_bytes=LONG,
            **_STATISTICS,
            key_metadata=pa.binary(),  # null: encrypted files are refused
            split_offsets=pa.list_(LONG),
            equality_ids=pa.list_(INT),
            sort_order_id=INT,
            first_row_id=LONG,
            referenced_data_file=TEXT,
            content_offset=LONG,
            content_size_in_bytes=LONG,
        )

    def table(self, kind: str) -> MetadataTable:
        """Return the metadata table called `kind`."""
        metrics = metrics_field(self.schema)
        match kind:
            case "entries":
                file = pa.field("data_file", pa.struct(list(self.plain_schema)))
                schema = pa.schema([*_NUMBERS, file, metrics])
                return MetadataTable(schema, lambda columns: self._all_entries(schema, columns))
            case "partitions":
                counts = ("record_count", "file_count", "total_data_file_size_in_bytes", *_DELETE_COUNTS)
                more = {**dict.fromkeys(counts, LONG), **_LAST_UPDATED}
                schema = schema_of(**partition_column(self.partition), spec_id=INT, **more)
                return MetadataTable(schema, lambda columns: self._partitions(schema, columns))
            case "position_deletes":
                schema = schema_of(
                    file_path=TEXT,
                    pos=LONG,  # from 0
                    **partition_column(self.partition),
                    spec_id=INT,
                    delete_file_path=TEXT,
                    content_offset=LONG,  # of deletion vectors; also the size
                    content_size_in_bytes=LONG,
                )
                return MetadataTable(schema, lambda _: self._positions(schema))
            case _:
                data, deletes = kind != "delete_files", kind != "data_files"
                return MetadataTable(
                    self.plain_schema.append(metrics),
                    lambda columns: self._files(data=data, deletes=deletes, columns=columns),
                )

    def _files(self, *, data: bool, deletes: bool, columns: AbstractSet[str]) -> pa.Table:
        """Return live files. Statistics are null unless `columns` names them."""
        wants_statistics = bool({METRICS, *_STATISTICS} & columns)
        fields = self._fields(deletes=deletes) if wants_statistics else ()
        has_more = deletes or bool({METRICS, *_DATA_FILE_COLUMNS} & columns)
        manifests = [
            *(self._manifests_of_kind(deletes=False) if data else ()),
            *(self._manifests_of_kind(deletes=True) if deletes else ()),
        ]
        files = self._read(manifests, Extent(fields, has_more=has_more))
        return self._with_metrics(self._table(files, columns), columns)

    def _all_entries(self, schema: pa.Schema, columns: AbstractSet[str]) -> pa.Table:
        """Return all entries, including entries of deleted files. Files are null unless `columns` names them."""
        wants_files = bool({"data_file", METRICS} & columns)
        fields = self._fields(deletes=True) if wants_files else ()
        files = self._read(
            [*self._manifests_of_kind(deletes=False), *self._manifests_of_kind(deletes=True)],
            Extent(fields, True, live_only=False),
        )
        numbers = [_flat(files.table.column(f.name)).cast(f.type) for f in _NUMBERS]
        if not wants_files:
            missing = [pa.nulls(len(files), schema.field(name).type) for name in ("data_file", METRICS)]
            return pa.Table.from_arrays([*numbers, *missing], schema=schema)
        file_rows = self._table(files, {METRICS})
        metrics = self._with_metrics(file_rows, columns).column(METRICS)
        struct = file_rows.combine_chunks().to_struct_array()
        return pa.Table.from_arrays([*numbers, struct, metrics], schema=schema)

    def _positions(self, schema: pa.Schema) -> pa.Table:
        """Return the positions in each live delete file and deletion vector, whether or not the data file exists.

        Raises:
            HarnessError: A delete file cannot be read.
        """
        tables = [schema.empty_table()]
        for entry in read_entries(map(self._opened, self._manifests_of_kind(deletes=True))):
            if entry.file.content is Content.POSITION_DELETES:
                try:
                    positions_by_path = _deleted_positions(entry, self.source)
                except HarnessError as error:
                    raise error.within(table=self.source.location) from error.__cause__
                tables += [self._position_rows(schema, entry.file, path, places) for path, places in positions_by_path]
        return pa.concat_tables(tables)

    def _position_rows(self, schema: pa.Schema, file: DataFile, path: str, positions: BitMap64) -> pa.Table:
        places = to_positions(positions)
        constants = {"file_path": path, "spec_id": file.spec_id, "delete_file_path": file.path}
        constants |= {"content_offset": file.content_offset, "content_size_in_bytes": file.content_size}
        size = len(places)
        arrays = {name: pa.repeat(pa.scalar(value, schema.field(name).type), size) for name, value in constants.items()}
        arrays["pos"] = from_numpy(np.asarray(places, np.int64))
        if self.partition is not None:
            arrays["partition"] = tuples_of([file.partition], self.partition).take(from_numpy(np.zeros(size, np.int64)))
        return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def _partitions(self, schema: pa.Schema, columns: AbstractSet[str]) -> pa.Table:
        """Return a row for each partition with live files. The last update is null unless `columns` names it."""
        partitions = Partitions(self.source.metadata.specs, self._schemas)
        files = self._read(
            [*self._manifests_of_kind(deletes=False), *self._manifests_of_kind(deletes=True)], Extent(has_more=True)
        )
        pairs = zip(files.specs_of_tuples(), files.tuples, strict=True)
        of_tuples = np.array([partitions.index_of(spec, values) for spec, values in pairs], np.int64)
        numbers = of_tuples[to_numpy(files.table.column("tuple"))]
        content = to_numpy(files.table.column("content"))
        size, rows = len(partitions.all()), to_numpy(files.table.column("record_count").fill_null(0))
        is_data = content == Content.DATA
        bytes_ = to_numpy(files.table.column("size").fill_null(0))
        sums = [_sums(numbers, rows, is_data, size), np.bincount(numbers[is_data], minlength=size)]
        sums.append(_sums(numbers, bytes_, is_data, size))
        for kind in (Content.POSITION_DELETES, Content.EQUALITY_DELETES):
            is_kind = content == kind
            sums += [_sums(numbers, rows, is_kind, size), np.bincount(numbers[is_kind], minlength=size)]
        arrays = [array_of([p.spec_id for p in partitions.all()], pa.int32())]
        if self.partition is not None:
            arrays.insert(0, tuples_of([p.values for p in partitions.all()], self.partition))
        updates = [pa.nulls(size, type_) for type_ in _LAST_UPDATED.values()]
        if _LAST_UPDATED.keys() & columns:
            snapshots = files.table.column("snapshot_id").to_pylist()
            snapshots_by_id, newest = self.source.metadata.snapshots, [(-1, -1)] * size
            for number, snapshot in set(zip(numbers.tolist(), snapshots, strict=True)):
                if snapshot in snapshots_by_id:
                    newest[number] = max(newest[number], (snapshots_by_id[snapshot].timestamp_ms, snapshot))
            dates = [(None, None) if each == (-1, -1) else each for each in newest]  # null: the snapshot has expired
            updates = [_flat(column) for column in table_of(schema_of(**_LAST_UPDATED), dates).columns]
        return pa.Table.from_arrays([*arrays, *map(from_numpy, sums), *updates], schema=schema)

    @property
    def _schemas(self) -> tuple[Schema, ...]:
        return read_schema_first(self.source.metadata.schemas, self.schema)

    def _manifests_of_kind(self, *, deletes: bool) -> list[ManifestFile]:
        return [manifest for manifest in self.manifests if manifest.is_deletes is deletes]

    def _read(self, manifests: Sequence[ManifestFile], extent: Extent) -> DataFiles:
        return read_files([self._opened(manifest) for manifest in manifests], extent)

    def _opened(self, manifest: ManifestFile) -> ManifestReader:
        data, limits = self.source.read(manifest.path, "manifest"), self.source.storage.limits
        with contained(file=manifest.path):
            specs = self.source.metadata.specs
            return open_manifest(data, manifest, specs=specs, schemas=self._schemas, limits=limits)

    def _table(self, files: DataFiles, columns: AbstractSet[str]) -> pa.Table:
        """Return files as rows, with the statistics that `columns` names and `files` has.

        `METRICS` includes all statistics.
        """
        schema, table, size = self.plain_schema, files.table, len(files)
        names = {**{f.name: f.name for f in schema}, "file_path": "path", "file_size_in_bytes": "size"}
        by_name = {name: _flat(table.column(source)) for name, source in names.items() if source in table.column_names}
        by_name["file_format"] = pc.utf8_upper(_flat(table.column("format")))
        if "content" not in by_name:
            by_name["content"] = from_numpy(np.zeros(size, np.int32))
        if self.partition is not None:
            by_name["partition"] = tuples_of(files.tuples, self.partition).take(_flat(table.column("tuple")))
        for name in _STATISTICS.keys() if METRICS in columns else _STATISTICS.keys() & columns:
            parts = [statistic(name, key) for key in files.fields]
            if set(parts) <= set(table.column_names):
                by_name[name] = _map_column(files.fields, parts, table, _STATISTICS[name])
        arrays = [by_name[f.name].cast(f.type) if f.name in by_name else pa.nulls(size, f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _with_metrics(self, files: pa.Table, columns: AbstractSet[str]) -> pa.Table:
        files = files.combine_chunks()  # DuckDB cannot read structs if a batch begins inside a chunk
        field = metrics_field(self.schema)
        metrics = metrics_of(files, self.schema) if METRICS in columns else pa.nulls(len(files), field.type)
        return files.append_column(field, metrics)

    def _fields(self, *, deletes: bool) -> tuple[int, ...]:
        """Return the ids of all leaf columns that ever existed.

        With `deletes`, also return the ids of the columns in position delete files.
        """
        fields = (field for schema in self._schemas for _, field in schema.walk())
        leaf_ids = {field.id for field in fields if not children(field.type)}
        return tuple(sorted(leaf_ids | ({FILE_PATH_ID, POSITION_ID} if deletes else set())))


_DELETE_COUNTS = [f"{kind}_delete_{what}_count" for kind in ("position", "equality") for what in ("record", "file")]


class _EveryPath:
    """A set that contains every path."""

    def __contains__(self, path: object) -> bool:
        return True


def _deleted_positions(entry: ManifestEntry, source: IcebergTable) -> list[tuple[str, BitMap64]]:
    """Return the data files of a delete file, and their deleted positions."""
    file = entry.file
    physical = source.path_map.physical(file.path)
    if file.format != "puffin":
        positions_by_path = read_positions(
            source.storage,
            path=file.path,
            physical=physical,
            format=file.format,
            record_count=file.record_count,
            data_files=_EveryPath(),
        )
        return list(positions_by_path.items())
    name = both_paths(file.path, physical)
    puffin = open_puffin(source.storage, physical, file=name)
    vector, target = vector_of(file, physical), file.referenced_data_file
    return [(str(target), read_deletion_vector(puffin, vector, target=target, data_record_count=None))]


def _map_column(keys: Sequence[int], names: Sequence[str], table: pa.Table, type_: pa.DataType) -> pa.Array:
    """Return a map per row, with the given keys and the values of the named columns; null if no column is named."""
    columns = [_flat(table.column(name)) for name in names]
    return map_of(keys, columns, type_) if columns else pa.nulls(len(table), type_)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _sums(
    numbers: npt.NDArray[np.int64], values: npt.NDArray[np.int64], selection: Mask, size: int
) -> npt.NDArray[np.int64]:
    """Return one sum per partition: the total of `values` over the chosen files."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, numbers[selection], values[selection])
    return sums
