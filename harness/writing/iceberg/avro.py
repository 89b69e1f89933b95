"""Avro for the builder: schemas of data files, manifests, and manifest lists; editable files; the file store.

Spec: Iceberg, "Appendix A: Avro", "Manifests", "Manifest Lists".
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import fastavro
import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import (
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)
from harness.writing.local_files import FIRST_TIMESTAMP_MS, check_inside, default_codec, derived_uuid

_SYNC = b"harness sync mark"[:16]
_SYNC_BYTES = len(_SYNC)


@dataclass(slots=True)
class AvroDocument:
    """An Avro file in memory, as it was or will be written. Tests edit it to make unusual or broken files.

    Attributes:
        schema: The Avro schema.
        records: The records, in order. Temporal values are ints.
        header: The file metadata, without Avro's own keys.
        codec: The codec, by Avro's name.
    """

    schema: dict[str, Any]
    records: list[dict[str, Any]]
    header: dict[str, str] = field(default_factory=dict)
    codec: str = field(default_factory=lambda: default_codec("deflate", "null"))

    def write(self, path: Path) -> int:
        """Write the file and return its size in bytes.

        Raises:
            RequestError: The codec is `zstandard`, and the package that fastavro needs for it is missing.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            write_avro(out, self.schema, self.records, codec=self.codec, metadata=self.header, sync_marker=_SYNC)
        return path.stat().st_size


def write_avro(out: IO[bytes], schema: Any, records: Iterable[object], *, codec: str, **writer_options: Any) -> None:
    """Write an Avro file.

    Args:
        out: The binary stream to write to.
        schema: The Avro schema.
        records: The records.
        codec: The codec, by Avro's name. Snappy is implemented here, because fastavro needs another package for it.
        writer_options: Arguments of `fastavro.writer`.

    Raises:
        RequestError: The codec is `zstandard`, and the package that fastavro needs for it is missing.
    """
    if codec == "snappy":
        _write_snappy(out, schema, records, **writer_options)
        return
    try:
        fastavro.writer(out, schema, records, codec=codec, **writer_options)
    except ValueError as error:
        if "you need to install" not in str(error):
            raise
        raise RequestError(f"Cannot write Avro codec {codec!r}: pip install 'lakeharness[suite]'") from error


def _write_snappy(out: IO[bytes], schema: Any, records: Iterable[object], **writer_options: Any) -> None:
    plain = io.BytesIO()
    fastavro.writer(plain, schema, records, **writer_options)
    plain.seek(0)
    blocks: Any = fastavro.block_reader(plain)  # fastavro's type annotations lack the bytes of a block
    header = {name: text.encode() for name, text in (blocks.metadata | {"avro.codec": "snappy"}).items()}
    sync = plain.getvalue()[-_SYNC_BYTES:]
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, header)
    out.write(sync)
    for block in blocks:
        data = block.bytes_.read()
        packed = pa.Codec("snappy").compress(data, asbytes=True)
        fastavro.schemaless_writer(out, "long", block.num_records)
        # Avro appends a big-endian CRC-32 of the uncompressed bytes to the snappy data.
        fastavro.schemaless_writer(out, "bytes", packed + zlib.crc32(data).to_bytes(4, "big"))
        out.write(sync)


def avro_schema(name: str, fields: Iterable[Field], *, ids: bool = True) -> dict[str, object]:
    """Return the record schema of data files with some columns.

    Args:
        name: The name of the record.
        fields: The columns. Columns of type unknown are left out.
        ids: If true, the schema carries field ids.
    """
    schema = _record(name, [f for f in fields if not isinstance(f.type, UnknownType)])
    return schema if ids else _without_ids(schema)


def avro_value(type_: Type, value: Any) -> object:
    """Return a stored value in the form that fastavro writes under `avro_schema`."""
    if value is None:
        return None
    match type_:
        case StructType(fields=fields):
            return avro_row(fields, value)
        case ListType(element=element):
            return [avro_value(element.type, v) for v in value]
        case MapType(key=key, value=item) if isinstance(key.type, StringType):
            return {k: avro_value(item.type, v) for k, v in value}
        case MapType(key=key, value=item):
            return [{"key": avro_value(key.type, k), "value": avro_value(item.type, v)} for k, v in value]
        case _:
            return value


