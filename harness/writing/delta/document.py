"""The protocol and metaData of a Delta table that is being built: features, column mapping, and schema changes.

A column path is a dotted name. `element`, `key`, and `value` lead into arrays and maps. A text that equals a column's
name means that column, even if the name contains dots.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from harness.errors import RequestError
from harness.metadata.model.schema import Schema
from harness.writing.delta.types import (
    COLUMN_ID,
    PHYSICAL_NAME,
    JsonObject,
    SchemaText,
    field_json,
    parse_type,
    schema_json,
    schema_of,
    struct_fields,
    type_names,
)
from harness.writing.delta.values import json_text
from harness.writing.local_files import FieldPath, derived_uuid

MappingModeName: TypeAlias = Literal["none", "name", "id"]

READER_FEATURES = frozenset(
    {
        "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
        "vacuumProtocolCheck", "variantType", "variantType-preview", "variantShredding", "variantShredding-preview",
        "catalogManaged", "catalogOwned-preview", "geospatial", "timestampNanos", "intervalType",
    }
)  # fmt: skip
# The writer version that includes each feature in a protocol without named features.
LEGACY_WRITERS = {
    "appendOnly": 2,
    "invariants": 2,
    "checkConstraints": 3,
    "changeDataFeed": 4,
    "generatedColumns": 4,
    "columnMapping": 5,
    "identityColumns": 6,
}
_COMMIT_TIMES = "delta.enableInCommitTimestamps"
_BY_PROPERTY = {
    "delta.enableDeletionVectors": ("deletionVectors",),
    "delta.enableChangeDataFeed": ("changeDataFeed",),
    "delta.enableTypeWidening": ("typeWidening",),
    "delta.enableRowTracking": ("rowTracking", "domainMetadata"),
    _COMMIT_TIMES: ("inCommitTimestamp",),
    "delta.appendOnly": ("appendOnly",),
    "delta.enableIcebergCompatV1": ("icebergCompatV1",),
    "delta.enableIcebergCompatV2": ("icebergCompatV2",),
    "delta.enableVariantShredding": ("variantShredding",),
}
_BY_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType", "geometry": "geospatial"}
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
MAPPING_MODE = "delta.columnMapping.mode"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


class DeltaDocument:
    """The current protocol and metaData actions. The schema is kept as the JSON document of `schemaString`."""

    def __init__(self, name: str, schema: SchemaText | Schema, partition_columns: Sequence[str]) -> None:
        self.protocol: JsonObject = {"minReaderVersion": 1, "minWriterVersion": 2}
        self.schema_doc = copy.deepcopy(schema_json(schema))
        self.metadata: JsonObject = {
            "id": str(derived_uuid(f"delta table {name}")),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": "",
            "partitionColumns": list(partition_columns),
            "configuration": {},
            "createdTime": 0,
        }
        for column in partition_columns:
            self.field(column)

    @property
    def configuration(self) -> dict[str, str]:
        """The table properties, which may be changed in place."""
        properties: dict[str, str] = self.metadata["configuration"]
        return properties

    @property
    def schema(self) -> Schema:
        """The logical schema."""
        return schema_of(self.schema_doc, mapped=self.mode != "none")

    @property
    def mode(self) -> str:
        """The column mapping mode."""
        return self.configuration.get(MAPPING_MODE, "none")

    @property
    def features(self) -> frozenset[str]:
        """The features that the protocol names, and those that its legacy versions include."""
        protocol_features = {*self.protocol.get("readerFeatures", ()), *self.protocol.get("writerFeatures", ())}
        version = self.protocol["minWriterVersion"]
        legacy = {f for f, since in LEGACY_WRITERS.items() if since <= version < 7}
        return frozenset(protocol_features | legacy)

    def is_enabled(self, property_name: str) -> bool:
        """Return whether a boolean table property is true."""
        return self.configuration.get(property_name, "false").lower() == "true"

    def metadata_action(self) -> JsonObject:
        """Return the content of the metaData action."""
        return copy.deepcopy({**self.metadata, "schemaString": json_text(self.schema_doc)})

    def needed_features(self) -> set[str]:
        """Return the features that the properties, types, and column mapping require."""
        needed = {f for name, features in _BY_PROPERTY.items() if self.is_enabled(name) for f in features}
        needed |= {_BY_TYPE[t] for t in type_names(self.schema_doc) if t in _BY_TYPE}
        if self.mode != "none":
            needed.add("columnMapping")
        if self.configuration.get("delta.checkpointPolicy") == "v2":
            needed.add("v2Checkpoint")
        return needed

    def require(self, features: Collection[str]) -> bool:
        """Raise the protocol so that it includes some features, and return whether the protocol changed.

        Features that legacy versions can express stay legacy (reader version 2, writer versions up to 6) as long as no
        other feature is needed.
        """
        missing = set(features) - self.features
        if not missing:
            return False
        all_features = self.features | missing
        if self.protocol["minWriterVersion"] < 7 and all_features <= set(LEGACY_WRITERS):
            writer = max(LEGACY_WRITERS[f] for f in all_features)
            reader = 2 if "columnMapping" in all_features else self.protocol["minReaderVersion"]
            self.protocol = {"minReaderVersion": reader, "minWriterVersion": writer}
        else:
            self.protocol = named_protocol(all_features & READER_FEATURES, all_features)
        return True

    def initialize(
        self, mode: MappingModeName, field_metadata: Mapping[FieldPath, Mapping[str, object]], features: Collection[str]
    ) -> None:
        """Complete a new table's document: column mapping, field metadata, and the protocol that these require."""
        if mode != "none":
            self.map_columns(mode, "fresh")
        for path, more in field_metadata.items():
            self.field(path)["metadata"].update(more)
        self.require({*features, *self.needed_features()})
        if "rowTracking" in self.features:
            self.name_row_columns()

    def configure(self, properties: Mapping[str, str | None], version: int, time_ms: int) -> None:
        """Set properties, or unset those with the value None.

        Args:
            properties: The properties.
            version: The version of the commit that sets them.
            time_ms: The time of that commit in milliseconds since 1970-01-01 UTC.
        """
        was_on = self.is_enabled(_COMMIT_TIMES)
        for name, value in properties.items():
            self.configuration.pop(name, None)
            if value is not None:
                self.configuration[name] = value
        if self.is_enabled(_COMMIT_TIMES) and not was_on:
            self.configuration["delta.inCommitTimestampEnablementVersion"] = str(version)
            self.configuration["delta.inCommitTimestampEnablementTimestamp"] = str(time_ms)
        if self.is_enabled("delta.enableRowTracking"):
            self.name_row_columns()

    def name_row_columns(self) -> None:
        """Name the file columns for row ids and row commit versions, unless they already have names."""
        self.configuration.setdefault(ROW_ID_COLUMN, f"_row-id-col-{derived_uuid('row id')}")
        commit_version = f"_row-commit-version-col-{derived_uuid('row commit version')}"
        self.configuration.setdefault(ROW_COMMIT_VERSION_COLUMN, commit_version)

    def row_columns(
        self, row_ids: Sequence[int | None] | None, versions: Sequence[int | None] | None
    ) -> dict[str, Sequence[int | None]]:
        """Return row ids and row commit versions by the names of their file columns. None is left out."""
        columns = ((ROW_ID_COLUMN, row_ids), (ROW_COMMIT_VERSION_COLUMN, versions))
        return {self.configuration[name]: values for name, values in columns if values is not None}

    def field(self, path: FieldPath) -> JsonObject:
        """Return the JSON of the struct field at a path.

        Raises:
            RequestError: There is no such field.
        """
        return _locate(self.schema_doc, path)[1]

    def add(
        self, name: str, type_text: str | JsonObject, parent: FieldPath | None, metadata: Mapping[str, object]
    ) -> None:
        """Add a field at the end of the top level, or of a struct.

        Args:
            name: The name of the field.
            type_text: The type as text or as JSON.
            parent: The path of the struct, or of a list or map that contains it. None for the top level.
            metadata: Metadata of the field.

        Raises:
            RequestError: There is no struct at `parent`.
        """
        level = self.schema_doc["fields"]
        if parent is not None:
            holder, key = _type_holder(*_split(self.schema_doc, parent))
            json_type = holder[key]
            while isinstance(json_type, dict) and json_type["type"] != "struct":
                json_type = json_type.get("elementType", json_type.get("valueType"))
            if not isinstance(json_type, dict):
                raise RequestError(f"Cannot add a field to a column of type {json_type}: it contains no struct")
            fields: list[JsonObject] = json_type["fields"]
            level = fields
        new = field_json(name, type_text)
        new["metadata"].update(metadata)
        level.append(new)
        if self.mode != "none":
            self.annotate({"type": "struct", "fields": [new]}, "fresh")

    def drop(self, path: FieldPath) -> None:
        """Drop a column or nested field."""
        level, f = _locate(self.schema_doc, path)
        level.remove(f)

    def move(self, path: FieldPath, index: int) -> None:
        """Move a field to a 0-based position among its siblings."""
        level, f = _locate(self.schema_doc, path)
        level.remove(f)
        level.insert(index, f)

    def rename(self, path: FieldPath, name: str) -> None:
        """Rename a column or nested field. With column mapping, the physical name and id stay."""
        level, f = _locate(self.schema_doc, path)
        columns = self.metadata["partitionColumns"]
        if level is self.schema_doc["fields"] and f["name"] in columns:
            columns[columns.index(f["name"])] = name
        f["name"] = name

    def widen(self, path: FieldPath, type_text: str, annotation: Mapping[str, object] | None) -> None:
        """Change a primitive type and record the change in `delta.typeChanges` (delta T23).

        The type may be below arrays and maps.

        Args:
            path: The column.
            type_text: The new type.
            annotation: The record to write instead. `{}` writes no record.
        """
        f, parts = _split(self.schema_doc, path)
        holder, key = _type_holder(f, parts)
        before, holder[key] = holder[key], parse_type(type_text)[0]
        note = {"toType": holder[key], "fromType": before, **({"fieldPath": ".".join(parts)} if parts else {})}
        note = note if annotation is None else dict(annotation)
        if note:
            f["metadata"].setdefault("delta.typeChanges", []).append(note)

    def map_columns(self, mode: MappingModeName, names: Literal["fresh", "same"]) -> None:
        """Switch column mapping on and give every field an id and a physical name.

        Args:
            mode: The column mapping mode.
            names: `same` to use a field's name as its physical name, `fresh` for a new name.
        """
        self.configuration[MAPPING_MODE] = mode
        self.annotate(self.schema_doc, names)

    def annotate(self, json_type: object, names: Literal["fresh", "same"]) -> None:
        """Give ids and physical names to the struct fields of a type that have none."""
        for f in struct_fields(json_type):
            if COLUMN_ID in f["metadata"]:
                continue
            number = int(self.configuration.get(MAX_COLUMN_ID, "0")) + 1
            self.configuration[MAX_COLUMN_ID] = str(number)
            fresh = f"col-{derived_uuid(f'column {number}')}"
            f["metadata"] |= {COLUMN_ID: number, PHYSICAL_NAME: f["name"] if names == "same" else fresh}


