"""Data and delete files: written from stored rows or an Arrow table, and described by `data_file` structs.

Spec: Iceberg, "Position Delete Files", "Equality Delete Files"; Puffin, `deletion-vector-v1`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.errors import RequestError
from harness.metadata.model.arrow_values import elements_of
from harness.metadata.model.schema import (
    BinaryType,
    CellValue,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
    UnknownType,
    VariantType,
)
from harness.writing.arrow import (
    arrow_table,
    group_sizes,
    with_field_ids,
    write_columnless_orc,
    write_columnless_parquet,
)
from harness.writing.iceberg.avro import AvroDocument, avro_row, avro_schema, int_map
from harness.writing.iceberg.document import TableDocument
from harness.writing.iceberg.evolution import find_field, project
from harness.writing.iceberg.types import bound_bytes, stored_value
from harness.writing.legacy_parquet import check_forms, legacy_table, rewrite_footer
from harness.writing.local_files import default_codec

_MAPS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
_Maps: TypeAlias = dict[str, dict[int, Any]]


def statistics_of(
    table: pa.Table, fields: Sequence[Field], *, only: Collection[int] | None, bounds_length: int | None
) -> dict[str, object]:
    """Return the statistics of the leaf fields of a file, as a `data_file` struct holds them.

    Elements of lists and maps get counts of elements, and no bounds (iceberg 3.4).

    Args:
        table: The content of the file. Its columns have the names of the fields.
        fields: The columns.
        only: The ids of the leaf fields that get statistics. None for all.
        bounds_length: The length to which string bounds (in code points) and binary bounds (in bytes) are cut outward.
            None for uncut bounds.
    """
    result: _Maps = {name: {} for name in _MAPS}
    for f in fields:
        index = table.schema.get_field_index(f.name)
        if index >= 0:
            column = table.column(index)
            chunk = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            _collect(result, f, chunk, only, bounds_length, place="plain")
    return {name: int_map(values) for name, values in result.items()}


def _collect(
    result: _Maps,
    f: Field,
    array: pa.Array,
    only: Collection[int] | None,
    length: int | None,
    *,
    place: Literal["plain", "repeated"],
) -> None:
    match f.type:
        case StructType(fields=fields):
            parts = dict(zip((p.name for p in array.type), array.flatten(), strict=True))
            for child in fields:
                if child.name in parts:
                    _collect(result, child, parts[child.name], only, length, place=place)
        case ListType(element=element):
            _collect(result, element, elements_of(array), only, length, place="repeated")
        case MapType(key=key, value=value):
            _collect(result, key, array.keys, only, length, place="repeated")
            _collect(result, value, array.items, only, length, place="repeated")
        case _ if only is None or f.id in only:
            _collect_leaf(result, f, array, length, place)
        case _:
            pass


def _collect_leaf(result: _Maps, f: Field, array: pa.Array, length: int | None, place: str) -> None:
    result["value_counts"][f.id] = len(array)
    result["null_value_counts"][f.id] = array.null_count
    if isinstance(f.type, FloatType):
        nan = pc.is_nan(array)
        result["nan_value_counts"][f.id] = pc.sum(nan).as_py() or 0
        array = array.filter(pc.invert(nan))
    if place == "plain":
        _bounds(result, f, array.drop_null(), length)


def _bounds(result: _Maps, f: Field, array: pa.Array, length: int | None) -> None:
    if len(array) == 0 or isinstance(f.type, VariantType):
        return
    lower, upper = _min_max(array)
    if isinstance(f.type, FloatType):
        lower = -0.0 if lower == 0 else lower
        upper = math.fabs(upper) if upper == 0 else upper
    lower, upper = stored_value(f.type, lower), stored_value(f.type, upper)
    is_cut = isinstance(f.type, StringType | BinaryType)
    if length is not None and isinstance(lower, str | bytes) and is_cut:
        lower, upper = lower[:length], _truncate_upper_bound(upper, length)
    for bounds, value in ((result["lower_bounds"], lower), (result["upper_bounds"], upper)):
        encoded = None if value is None else bound_bytes(f.type, value)
        if encoded is not None:
            bounds[f.id] = encoded


def _min_max(array: pa.Array) -> tuple[object, object]:
    """Return the least and greatest value as internal values. The array contains no nulls and no NaN."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _min_max(array.storage)
    if pa.types.is_fixed_size_binary(kind):
        values = array.to_pylist()
        return min(values), max(values)
    both = pc.min_max(array)
    if pa.types.is_temporal(kind):
        return both["min"].value, both["max"].value
    return both["min"].as_py(), both["max"].as_py()


