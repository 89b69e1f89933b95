"""An Iceberg metadata file as values, and the choice of the snapshot to read (iceberg 1.7 to 1.37)."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness import errors
from harness.suite.oracle import types as dt
from harness.suite.oracle.documents import (
    Document,
    expect_type,
    mapping,
    optional_value,
    parse_json,
    required_value,
    streams,
    unzstd,
)
from harness.suite.oracle.scan import Request
from harness.suite.oracle.types import Field, Schema, walk
from harness.suite.oracle.values import ICEBERG, parse_text, to_float32, within_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecField:
    """A field of a partition spec. `source` is None if the transform has several source columns (iceberg 1.20)."""

    id: int
    name: str
    source: int | None
    transform: str


@dataclass(frozen=True, slots=True)
class Spec:
    """A partition spec."""

    id: int
    fields: tuple[SpecField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """Whether the spec has no fields or only void fields (iceberg 4.2)."""
        return all(f.transform == "void" for f in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSnapshot:
    """The parts of a snapshot that a read needs."""

    id: int
    parent_id: int | None
    operation: str | None
    manifest_list: str | None
    manifests: tuple[str, ...]
    schema_id: int | None
    is_encrypted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataValues:
    """The content of a metadata file.

    Attributes:
        schemas: Schemas by id: the current one, then the others in descending order, so that the newest definition of a
            field id comes first.
        refs: (snapshot id, whether it is a tag) by name.
        log: (time in milliseconds, snapshot id) in the history of the main branch.
    """

    file: str
    version: int
    location: str
    schemas: Mapping[int, Schema]
    specs: Mapping[int, Spec]
    snapshots: Mapping[int, ListedSnapshot]
    current: ListedSnapshot | None
    refs: Mapping[str, tuple[int, bool]]
    log: tuple[tuple[int, int], ...]
    properties: Mapping[str, str]

    @property
    def current_schema(self) -> Schema:
        """The schema of the rows."""
        return next(iter(self.schemas.values()))


def read_metadata(data: bytes, *, file: str) -> MetadataValues:
    """Parse the content of a metadata file (iceberg 1.9, 1.15)."""
    document = parse_json(_decompressed(data))
    if not isinstance(document, dict) or not document.keys() & {"format-version", "view-uuid"}:
        raise errors.TableNotFoundError("The file is not table metadata", cause="NotATable", rule="iceberg 1.15")
    if document.get("view-uuid") is not None:
        raise errors.IsAViewError("The metadata belongs to a view", rule="iceberg 1.9")
    version = required_value(document, "format-version", int)
    if version not in (1, 2, 3):
        message = f"Cannot read Iceberg format version {version}"
        raise errors.UnsupportedError(message, cause="UnsupportedVersion", rule="iceberg 1.15")
    snapshots = _snapshots(document)
    current_id = optional_value(document, "current-snapshot-id", int)
    if current_id not in (None, -1, *snapshots):
        message = f"The current snapshot {current_id} is not in the table"
        raise errors.InvalidTableError(message, cause="MissingSnapshot", rule="iceberg 1.24")
    current = snapshots.get(-1 if current_id is None else current_id)
    log = optional_value(document, "snapshot-log", list) or ()
    return MetadataValues(
        file=file,
        version=version,
        location=required_value(document, "location", str),
        schemas=_schemas(document, version),
        specs=_specs(document, version),
        snapshots=snapshots,
        current=current,
        refs=_refs(document, current),
        log=tuple((required_value(e, "timestamp-ms", int), required_value(e, "snapshot-id", int)) for e in log),
        properties=optional_value(document, "properties", dict) or {},
    )


def select_snapshot(metadata: MetadataValues, request: Request) -> tuple[ListedSnapshot | None, MetadataValues]:
    """Return the requested snapshot, None for no rows, and the metadata with the schema of the read as the current one.

    The read's definition of a field id takes precedence over newer ones: replacing a table can reuse the ids of old
    columns for columns of any type, while old snapshots remain readable (iceberg 1.32 to 1.37).
    """
    snapshot_id, timestamp_ms, ref = request.snapshot_id, request.timestamp_ms, request.ref
    if sum(selector is not None for selector in (snapshot_id, timestamp_ms, ref)) > 1:
        raise errors.RequestError("Cannot select by several of snapshot_id, timestamp_ms and ref", rule="iceberg 1.32")
    is_historic = snapshot_id is not None or timestamp_ms is not None
    if timestamp_ms is not None:
        # The latest log entry that is not after the time; the last one of several with the same time (iceberg 1.33,
        # 1.34).
        past = [(time, place, id_) for place, (time, id_) in enumerate(metadata.log) if time <= timestamp_ms]
        if not past:
            raise errors.SnapshotNotFoundError(f"There is no snapshot at {timestamp_ms}", cause="NoSnapshotAtTime")
        snapshot_id = max(past)[2]
    elif ref is not None and (ref != "main" or "main" in metadata.refs):
        if ref not in metadata.refs:
            message = f"There is no branch or tag {ref!r}"
            raise errors.SnapshotNotFoundError(message, cause="MissingSnapshot", rule="iceberg 1.37")
        # the schema of a tag applies, the schema of a branch does not (iceberg 1.35)
        snapshot_id, is_historic = metadata.refs[ref]
        if snapshot_id not in metadata.snapshots:
            message = f"Snapshot {snapshot_id} of {ref!r} is not in the table"
            raise errors.InvalidTableError(message, cause="MissingSnapshot", rule="iceberg 1.25")
    snapshot = metadata.current if snapshot_id is None else metadata.snapshots.get(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise errors.SnapshotNotFoundError("Cannot find the snapshot", cause="MissingSnapshot", snapshot=snapshot_id)
    if snapshot is not None and snapshot.is_encrypted:
        raise errors.EncryptedTableError("Cannot read an encrypted snapshot", snapshot=snapshot.id, rule="iceberg 1.31")
    if snapshot is None or not is_historic or snapshot.schema_id is None:
        return snapshot, metadata
    if snapshot.schema_id not in metadata.schemas:
        message = f"Snapshot {snapshot.id} has schema {snapshot.schema_id}, which is not in the table"
        raise errors.InvalidTableError(message, cause="MissingSchema", rule="iceberg 1.35")
    selected = {snapshot.schema_id: metadata.schemas[snapshot.schema_id]}
    return snapshot, replace(metadata, schemas={**selected, **metadata.schemas, **selected})


def _decompressed(data: bytes) -> bytes:
    """Return the decompressed content. The bytes, not the file name, show the compression (iceberg 1.7)."""
    try:
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return unzstd(data)
        return streams("gzip", data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, ValueError, zlib.error) as error:
        raise errors.CorruptFileError(f"Cannot decompress metadata file: {error}", rule="iceberg 1.7") from error


def _schemas(document: Document, version: int) -> dict[int, Schema]:
    if version == 1 and document.get("schemas") is None:
        listed = [required_value(document, "schema", dict, cause="MissingSchema")]
        current = schema_of(listed[0]).id
    else:
        listed = required_value(document, "schemas", list, cause="MissingSchema")
        current = required_value(document, "current-schema-id", int, cause="MissingSchema")
    schemas: dict[int, Schema] = {}
    for schema in (schema_of(mapping(item)) for item in listed):
        if schemas.setdefault(schema.id, schema) != schema:
            raise errors.InvalidTableError(f"Schema id {schema.id} has two definitions", rule="iceberg 1.17")
    if current not in schemas:
        raise errors.InvalidTableError(f"There is no schema {current}", cause="MissingSchema", rule="iceberg 1.17")
    return {id_: schemas[id_] for id_ in sorted(schemas, key=lambda id_: (id_ != current, -id_))}


def _specs(document: Document, version: int) -> dict[int, Spec]:
    if version == 1 and document.get("partition-specs") is None:
        return {0: Spec(0, spec_fields(required_value(document, "partition-spec", list, cause="MissingSpec")))}
    specs: dict[int, Spec] = {}
    for item in required_value(document, "partition-specs", list, cause="MissingSpec"):
        spec = Spec(required_value(item, "spec-id", int), spec_fields(required_value(item, "fields", list)))
        if specs.setdefault(spec.id, spec) != spec:
            raise errors.InvalidTableError(f"Partition spec id {spec.id} has two definitions", rule="iceberg 1.17")
    return specs


def spec_fields(fields: list[Any]) -> tuple[SpecField, ...]:
    """Return the fields of a partition spec. Fields without ids are numbered from 1000 (iceberg 1.19)."""
    ids = [optional_value(mapping(item), "field-id", int) for item in fields]
    if all(id_ is None for id_ in ids):
        ids = list(range(1000, 1000 + len(fields)))
    if None in ids or len(set(ids)) < len(ids):
        raise errors.InvalidTableError(f"Invalid partition spec: field ids {ids}", rule="iceberg 1.19")
    result = []
    for item, id_ in zip(fields, ids, strict=True):
        sources = optional_value(item, "source-ids", list) or [required_value(item, "source-id", int)]
        text = required_value(item, "transform", str)
        name = text.strip().lower()
        known_transforms = r"identity|year|month|day|hour|void|(?:bucket|truncate)\s*\[\s*0*[1-9][0-9]*\s*\]"
        is_known = re.fullmatch(known_transforms, name) and len(sources) == 1
        source = sources[0] if len(sources) == 1 else None
        transform = name.replace(" ", "") if is_known else f"unknown {text}"
        result.append(
            SpecField(id=id_ or 0, name=required_value(item, "name", str), source=source, transform=transform)
        )
    return tuple(result)


def _snapshots(document: Document) -> dict[int, ListedSnapshot]:
    has_keys = bool(optional_value(document, "encryption-keys", list))
    snapshots: dict[int, ListedSnapshot] = {}
    for item in optional_value(document, "snapshots", list) or ():
        id_ = required_value(item, "snapshot-id", int)
        manifest_list = optional_value(item, "manifest-list", str)
        inline = optional_value(item, "manifests", list)
        if (manifest_list is None and inline is None) or id_ in snapshots:
            message = f"Snapshot {id_} has no manifests or occurs twice"
            raise errors.InvalidTableError(message, rule="iceberg 1.26")
        snapshots[id_] = ListedSnapshot(
            id=id_,
            parent_id=optional_value(item, "parent-snapshot-id", int),
            operation=(optional_value(item, "summary", dict) or {}).get("operation"),
            manifest_list=manifest_list,
            manifests=tuple(inline or ()),
            schema_id=optional_value(item, "schema-id", int),
            is_encrypted=has_keys or item.get("key-id") is not None,
        )
    return snapshots


def _refs(document: Document, current: ListedSnapshot | None) -> dict[str, tuple[int, bool]]:
    refs: dict[str, tuple[int, bool]] = {}
    for name, ref in (optional_value(document, "refs", dict) or {}).items():
        if ref is not None:
            kind = required_value(ref, "type", str).lower()
            if kind not in ("branch", "tag"):
                raise errors.InvalidTableError(f"Ref {name!r} is a {kind!r}", rule="iceberg 1.25")
            refs[name] = required_value(ref, "snapshot-id", int), kind == "tag"
    main = refs.pop("main", None)
    if main is not None and main[0] != (-1 if current is None else current.id):
        message = f"main is at snapshot {main[0]}, not at the current one"
        raise errors.InvalidTableError(message, cause="MissingSnapshot", rule="iceberg 1.25")
    return refs if current is None else {"main": main or (current.id, False), **refs}


_MAX_ID = 2147483447
_PLAIN: dict[str, dt.ColumnType] = {
    **{name: dt.SimpleType(name) for name in ("boolean", "date", "string", "uuid", "binary", "unknown", "variant")},
    **{"int": dt.IntegerType(32), "long": dt.IntegerType(64), "float": dt.FloatType(32), "double": dt.FloatType(64)},
    **{"time": dt.TimeType(), "timestamp": dt.TimestampType(), "timestamptz": dt.TimestampType(utc=True)},
    **{"timestamp_ns": dt.TimestampType("ns"), "timestamptz_ns": dt.TimestampType("ns", utc=True)},
}
_GEO = re.compile(
    r"geometry(\s*\([^,]+\))?|geography(\s*\([^,]+(,\s*(spherical|vincenty|thomas|andoyer|karney)\s*)?\))?",
    re.IGNORECASE,
)


def schema_of(document: Document) -> Schema:
    """Parse a schema. Its id is 0 if it has none (iceberg 1.18, 1.23)."""
    identifiers = optional_value(document, "identifier-field-ids", list) or ()
    id_ = optional_value(document, "schema-id", int) or 0
    schema = Schema(id=id_, fields=_fields(document), identifier_ids=tuple(identifiers))
    ids: set[int] = set()
    for path, field in walk(schema.fields):
        if field.id in ids or field.id > _MAX_ID:
            message = f"Invalid schema: field id {field.id} is repeated or reserved"
            raise errors.InvalidTableError(message, field=path, rule="iceberg 1.23")
        ids.add(field.id)
    return schema


def _fields(document: Document) -> tuple[Field, ...]:
    return tuple(_field(item) for item in required_value(document, "fields", list))


def _field(item: Any) -> Field:
    type_ = _parse_type(required_value(item, "type", type(mapping(item).get("type"))))
    return Field(
        id=required_value(item, "id", int),
        name=required_value(item, "name", str),
        type=type_,
        required=required_value(item, "required", bool),
        initial_default=_parse_default(item.get("initial-default"), type_),
    )


def _parse_type(document: Any) -> dt.ColumnType:
    """Return a type from its name or object. Unknown types are opaque (iceberg 1.22)."""
    if isinstance(document, str):
        return _primitive_type(document.strip())
    match required_value(document, "type", str).lower():
        case "struct":
            return dt.StructType(_fields(document))
        case "list":
            return dt.ListType(_part(document, "element"))
        case "map":
            return dt.MapType(_part({**document, "key-required": True}, "key"), _part(document, "value"))
        case other:
            return dt.OpaqueType(f"{{type: {other}}}")


def _part(document: Document, name: str) -> Field:
    id_, required = required_value(document, f"{name}-id", int), required_value(document, f"{name}-required", bool)
    return Field(id=id_, name=name, type=_parse_type(document.get(name)), required=required)


def _primitive_type(name: str) -> dt.ColumnType:
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    if _GEO.fullmatch(name):
        return dt.GeoType(name)
    match = re.fullmatch(r"(?:decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)|fixed\s*\[\s*(\d+)\s*\])", name, re.IGNORECASE)
    if match is not None and match[3] is not None and int(match[3]) > 0:
        return dt.FixedType(int(match[3]))
    if match is not None and match[1] is not None and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]):
        return dt.DecimalType(int(match[1]), int(match[2]))
    return dt.OpaqueType(name)


def _parse_default(value: object, type_: dt.ColumnType) -> object:
    """Return the internal value of a default, or None for null."""
    try:
        return _default_value(value, type_)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        message = f"Invalid default: got {value!r:.80} for type {type_}: {error}"
        raise errors.InvalidTableError(message, rule="iceberg 5.15") from error


def _default_value(value: Any, type_: dt.ColumnType) -> Any:
    if value is None or isinstance(type_, dt.OpaqueType):
        return None
    match type_:
        case dt.StructType(fields=fields):
            by_id = {str(f.id): f for f in fields}
            return {by_id[key].id: _default_value(item, by_id[key].type) for key, item in value.items()}
        case dt.ListType(element=element):
            return [_default_value(item, element.type) for item in expect_type(value, list)]
        case dt.MapType(key=key, value=item):
            pairs = zip(expect_type(value["keys"], list), expect_type(value["values"], list), strict=True)
            return [(_default_value(k, key.type), _default_value(v, item.type)) for k, v in pairs]
        case _:
            return _primitive_default(value, type_)


def _primitive_default(value: Any, type_: dt.ColumnType) -> Any:
    match type_:
        case dt.BOOLEAN:
            return expect_type(value, bool)
        case dt.IntegerType(bits=bits):
            return within_bits(expect_type(value, int), bits)
        case dt.FloatType(bits=bits):
            number = float(value if type(value) is float else expect_type(value, int))
            rounded = number if bits == 64 else to_float32(number)
            if not math.isfinite(rounded):
                raise ValueError("expected a finite number")
            return rounded
        case dt.FixedType() | dt.BINARY:
            data = bytes.fromhex(expect_type(value, str))
            if len(data) * 2 != len(value) or (isinstance(type_, dt.FixedType) and len(data) != type_.length):
                raise ValueError("expected other hexadecimal digits")
            return data
        case dt.DecimalType(scale=scale) if len(expect_type(value, str).partition(".")[2]) != scale:
            raise ValueError(f"expected {scale} digits after the point")
        case _:
            return parse_text(expect_type(value, str), type_, ICEBERG)


def value_type(part: SpecField, metadata: MetadataValues) -> dt.ColumnType:
    """Return the type of a partition field's values.

    It follows from the newest type of the source column (iceberg 1.21, 2.18).
    """
    name = part.transform.partition("[")[0]
    if name == "day":
        return dt.DATE
    if name in ("bucket", "year", "month", "hour"):
        return dt.IntegerType(32)
    types = (f.type for schema in metadata.schemas.values() for _, f in walk(schema.fields) if f.id == part.source)
    opaque = dt.OpaqueType(part.transform)
    return next(types, opaque) if name in ("identity", "truncate", "void") else opaque


def partition_fields(metadata: MetadataValues) -> tuple[Field, ...]:
    """Return the fields of `_partition`: those of all specs in ascending order of their ids (iceberg 5.17)."""
    fields_by_id: dict[int, Field] = {}
    for part in (f for spec in metadata.specs.values() for f in spec.fields):
        if part.transform.startswith("unknown "):
            message = f"Cannot show _partition: transform {part.transform} of {part.name!r}"
            raise errors.UnsupportedError(message, cause="UnsupportedType", rule="iceberg 5.17")
        fields_by_id.setdefault(part.id, Field(id=part.id, name=part.name, type=value_type(part, metadata)))
    return tuple(fields_by_id[id_] for id_ in sorted(fields_by_id))
