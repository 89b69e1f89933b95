"""The same plan on Spark, for every test that reads one on DuckDB: only where pytest runs with `--on-spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from harness.engines.duckdb import relations as duckdb_engine
from harness.errors import HarnessError
from harness.metadata.plan.scan_plan import ScanPlan

session: Any = None
"""The Spark session to read on; None: DuckDB alone."""

limits: list[str] = []
"""What DuckDB cannot do in the test that runs: no other engine need agree with it."""


def to_arrow(plan: ScanPlan) -> pa.Table:
    """The plan's rows by DuckDB; asserts that Spark gives the same ones in the same types, or fails likewise."""
    if session is None:
        return duckdb_engine.to_arrow(plan)
    from harness.engines.spark import engine as spark_engine

    try:
        rows = duckdb_engine.to_arrow(plan)
    except HarnessError as error:
        fails_alike(lambda: spark_engine.to_arrow(plan, session), error)
        raise
    other = spark_engine.to_arrow(plan, session)
    assert other.schema == rows.schema
    assert comparable(other) == comparable(rows)
    return rows


@contextmanager
def on_duckdb_alone(limit: str) -> Iterator[None]:
    """Reads on DuckDB only, for an error that stands for a limit of DuckDB's own: others give the rows.

    limit: what DuckDB cannot do, for whoever reads the test.
    """
    global session  # noqa: PLW0603  (as the fixture sets it)
    kept, session = session, None
    limits.append(limit)
    try:
        yield
    finally:
        session = kept
        limits.pop()


def fails_alike(read: Callable[[], Any], error: HarnessError) -> None:
    """Asserts that `read` fails for the same reason as `error` tells."""
    with pytest.raises(type(error)) as caught:
        read()
    assert caught.value.cause == error.cause


def comparable(rows: pa.Table) -> list[tuple[str, ...]]:
    """Rows as sorted texts; -0.0 and NaN show in them, and dates and times go by their numbers."""
    if rows.num_columns == 0 or rows.num_rows == 0:  # pyarrow combines no empty extension columns
        return [()] * rows.num_rows
    columns = [[repr(value) for value in plain(column.combine_chunks())] for column in rows.columns]
    return sorted(zip(*columns, strict=True))


def plain(array: pa.Array) -> list[Any]:
    """Values that Python can hold, whatever their size."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_struct(kind):
        parts = [plain(part) for part in array.flatten()]
        return [tuple(p[i] for p in parts) if array[i].is_valid else None for i in range(len(array))]
    if pa.types.is_map(kind):
        keys, items = plain(array.keys), plain(array.items)
        return nested(array, lambda a, b: sorted(zip(keys[a:b], items[a:b], strict=True), key=repr))
    if pa.types.is_list(kind):
        values = plain(array.values)
        return nested(array, lambda a, b: values[a:b])
    return array.to_pylist()


def nested(array: pa.Array, part: Any) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [part(offsets[i], offsets[i + 1]) if array[i].is_valid else None for i in range(len(array))]
