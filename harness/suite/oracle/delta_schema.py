"""The protocol and the schema of a Delta table, and partition values.

Spec: Delta, "Protocol Evolution", "Column Mapping", "Type Widening", "Schema Serialization Format", "Partition Value
Serialization" (delta P1 to P4, T1 to T28, V1 to V8).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import CorruptFileError, InvalidTableError, UnsupportedError
from harness.suite.oracle import types as dt
from harness.suite.oracle.delta_log import ReplayedState, table_root
from harness.suite.oracle.documents import optional_value, parse_json, required_value
from harness.suite.oracle.types import Field, Schema, children
from harness.suite.oracle.values import DELTA, parse_text

_READABLE_FEATURES = re.compile(
    "catalogmanaged|catalogowned-preview|columnmapping|deletionvectors|geospatial|geospatial-dev|timestampntz|"
    "timestampwithouttimezone|typewidening|typewidening-preview|v2checkpoint|vacuumprotocolcheck|variantshredding|"
    "variantshredding-preview|varianttype|varianttype-preview"
)
"""The reader features that the oracle supports (delta P2)."""
_REFUSED_FEATURES = re.compile("adaptivemetadata-preview|intervaltype|redirectreaderwriter-preview|timestampnanos")
"""Writer features that make a table unreadable for the oracle."""
_PRIMITIVES: dict[str, dt.ColumnType] = {
    **{name: dt.SimpleType(name) for name in ("boolean", "string", "binary", "date", "variant")},
    **{
        "byte": dt.IntegerType(8),
        "short": dt.IntegerType(16),
        "integer": dt.IntegerType(32),
        "long": dt.IntegerType(64),
    },
    **{"float": dt.FloatType(32), "double": dt.FloatType(64), "decimal": dt.DecimalType(10, 0)},
    **{"timestamp": dt.TimestampType(utc=True), "timestamp_ntz": dt.TimestampType()},
    **{"void": dt.UNKNOWN, "null": dt.UNKNOWN},
}
_ID, _NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_MAX_ID = 2147483447


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table's columns at one version. `lookup` is the way to find columns in data files; see `scan.Scan`."""

    schema: Schema
    partition_columns: tuple[Field, ...]
    lookup: str


def columns_of(state: ReplayedState, table: str) -> TableColumns:
    """Return a table's columns. Raise an error if the protocol or the schema is invalid or not supported.

    Spec: rules delta P1 to P4, T1, T13, T23, V7, V8.
    """
    protocol, metadata = state.protocol or {}, state.metadata or {}
    _check_protocol(protocol)
    provider = optional_value(metadata.get("format") or {}, "provider", str) or "parquet"
    if provider.lower() != "parquet":
        raise UnsupportedError(f"Cannot read data files of format {provider!r}", rule="delta R12")
    _check_redirect(state.configuration, table)
    text = (state.configuration.get("delta.columnMapping.mode") or "none").lower()
    if text not in ("none", "name", "id"):
        raise InvalidTableError(f"Column mapping has mode {text!r}", cause="UnsupportedFeature", rule="delta P4")
    # One list is sufficient. But writer version 5 implied column mapping without requiring its use (delta P4).
    writers = state.features("writerFeatures") - ({"columnmapping"} if protocol["minReaderVersion"] == 1 else set())
    features = state.features("readerFeatures") | writers
    mode = text if protocol["minReaderVersion"] == 2 or "columnmapping" in features else "none"
    try:
        document = parse_json(metadata.get("schemaString") or "")
    except CorruptFileError as error:
        message = f"The schema string is missing or not JSON: {error.message}"
        raise InvalidTableError(message, cause="SchemaError", rule="delta T1") from error
    parser = _SchemaParser(mode != "none", bool(features & {"typewidening", "typewidening-preview"}), document)
    fields = parser.fields(document, top=True)
    if not fields:
        raise parser.schema_error("it has no columns")
    by_name = "delta exact name" if _has_case_collisions(fields) else "delta name"
    lookup = "delta id" if mode == "id" else by_name
    return TableColumns(
        Schema(fields=fields), _partition_columns(fields, metadata.get("partitionColumns") or []), lookup
    )


def is_catalog_managed(state: ReplayedState) -> bool:
    """Return whether only a catalog knows the latest commits (frontier F4). Either list of features may declare it."""
    return bool(state.features("readerFeatures", "writerFeatures") & {"catalogmanaged", "catalogowned-preview"})


