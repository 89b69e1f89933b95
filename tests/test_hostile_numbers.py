"""Numbers with thousands of digits and huge exponents, wherever a table or a user writes numbers as text."""

import contextlib
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import harness
from harness.engines.spark.transpile.queries import query as spark_query
from harness.errors import HarnessError
from harness.metadata.model.schema import IntegerType, StringType
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

DIGITS = "9" * 5_000
NUMBERS = [DIGITS, f"-{DIGITS}", "1e999999999", "1e-999999999", "1E+9999999999999999999", f"0.{DIGITS}", f"{1 << 70}"]


def short(number: str) -> str:
    return number[:12]


def refusal(location: Path) -> HarnessError | None:
    try:
        harness.open_table(str(location)).snapshot().to_arrow()
    except HarnessError as error:
        return error
    return None


@pytest.mark.parametrize("number", NUMBERS, ids=short)
@pytest.mark.parametrize("type_", ["long", "float", "decimal(9,2)", "date"])
def test_long_numbers_as_partition_values_of_a_delta_table(tmp_path: Path, type_: str, number: str) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "p": type_}, partition_columns=["p"])
    table.append(table.write_data([{"id": 1}], partition={"p": None}))
    edit(tmp_path, lambda action: action.get("add", {}).get("partitionValues", {}).update(p=number))
    error = refusal(tmp_path / "t")  # a float with that many digits has a value
    assert error is None or len(str(error)) < 7_000


@pytest.mark.parametrize("number", NUMBERS, ids=short)
@pytest.mark.parametrize("type_", ["long", "decimal(9,2)"])
@pytest.mark.parametrize("key", ["minValues", "maxValues", "nullCount", "numRecords"])
def test_long_numbers_in_statistics_of_a_delta_table(tmp_path: Path, key: str, type_: str, number: str) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": type_})
    table.append(table.write_data([{"id": None}]))
    stats = '{"numRecords":1,"KEY":{"id":N}}' if key != "numRecords" else '{"numRecords":N}'
    edit(tmp_path, lambda a: a.get("add", {}).update(stats=stats.replace("KEY", key).replace("N", number)))
    try:
        rows = harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(where="id IS NULL").num_rows
    except HarnessError:
        return
    # A null count that says that nothing is null correctly skips the file.
    assert rows == 1 or key == "nullCount"


def edit(folder: Path, change: Any) -> None:
    """Change each action of the newest commit."""
    path = max((folder / "t" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            change(action)
    path.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("number", NUMBERS, ids=short)
@pytest.mark.parametrize("place", ["last-updated-ms", "current-snapshot-id", "format-version"])
def test_long_numbers_in_metadata_of_an_iceberg_table(tmp_path: Path, place: str, number: str) -> None:
    IcebergTable.create(tmp_path / "t", {"id": "long"})
    (path,) = (tmp_path / "t" / "metadata").glob("*.metadata.json")
    document = json.loads(path.read_text())
    document[place] = "HERE"
    path.write_text(json.dumps(document).replace('"HERE"', number))
    with pytest.raises(HarnessError):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


@pytest.mark.parametrize("number", NUMBERS, ids=short)
@pytest.mark.parametrize("type_", ["int", "decimal(9, 2)", "double", "date"])
def test_long_numbers_as_defaults_of_an_iceberg_column(tmp_path: Path, type_: str, number: str) -> None:
    IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    (path,) = (tmp_path / "t" / "metadata").glob("*.metadata.json")
    document = json.loads(path.read_text())
    column = {"id": 9, "name": "c", "type": type_, "required": False, "initial-default": "HERE"}
    document["schemas"][0]["fields"].append(column)
    text = json.dumps(document)
    for written in (number, f'"{number}"'):
        path.write_text(text.replace('"HERE"', written))
        error = refusal(tmp_path / "t")
        assert error is None or len(str(error)) < 7_000


NINES = "9" * 5000
CONDITIONS = [
    f"id = {NINES}",
    f"id = -{NINES}",
    f"id IN (1, {NINES})",
    f"d = {NINES}.5",
    f"f = 1e{NINES}",
    f"id = '{NINES}'",
    f"s = {NINES}",
    f"d = CAST(1 AS DECIMAL({NINES}, 1))",
    "d = CAST(1 AS DECIMAL(38, 99999999))",
    f"day > DATE '{NINES}-01-01'",
    f"day > DATE '2020-01-01' + INTERVAL '{NINES}' DAY",
    f"day = make_date({NINES}, 1, 1)",
    "s = '\ud800'",
]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> harness.Table:
    schema = {"id": "long", "d": "decimal(10,2)", "f": "double", "s": "string", "day": "date"}
    table = IcebergTable.create(tmp_path_factory.mktemp("numbers") / "t", schema)
    table.append(table.write_data([{"id": 1}]))
    return harness.open_table(str(table.store.directory))


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda text: ascii(text)[:40])
def test_numbers_without_end_in_a_filter(numbers: harness.Table, condition: str) -> None:
    with contextlib.suppress(HarnessError):
        assert numbers.snapshot().plan(where=condition) is not None


QUERIES = [
    f"SELECT id FROM t LIMIT {NINES}",
    f"SELECT id FROM t LIMIT 1 OFFSET {NINES}",
    f"SELECT id, count(*) FROM t GROUP BY id, {NINES}",
    f"SELECT id FROM t ORDER BY {NINES}",
    "SELECT id FROM t ORDER BY ²",
    f"SELECT id FROM t AT (VERSION => {NINES})",
    f"SELECT id FROM t AT (VERSION => '{NINES}')",
    f"SELECT CAST(id AS DECIMAL({NINES}, 1)) FROM t",
    f"SELECT regexp_matches(s, 'a{{{NINES}}}') FROM t",
    f"SELECT id FROM t WHERE id = {NINES}",
    "SELECT '\ud800' FROM t",
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda text: ascii(text)[:40])
def test_numbers_without_end_in_a_query(numbers: harness.Table, query: str) -> None:
    with contextlib.suppress(HarnessError, duckdb.Error):
        assert harness.sql(query, {"t": numbers}) is not None
    columns = {"id": IntegerType(64), "s": StringType()}
    with contextlib.suppress(HarnessError):
        assert spark_query(query, {"t": columns}) is not None
