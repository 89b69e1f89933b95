"""Data files of Delta tables with their statistics, and deletion vectors.

Spec: Delta, "Per-file Statistics", "Deletion Vector Format", "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap, BitMap64

from harness.errors import RequestError
from harness.metadata.model.schema import (
    CellValue,
    Field,
    FloatType,
    StructType,
    UnknownType,
    VariantType,
    children,
)
from harness.writing.arrow import arrow_table, group_sizes, with_field_ids, write_columnless_parquet
from harness.writing.delta.types import JsonObject
from harness.writing.delta.values import encoded_path, json_text, statistics_text
from harness.writing.iceberg.evolution import with_children
from harness.writing.iceberg.types import stored_value
from harness.writing.legacy_parquet import check_forms, legacy_table, rewrite_footer
from harness.writing.local_files import default_codec, set_time

_ASCII_FILLER = "\x7f"
_FILLER = "\U0010ffff"


def statistics_of(table: pa.Table, fields: Sequence[Field], bounds_length: int) -> JsonObject:
    """Return the statistics of a file.

    Args:
        table: The content of the file.
        fields: The columns, under their names in the file. A column that is not in the table gets no statistics.
        bounds_length: The number of characters to which string bounds are cut.

    Returns:
        The statistics as JSON values.
    """
    lower: JsonObject = {}
    upper: JsonObject = {}
    nulls: JsonObject = {}
    for f in fields:
        index = table.schema.get_field_index(f.name)
        if index >= 0:
            column = table.column(index)
            array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            _collect(f, array, (lower, upper, nulls), bounds_length)
    return {
        "numRecords": table.num_rows,
        "minValues": lower,
        "maxValues": upper,
        "nullCount": nulls,
        "tightBounds": True,
    }


def upper_bound(text: str, length: int) -> str:
    """Return a text of about `length` characters that is not below any text with the same beginning (delta F6)."""
    end = length
    while end < len(text) and text[end] == _FILLER:
        end += 1
    if end >= len(text):
        return text
    return text[:end] + (_ASCII_FILLER if text[end] < _ASCII_FILLER else _FILLER)


def _collect(f: Field, array: pa.Array, into: tuple[JsonObject, JsonObject, JsonObject], length: int) -> None:
    lower, upper, nulls = into
    match f.type:
        case StructType(fields=fields):
            inner: tuple[JsonObject, JsonObject, JsonObject] = ({}, {}, {})
            parts = dict(zip((p.name for p in array.type), array.flatten(), strict=True))
            for child in fields:
                if child.name in parts:
                    _collect(child, parts[child.name], inner, length)
            for level, statistics in zip(into, inner, strict=True):
                if statistics:
                    level[f.name] = statistics
        case UnknownType():
            pass
        case _:
            nulls[f.name] = array.null_count
            for level, bound in zip((lower, upper), _bounds(f, array.drop_null(), length), strict=True):
                if bound is not None:
                    level[f.name] = bound


def _bounds(f: Field, array: pa.Array, length: int) -> tuple[object, object]:
    kind = array.type
    if isinstance(f.type, FloatType):
        array = array.filter(pc.invert(pc.is_nan(array)))
    if len(array) == 0 or isinstance(f.type, VariantType) or pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return None, None
    both = pc.min_max(array)
    ends = [both[e].value if pa.types.is_temporal(kind) else both[e].as_py() for e in ("min", "max")]
    lower, upper = (statistics_text(f.type, stored_value(f.type, end)) for end in ends)
    if isinstance(lower, str) and pa.types.is_string(kind):
        return lower[:length], upper_bound(upper, length)
    return lower, upper


@dataclass(slots=True, eq=False)
class DeltaFile:
    """A handle of a data file on disk, committed or not. Handles are compared by identity.

    Attributes:
        file: The path on disk.
        add: The `add` action that the next commit will write. A deletion vector changes it. Edit it before the commit
            to make an unusual action.
        num_records: The number of rows in the file, including deleted rows.
        positions: 0-based positions of the rows that its deletion vector deletes.
    """

    file: Path
    add: JsonObject
    num_records: int
    positions: frozenset[int] = frozenset()

    @property
    def path(self) -> str:
        """The path as the log records it."""
        return str(self.add["path"])

    @property
    def deletion_vector(self) -> JsonObject | None:
        """The descriptor of the deletion vector. None if there is none."""
        descriptor: JsonObject | None = self.add.get("deletionVector")
        return descriptor

    def set_deletion_vector(self, descriptor: JsonObject, positions: frozenset[int]) -> None:
        """Replace the deletion vector and mark the bounds as not tight."""
        self.add = {**self.add, "deletionVector": descriptor}
        self.positions = positions
        if "stats" in self.add:
            # Change only this field, because a test may have written arbitrary text into the others.
            self.add["stats"] = self.add["stats"].replace('"tightBounds":true', '"tightBounds":false')


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFileOptions:
    """Options of a data file.

    Attributes:
        compression: The codec, by pyarrow's name.
        field_ids: If true, the file carries the ids of column mapping. None for true if the table has column mapping.
        row_group_size: The maximum number of rows per row group.
        statistics: `all`, `none`, or the logical names of the top-level columns that get statistics.
        bounds_length: The number of characters to which string bounds are cut.
        element_name: The name of list elements in the file. None for `element`.
        legacy_forms: Older physical forms of types, from `harness.writing.legacy_parquet.FORMS`.
        footer: Further key-value pairs of the footer.
        writer_options: Arguments of `pyarrow.parquet.ParquetWriter`.
    """

    compression: str = field(default_factory=lambda: default_codec("snappy", "none"))
    field_ids: bool | None = None
    row_group_size: int | None = None
    statistics: Literal["all", "none"] | Collection[str] = "all"
    bounds_length: int = 32
    element_name: str | None = None
    legacy_forms: Sequence[str] = ()
    footer: Mapping[str, str] = field(default_factory=dict)
    writer_options: Mapping[str, object] = field(default_factory=dict)


def physical_fields(fields: Sequence[Field], names: Mapping[int, str]) -> tuple[Field, ...]:
    """Return the fields under their names in a file.

    Args:
        fields: The logical fields.
        names: Names by field id. Other fields get their physical names.
    """
    return tuple(
        Field(
            id=f.id,
            name=names.get(f.id, f.physical_name or f.name),
            type=with_children(f.type, physical_fields(children(f.type), names)),
            required=f.required,
        )
        for f in fields
    )


def file_table(
    fields: Sequence[Field], rows: Sequence[dict[int, CellValue]], *, ids: Literal["ids", "none"]
) -> pa.Table:
    """Return stored rows as the columns of a file, with ids only on struct fields, as Delta writers do."""
    table = arrow_table(fields, rows, "none")
    return table if ids == "none" else with_field_ids(table, fields, elements=False)


def write_parquet(path: Path, table: pa.Table, options: DeltaFileOptions, modified_ms: int) -> None:
    """Write a table as a Parquet file with a modification time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if table.schema:
        _write_columns(path, table, options)
    else:
        write_columnless_parquet(path, group_sizes(table.num_rows, options.row_group_size), options.footer)
    set_time(path, modified_ms)


