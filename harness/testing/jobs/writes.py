"""What a job under test writes: rows in a scratch directory, with how they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.metadata.files.parquet import open_parquet

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WHOLE = frozenset({"create", "replace", "createOrReplace", "overwrite"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write of a job.

    mode: `append`, `overwrite`, `overwritePartitions`, `create`, `replace` or `createOrReplace`.
    partitioned_by: the table's partitioning as Spark writes it, `days(ts)`; empty: none, or not known.
    where: of an overwrite, which rows it takes the place of; None: all.
    schema: of the rows, as Spark has it.
    options: of the write.
    directory: where the rows are, as Parquet; None: there are none, as of `CREATE TABLE`.
    """

    mode: str
    schema: StructType
    directory: Path | None
    partitioned_by: tuple[str, ...] = ()
    where: str | None = None
    options: Mapping[str, str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether what stood in the table before is gone."""
        return self.mode in _WHOLE and self.where is None

    @property
    def is_known(self) -> bool:
        """Whether the table's rows are known after it, if they were before."""
        return self.is_whole or self.mode == "append"

    @property
    def rows(self) -> pa.Table:
        """The rows that were written, in any order; instants in UTC."""
        schema = _arrow_schema(self.schema)
        files = [] if self.directory is None else sorted(self.directory.rglob("*.parquet"))
        tables = [open_parquet(file).read() for file in files]
        return pa.concat_tables([schema.empty_table(), *(_as(table, schema) for table in tables)])


def _arrow_schema(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )  # since Spark 4.1
    return to_arrow_schema(schema, **zone)


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [table.column(field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def overwrite_of(options: Mapping[str, str], *, dynamic: bool = False) -> tuple[str, str | None]:
    """The mode of an overwrite and which rows it takes the place of, by the options of Delta's and Iceberg's writers.

    dynamic: whether the session says that overwrites are of partitions.
    """
    given = {name.lower().removeprefix("option."): value for name, value in options.items()}
    if "replacewhere" in given:
        return "overwrite", given["replacewhere"]
    modes = (given.get("partitionoverwritemode"), given.get("overwrite-mode"))
    told = next((mode for mode in modes if mode is not None), "dynamic" if dynamic else "static")
    return ("overwritePartitions" if told.lower() == "dynamic" else "overwrite"), None


def since_whole(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """The writes from the last one that took the place of all rows."""
    starts = [number for number, write in enumerate(writes) if write.is_whole]
    return writes[starts[-1] :] if starts else writes
