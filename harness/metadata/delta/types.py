"""A Delta schema string as a `harness.metadata.model.schema` (delta T1 to T5, T10 to T13, T26 to T28, V8).

Readers do not enforce whether a field may be null: files may hold nulls in fields that are declared not nullable (delta
T3). Only top-level columns keep the declaration, as information. Below them every field may be null.

Spec: Delta, "Schema Serialization Format".
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from harness.errors import HarnessError, InvalidTableError, UnsupportedError
from harness.metadata.delta.actions import Metadata, Protocol
from harness.metadata.delta.protocol import TYPE_WIDENING, MappingMode, features, mapping_mode
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import widens
from harness.metadata.plan.projection import ColumnLookup, stored_name
from harness.storage.records import dataclass

TYPE_CHANGES = "delta.typeChanges"


def check_type_changes(
    annotations: Mapping[str, object], parse: Callable[[str], dt.Type | None], *, field: str
) -> None:
    """Check that every recorded type change of a field is a widening that harness reads.

    Args:
        annotations: The metadata of the field.
        parse: Returns the type with a name, or None if the name is unknown.
        field: The dotted path of the field, for messages.

    Raises:
        InvalidTableError: The list of changes is malformed.
        UnsupportedError: A change is not one of those in delta T22.

    Spec: Delta, "Type Widening", "Type Change Metadata".
    """
    changes = annotations.get(TYPE_CHANGES)
    if changes is None:
        return
    for change in changes if isinstance(changes, list) else [changes]:
        before, after, inner = (
            (change.get("fromType"), change.get("toType"), change.get("fieldPath"))
            if isinstance(change, dict)
            else (None, None, None)
        )
        path = field if inner is None else f"{field}.{inner}"
        if not isinstance(before, str) or not isinstance(after, str):
            message = f"Invalid schema: got {TYPE_CHANGES} {change!r}, expected an object with fromType and toType"
            raise InvalidTableError(message, cause="SchemaError", field=path, rule="delta T23")
        old, new = parse(before), parse(after)
        if old is None or new is None or not (old == new or widens(old, new)):
            message = (
                f"Cannot read a table with a column that changed from {before} to {after}, which is not a widening"
            )
            raise UnsupportedError(message, cause="UnsupportedType", field=path, rule="delta T23")


ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"

_LARGEST_ID = 2147483447
"""The largest id of a table column. Harness's own metadata columns have larger ids."""


@dataclass(slots=True)
class _FieldIds:
    """The ids of a schema's fields, assigned while the schema is parsed.

    Column mapping annotates struct fields only (delta T10 to T13). All other fields are numbered here.

    Attributes:
        mapped: True if column mapping is in force. If so, struct fields have annotated ids and physical names.
            Otherwise annotations have no meaning (P4).
        unused: The ids of all other fields, parents first: 1, 2, 3, and so on. With column mapping, they start after
            the largest annotated id.

    Spec: Delta, "Reader Requirements for Column Mapping".
    """

    mapped: bool
    unused: Iterator[int]
    _seen: dict[int, str] = field(default_factory=dict)

    def identify(self, annotations: Mapping[str, object], path: str) -> tuple[int, str | None]:
        """Return the id and the physical name of a struct field.

        Raises:
            InvalidTableError: An annotation is missing or invalid (rule delta T13).
        """
        if not self.mapped:
            return next(self.unused), None
        id_, name = annotations.get(ID), annotations.get(PHYSICAL_NAME)
        if not isinstance(id_, int) or isinstance(id_, bool):
            raise _invalid_mapping(f"got {ID} {id_!r}, expected an integer, because column mapping is in force", path)
        if not isinstance(name, str) or not name:
            raise _invalid_mapping(
                f"got {PHYSICAL_NAME} {name!r}, expected a name, because column mapping is in force", path
            )
        if not 0 <= id_ <= _LARGEST_ID:
            raise _invalid_mapping(f"got {ID} {id_}, expected 0 to {_LARGEST_ID}", path)
        if id_ in self._seen:
            raise _invalid_mapping(
                f"got {ID} {id_}, which column {self._seen[id_]!r} has too; expected unique ids", path
            )
        self._seen[id_] = path
        return id_, name


