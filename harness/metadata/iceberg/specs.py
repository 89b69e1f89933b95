"""Partition specs and sort orders (iceberg 1.18 to 1.21, 2.22, 4.2)."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.iceberg.json_doc import Json, show
from harness.metadata.iceberg.transforms import Transform, UnknownTransform, Void, parse_transform
from harness.storage.records import dataclass

FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of a partition spec.

    field_id: unique within the spec only: v1 specs may give one id several meanings (iceberg 1.19).
    source_id: the column that the transform reads; None for a transform of several columns.
    source_ids: all columns that the transform reads, at least one.
    transform: an `UnknownTransform` where it reads several columns (iceberg 1.20).
    """

    field_id: int
    source_id: int | None
    source_ids: tuple[int, ...]
    name: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How rows are assigned to partitions, under an id that manifests refer to."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all files share one partition: no fields, or only void ones (iceberg 4.2)."""
        return all(isinstance(field.transform, Void) for field in self.fields)


class Direction(enum.Enum):
    """Which way a sort field runs."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class NullOrder(enum.Enum):
    """Where nulls go in a sort field."""

    FIRST = "nulls-first"
    LAST = "nulls-last"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key of a sort order; sources and transform as in `PartitionField`."""

    source_id: int | None
    source_ids: tuple[int, ...]
    transform: Transform
    direction: Direction
    null_order: NullOrder


@dataclass(frozen=True, slots=True)
class SortOrder:
    """How writers should sort rows within files. Informative: reading never relies on it."""

    id: int
    fields: tuple[SortField, ...]


def parse_spec(document: Json) -> PartitionSpec:
    """A partition spec from one element of `partition-specs`.

    Raises:
        InvalidTableError: a part is missing, field ids repeat, or only some fields have ids (iceberg 1.19).
    """
    return PartitionSpec(document.integer("spec-id", bits=32), parse_spec_fields(document.child("fields")))


def parse_spec_fields(fields: Json) -> tuple[PartitionField, ...]:
    """Partition fields from their list. Where none has an id they are numbered from 1000 (iceberg 1.19).

    Raises:
        InvalidTableError: as for `parse_spec`.
    """
    fields = fields.under("iceberg 1.19")
    items = list(fields.items())
    with_id = sum(item.has("field-id") for item in items)
    if with_id not in (0, len(items)):
        raise fields.error(f"Invalid partition spec: {with_id} of {len(items)} fields have an id, expected all or none")
    parsed = tuple(
        _partition_field(item, FIRST_PARTITION_FIELD_ID + index if with_id == 0 else item.integer("field-id", bits=32))
        for index, item in enumerate(items)
    )
    ids = [field.field_id for field in parsed]
    repeated = next((id_ for index, id_ in enumerate(ids) if id_ in ids[:index]), None)
    if repeated is not None:
        raise fields.error(f"Invalid partition spec: field id {repeated} occurs twice, expected unique ids")
    return parsed


def parse_header_spec(text: str, spec_id: int, *, file: str) -> PartitionSpec:
    """The spec of a manifest's own header, for a spec id that the table metadata lacks (iceberg 2.22).

    text: the header's `partition-spec`: a list of fields, or (as some writers put it) the object around them.

    Raises:
        CorruptFileError: the text is no partition spec.
    """
    try:
        value = json.loads(text)
        fields = value.get("fields") if isinstance(value, dict) else value
        return PartitionSpec(spec_id, parse_spec_fields(Json(fields, file, ("partition-spec",))))
    except (ValueError, RecursionError, InvalidTableError) as error:
        raise CorruptFileError(
            f"Cannot parse the partition spec in the manifest's header: got {show(text)}, expected a list of fields",
            cause="CorruptManifest",
            file=file,
            field="partition-spec",
            rule="iceberg 2.22",
        ) from error


def parse_sort_order(document: Json) -> SortOrder:
    """A sort order from one element of `sort-orders`.

    Raises:
        InvalidTableError: a part is missing or has an unknown value.
    """
    fields = tuple(_sort_field(item) for item in document.elements("fields"))
    return SortOrder(document.integer("order-id", bits=32), fields)


def last_partition_id(specs: Sequence[PartitionSpec]) -> int:
    """The highest partition field id in use, 999 if there is none (iceberg 1.18)."""
    return max((field.field_id for spec in specs for field in spec.fields), default=FIRST_PARTITION_FIELD_ID - 1)


def _partition_field(item: Json, field_id: int) -> PartitionField:
    sources = _sources(item)
    return PartitionField(
        field_id=field_id,
        source_id=sources[0] if len(sources) == 1 else None,
        source_ids=sources,
        name=item.text("name"),
        transform=_transform(item, sources),
    )


def _sort_field(item: Json) -> SortField:
    sources = _sources(item)
    return SortField(
        source_id=sources[0] if len(sources) == 1 else None,
        source_ids=sources,
        transform=_transform(item, sources),
        direction=item.choice("direction", Direction),
        null_order=item.choice("null-order", NullOrder),
    )


def _sources(item: Json) -> tuple[int, ...]:
    """`source-ids`, or `source-id` as a list of one (iceberg 1.20)."""
    return item.integers("source-ids") or (item.integer("source-id", bits=32),)


def _transform(item: Json, sources: tuple[int, ...]) -> Transform:
    text = item.text("transform")
    return parse_transform(text) if len(sources) == 1 else UnknownTransform(text)