def is_true(state: ReplayedState, key: str) -> bool:
    """Return whether a table property is set and true (delta R12)."""
    text = (state.configuration.get(key) or "false").lower()
    if text not in ("true", "false"):
        raise InvalidTableError(f"Property {key} is {text!r}", cause="InvalidProperty", rule="delta R12")
    return bool(text == "true")


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    version, readers = protocol["minReaderVersion"], protocol.get("readerFeatures")
    if version > 3:
        raise UnsupportedError(f"Cannot read reader version {version}", cause="UnsupportedProtocol", rule="delta P1")
    if version < 1 or (version == 3 and readers is None) or (version < 3 and readers):
        message = f"Reader version {version} with reader features {readers}"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta P1")
    unknown = [name for name in readers or () if not _READABLE_FEATURES.fullmatch(name.lower())]
    unknown += [name for name in protocol.get("writerFeatures") or () if _REFUSED_FEATURES.fullmatch(name.lower())]
    if unknown:
        message = f"Cannot read a table with the reader features {', '.join(unknown)}"
        raise UnsupportedError(message, cause="UnsupportedFeature", rule="delta P2")


def _check_redirect(properties: Mapping[str, Any], table: str) -> None:
    """Raise UnsupportedError for a redirected table, unless it is the target of the redirection (frontier F5.3)."""
    for name in ("delta.redirectReaderWriter", "delta.redirectReaderWriter-preview"):
        if properties.get(name) is None:
            continue
        try:
            redirect = parse_json(properties[name])
            state, spec = redirect.get("state"), redirect.get("spec")
        except (CorruptFileError, AttributeError):
            state = spec = None
        place = re.search(r'"destPath"\s*:\s*"([^"]+)"', spec) if isinstance(spec, str) else None
        is_copy = place is not None and table_root(place[1]) == table_root(table)
        if state == "REDIRECT-READY" and not is_copy:
            message = f"Cannot read a redirected table: {properties[name]}"
            raise UnsupportedError(message, cause="UnsupportedFeature", rule="frontier F5.3")
        states = ("REDIRECT-READY", "ENABLE-REDIRECT-IN-PROGRESS", "DROP-REDIRECT-IN-PROGRESS", "NO-REDIRECT")
        if state not in states:
            message = f"Property {name} is {properties[name]!r}"
            raise InvalidTableError(message, cause="InvalidProperty", rule="frontier F5.3")


class _SchemaParser:
    """A parser that turns a schema's JSON into fields. Without column mapping, fields are numbered in schema order."""

    def __init__(self, is_mapped: bool, checks_changes: bool, document: object) -> None:
        self.is_mapped, self.checks_changes = is_mapped, checks_changes
        annotated = list(_annotated_ids(document)) if is_mapped else []
        self.next_ids = itertools.count(max(annotated, default=0) + 1)
        self.used_ids: set[int] = set()

    def fields(self, document: object, *, top: bool = False) -> tuple[Field, ...]:
        if required_value(document, "type", str) != "struct":
            raise self.schema_error("the schema is not a struct")
        fields = tuple(self.field(item, top=top) for item in required_value(document, "fields", list))
        for names in ([f.name for f in fields], [f.physical_name.lower() for f in fields if f.physical_name]):
            if len(set(names)) < len(names):
                raise self.schema_error(f"one of the names {names} occurs twice")
        return fields

    def field(self, document: Any, *, top: bool) -> Field:
        name = required_value(document, "name", str)
        annotations = optional_value(document, "metadata", dict) or {}
        nullable = optional_value(document, "nullable", bool) is not False
        id_, physical = self.column_mapping(annotations) if self.is_mapped else (next(self.next_ids), None)
        type_ = self.type(document.get("type"))
        if self.checks_changes:
            self.check_changes(annotations.get("delta.typeChanges"))
        return Field(id=id_, name=name, type=type_, required=top and not nullable, physical_name=physical)

    def column_mapping(self, annotations: dict[str, Any]) -> tuple[int, str]:
        """Return the field id and the physical name of a mapped column (delta T13)."""
        id_ = required_value(annotations, _ID, int)
        physical = required_value(annotations, _NAME, str)
        if id_ in self.used_ids or not 0 <= id_ <= _MAX_ID or not physical:
            raise self.schema_error(f"column id {id_} is repeated or out of range, or its physical name is empty")
        self.used_ids.add(id_)
        return id_, physical

    def type(self, document: Any) -> dt.ColumnType:
        if isinstance(document, str):
            return self.primitive(document)
        match required_value(document, "type", str):
            case "struct":
                return dt.StructType(self.fields(document))
            case "array":
                return dt.ListType(self.nested_field("element", document.get("elementType")))
            case "map":
                key = self.nested_field("key", document.get("keyType"))
                return dt.MapType(key, self.nested_field("value", document.get("valueType")))
            case other:
                return self.primitive(other)

    def nested_field(self, name: str, document: object) -> Field:
        id_ = next(self.next_ids)
        return Field(id=id_, name=name, type=self.type(document), required=name == "key")

    def primitive(self, text: str) -> dt.ColumnType:
        if text in _PRIMITIVES:
            return _PRIMITIVES[text]
        match = re.fullmatch(r"decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)", text)
        if match and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]):
            return dt.DecimalType(int(match[1]), int(match[2]))
        if re.fullmatch(r"(?:char|varchar)\(\s*[0-9]+\s*\)|string collate [\w.]+", text, re.IGNORECASE):
            return dt.STRING
        if re.fullmatch(r"(?:calendar)?\s*interval\b.*|geometry\b.*|geography\b.*", text, re.IGNORECASE):
            return dt.OpaqueType(text)
        raise UnsupportedError(f"A column has the unknown type {text!r}", cause="UnsupportedType", rule="delta T1")

    def check_changes(self, changes: object) -> None:
        """Raise UnsupportedError if a recorded type change is not a supported widening (delta T23)."""
        for change in changes if isinstance(changes, list) else [] if changes is None else [changes]:
            old, new = (required_value(change, key, str) for key in ("fromType", "toType"))
            if not _widens(self.primitive(old), self.primitive(new)):
                reason = f"A column changed from {old} to {new}"
                raise UnsupportedError(reason, cause="UnsupportedType", rule="delta T23")

    def schema_error(self, reason: str) -> InvalidTableError:
        return InvalidTableError(f"Invalid schema: {reason}", cause="SchemaError", rule="delta T1")


