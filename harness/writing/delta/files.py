"""Data files of Delta tables with their statistics, and deletion vectors: rows in, files and their actions out.

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
    """The statistics of a file with the columns of `fields`; a column that the table lacks has none."""
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
    """A text of about `length` characters that is not below any text that starts like this one (delta F6)."""
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
            for level, found in zip(into, inner, strict=True):
                if found:
                    level[f.name] = found
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
    """A data file on disk, committed or not. Handles are compared by identity.

    file: where it is on disk. add: its `add` action as the next commit will write it; a deletion vector changes it.
    Change it before the commit to make an unusual one. positions: its rows that are deleted, by its deletion vector.
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
        """The descriptor of its deletion vector."""
        descriptor: JsonObject | None = self.add.get("deletionVector")
        return descriptor

    def set_deletion_vector(self, descriptor: JsonObject, positions: frozenset[int]) -> None:
        """Put a deletion vector in place of the one before; the bounds are no longer tight."""
        self.add = {**self.add, "deletionVector": descriptor}
        self.positions = positions
        if "stats" in self.add:
            # Only the one field changes, whatever a test wrote into the others.
            self.add["stats"] = self.add["stats"].replace('"tightBounds":true', '"tightBounds":false')


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFileOptions:
    """Options of a file.

    compression: as pyarrow names it. field_ids: whether the file carries the ids of column mapping; None: where the
    table has them. row_group_size: rows. statistics: `all`, `none`, or the top-level columns (logical names) that get
    them. bounds_length: characters that string bounds are cut to. element_name: what the file calls the elements of
    lists; None: `element`. legacy_forms: older forms of types, see `legacy_parquet.FORMS`. footer: more key-value pairs
    of the footer. writer_options: for `pyarrow.parquet.ParquetWriter`.
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
    """The fields under the names that a file gives them: those of `names`, by id, else the physical ones."""
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
    """Stored rows as the columns of a file; ids only on struct fields, as Delta writers put them."""
    table = arrow_table(fields, rows, "none")
    return table if ids == "none" else with_field_ids(table, fields, elements=False)


def write_parquet(path: Path, table: pa.Table, options: DeltaFileOptions, modified_ms: int) -> None:
    """Write the table, with this modification time."""
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
        settings["write_statistics"] = False  # those of bytes are in another order than those of decimals
    # An open file, so that no option says where to write.
    with path.open("wb") as out, pq.ParquetWriter(out, table.schema, **settings) as writer:
        writer.add_key_value_metadata(dict(options.footer))
        writer.write_table(table, row_group_size=options.row_group_size)
    if options.legacy_forms:
        rewrite_footer(path, schema, options.legacy_forms)


def add_action(
    recorded: str, file: Path, partition_values: Mapping[str, str | None], modified_ms: int, stats: JsonObject | None
) -> JsonObject:
    """The `add` action of a file that is on disk."""
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
    """The statistics of a file's content; None where none are wanted.

    physical: the fields as they are called in the log; the names in the table may differ and go by place or by name.
    """
    if options.statistics == "none":
        return None
    wanted = None if options.statistics == "all" else set(options.statistics)
    chosen = [p for f, p in zip(logical, physical, strict=True) if wanted is None or f.name in wanted]
    return statistics_of(table, chosen, options.bounds_length)


def _with_element_name(kind: pa.DataType, name: str) -> pa.DataType:
    """The type with this name for the elements of its lists."""
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
    """Bytes in Z85, after zero bytes are put at the end up to a multiple of four."""
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
    """The serialized bitmap of 0-based positions, from its magic number on."""
    if form == "portable":
        return struct.pack("<i", PORTABLE_MAGIC) + BitMap64(positions).serialize()
    buckets: dict[int, BitMap] = {}
    for position in positions:
        buckets.setdefault(position >> 32, BitMap()).add(position & 0xFFFFFFFF)
    parts = [buckets.get(key, BitMap()).serialize() for key in range(max(buckets, default=-1) + 1)]
    body = b"".join(struct.pack("<i", len(part)) + part for part in parts)
    return struct.pack("<ii", NATIVE_MAGIC, len(parts)) + body


def vector_file_bytes(payloads: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """The content of a file of deletion vectors, and the offset of each."""
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
    """Write one file with a deletion vector for each set of positions, unless they are inline; their descriptors.

    root: the table's directory. name: names the file. time_ms: its modification time.
    prefix: the folder under the root that the file stands in.
    """
    sets = [sorted(set(s)) for s in positions]
    payloads = [bitmap_bytes(s, form) for s in sets]
    facts = [{"sizeInBytes": len(p), "cardinality": len(s)} for p, s in zip(payloads, sets, strict=True)]
    if storage == "i":
        return [{"storageType": "i", "pathOrInlineDv": z85(p), **fact} for p, fact in zip(payloads, facts, strict=True)]
    if "/" in prefix:
        raise RequestError(f"Cannot use the prefix {prefix!r} for a deletion vector: it is one folder name, without /")
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
