"""A side that is Arrow data: few rows stay in memory, the rest of a stream is put aside in a DuckDB file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from harness.differ.duckdb_side import DuckDBSide, failing
from harness.differ.forms import carried, plain, storage_type
from harness.differ.result import SideInfo
from harness.errors import EngineError
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.threads import tracked

_MEMORY = "512MB"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowSide:
    """Rows of an Arrow stream.

    whole: all rows, where they are in memory. stored: one entry once the rows are in DuckDB.
    """

    info: SideInfo
    schema: pa.Schema
    whole: pa.Table | None
    resources: ExitStack = field(repr=False)
    stored: list[DuckDBSide] = field(default_factory=list, repr=False)

    @property
    def plan(self) -> ScanPlan | None:
        """None: Arrow data is no planned table."""
        return None

    def head(self, columns: Sequence[str], limit: int) -> pa.Table:
        """At most `limit` rows."""
        if self.whole is None:
            return self.in_duckdb().head(columns, limit)
        return self.whole.select(list(columns)).slice(0, limit)

    def in_duckdb(self) -> DuckDBSide:
        """The rows as DuckDB reads them."""
        if not self.stored:
            assert self.whole is not None, "a stream that is not in memory was put aside when it was opened"
            with failing(self.info):
                connection = tracked(duckdb.connect())
                self.resources.callback(connection.close)
                connection.register("rows", carried(self.whole))
            self.stored.append(_side(self, connection))
        return self.stored[0]


def open_arrow(
    data: Any, info: SideInfo, places: Callable[[Sequence[str]], list[int]], limit: int, resources: ExitStack
) -> ArrowSide:
    """The side of an Arrow stream; one that is longer than `limit` rows and no table in memory is put aside on disk.

    Raises UnsupportedError: a long stream has a type that DuckDB cannot hold; EngineError: it breaks; or as `places`.
    """
    if isinstance(data, pa.Table):
        whole = data.select(places(data.column_names))
        return ArrowSide(info=info, schema=whole.schema, whole=whole, resources=resources)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        chosen = places(reader.schema.names)
        schema = pa.schema([reader.schema.field(i) for i in chosen])
        batches, rows = [], 0
        for batch in reader:
            batches.append(batch.select(chosen))
            rows += batch.num_rows
            if rows > limit:
                break
        else:
            whole = pa.Table.from_batches(batches, schema)
            return ArrowSide(info=info, schema=schema, whole=whole, resources=resources)
    except (pa.ArrowException, OSError) as error:
        message = f"Cannot read the Arrow stream of {info.name}: {' '.join(str(error).split())}"
        raise EngineError(message) from error
    side = ArrowSide(info=info, schema=schema, whole=None, resources=resources)
    held = (batches.pop(0) for _ in range(len(batches)))  # so that each is let go
    side.stored.append(_side(side, _put_aside(chain(held, (batch.select(chosen) for batch in reader)), side)))
    return side


def _put_aside(batches: Iterator[pa.RecordBatch], side: ArrowSide) -> duckdb.DuckDBPyConnection:
    """A database with the rows in its table `rows`."""
    folder = Path(side.resources.enter_context(tempfile.TemporaryDirectory(prefix="harness-compare-")))
    types = pa.schema([(f"c{i}", storage_type(f.type)) for i, f in enumerate(side.schema)])

    def stored() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from carried(pa.Table.from_batches([batch])).to_batches()

    with failing(side.info):
        connection = tracked(duckdb.connect(str(folder / "rows.duckdb"), config={"memory_limit": _MEMORY}))
        side.resources.callback(connection.close)
        connection.execute("SET preserve_insertion_order = false")
        stream = pa.RecordBatchReader.from_batches(types, stored())
        connection.register("stream", stream)
        connection.execute("CREATE TABLE rows AS SELECT * FROM stream")
        connection.unregister("stream")
    return connection


def _side(side: ArrowSide, connection: duckdb.DuckDBPyConnection) -> DuckDBSide:
    types = pa.schema([pa.field(f.name, plain(f.type)) for f in side.schema])
    with failing(side.info):
        relation = connection.sql("SELECT * FROM rows")
        return DuckDBSide(info=side.info, relation=relation, schema=side.schema, types=types, keep=connection)
