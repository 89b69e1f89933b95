"""The metadata document of a table that is being built, and partition transforms of stored values.

Spec: Iceberg, "Table Metadata", "Partition Transforms" and "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from harness.errors import RequestError
from harness.metadata.model.murmur3 import murmur3
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from harness.writing.iceberg.evolution import find_field
from harness.writing.iceberg.types import from_unscaled, minimal_bytes, schema_json, unscaled

_DAY_US = 86_400_000_000


def result_type(transform: str, source: Type) -> Type:
    """Return the type of a transform's results. A transform that Iceberg does not define has strings as results."""
    match _split(transform):
        case (("identity" | "void" | "truncate"), _):
            return source
        case "day", _:
            return DateType()
        case (("bucket" | "year" | "month" | "hour"), _):
            return IntegerType(32)
        case _:
            return StringType()


def transform_value(transform: str, source: Type, value: Any) -> object:
    """Return the partition value of a stored value. Null stays null.

    Raises:
        RequestError: Iceberg does not define the transform, or not for this type. Pass the partition explicitly then.
    """
    name, argument = _split(transform)
    if value is None or name == "void":
        return None
    match name, source:
        case "identity", _:
            return value
        case "bucket", _:
            return (murmur3(_hash_input(source, value)) & 0x7FFFFFFF) % argument
        case "truncate", DecimalType(scale=scale):
            number = unscaled(value, scale)
            return from_unscaled(number - number % argument, scale)
        case "truncate", IntegerType():
            return value - value % argument
        case "truncate", StringType() | BinaryType():
            return value[:argument]
        case (("year" | "month" | "day"), DateType()):
            return _calendar_units(name, value)
        case (("year" | "month" | "day" | "hour"), TimestampType(unit=unit)):
            micros = value // 1000 if unit == "ns" else value
            return micros // (_DAY_US // 24) if name == "hour" else _calendar_units(name, micros // _DAY_US)
        case _:
            raise RequestError(f"Cannot apply {transform} to {source}: set the partition value with `partition`")


def _split(transform: str) -> tuple[str, int]:
    matched = re.fullmatch(r"(\w+)\[(\d+)\]", transform)
    return (matched[1], int(matched[2])) if matched is not None else (transform, 0)


