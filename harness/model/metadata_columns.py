"""Columns that no file holds: where a row came from, and how it changed."""

from __future__ import annotations

from harness.model.schema import BooleanType, Field, IntegerType, StringType, StructType, TimestampType

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
        Field(id=2147483538, name="_row_commit_version", type=IntegerType(64)),
    )
}
"""Metadata columns by name, with the ids that Iceberg reserves (iceberg 5.17); the last is Delta's (delta W3)."""

CHANGES: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483543, name="_change_type", type=StringType()),
        Field(id=2147483537, name="_commit_version", type=IntegerType(64)),
        Field(id=2147483536, name="_commit_timestamp", type=TimestampType(utc=True)),
    )
}
"""The columns that a Delta change data feed adds to those of the table, in order (delta C10).

Iceberg reserves an id for the type of a change. The others have free ones: no delete file has a column of theirs.
"""