def _truncate_upper_bound(value: Any, length: int) -> object:
    """Return the shortest text or bytes that follows the first `length` units and is not below `value`.

    Returns:
        The bound, or None if there is none.
    """
    if len(value) <= length:
        return value
    for end in range(length, 0, -1):
        last = value[end - 1]
        if isinstance(last, int) and last < 0xFF:
            return value[: end - 1] + bytes([last + 1])
        if isinstance(last, str) and ord(last) < 0x10FFFF:
            # Surrogates are not characters.
            return value[: end - 1] + ("\ue000" if last == "\ud7ff" else chr(ord(last) + 1))
    return None


FileFormat: TypeAlias = Literal["parquet", "avro", "orc"]


@dataclass(slots=True, eq=False)
class IcebergFile:
    """A handle of a data or delete file on disk, committed or not. Handles are compared by identity.

    Attributes:
        file: The path on disk.
        spec_id: The id of the partition spec under which the file was written.
        data_file: The `data_file` struct that the manifest will hold, by the names in the specification. Maps by field
            id are lists of {"key", "value"}. Edit it before the commit to make an unusual entry.
    """

    file: Path
    spec_id: int
    data_file: dict[str, Any]

    @property
    def path(self) -> str:
        """The recorded path."""
        return str(self.data_file["file_path"])

    @property
    def content(self) -> int:
        """0 for data, 1 for position deletes and deletion vectors, 2 for equality deletes."""
        return int(self.data_file["content"])

    @property
    def record_count(self) -> int:
        """The number of rows in the file. For a deletion vector, the number of positions."""
        return int(self.data_file["record_count"])

    @property
    def key(self) -> tuple[str, int | None]:
        """The identity of the file in manifests: its path and, for a deletion vector, the offset."""
        return self.path, self.data_file.get("content_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFileOptions:
    """Options of a data or delete file.

    Attributes:
        format: The file format.
        compression: The codec, by the name in the format's library (`zstd`, `snappy`, `none`; for Avro `deflate`,
            `zstandard`, `null`). None for the default.
        field_ids: If true, the file carries field ids.
        row_group_size: The maximum number of rows per row group.
        statistics: The ids of the leaf fields that get column statistics. None for all.
        bounds_length: The length to which bounds are cut outward. None for uncut bounds.
        physical: Other types of top-level columns in Parquet files, by pyarrow's names: {"id": "int16", "at":
            "timestamp[ms]"}.
        legacy_forms: Older physical forms of types in a Parquet file, from `harness.writing.legacy_parquet.FORMS`.
        footer: Key-value pairs of a Parquet footer.
        writer_options: Arguments of `pyarrow.parquet.write_table` or `pyarrow.orc.write_table`.
    """

    format: FileFormat = "parquet"
    compression: str | None = None
    field_ids: bool = True
    row_group_size: int | None = None
    statistics: Collection[int] | None = None
    bounds_length: int | None = None
    physical: Mapping[str, str] = field(default_factory=dict)
    legacy_forms: Sequence[str] = ()
    footer: Mapping[str, str] = field(default_factory=dict)
    writer_options: Mapping[str, object] = field(default_factory=dict)


def stored_rows(schema: Schema, rows: Sequence[Mapping[str, object]]) -> list[dict[int, object]]:
    """Return Python rows by column name as stored rows by field id."""
    struct = StructType(schema.fields)
    return [stored_value(struct, row) for row in rows]


def write_file(
    path: Path, fields: Sequence[Field], rows: Sequence[dict[int, CellValue]] | pa.Table, options: IcebergFileOptions
) -> dict[str, object]:
    """Write the rows to a file.

    Args:
        path: The file on disk.
        fields: The columns.
        rows: Stored rows, which get the physical types that the specification defines for `fields`; or an Arrow table,
            which is written unchanged (Parquet and ORC) and gets its ids by the names of `fields`.
        options: The options of the file.

    Returns:
        The parts of the `data_file` struct that depend on the content of the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    table = rows if isinstance(rows, pa.Table) else arrow_table(fields, rows, "none")
    facts: dict[str, object] = {"file_format": options.format.upper(), "record_count": table.num_rows}
    match options.format:
        case "parquet":
            facts |= _write_parquet(path, fields, rows, options)
        case "orc":
            _write_orc(path, fields, rows, options)
        case "avro":
            _write_avro(path, fields, rows, options)
    statistics = statistics_of(table, fields, only=options.statistics, bounds_length=options.bounds_length)
    return {**facts, "file_size_in_bytes": path.stat().st_size, **statistics}


def _write_parquet(
    path: Path, fields: Sequence[Field], rows: Sequence[dict[int, CellValue]] | pa.Table, options: IcebergFileOptions
) -> dict[str, object]:
    if isinstance(rows, pa.Table):
        table = with_field_ids(rows, fields) if options.field_ids else rows
    else:
        table = arrow_table(fields, rows, "parquet" if options.field_ids else "none")
    if not table.schema:
        write_columnless_parquet(path, group_sizes(table.num_rows, options.row_group_size), {})
        return {"column_sizes": None, "split_offsets": None}
    table = _with_types(table, options.physical).replace_schema_metadata(dict(options.footer))
    settings = {
        "compression": options.compression or default_codec("zstd", "none"),
        "row_group_size": options.row_group_size,
        "store_schema": False,
        **options.writer_options,
    }
    check_forms(options.legacy_forms)
    schema = table.schema
    if options.legacy_forms:
        table = legacy_table(table, options.legacy_forms)
        settings["write_statistics"] = False  # the order of byte strings differs from the order of decimals
    with path.open("wb") as out:  # an open file, so that `writer_options` cannot redirect the output
        pq.write_table(table, out, **settings)
    if options.legacy_forms:
        rewrite_footer(path, schema, options.legacy_forms)
    footer = pq.read_metadata(path)
    ids = _leaf_ids(table.schema)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    sizes: dict[int, int] = {}
    for group in groups:
        for index, id_ in enumerate(ids):
            if id_ is not None:
                sizes[id_] = sizes.get(id_, 0) + group.column(index).total_compressed_size
    starts = [group.column(0) for group in groups]
    offsets = [c.dictionary_page_offset if c.has_dictionary_page else c.data_page_offset for c in starts]
    return {"column_sizes": int_map(sizes), "split_offsets": offsets or None}


def _with_types(table: pa.Table, types: Mapping[str, str]) -> pa.Table:
    """Return the table with some columns cast. Time zones stay."""
    schema = table.schema
    for name, text in types.items():
        index = schema.get_field_index(name)
        if index < 0:
            raise RequestError(f"No column {name!r} to be stored as {text}: the file has {', '.join(schema.names)}")
        type_, zone = pa.type_for_alias(text), getattr(schema.field(index).type, "tz", None)
        if zone is not None:
            type_ = pa.timestamp(type_.unit, zone)
        schema = schema.set(index, schema.field(index).with_type(type_))
    return table.cast(schema)


def _leaf_ids(schema: pa.Schema) -> list[int | None]:
    """Return the field id of every Parquet leaf column in file order. The parts of a variant have the variant's id."""

    def visit(f: pa.Field, inherited: int | None) -> list[int | None]:
        text = (f.metadata or {}).get(b"PARQUET:field_id")
        id_ = inherited if text is None else int(text)
        kind = f.type
        if pa.types.is_map(kind):
            return [*visit(kind.key_field, id_), *visit(kind.item_field, id_)]
        if pa.types.is_struct(kind):
            return [leaf for child in kind for leaf in visit(child, id_)]
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return visit(kind.value_field, id_)
        return [id_]

    return [leaf for f in schema for leaf in visit(f, None)]


def _write_orc(
    path: Path, fields: Sequence[Field], rows: Sequence[dict[int, CellValue]] | pa.Table, options: IcebergFileOptions
) -> None:
    from pyarrow import orc

    table = rows if isinstance(rows, pa.Table) else arrow_table(fields, rows, "orc" if options.field_ids else "none")
    if not table.schema:
        write_columnless_orc(path, table.num_rows)
        return
    settings = {"compression": options.compression or "uncompressed", **options.writer_options}
    orc.write_table(table, path, **settings)


def _write_avro(
    path: Path, fields: Sequence[Field], rows: Sequence[dict[int, CellValue]] | pa.Table, options: IcebergFileOptions
) -> None:
    if isinstance(rows, pa.Table):
        rows = stored_rows(Schema(fields=tuple(fields)), rows.to_pylist())
    avro_fields = [f for f in fields if not isinstance(f.type, UnknownType)]
    schema = avro_schema("table", fields, ids=options.field_ids)
    codec = options.compression or default_codec("deflate", "null")
    AvroDocument(schema, [avro_row(avro_fields, row) for row in rows], {}, codec).write(path)


def base_data_file(content: int, path: str, partition: Mapping[str, object]) -> dict[str, Any]:
    """Return the parts of a `data_file` struct that do not depend on the content of the file."""
    return {
        "content": content,
        "file_path": path,
        "partition": dict(partition),
        "block_size_in_bytes": 67_108_864,  # required in v1, ignored by readers
        "sort_order_id": 0 if content == 0 else None,
    }


MAGIC = b"PFA1"
_BITMAP_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to be written.

    Attributes:
        data: The stored bytes.
        footer: The entry in the footer, without offset and length.
    """

    data: bytes
    footer: Mapping[str, Any]


def deletion_vector(data_file: str, positions: Iterable[int]) -> Blob:
    """Return the deletion vector of the data file with a recorded path, from 0-based positions of deleted rows."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    payload = _BITMAP_MAGIC + bitmap.serialize()
    data = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    footer = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": data_file, "cardinality": str(len(bitmap))},
    }
    return Blob(data, footer)