def avro_row(fields: Iterable[Field], row: Mapping[int, object]) -> dict[str, object]:
    """Return a stored row by Avro field names."""
    return {avro_name(f.name): avro_value(f.type, row.get(f.id)) for f in fields}


def avro_name(name: str) -> str:
    """Return a name with every character that Avro forbids escaped as Iceberg does it (iceberg 2.16)."""
    safe = re.sub(r"[^A-Za-z0-9_]", lambda m: f"_x{ord(m[0]):X}", name)
    return safe if re.match(r"[A-Za-z_]", safe) else f"_{safe}"


def manifest_schema(version: int, partition: Sequence[Field]) -> dict[str, Any]:
    """Return the schema of manifest entries.

    Args:
        version: The format version.
        partition: The fields of the partition tuple.
    """
    snapshot_id = _avro_field("snapshot_id", 1, "long", optional=version > 1)
    numbers = (
        [] if version == 1 else [_optional("sequence_number", 3, "long"), _optional("file_sequence_number", 4, "long")]
    )
    data_file = {"type": "record", "name": "r2", "fields": _data_file_fields(version, partition)}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [_required("status", 0, "int"), snapshot_id, *numbers, _required("data_file", 2, data_file)],
    }


def manifest_list_schema(version: int) -> dict[str, object]:
    """Return the schema of the entries of a manifest list, for a format version."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _required("contains_null", 509, "boolean"),
            _optional("contains_nan", 518, "boolean"),
            _optional("lower_bound", 510, "bytes"),
            _optional("upper_bound", 511, "bytes"),
        ],
    }
    numbers = [("content", 517, "int"), ("sequence_number", 515, "long"), ("min_sequence_number", 516, "long")]
    counts = [
        *((f"{kind}_files_count", 504 + i, "int") for i, kind in enumerate(("added", "existing", "deleted"))),
        *((f"{kind}_rows_count", 512 + i, "long") for i, kind in enumerate(("added", "existing", "deleted"))),
    ]
    fields = [
        _required("manifest_path", 500, "string"),
        _required("manifest_length", 501, "long"),
        _required("partition_spec_id", 502, "int"),
        *([] if version == 1 else [_required(*n) for n in numbers]),
        _required("added_snapshot_id", 503, "long"),
        *(_avro_field(*c, optional=version == 1) for c in counts),
        _optional("partitions", 507, {"type": "array", "items": summary, "element-id": 508}),
        _optional("key_metadata", 519, "bytes"),
        *([_optional("first_row_id", 520, "long")] if version >= 3 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def manifest_header(version: int, schema_json: Any, spec_id: int, fields_json: object, content: str) -> dict[str, str]:
    """Return the key-value metadata of a manifest.

    Args:
        version: The format version.
        schema_json: The table schema as JSON.
        spec_id: The id of the partition spec.
        fields_json: The fields of the partition spec as JSON.
        content: `data` or `deletes`.
    """
    header = {
        "schema": json.dumps(schema_json),
        "schema-id": str(schema_json["schema-id"]),
        "partition-spec": json.dumps(fields_json),
        "partition-spec-id": str(spec_id),
        "format-version": str(version),
    }
    return header if version == 1 else {**header, "content": content}


def int_map(values: Mapping[int, object] | None) -> list[dict[str, object]] | None:
    """Return a mapping by field id as the key-value records that Avro stores, or None if it is empty or None."""
    return [{"key": k, "value": v} for k, v in values.items()] if values else None


def _data_file_fields(version: int, partition: Sequence[Field]) -> list[dict[str, object]]:
    maps = [
        ("column_sizes", 108, 117, "long"),
        ("value_counts", 109, 119, "long"),
        ("null_value_counts", 110, 121, "long"),
        ("nan_value_counts", 137, 138, "long"),
        ("lower_bounds", 125, 126, "bytes"),
        ("upper_bounds", 128, 129, "bytes"),
    ]
    fields = [
        *([] if version == 1 else [_required("content", 134, "int")]),
        _required("file_path", 100, "string"),
        _required("file_format", 101, "string"),
        _required("partition", 102, _record("r102", partition)),
        _required("record_count", 103, "long"),
        _required("file_size_in_bytes", 104, "long"),
        *([_required("block_size_in_bytes", 105, "long")] if version == 1 else []),
        *(_optional(name, id_, _int_map(key_id, item)) for name, id_, key_id, item in maps),
        _optional("key_metadata", 131, "bytes"),
        _optional("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}),
    ]
    if version >= 2:
        fields.append(_optional("equality_ids", 135, {"type": "array", "items": "int", "element-id": 136}))
    fields.append(_optional("sort_order_id", 140, "int"))
    if version >= 3:
        fields.append(_optional("first_row_id", 142, "long"))
    if version >= 2:
        fields.append(_optional("referenced_data_file", 143, "string"))
    if version >= 3:
        fields += [_optional("content_offset", 144, "long"), _optional("content_size_in_bytes", 145, "long")]
    return fields


def _int_map(key_id: int, item: str) -> dict[str, object]:
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{key_id + 1}",
        "fields": [_required("key", key_id, "int"), _required("value", key_id + 1, item)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _required(name: str, id_: int, type_: object) -> dict[str, object]:
    return {"name": name, "type": type_, "field-id": id_}


def _optional(name: str, id_: int, type_: object) -> dict[str, object]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


def _avro_field(name: str, id_: int, type_: object, *, optional: bool) -> dict[str, object]:
    return _optional(name, id_, type_) if optional else _required(name, id_, type_)


def _record(name: str, fields: Iterable[Field]) -> dict[str, object]:
    out = []
    for f in fields:
        entry = _avro_field(avro_name(f.name), f.id, _avro_type(f), optional=not f.required)
        out.append(entry if entry["name"] == f.name else {**entry, "iceberg-field-name": f.name})
    return {"type": "record", "name": name, "fields": out}


def _nullable(f: Field) -> object:
    return _avro_type(f) if f.required else ["null", _avro_type(f)]


def _avro_type(f: Field) -> object:
    match f.type:
        case StructType(fields=fields):
            return _record(f"r{f.id}", [child for child in fields if not isinstance(child.type, UnknownType)])
        case ListType(element=element):
            return {"type": "array", "items": _nullable(element), "element-id": element.id}
        case MapType(key=key, value=value) if isinstance(key.type, StringType):
            return {"type": "map", "values": _nullable(value), "key-id": key.id, "value-id": value.id}
        case MapType(key=key, value=value):
            pair = _record(f"k{key.id}_v{value.id}", (key, value))
            return {"type": "array", "items": pair, "logicalType": "map"}
        case VariantType():
            parts = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
            return {"type": "record", "name": f"r{f.id}", "fields": parts, "logicalType": "variant"}
        case _:
            return _avro_primitive(f.type, f.id)


_PRIMITIVES: dict[str, object] = {
    **dict.fromkeys(("boolean", "int", "long", "float", "double"), None),
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "binary": "bytes",
    "unknown": "null",
}
"""Avro types by the names of Iceberg types. None means the same name."""


def _avro_primitive(type_: Type, id_: int) -> object:
    match type_:
        case TimestampType(unit=unit, utc=utc):
            name = "timestamp-nanos" if unit == "ns" else "timestamp-micros"
            return {"type": "long", "logicalType": name, "adjust-to-utc": utc}
        case DecimalType(precision=precision, scale=scale):
            size = ((10**precision).bit_length() + 8) // 8
            fixed = {"type": "fixed", "size": size, "name": f"decimal_{id_}"}
            return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
        case UuidType():
            return {"type": "fixed", "size": 16, "name": f"uuid_{id_}", "logicalType": "uuid"}
        case FixedType(length=length):
            return {"type": "fixed", "size": length, "name": f"fixed_{id_}"}
        case GeometryType() | GeographyType():
            return "bytes"
        case _:
            return _PRIMITIVES.get(str(type_), "string") or str(type_)


def _without_ids(schema: object) -> Any:
    match schema:
        case dict():
            ids = ("field-id", "element-id", "key-id", "value-id", "iceberg-field-name")
            return {k: _without_ids(v) for k, v in schema.items() if k not in ids}
        case list():
            return [_without_ids(v) for v in schema]
        case _:
            return schema


MetadataNames: TypeAlias = Literal["version", "uuid"]
MetadataCodec: TypeAlias = Literal["none", "gzip"]


class TableStore:
    """A store that writes metadata files, manifest lists, and manifests under counted names.

    It keeps the Avro files in memory, so that they can be edited.

    Attributes:
        directory: The table's directory on disk.
        location: The prefix of recorded paths.
        metadata_path: The newest metadata file on disk.
        allowed_directory: The directory that all files must be in. None for no restriction.
    """

    def __init__(self, directory: Path, location: str, names: MetadataNames, codec: MetadataCodec) -> None:
        self.directory = directory
        self.location = location
        self.metadata_path = directory
        self.allowed_directory: Path | None = None
        self._names = names
        self._codec = codec
        self._avro: dict[str, AvroDocument] = {}
        self._versions = 0

    def file_of(self, recorded: str) -> Path:
        """Return the path on disk of a file with a recorded path.

        Raises:
            RequestError: The path is outside the allowed directory.
        """
        prefix = f"{self.location}/"
        file = self.directory / recorded.removeprefix(prefix) if recorded.startswith(prefix) else Path(recorded)
        return file if self.allowed_directory is None else check_inside(self.allowed_directory, file)

    def recorded_path(self, path: str) -> str:
        """Return the recorded path of a file, given an absolute path or a path relative to the location."""
        return path if Path(path).is_absolute() else f"{self.location}/{path}"

    def now_ms(self) -> int:
        """Return the time of the next metadata file, one second after the previous one."""
        return FIRST_TIMESTAMP_MS + 1000 * self._versions

    def load(self, recorded: str) -> AvroDocument:
        """Return a manifest or manifest list that was stored, by its recorded path."""
        return self._avro[recorded]

    def store_manifest(self, document: AvroDocument) -> tuple[str, int]:
        """Write a manifest and return its recorded path and length."""
        return self._store(document, f"{derived_uuid(f'manifest {len(self._avro)}')}-m0.avro")

    def store_list(self, document: AvroDocument, snapshot_id: int) -> str:
        """Write a manifest list and return its recorded path."""
        return self._store(document, f"snap-{snapshot_id}-1-{derived_uuid(f'list {len(self._avro)}')}.avro")[0]

    def edit(self, recorded: str, change: Callable[[AvroDocument], object]) -> None:
        """Change a stored manifest or manifest list in place and rewrite its file."""
        change(self._avro[recorded])
        self._avro[recorded].write(self.file_of(recorded))

    def save_version(self, doc: dict[str, Any]) -> None:
        """Write the next metadata file, record the previous one in its log, and update the version hint."""
        if self._versions:
            previous = self.recorded_path(f"metadata/{self.metadata_path.name}")
            entry = {"timestamp-ms": doc["last-updated-ms"], "metadata-file": previous}
            doc.setdefault("metadata-log", []).append(entry)
        # Iceberg in Java refuses a snapshot log with an entry after the table's last update.
        times = (entry["timestamp-ms"] for entry in doc.get("snapshot-log", ()))
        doc["last-updated-ms"] = max((self.now_ms(), *times))
        number = f"{self._versions:05d}-{derived_uuid(f'metadata {self._versions}')}"
        self._versions += 1
        stem = number if self._names == "uuid" else f"v{self._versions}"
        ending = ".gz.metadata.json" if self._codec == "gzip" else ".metadata.json"
        self.metadata_path = self.directory / "metadata" / f"{stem}{ending}"
        self.rewrite_version(doc)
        if self._names == "version":
            (self.directory / "metadata" / "version-hint.text").write_text(str(self._versions), encoding="utf-8")

    def rewrite_version(self, doc: dict[str, Any]) -> None:
        """Write the document to the newest metadata file."""
        self.metadata_path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(doc, indent=1).encode()
        self.metadata_path.write_bytes(gzip.compress(content, mtime=0) if self._codec == "gzip" else content)

    def _store(self, document: AvroDocument, name: str) -> tuple[str, int]:
        path = self.recorded_path(f"metadata/{name}")
        self._avro[path] = document
        return path, document.write(self.file_of(path))