def materialized_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the physical names of the columns outside of the schema that store row ids and row commit versions.

    The keys of the result are the metadata columns for which the table's configuration names a physical column. Data
    files use these names in every mapping mode, but may lack the columns.

    Spec: rules delta W2, W3, W5.
    """
    keys = {"_row_id": "materializedRowIdColumnName", "_row_commit_version": "materializedRowCommitVersionColumnName"}
    columns = {column: configuration.get(f"delta.rowTracking.{key}") for column, key in keys.items()}
    return {column: name for column, name in columns.items() if name is not None}


def constraints(metadata: Metadata) -> dict[str, str]:
    """Return the conditions that rows must meet, as Spark SQL.

    The conditions are CHECK constraints, invariants, and generation expressions. The key of a CHECK constraint is its
    property. The keys of other conditions consist of kind and top-level column. A generation expression is returned as
    a comparison.
    """
    conditions = {key: text for key, text in metadata.configuration.items() if key.startswith("delta.constraints.")}
    for column in json.loads(metadata.schema_string)["fields"]:
        name, annotations = column["name"], column.get("metadata") or {}
        with suppress(ValueError, LookupError, TypeError):  # an invariant in another form promises nothing
            conditions[f"delta.invariants of {name}"] = json.loads(annotations["delta.invariants"])["expression"][
                "expression"
            ]
        if isinstance(generated := annotations.get("delta.generationExpression"), str):
            quoted = name.replace("`", "``")
            conditions[f"delta.generationExpression of {name}"] = f"`{quoted}` <=> ({generated})"
    return conditions


def _annotated_ids(json: object) -> Iterator[int]:
    """Yield every annotated id in a schema's JSON."""
    if isinstance(json, dict):
        for key, value in json.items():
            if key == ID and isinstance(value, int):
                yield value
            else:
                yield from _annotated_ids(value)
    elif isinstance(json, list):
        for item in json:
            yield from _annotated_ids(item)