def write_puffin(path: Path, blobs: Iterable[Blob]) -> list[tuple[int, int]]:
    """Write a Puffin file and return the offset and length of every blob, in order."""
    body = bytearray(MAGIC)
    ranges = []
    blob_entries = []
    for blob in blobs:
        ranges.append((len(body), len(blob.data)))
        blob_entries.append({**blob.footer, "offset": len(body), "length": len(blob.data)})
        body += blob.data
    payload = json.dumps({"blobs": blob_entries, "properties": {"created-by": "harness"}}).encode()
    body += MAGIC + payload + struct.pack("<i", len(payload)) + bytes(4) + MAGIC
    path.write_bytes(body)
    return ranges


PATH_ID = 2147483546
POSITION_ID = 2147483545
ROW_ID = 2147483544


def position_columns(schema: Schema | None) -> tuple[Field, ...]:
    """Return the columns of a position delete file. `schema` adds the optional copy of the deleted row."""
    columns = (
        Field(id=PATH_ID, name="file_path", type=StringType(), required=True),
        Field(id=POSITION_ID, name="pos", type=IntegerType(64), required=True),
    )
    if schema is None:
        return columns
    return (*columns, Field(id=ROW_ID, name="row", type=StructType(schema.fields), required=True))


def position_rows(
    deletes: Iterable[tuple[IcebergFile | str, int]], rows: Sequence[Mapping[int, object]] | None
) -> list[dict[int, object]]:
    """Return the rows of a position delete file in the given order. `rows` are copies of the deleted rows."""
    result: list[dict[int, object]] = [
        {PATH_ID: target if isinstance(target, str) else target.path, POSITION_ID: position}
        for target, position in deletes
    ]
    for row, copied in zip(result, rows or (), strict=rows is not None):
        row[ROW_ID] = copied
    return result


