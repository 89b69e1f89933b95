"""How the columns of one data file become the columns of a read: the projection of a file's schema onto a table's.

Pure: takes a file's physical schema and the fields that a read wants, and says per field where its values come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.schema import BooleanType, Field, IntegerType, StringType, StructType, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalField:
    """One column or nested field of a data file.

    name: as stored, which may differ from the table's (sanitised, renamed, Hive style).
    id: the field id in the file; None: the file gives none.
    type: the type as stored; nested types have `PhysicalField`s in `children`, and `StructType(())` and the like here.
    children: struct fields; or (element,); or (key, value). A list or map says what users see, without the
        repeated groups in between.
    """

    name: str
    id: int | None
    type: Type
    children: tuple[PhysicalField, ...] = ()


PhysicalSchema: TypeAlias = tuple[PhysicalField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedName:
    """One entry of a name mapping: a column called any of `names` has `field_id`; None hides it (iceberg 5.7)."""

    names: tuple[str, ...]
    field_id: int | None
    fields: tuple[MappedName, ...] = ()


@dataclass(frozen=True, slots=True)
class NameMapping:
    """Field ids for the columns of files that have none. Nested levels use `element`, `key` and `value`."""

    fields: tuple[MappedName, ...]


METADATA: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483646, name="_file", type=StringType()),
        Field(id=2147483645, name="_pos", type=IntegerType(64)),
        Field(id=2147483644, name="_deleted", type=BooleanType()),
        Field(id=2147483643, name="_spec_id", type=IntegerType(32)),
        Field(id=2147483642, name="_partition", type=StructType(())),
        Field(id=2147483540, name="_row_id", type=IntegerType(64)),
        Field(id=2147483539, name="_last_updated_sequence_number", type=IntegerType(64)),
    )
}
"""Metadata columns by name, with the ids that the format reserves for them (iceberg 5.17)."""


# Where a field's values come from.


@dataclass(frozen=True, slots=True)
class Stored:
    """The file has the field. `parts`: sources of a struct's fields, or of (element,), or of (key, value)."""

    physical: PhysicalField
    parts: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """The same value in every row of the file, in stored form: a default, or null."""

    value: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The constant of the file's partition tuple for this field id; may differ from file to file."""

    field_id: int


Source: TypeAlias = Stored | Value | PartitionValue
