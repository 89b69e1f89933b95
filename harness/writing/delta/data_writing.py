"""Writing one data file: which columns under which names, where it goes, and how the log names it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.model.schema import Field, Schema
from harness.writing.delta.files import (
    DataFileHandle,
    FileOptions,
    add_action,
    file_table,
    physical_fields,
    table_statistics,
    write_parquet,
)
from harness.writing.delta.types import Json
from harness.writing.delta.values import encoded_path
from harness.writing.iceberg.evolution import find_field

Addressing: TypeAlias = Literal["relative", "/", "file:/", "file:///", "file://localhost/"]


@dataclass(frozen=True, slots=True)
class DataFileWriter:
    """Writes files of one table under one schema. mapped: whether files carry field ids."""

    directory: Path
    schema: Schema
    options: FileOptions
    mapped: bool

    def content(
        self,
        rows: Sequence[dict[int, Any]] | pa.Table,
        columns: Sequence[str] | None,
        hidden: Collection[str],
        names: Mapping[str, str],
    ) -> tuple[pa.Table, Json | None]:
        """The columns of the file and its statistics. hidden: columns that only the log holds.

        An Arrow table is written as it is; the statistics are of its columns that have physical names.
        """
        fields = self._chosen(columns, hidden)
        log_fields = physical_fields(fields, {})
        if isinstance(rows, pa.Table):
            return rows, table_statistics(rows, fields, log_fields, self.options)
        under_log_names = file_table(log_fields, rows, ids="none")
        stats = table_statistics(under_log_names, fields, log_fields, self.options)
        others = {find_field(self.schema, path).id: name for path, name in names.items()}
        with_ids = self.mapped if self.options.field_ids is None else self.options.field_ids
        file_fields = physical_fields(fields, others)
        return file_table(file_fields, rows, ids="ids" if with_ids else "none"), stats

    def write(
        self,
        table: pa.Table,
        path: str,
        addressing: Addressing,
        partition_values: Mapping[str, str | None],
        modified_ms: int,
        stats: Json | None,
    ) -> DataFileHandle:
        """Write the file; its handle."""
        file = self.directory / path
        write_parquet(file, table, self.options, modified_ms)
        if addressing == "relative" and not Path(path).is_absolute():
            recorded = encoded_path(path)
        else:
            start = "file:///" if addressing == "relative" else addressing
            recorded = start + encoded_path(str(file.absolute()).lstrip("/"))
        add = add_action(recorded, file, partition_values, modified_ms, stats)
        return DataFileHandle(file, add, table.num_rows)

    def _chosen(self, columns: Sequence[str] | None, hidden: Collection[str]) -> tuple[Field, ...]:
        if columns is not None:
            return tuple(find_field(self.schema, c) for c in columns)
        return tuple(f for f in self.schema.fields if f.name not in hidden)
