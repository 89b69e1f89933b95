"""Rows of a query that has not run yet, read batch by batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.errors import EngineError, HarnessError
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS = 8_192
"""Few, because a batch of lines of text may have no more than 2 GB; and a terminal shows the first ones early."""


def engine_error(error: Exception) -> HarnessError:
    """A failure of DuckDB about which nothing more is known."""
    return EngineError(f"DuckDB cannot run the query: {error}")


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of a query, which runs at each reading. `docs/reference/result-types.md` has types.

    relation: on a connection that harness made. failure: the error of harness for one of DuckDB.
    """

    relation: duckdb.DuckDBPyRelation
    failure: Callable[[Exception], HarnessError] = engine_error

    @classmethod
    def of(cls, table: pa.Table) -> QueryRows:
        """The rows of a table."""
        from harness.engines.duckdb.instance import cursor
        from harness.metadata.filters import sqltext

        names = table.column_names
        if len({name.casefold() for name in names}) == len(names):
            return cls(cursor().from_arrow(table))
        places = cursor().from_arrow(table.rename_columns([f"c{i}" for i in range(len(names))]))
        return cls(places.project(", ".join(f"#{i} AS {sqltext.name(name)}" for i, name in enumerate(names, 1))))

    @property
    def columns(self) -> list[tuple[str, Any]]:
        """Name and DuckDBPyType of each column; names may repeat."""
        return list(zip(self.relation.columns, self.relation.types, strict=True))

    def schema(self) -> pa.Schema:
        """The schema of the batches; reads no rows."""
        with self._told():
            return _file_schema(self.relation.limit(0).to_arrow_table().schema)

    def selected(self, *columns: str) -> QueryRows:
        """Rows of other columns in the same order, each in SQL that calls the columns #1, #2 and so on."""
        return replace(self, relation=self.relation.project(", ".join(columns)))

    def as_arrow(self) -> QueryRows:
        """The rows in types that Arrow has itself."""
        from harness.engines.duckdb.relations import given_out

        columns = given_out(self.relation.columns, self.relation.types, as_arrow=True)
        return self if columns is None else self.selected(columns)

    def batches(self, size: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, while DuckDB goes on, at most `size` a batch. A failure on a first row comes before any batch."""
        from harness.engines.duckdb.engine import Streamed

        with self._told():
            stream = Streamed(self.relation, size)
        schema = _file_schema(stream.schema)
        with contextlib.closing(stream):
            while True:
                with self._told():
                    batch = stream.read()
                if batch is None:
                    return
                yield batch.cast(schema)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # of a stream that runs DuckDB's are OSErrors
            raise self.failure(error) from error


def _file_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_with_booleans(field.type)) for field in schema])


def _with_booleans(type_: pa.DataType) -> pa.DataType:
    """The type with booleans for DuckDB's bytes of them, which files would call numbers."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.bool_() if type_.extension_name == "arrow.bool8" else type_
    parts = [_with_booleans(type_.field(i).type) for i in range(type_.num_fields)]
    if all(part.equals(type_.field(i).type) for i, part in enumerate(parts)):
        return type_
    match type_:
        case pa.StructType():
            return pa.struct([field.with_type(part) for field, part in zip(type_, parts, strict=True)])
        case pa.ListType():
            return pa.list_(type_.value_field.with_type(parts[0]))
        case pa.FixedSizeListType():
            return pa.list_(type_.value_field.with_type(parts[0]), type_.list_size)
        case pa.MapType():
            return pa.map_(*(_with_booleans(part) for part in (type_.key_type, type_.item_type)))
        case _:  # a union, which Arrow does not cast
            return type_