def named_protocol(reader: Collection[str], writer: Collection[str]) -> JsonObject:
    """Return a protocol with features by name. Without reader features, the reader version stays 1."""
    if not reader:
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": sorted(writer)}
    features = {"readerFeatures": sorted(reader), "writerFeatures": sorted({*writer, *reader})}
    return {"minReaderVersion": 3, "minWriterVersion": 7, **features}


def edit_schema(metadata: JsonObject, change: Callable[[JsonObject], object]) -> None:
    """Change the schema inside a metaData action in place."""
    document = json.loads(metadata["schemaString"])
    change(document)
    metadata["schemaString"] = json_text(document)


def _locate(document: JsonObject, path: FieldPath) -> tuple[list[JsonObject], JsonObject]:
    f, rest = _split(document, path)
    if rest:
        raise RequestError(f"No column {path!r}: the part below {f['name']!r} is not a struct field")
    for level in _field_lists(document):
        if any(f is other for other in level):
            return level, f
    raise AssertionError(path)


def _split(document: JsonObject, path: FieldPath) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the last struct field on a path, and the `element`, `key`, and `value` parts that follow it."""
    names = [f["name"] for f in document["fields"]]
    parts = (path,) if isinstance(path, str) and path in names else path
    parts = tuple(parts.split(".")) if isinstance(parts, str) else tuple(parts)
    node: object = document
    struct_field: JsonObject | None = None
    rest: tuple[str, ...] = ()
    for part in parts:
        if isinstance(node, dict) and node["type"] == "struct":
            struct_field = next((f for f in node["fields"] if f["name"] == part), None)
            node, rest = (None if struct_field is None else struct_field["type"]), ()
        else:
            node, rest = (node.get(_PARTS.get(part, "")) if isinstance(node, dict) else None), (*rest, part)
        if node is None:
            raise RequestError(f"No column {'.'.join(parts)!r}; the columns are {', '.join(names)}")
    if struct_field is None:
        raise RequestError(f"No column {path!r}; the columns are {', '.join(names)}")
    return struct_field, rest


_PARTS = {"element": "elementType", "key": "keyType", "value": "valueType"}


def _type_holder(f: JsonObject, parts: tuple[str, ...]) -> tuple[JsonObject, str]:
    holder, key = f, "type"
    for part in parts:
        holder, key = holder[key], _PARTS[part]
    return holder, key


def _field_lists(json_type: object) -> Iterator[list[JsonObject]]:
    """Yield the field lists of all structs in a type."""
    if isinstance(json_type, dict):
        if json_type["type"] == "struct":
            yield json_type["fields"]
            for f in json_type["fields"]:
                yield from _field_lists(f["type"])
        for part in _PARTS.values():
            yield from _field_lists(json_type.get(part))
