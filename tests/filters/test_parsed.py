"""Reads with a parsed filter have the same plan and rows as reads with the filter's text."""

from pathlib import Path

import pytest

import harness
from harness.errors import RequestError
from harness.metadata.filters.parse import parse_filter
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

ROWS = ([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}], [{"id": 3, "s": "c"}])


@pytest.fixture(params=["iceberg", "delta"])
def table(request, tmp_path: Path) -> harness.Table:
    """Ids 1 and 2 in one file, 3 in another. `id` was an int at first."""
    make = IcebergTable if request.param == "iceberg" else DeltaTable
    t = make.create(tmp_path / "t", {"id": "int" if request.param == "iceberg" else "integer", "s": "string"})
    t.append(*map(t.write_data, ROWS))
    if isinstance(t, IcebergTable):
        t.widen_column("id", "long")
        t.append(t.write_data([{"id": 4, "s": "d"}]))
    return harness.open_table(str(tmp_path / "t"))


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_a_filter_for_another_schema_is_refused(table):
    first = table.snapshot(table.snapshots()[0]["id"])
    assert str(first.schema.fields[0].type) == "int"
    parsed = parse_filter("id = 3", table.schema)
    with pytest.raises(RequestError) as raised:
        first.plan(where=parsed)
    assert raised.value.message == (
        'Cannot use the filter: it was parsed for another schema, with another column "id". '
        "Parse it for this schema, or pass its text."
    )
    assert (raised.value.table, raised.value.field) == (table.location, "id")
    assert first.to_arrow(where=parse_filter("s = 'c'", table.schema)).column("id").to_pylist() == [3]
