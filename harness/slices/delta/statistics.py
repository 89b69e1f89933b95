"""What the log says of a data file that was written anew: statistics under the names that the file has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from harness.model.schema import Field, StructType
from harness.slices.delta.actions import Json
from harness.writing.delta.stats import statistics_of

_BOUNDS_LENGTH = 32  # characters, as Delta's own writers cut bounds
_BOUNDS = ("minValues", "maxValues", "nullCount")


def file_statistics(values: pa.Table, fields: tuple[Field, ...]) -> Json:
    """The statistics of a file with these values; `fields` name the columns as the table does."""
    found = statistics_of(values, fields, _BOUNDS_LENGTH)
    return {name: _physical(part, fields) if name in _BOUNDS else part for name, part in found.items()}


def _physical(level: Json, fields: tuple[Field, ...]) -> Json:
    """The same under physical names."""
    by_name = {f.name: f for f in fields}
    return {by_name[name].physical_name or name: _inner(by_name[name], value) for name, value in level.items()}


def _inner(field: Field, value: Any) -> Any:
    return _physical(value, field.type.fields) if isinstance(field.type, StructType) else value
