"""Reads with a filter that is parsed already: the plan and the rows are those of its text."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot.dialects.dialect import Dialect

import harness
from harness.errors import RequestError
from harness.metadata.filters.parse import parse_filter
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

ROWS = ([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}], [{"id": 3, "s": "c"}])


@pytest.fixture(params=["iceberg", "delta"])
def table(request, tmp_path: Path) -> harness.Table:
    """Ids 1 and 2 in one file, 3 in another; at first, `id` was an int."""
    make = IcebergTable if request.param == "iceberg" else DeltaTable
    t = make.create(tmp_path / "t", {"id": "int" if request.param == "iceberg" else "integer", "s": "string"})
    t.append(*map(t.write_data, ROWS))
    if isinstance(t, IcebergTable):
        t.widen_column("id", "long")
        t.append(t.write_data([{"id": 4, "s": "d"}]))
    return harness.open_table(str(tmp_path / "t"))


@pytest.mark.parametrize("text", ["id > 2", "s = 'a' OR id = 3", "id > 2 AND _file IS NOT NULL", "length(s) = 1"])
def test_a_parsed_filter_plans_and_reads_as_its_text(table, text):
    snapshot = table.snapshot()
    parsed = parse_filter(text, snapshot.schema)
    from_text = snapshot.plan(["id"], text)
    assert snapshot.plan(["id"], parsed).explain() == from_text.explain()
    assert snapshot.plan(["id"], from_text.filter).filter == from_text.filter
    expected = sorted(snapshot.to_arrow(columns=["id"], where=text).column("id").to_pylist())
    assert sorted(snapshot.to_arrow(columns=["id"], where=parsed).column("id").to_pylist()) == expected
    assert sorted(snapshot.to_duckdb(columns=["id"], where=parsed).fetchall()) == [(id_,) for id_ in expected]


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_a_filter_for_another_schema_is_refused(table):
    first = table.snapshot(table.snapshots()[0]["id"])
    assert str(first.schema.fields[0].type) == "int"
    parsed = parse_filter("id = 3", table.schema)
    with pytest.raises(RequestError) as raised:
        first.plan(where=parsed)
    assert raised.value.message == (
        'Cannot use the filter: it was parsed for another schema, whose column "id" is not the same here. '
        "Parse it for this schema, or give its text."
    )
    assert (raised.value.table, raised.value.field) == (table.location, "id")
    assert first.to_arrow(where=parse_filter("s = 'c'", table.schema)).column("id").to_pylist() == [3]


@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_a_query_is_parsed_once(table, monkeypatch, dialect):
    harness.sql("SELECT 1 AS n", dialect=dialect)  # sqlglot parses some of its own on the first use of a dialect
    parsed = []
    for name in ("tokenize", "parser"):
        method = getattr(Dialect, name)
        monkeypatch.setattr(
            Dialect, name, lambda *given, _name=name, _method=method: parsed.append(_name) or _method(*given)
        )
    assert harness.sql("SELECT s FROM t WHERE id > 2 AND s = 'c'", dialect=dialect, t=table).fetchall() == [("c",)]
    assert sorted(parsed) == ["parser", "tokenize"]
