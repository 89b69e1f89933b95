"""How a source is partitioned, in the words of Spark."""

from __future__ import annotations

from harness.table import Table

_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def partitioned_by(table: Table) -> tuple[str, ...]:
    """`region`, `days(ts)`, `bucket(4, id)`, by the current spec; empty where it is not partitioned."""
    if table.format == "delta":
        return tuple(f.name for f in table.source.latest.columns.partition_columns)  # type: ignore[attr-defined]
    metadata = table.source.metadata  # type: ignore[attr-defined]
    names = {f.id: f.name for f in table.schema.fields}
    fields = metadata.specs[metadata.default_spec_id].fields
    said = [_said(str(f.transform), [names.get(id_, f.name) for id_ in f.source_ids]) for f in fields]
    return tuple(text for text in said if text is not None)


def _said(transform: str, columns: list[str]) -> str | None:
    name, _, width = transform.rstrip("]").partition("[")
    if name == "void":
        return None
    if name == "identity":
        return columns[0]
    return f"{_TIMES.get(name, name)}({', '.join([width, *columns] if width else columns)})"