def _write_columns(path: Path, table: pa.Table, options: DeltaFileOptions) -> None:
    settings = {
        "compression": options.compression,
        "store_schema": False,
        "use_compliant_nested_type": options.element_name is None,
        **options.writer_options,
    }
    if options.element_name is not None:
        name = options.element_name
        table = table.cast(pa.schema([f.with_type(_with_element_name(f.type, name)) for f in table.schema]))
    check_forms(options.legacy_forms)
    schema = table.schema
    if options.legacy_forms:
        table = legacy_table(table, options.legacy_forms)
        settings["write_statistics"] = False  # the order of byte strings differs from the order of decimals
    # Pass an open file, so that `writer_options` cannot redirect the output.
    with path.open("wb") as out, pq.ParquetWriter(out, table.schema, **settings) as writer:
        writer.add_key_value_metadata(dict(options.footer))
        writer.write_table(table, row_group_size=options.row_group_size)
    if options.legacy_forms:
        rewrite_footer(path, schema, options.legacy_forms)


def add_action(
    recorded: str, file: Path, partition_values: Mapping[str, str | None], modified_ms: int, stats: JsonObject | None
) -> JsonObject:
    """Return the content of the `add` action of a file on disk."""
    action: JsonObject = {
        "path": recorded,
        "partitionValues": dict(partition_values),
        "size": file.stat().st_size,
        "modificationTime": modified_ms,
        "dataChange": True,
    }
    if stats is not None:
        action["stats"] = json_text(stats)
    return action