def sorted_positions(deletes: Iterable[tuple[IcebergFile | str, int]]) -> list[tuple[IcebergFile | str, int]]:
    """Return the deletes sorted by path and position, as the specification requires in a file."""
    return sorted(deletes, key=lambda d: (d[0] if isinstance(d[0], str) else d[0].path, d[1]))


def shared_partition(
    document: TableDocument, default_spec_id: int, targets: Sequence[IcebergFile | str]
) -> tuple[int, dict[str, Any]]:
    """Return the spec id and partition tuple that all data files share.

    Raises:
        RequestError: The data files differ in them, or are given by path.
    """
    places = [(t.spec_id, t.data_file["partition"]) for t in targets if isinstance(t, IcebergFile)]
    if not places and not document.specs[default_spec_id]:
        return default_spec_id, {}
    if not places or any(repr(p) != repr(places[0]) for p in places):
        raise RequestError(
            "Cannot determine the partition of the delete file: its data files are in several partitions, or were "
            "given by path; write one delete file per partition, or set `partition` and `spec_id`"
        )
    return places[0]


def equality_columns(
    schema: Schema, columns: Sequence[str | int], extra: Sequence[str | int]
) -> tuple[tuple[int, ...], tuple[Field, ...]]:
    """Return the equality ids in the given order, and the columns of the delete file.

    The columns are the keys and `extra`, and all are optional.
    """
    ids = tuple(c if isinstance(c, int) else find_field(schema, c).id for c in columns)
    more = [c if isinstance(c, int) else find_field(schema, c).id for c in extra]
    return ids, project(schema.fields, {*ids, *more})


def write_vectors(file: Path, recorded: str, positions: Mapping[IcebergFile, Iterable[int]]) -> tuple[IcebergFile, ...]:
    """Write a Puffin file with one deletion vector per data file, and return their handles in order."""
    file.parent.mkdir(parents=True, exist_ok=True)
    dead = {target: sorted(set(rows)) for target, rows in positions.items()}
    places = write_puffin(file, [deletion_vector(target.path, rows) for target, rows in dead.items()])
    return tuple(
        IcebergFile(
            file,
            target.spec_id,
            {
                **base_data_file(1, recorded, target.data_file["partition"]),
                "file_format": "PUFFIN",
                "record_count": len(rows),
                "file_size_in_bytes": file.stat().st_size,
                "referenced_data_file": target.path,
                "content_offset": offset,
                "content_size_in_bytes": length,
            },
        )
        for (target, rows), (offset, length) in zip(dead.items(), places, strict=True)
    )