def _hash_input(source: Type, value: Any) -> bytes:
    match source:
        case IntegerType() | DateType() | TimeType():
            return int(value).to_bytes(8, "little", signed=True)
        case TimestampType(unit=unit):
            return int(value // 1000 if unit == "ns" else value).to_bytes(8, "little", signed=True)
        case DecimalType(scale=scale):
            return minimal_bytes(unscaled(value, scale))
        case StringType():
            return str(value).encode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(value)
        case _:
            raise RequestError(f"Cannot apply bucket to {source}: Iceberg defines no hash of this type")


def _calendar_units(name: str, days: int) -> int:
    """Return the years or months since 1970, or the days themselves, of a day.

    The day may be outside the range of `datetime`.
    """
    if name == "day":
        return days
    # Count from 0000-03-01 in cycles of 400 years, so that the leap day is the last day of its year.
    cycle, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    month = (5 * (day - (365 * year + year // 4 - year // 100)) + 2) // 153
    months = (cycle * 400 + year) * 12 + month + 2 - 1970 * 12
    return months if name == "month" else months // 12


SpecEntry: TypeAlias = tuple[str, str] | tuple[str, str, str]
FIRST_PARTITION_ID = 1000
_SUFFIXES = {"bucket": "_bucket", "truncate": "_trunc", "void": "_null", "identity": ""}


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A field of a partition spec."""

    field_id: int
    source_id: int
    name: str
    transform: str


@dataclass(slots=True)
class TableDocument:
    """The metadata to be written, and the typed schemas and specs that it was made from.

    Attributes:
        doc: The metadata as JSON.
        schemas: All schemas, oldest first.
        specs: The partition specs by id.
        write_defaults: The write defaults as JSON, by field id.
    """

    doc: dict[str, Any]
    schemas: list[Schema] = field(default_factory=list)
    specs: dict[int, tuple[PartitionColumn, ...]] = field(default_factory=dict)
    write_defaults: dict[int, object] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The format version."""
        return int(self.doc["format-version"])

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return next(s for s in self.schemas if s.id == self.doc["current-schema-id"])

    def set_schema(self, schema: Schema) -> None:
        """Make a schema the current one, under a new id unless it is the table's first schema."""
        ids = [s.id for s in self.schemas]
        schema = replace(schema, id=max(ids) + 1) if ids else schema
        self.schemas.append(schema)
        as_json = schema_json(schema, self.write_defaults)
        self.doc.setdefault("schemas", []).append(as_json)
        self.doc["current-schema-id"] = schema.id
        self.doc["last-column-id"] = max((self.doc.get("last-column-id", 0), *(f.id for _, f in schema.walk())))
        if self.version == 1:
            self.doc["schema"] = as_json

    def set_spec(self, entries: Sequence[SpecEntry]) -> None:
        """Make a partition spec the default one, under a new id unless it is the table's first spec."""
        field_ids = {(c.source_id, c.transform): c.field_id for spec in self.specs.values() for c in spec}
        next_id = self.doc.get("last-partition-id", FIRST_PARTITION_ID - 1) + 1
        columns = []
        for position, (source, transform, *rest) in enumerate(entries):
            source_id = find_field(self.schema, source).id
            if self.version == 1:
                field_id = FIRST_PARTITION_ID + position
            elif (source_id, transform) in field_ids:
                field_id = field_ids[source_id, transform]
            else:
                field_id, next_id = next_id, next_id + 1
            name = rest[0] if rest else _default_name(source, transform)
            columns.append(PartitionColumn(field_id, source_id, name, transform))
        spec = tuple(columns)
        spec_id = max(self.specs, default=-1) + 1
        self.specs[spec_id] = spec
        spec_field_ids = [c.field_id for c in spec]
        self.doc.setdefault("partition-specs", []).append({"spec-id": spec_id, "fields": self.spec_json(spec_id)})
        self.doc["default-spec-id"] = spec_id
        self.doc["last-partition-id"] = max(
            [self.doc.get("last-partition-id", FIRST_PARTITION_ID - 1), *spec_field_ids]
        )
        if self.version == 1:
            self.doc["partition-spec"] = self.spec_json(spec_id)

    def spec_json(self, spec_id: int) -> list[dict[str, object]]:
        """Return the fields of a spec as JSON."""
        return [
            {"source-id": c.source_id, "field-id": c.field_id, "name": c.name, "transform": c.transform}
            for c in self.specs[spec_id]
        ]

    def source_type(self, source_id: int) -> Type:
        """Return the newest type of a column, also of a dropped column."""
        for schema in [self.schema, *reversed(self.schemas)]:
            entry = schema.by_id().get(source_id)
            if entry is not None:
                return entry[1].type
        return UnknownType()

    def partition_fields(self, spec_id: int) -> tuple[Field, ...]:
        """Return the fields of the partition tuple, with the types of the transforms' results."""
        return tuple(
            Field(id=c.field_id, name=c.name, type=result_type(c.transform, self.source_type(c.source_id)))
            if not isinstance(self.source_type(c.source_id), UnknownType)
            else Field(id=c.field_id, name=c.name, type=StringType())
            for c in self.specs[spec_id]
        )

    def ref(self, name: str) -> int | None:
        """Return the snapshot id of a branch or tag, or None if it does not exist."""
        entry = self.doc.get("refs", {}).get(name)
        return None if entry is None else int(entry["snapshot-id"])

    def parent_of(self, branch: str | None) -> int | None:
        """Return the parent snapshot of a commit.

        Args:
            branch: The branch of the commit. None for a staged commit.

        Returns:
            The snapshot id. None for the table's first snapshot.

        Raises:
            RequestError: There is no such branch.
        """
        name = "main" if branch is None else branch
        parent = self.ref(name)
        if parent is None and name != "main":
            raise RequestError(f"Cannot commit to {name}: there is no such branch; create it with create_branch")
        return parent

    def set_ref(self, name: str, snapshot_id: int, kind: str, timestamp_ms: int) -> None:
        """Point a branch or tag at a snapshot. If it is `main`, make the snapshot current and log it.

        Raises:
            RequestError: The table has no such snapshot.
        """
        self.snapshot(snapshot_id)
        self.doc.setdefault("refs", {})[name] = {"snapshot-id": snapshot_id, "type": kind}
        if name == "main":
            self.doc["current-snapshot-id"] = snapshot_id
            log = self.doc.setdefault("snapshot-log", [])
            log.append({"timestamp-ms": timestamp_ms, "snapshot-id": snapshot_id})

    def snapshot(self, snapshot_id: int) -> dict[str, Any]:
        """Return the JSON of a snapshot.

        Raises:
            RequestError: The table has no such snapshot.
        """
        for snapshot in self.doc.get("snapshots", []):
            if snapshot["snapshot-id"] == snapshot_id:
                return dict(snapshot)
        ids = [s["snapshot-id"] for s in self.doc.get("snapshots", [])]
        raise RequestError(f"No snapshot {snapshot_id}; the table has {ids}")

    def add_snapshot(self, snapshot: Mapping[str, Any], branch: str | None) -> None:
        """Append a snapshot and move the branch to it. With None, no branch moves."""
        self.doc.setdefault("snapshots", []).append(dict(snapshot))
        if "sequence-number" in snapshot:
            self.doc["last-sequence-number"] = snapshot["sequence-number"]
        if "added-rows" in snapshot:
            self.doc["next-row-id"] += snapshot["added-rows"]
        if branch is not None:
            self.set_ref(branch, snapshot["snapshot-id"], "branch", snapshot["timestamp-ms"])

    def expire(self, snapshot_id: int) -> None:
        """Remove a snapshot, and the snapshot log up to it, because a log with a gap would yield wrong answers.

        Raises:
            RequestError: There is no such snapshot, or a branch or tag points to it.
        """
        self.snapshot(snapshot_id)
        ref_names = [name for name, ref in self.doc.get("refs", {}).items() if ref["snapshot-id"] == snapshot_id]
        if ref_names:
            raise RequestError(f"Cannot expire snapshot {snapshot_id}: {', '.join(ref_names)} points to it")
        self.doc["snapshots"] = [s for s in self.doc["snapshots"] if s["snapshot-id"] != snapshot_id]
        log = self.doc.get("snapshot-log", [])
        last = max((i for i, entry in enumerate(log) if entry["snapshot-id"] == snapshot_id), default=-1)
        self.doc["snapshot-log"] = log[last + 1 :]

    def upgrade(self, version: int) -> None:
        """Raise the format version without changing files and snapshots.

        Raises:
            RequestError: The version is not higher than the current one, or is above 3.
        """
        if not self.version < version <= 3:
            raise RequestError(f"Cannot upgrade from format version {self.version} to {version}: expected up to 3")
        if self.version == 1:
            self.doc.pop("schema", None)
            self.doc.pop("partition-spec", None)
            self.doc["last-sequence-number"] = 0
        if version == 3:
            self.doc["next-row-id"] = 0
        self.doc["format-version"] = version


def empty_document(version: int, table_uuid: str, location: str) -> dict[str, object]:
    """Return the metadata of a table without schema, spec, and snapshot."""
    doc: dict[str, object] = {
        "format-version": version,
        "table-uuid": table_uuid,
        "location": location,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "properties": {},
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }
    if version < 3:
        doc["current-snapshot-id"] = -1
    if version > 1:
        doc["last-sequence-number"] = 0
    if version > 2:
        doc["next-row-id"] = 0
    return doc


def _default_name(source: str, transform: str) -> str:
    kind = transform.partition("[")[0]
    return source + _SUFFIXES.get(kind, f"_{kind}")
