"""Partition values of files: given by name, or shared by the rows; and the folder that is named after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from harness.errors import RequestError
from harness.model.schema import Field, Schema
from harness.writing.delta.values import folder_name, partition_text
from harness.writing.iceberg.types import stored


def fields_of(schema: Schema, names: Sequence[str]) -> tuple[Field, ...]:
    """The columns with these names, in the order of the names."""
    by_name = {f.name: f for f in schema.fields}
    return tuple(by_name[name] for name in names)


def given_values(
    columns: Sequence[Field], natural: Mapping[str, Any], texts: Mapping[str, str | None]
) -> dict[str, str | None]:
    """`partitionValues` of natural values by column name; a text of `texts` is taken as it is. Others are null.

    Raises:
        RequestError: a name is not of a partition column, or a value does not fit.
    """
    unknown = {*natural, *texts} - {f.name for f in columns}
    if unknown:
        names = ", ".join(f.name for f in columns) or "none"
        raise RequestError(f"No partition column {', '.join(sorted(unknown))}; the table has {names}")
    return {
        f.physical_name or f.name: texts[f.name]
        if f.name in texts
        else partition_text(f.type, stored(f.type, natural.get(f.name)))
        for f in columns
    }


def shared_values(columns: Sequence[Field], rows: Sequence[Mapping[int, Any]] | pa.Table) -> dict[str, str | None]:
    """`partitionValues` that all rows share.

    Raises:
        RequestError: the rows have none in common, or are no rows.
    """
    if not columns:
        return {}
    if isinstance(rows, pa.Table):
        raise RequestError("Cannot tell the partition of an Arrow table; name it with `partition`")
    found = {tuple(values_of(columns, row).items()) for row in rows}
    if len(found) != 1:
        raise RequestError(
            f"Cannot tell the partition of the rows: they fall in {len(found)}; name it with `partition`, "
            "or use write_partitioned"
        )
    return dict(found.pop())


def values_of(columns: Sequence[Field], row: Mapping[int, Any]) -> dict[str, str | None]:
    """`partitionValues` of one stored row."""
    return {f.physical_name or f.name: partition_text(f.type, row.get(f.id)) for f in columns}


def grouped(
    columns: Sequence[Field], rows: Sequence[Mapping[str, Any]], stored_rows: Sequence[Mapping[int, Any]]
) -> list[list[Mapping[str, Any]]]:
    """Natural rows by partition, in the order in which the partitions first occur; `stored_rows` are the same rows."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row, content in zip(rows, stored_rows, strict=True):
        groups.setdefault(tuple(values_of(columns, content).items()), []).append(row)
    return list(groups.values())


def folder(columns: Sequence[Field], values: Mapping[str, str | None]) -> str:
    """`column=value/` for each partition column, escaped as Hive does; empty for a table without partitions."""
    names = [f.physical_name or f.name for f in columns]
    return "".join(f"{folder_name(name, values.get(name))}/" for name in names)
