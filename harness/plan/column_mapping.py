"""How the columns of a table are found among those of a data file.

Spec: Delta, "Column Mapping"; Iceberg, "Column Projection".
"""

from __future__ import annotations

import enum

from harness.model.file_schema import PhysicalField, PhysicalSchema
from harness.model.schema import Field


class ColumnLookup(enum.Enum):
    """The rules of one format, and of one way of its writers, by which columns are found at every struct level.

    ICEBERG: by field id, or as a name mapping says in files without ids; the file comes before the partition tuple.
    DELTA_NAME: by the physical name, else the display name, whatever ids a file has; the partition values come first.
    DELTA_ID: by field id, whatever names a file has; the partition values come first.
    """

    ICEBERG = "iceberg"
    DELTA_NAME = "delta name"
    DELTA_ID = "delta id"

    @property
    def is_delta(self) -> bool:
        """Whether Delta's rules hold for what is missing, wider or stored beside a partition value."""
        return self is not ColumnLookup.ICEBERG


def stored_name(field: Field) -> str:
    """The name under which data files, statistics and partition values know a field: physical, else logical."""
    return field.name if field.physical_name is None else field.physical_name


def by_id(field_id: int, level: PhysicalSchema) -> list[PhysicalField]:
    """The stored fields of one level with that id; more than one is an error that the caller knows how to name."""
    return [f for f in level if f.id == field_id]


def by_name(name: str, level: PhysicalSchema) -> list[PhysicalField]:
    """The stored fields of one level called `name`, else those called so in another letter case (delta T10, E4)."""
    exact = [f for f in level if f.name == name]
    if exact:
        return exact
    lowered = name.lower()
    return [f for f in level if f.name.lower() == lowered]
