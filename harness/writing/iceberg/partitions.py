"""Partition tuples of files, given explicitly or computed from the rows, and the directories named after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import Schema
from harness.writing.iceberg.avro import avro_name, avro_value
from harness.writing.iceberg.document import TableDocument, transform_value
from harness.writing.iceberg.evolution import field_chain
from harness.writing.iceberg.files import stored_rows
from harness.writing.iceberg.types import default_json, stored_value


def partition_of(
    document: TableDocument,
    values: Mapping[str, object] | None,
    spec_id: int,
    schema: Schema,
    rows: Sequence[Mapping[int, object]] | pa.Table,
) -> dict[str, object]:
    """Return the partition tuple of a file.

    Args:
        document: The table's document.
        values: Python values by partition field name. None for the tuple that all rows share.
        spec_id: The id of the partition spec.
        schema: The schema of the rows.
        rows: The rows of the file.

    Raises:
        RequestError: A name is not a field of the spec, a value does not fit its type, or the rows belong to several
            partitions.
    """
    return (
        _common_tuple(document, spec_id, schema, rows) if values is None else _explicit_tuple(document, spec_id, values)
    )


def group_by_partition(
    document: TableDocument, spec_id: int, schema: Schema, rows: Sequence[Mapping[str, object]]
) -> list[list[Mapping[str, object]]]:
    """Return Python rows grouped by partition, in the order of the partitions' first rows."""
    groups: dict[str, list[Mapping[str, object]]] = {}
    for row, content in zip(rows, stored_rows(schema, rows), strict=True):
        groups.setdefault(repr(_row_tuple(document, spec_id, schema, content)), []).append(row)
    return list(groups.values())


def _row_tuple(document: TableDocument, spec_id: int, schema: Schema, row: Mapping[int, object]) -> dict[str, Any]:
    """Return the partition tuple of a stored row."""
    result = {}
    for column in document.specs[spec_id]:
        chain = field_chain(schema, column.source_id)
        value: Any = row
        for f in chain:
            value = None if value is None else value.get(f.id)
        result[avro_name(column.name)] = transform_value(column.transform, chain[-1].type, value)
    return result


def partition_directory(document: TableDocument, spec_id: int, values: Mapping[str, object]) -> str:
    """Return `name=value/` for each partition field, percent-encoded. It is empty for an unpartitioned spec."""
    parts = []
    for f in document.partition_fields(spec_id):
        value = values.get(avro_name(f.name))
        try:
            text = "null" if value is None else str(default_json(f.type, value))
        except OverflowError:  # `datetime` does not support this year.
            text = str(value)
        parts.append(f"{quote(f.name, safe='')}={quote(text, safe='')}/")
    return "".join(parts)


def _explicit_tuple(document: TableDocument, spec_id: int, values: Mapping[str, object]) -> dict[str, object]:
    fields = document.partition_fields(spec_id)
    unknown = set(values) - {f.name for f in fields}
    if unknown:
        names = ", ".join(f.name for f in fields) or "none"
        raise RequestError(f"No partition field {', '.join(sorted(unknown))} in spec {spec_id}; it has {names}")
    return {avro_name(f.name): avro_value(f.type, stored_value(f.type, values.get(f.name))) for f in fields}


def _common_tuple(
    document: TableDocument, spec_id: int, schema: Schema, rows: Sequence[Mapping[int, object]] | pa.Table
) -> dict[str, object]:
    columns = document.specs[spec_id]
    if not columns:
        return {}
    if isinstance(rows, pa.Table):
        table = rows
        tops = {field_chain(schema, c.source_id)[0] for c in columns}
        present = [f for f in tops if f.name in table.column_names]
        if all(not isinstance(table.schema.field(f.name).type, pa.StructType) for f in present):
            table = table.select([f.name for f in present]).group_by([f.name for f in present]).aggregate([])
        rows = [{f.id: stored_value(f.type, row[f.name]) for f in present} for row in table.to_pylist()]
    tuples: list[dict[str, object]] = []
    for row in rows:
        candidate = _row_tuple(document, spec_id, schema, row)
        # Compare texts, so that NaN equals itself, and -0.0 differs from 0.0.
        if all(repr(candidate) != repr(t) for t in tuples):
            tuples.append(candidate)
    if len(tuples) != 1:
        raise RequestError(
            f"Cannot determine the partition of the rows: they are in {len(tuples)} partitions; set `partition`, "
            "or use write_partitioned"
        )
    return tuples[0]
