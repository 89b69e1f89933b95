"""`assert_same_rows` over everything that holds rows; those on Spark are tests/differ's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from harness.testing.same_rows import assert_same_rows

ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": None}]


def polars(rows: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(rows)


def pandas(rows: pa.Table) -> Any:
    module = pytest.importorskip("pandas")
    return rows.to_pandas(types_mapper=module.ArrowDtype)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda rows: rows,
    "reader": lambda rows: rows.to_reader(),
    "duckdb": duckdb.from_arrow,
    "polars": polars,
    "pandas": pandas,
    "dicts": lambda rows: rows.to_pylist(),
}


@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("left", KINDS)
def test_kinds(left: str, right: str) -> None:
    rows, other = pa.Table.from_pylist(ROWS), pa.Table.from_pylist([ROWS[0], {"id": 2, "v": "b"}])
    assert_same_rows(KINDS[left](rows), KINDS[right](rows.take([1, 0])), keys=["id"])
    with pytest.raises(AssertionError, match="1 row changed"):
        assert_same_rows(KINDS[left](rows), KINDS[right](other), keys=["id"])