def _invalid_mapping(reason: str, path: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid schema: {reason}", cause="SchemaError", field=path, rule="delta T13")


_PRIMITIVES: dict[str, dt.PrimitiveType] = {
    "byte": dt.IntegerType(8),
    "short": dt.IntegerType(16),
    "integer": dt.IntegerType(32),
    "long": dt.IntegerType(64),
    "float": dt.FloatType(32),
    "double": dt.FloatType(64),
    "boolean": dt.BooleanType(),
    "string": dt.StringType(),
    "binary": dt.BinaryType(),
    "date": dt.DateType(),
    "timestamp": dt.TimestampType(utc=True),
    "timestamp_ntz": dt.TimestampType(),
    "variant": dt.VariantType(),
    "void": dt.UnknownType(),
    "null": dt.UnknownType(),  # Spark's name for void before 3.1
    "decimal": dt.DecimalType(10, 0),
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)")
# Schemas should contain `string` and keep lengths and collations in metadata (delta T4, T27). Some writers put them
# into the type name.
_TEXT = re.compile(r"(?:char|varchar)\(\s*[0-9]{1,10}\s*\)|string collate [\w.]+", re.IGNORECASE)
_OPAQUE = re.compile(r"(?:calendar)?\s*interval\b.*|geometry\b.*|geography\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSchema:
    """A table's columns at one version.

    Attributes:
        schema: All columns in the table's order, including partition columns (delta T2). With column mapping, field ids
            are the annotated ones and physical names are set. Otherwise field ids are positions.
        partition_columns: The partition columns, in partition order.
        mode: The column mapping mode in force.
    """

    schema: dt.Schema
    partition_columns: tuple[dt.Field, ...] = ()
    mode: MappingMode = MappingMode.NONE

    @property
    def lookup(self) -> ColumnLookup:
        """How columns are found in the table's data files (delta T10)."""
        if self.mode is MappingMode.ID:
            return ColumnLookup.DELTA_ID
        return ColumnLookup.DELTA_EXACT_NAME if self.case_conflicts else ColumnLookup.DELTA_NAME

    @property
    def case_conflicts(self) -> tuple[tuple[str, ...], ...]:
        """The paths of columns whose names differ only in case from an earlier column at the same level (delta T1)."""
        return tuple(_find_case_conflicts(self.schema.fields, ()))


def table_schema(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> DeltaSchema:
    """Return the schema for a protocol and a metadata action that passed `check_protocol`.

    Raises:
        InvalidTableError, UnsupportedError: As for `parse_schema`.
    """
    try:
        return parse_schema(
            metadata.schema_string,
            partition_columns=metadata.partition_columns,
            mode=mapping_mode(metadata, protocol),
            features=features(protocol),
        )
    except HarnessError as error:
        raise error.within(table=table) from error.__cause__


def parse_schema(
    text: str | None,
    *,
    partition_columns: Iterable[str] = (),
    mode: MappingMode = MappingMode.NONE,
    features: frozenset[str] = frozenset(),
) -> DeltaSchema:
    """Parse a schema string.

    Args:
        text: The JSON of a struct. Empty or None if the metadata has no schema.
        partition_columns: The logical names of the partition columns, in any letter case (delta V8).
        mode: The column mapping mode in force.
        features: The table's reader features. With `typeWidening`, recorded type changes are checked (delta T23).

    Raises:
        InvalidTableError: There is no schema, it is not JSON, a part is missing or of the wrong kind, a name occurs
            twice at one level (delta T1), column mapping is broken (T13), or a partition column is unknown (V8) or
            nested (V7).
        UnsupportedError: The name of a type is unknown (T1), or readers do not support a type change (T23).
    """
    if text is None or not text.strip():
        raise _schema_error("the metadata has no schema string", ())
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _schema_error(f"it is not JSON ({error})", ()) from error
    mapped = mode is not MappingMode.NONE
    first = max(_annotated_ids(document), default=0) + 1 if mapped else 1
    parser = _DeltaSchemaParser(_FieldIds(mapped, itertools.count(first)), TYPE_WIDENING in features)
    try:
        fields = parser.fields(document, ())
    except RecursionError:
        raise _schema_error("it nests too deeply", ()) from None
    if not fields:
        raise _schema_error("it has no columns; write data to the table first", ())
    schema = dt.Schema(fields=fields)
    return DeltaSchema(schema=schema, partition_columns=_partition_columns(fields, partition_columns), mode=mode)


def parse_type_name(text: str) -> dt.PrimitiveType | None:
    """Return the primitive type with this name, or None if it is unknown.

    Intervals and geometries become an `OpaqueType` (delta T28).
    """
    primitive = _PRIMITIVES.get(text)
    if primitive is not None:
        return primitive
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        return dt.DecimalType(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    if _TEXT.fullmatch(text):
        return dt.StringType()
    return dt.OpaqueType(text) if _OPAQUE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class _DeltaSchemaParser:
    """A parser of a schema's JSON, in its order.

    `ids` assigns each field its id, so each field must be parsed exactly once.
    """

    ids: _FieldIds
    check_changes: bool

    def fields(self, document: object, path: tuple[str, ...]) -> tuple[dt.Field, ...]:
        """Return the fields of a struct's JSON."""
        if not isinstance(document, dict) or document.get("type") != "struct":
            raise _schema_error(f"got {_show(document)}, expected a struct", path)
        items = document.get("fields")
        if not isinstance(items, list):
            raise _schema_error(f"got fields {_show(items)}, expected a list", path)
        fields = tuple(self.field(item, path) for item in items)
        _check_names((f.name for f in fields), "columns", path, "delta T1")
        # Physical names are generated, so writers have no reason to distinguish them by letter case.
        physical = (f.physical_name.lower() for f in fields if f.physical_name is not None)
        _check_names(physical, "physical names", path, "delta T12")
        return fields

    def field(self, document: object, parent: tuple[str, ...]) -> dt.Field:
        if not isinstance(document, dict) or not isinstance(document.get("name"), str):
            raise _schema_error(f"got {_show(document)}, expected a field with a name", parent)
        path = (*parent, document["name"])
        annotations = {} if document.get("metadata") is None else document["metadata"]
        if not isinstance(annotations, dict):
            raise _schema_error(f"got metadata {_show(annotations)}, expected an object", path)
        nullable = _boolean(document, "nullable", path)
        id_, physical_name = self.ids.identify(annotations, ".".join(path))
        type_ = self.type(document.get("type"), path)
        if self.check_changes:
            check_type_changes(annotations, parse_type_name, field=".".join(path))
        comment = annotations.get("comment")
        return dt.Field(
            id=id_,
            name=document["name"],
            type=type_,
            required=not nullable and not parent,
            physical_name=physical_name,
            doc=comment if isinstance(comment, str) else None,
        )

    def type(self, document: Any, path: tuple[str, ...]) -> dt.Type:
        if isinstance(document, str):
            primitive = parse_type_name(document)
            if primitive is None:
                raise _unknown_type_error(document, path)
            return primitive
        match document.get("type") if isinstance(document, dict) else None:
            case "struct":
                return dt.StructType(self.fields(document, path))
            case "array":
                _boolean(document, "containsNull", path)
                return dt.ListType(self.part("element", document.get("elementType"), path))
            case "map":
                _boolean(document, "valueContainsNull", path)
                key = self.part("key", document.get("keyType"), path)
                return dt.MapType(key, self.part("value", document.get("valueType"), path))
            case str(kind):
                raise _unknown_type_error(kind, path)
            case _:
                raise _schema_error(f"got type {_show(document)}, expected a name or an object", path)

    def part(self, name: str, document: object, parent: tuple[str, ...]) -> dt.Field:
        id_ = next(self.ids.unused)
        return dt.Field(id=id_, name=name, type=self.type(document, (*parent, name)), required=name == "key")


def _boolean(document: Mapping[str, object], key: str, path: tuple[str, ...]) -> bool:
    """Return whether a part of the schema may be null, from the key `key`. If the key is missing, nulls are allowed."""
    value = document.get(key, True)
    if not isinstance(value, bool):
        raise _schema_error(f"got {key} {_show(value)}, expected true or false", path)
    return value


def _check_names(names: Iterable[str], kind: str, path: tuple[str, ...], rule: str) -> None:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise _schema_error(f"got {kind} {name!r} twice, expected names that differ", path, rule)
        earlier.add(name)


def _find_case_conflicts(fields: tuple[dt.Field, ...], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    earlier: set[str] = set()
    for f in fields:
        if stored_name(f).lower() in earlier:
            yield (*above, f.name)
        earlier.add(stored_name(f).lower())
        yield from _find_case_conflicts(dt.children(f.type), (*above, f.name))


def _partition_columns(fields: tuple[dt.Field, ...], names: Iterable[str]) -> tuple[dt.Field, ...]:
    any_case = {f.name.lower(): f for f in fields}
    by_name = {f.name: f for f in fields}
    columns: dict[str, dt.Field] = {}
    for name in names:
        column = by_name.get(name) or any_case.get(name.lower())
        if column is None:
            raise _schema_error("a partition column is not in the schema", (name,), "delta V8")
        if column.name in columns:
            raise _schema_error("a partition column is named twice", (name,), "delta V8")
        if isinstance(column.type, dt.StructType | dt.ListType | dt.MapType | dt.VariantType):
            raise _schema_error(
                f"a partition column has type {column.type}, expected a primitive one", (name,), "delta V7"
            )
        columns[column.name] = column
    return tuple(columns.values())


def _unknown_type_error(text: str, path: tuple[str, ...]) -> UnsupportedError:
    message = f"Cannot read a table with a column of unknown type {text!r}"
    return UnsupportedError(message, cause="UnsupportedType", field=".".join(path), rule="delta T1")


def _schema_error(reason: str, path: tuple[str, ...], rule: str = "delta T1") -> InvalidTableError:
    return InvalidTableError(f"Invalid schema: {reason}", cause="SchemaError", field=".".join(path) or None, rule=rule)


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