def table_statistics(
    table: pa.Table, logical: Sequence[Field], physical: Sequence[Field], options: DeltaFileOptions
) -> JsonObject | None:
    """Return the statistics of a file's content, or None if the options request none.

    Args:
        table: The content of the file.
        logical: The fields under their logical names.
        physical: The same fields under their names in the log.
        options: The options of the file.
    """
    if options.statistics == "none":
        return None
    names = None if options.statistics == "all" else set(options.statistics)
    fields = [p for f, p in zip(logical, physical, strict=True) if names is None or f.name in names]
    return statistics_of(table, fields, options.bounds_length)


def _with_element_name(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type with a name for the elements of its lists."""
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_name(name).with_type(_with_element_name(element.type, name)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_field, item.with_type(_with_element_name(item.type, name)))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_with_element_name(f.type, name)) for f in kind])
    return kind


VectorStorage: TypeAlias = Literal["u", "i", "p"]
BitmapFormat: TypeAlias = Literal["portable", "native"]
PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(content: bytes) -> str:
    """Return bytes in Z85 encoding, after padding them with zeros to a multiple of four."""
    content += bytes(-len(content) % 4)
    text = ""
    for (number,) in struct.iter_unpack(">I", content):
        digits = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = Z85[digit] + digits
        text += digits
    return text


def bitmap_bytes(positions: Iterable[int], form: BitmapFormat) -> bytes:
    """Return the serialized bitmap of 0-based positions, including its magic number."""
    if form == "portable":
        return struct.pack("<i", PORTABLE_MAGIC) + BitMap64(positions).serialize()
    buckets: dict[int, BitMap] = {}
    for position in positions:
        buckets.setdefault(position >> 32, BitMap()).add(position & 0xFFFFFFFF)
    parts = [buckets.get(key, BitMap()).serialize() for key in range(max(buckets, default=-1) + 1)]
    body = b"".join(struct.pack("<i", len(part)) + part for part in parts)
    return struct.pack("<ii", NATIVE_MAGIC, len(parts)) + body


def vector_file_bytes(payloads: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """Return the content of a file of deletion vectors, and the offset of each vector."""
    content = b"\x01"
    offsets = []
    for payload in payloads:
        offsets.append(len(content))
        content += struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    return content, offsets


def write_vectors(
    root: Path,
    name: uuid.UUID,
    time_ms: int,
    positions: Iterable[Iterable[int]],
    *,
    storage: VectorStorage = "u",
    prefix: str = "",
    form: BitmapFormat = "portable",
) -> list[dict[str, Any]]:
    """Write a deletion vector for each set of positions, all into one file unless they are inline.

    Args:
        root: The table's directory.
        name: The UUID in the file's name.
        time_ms: The modification time in milliseconds since 1970-01-01 UTC.
        positions: For each vector, the 0-based positions of the deleted rows.
        storage: The storage type: `u` for a relative path, `p` for an absolute path, `i` for inline.
        prefix: The directory of the file, relative to the root.
        form: The serialization of the bitmaps.

    Returns:
        The descriptor of each vector, in order.

    Raises:
        RequestError: The prefix contains a slash.
    """
    sets = [sorted(set(s)) for s in positions]
    payloads = [bitmap_bytes(s, form) for s in sets]
    facts = [{"sizeInBytes": len(p), "cardinality": len(s)} for p, s in zip(payloads, sets, strict=True)]
    if storage == "i":
        return [{"storageType": "i", "pathOrInlineDv": z85(p), **fact} for p, fact in zip(payloads, facts, strict=True)]
    if "/" in prefix:
        raise RequestError(
            f"Cannot use the prefix {prefix!r} for a deletion vector: expected a single folder name without /"
        )
    content, offsets = vector_file_bytes(payloads)
    path = root / prefix / f"deletion_vector_{name}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    set_time(path, time_ms)
    spelled = prefix + z85(name.bytes) if storage == "u" else f"file://{encoded_path(str(path.absolute()))}"
    return [
        {"storageType": storage, "pathOrInlineDv": spelled, "offset": offset, **fact}
        for offset, fact in zip(offsets, facts, strict=True)
    ]