def _widens(old: dt.ColumnType, new: dt.ColumnType) -> bool:
    """Return whether a type may be widened to another (delta T22)."""
    match old, new:
        case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
            return a <= b
        case dt.IntegerType(bits=a), dt.FloatType(bits=64):
            return a <= 32
        case dt.IntegerType(bits=a), dt.DecimalType(precision=p, scale=s):
            return p - s >= {8: 3, 16: 5, 32: 10, 64: 20}[a]
        case dt.DecimalType(precision=p, scale=s), dt.DecimalType(precision=q, scale=t):
            return t >= s and q - p >= t - s
        case dt.DATE, dt.TimestampType(utc=False):
            return True
        case dt.FloatType(bits=a), dt.FloatType(bits=b):
            return a <= b
        case _:
            return old == new


def _annotated_ids(document: object) -> Iterator[int]:
    for value in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from _annotated_ids(value)
    if isinstance(document, dict) and isinstance(document.get(_ID), int):
        yield document[_ID]


def _has_case_collisions(fields: tuple[Field, ...]) -> bool:
    """Return whether names at one level differ only in case (delta T1)."""
    names = {(f.physical_name or f.name).lower() for f in fields}
    return len(names) < len(fields) or any(_has_case_collisions(children(f.type)) for f in fields)


def _partition_columns(fields: tuple[Field, ...], names: list[str]) -> tuple[Field, ...]:
    """Return the fields of the partition columns (delta V7, V8)."""
    any_case = {f.name.lower(): f for f in fields}
    by_name = {f.name: f for f in fields}
    matches = [by_name.get(name) or any_case.get(name.lower()) for name in names]
    columns = tuple(f for f in matches if f is not None)
    nested = any(
        (f.type == dt.VARIANT or isinstance(f.type, dt.StructType | dt.ListType | dt.MapType)) for f in columns
    )
    if None in matches or nested or len({f.id for f in columns}) < len(names):
        raise InvalidTableError(f"Invalid partition columns {names}", cause="SchemaError", rule="delta V8")
    return columns


def partition_value(text: str | None, type_: dt.ColumnType, *, column: str) -> object:
    """Return the value of a partition column. The empty text is null, except for strings and binaries.

    Spec: Delta, "Partition Value Serialization" (rules delta V2 to V7).
    """
    if text is None or type_ == dt.UNKNOWN:
        return None
    if type_ == dt.BINARY:
        return text.encode("utf-8", "surrogatepass")
    if type_ == dt.UUID or isinstance(type_, dt.TimeType | dt.OpaqueType | dt.GeoType):
        raise UnsupportedError(f"Cannot read partition values of type {type_}", rule="delta V7")
    try:
        return None if text == "" and type_ != dt.STRING else parse_text(text, type_, DELTA)
    except (ValueError, ArithmeticError) as error:
        message = f"Invalid partition value {text!r:.80} of type {type_}: {error}"
        raise InvalidTableError(message, cause="PartitionValueError", field=column, rule="delta V4") from error
