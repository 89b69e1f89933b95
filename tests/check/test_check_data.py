"""Findings in scenarios, and wrong statements in Parquet files about themselves and about stored row ids."""

import struct
from pathlib import Path

import duckdb
import pytest

import harness
from harness.check.rules import Severity
from harness.check.running import all_rules, check
from harness.engines.duckdb import leaves
from harness.engines.row_groups import RowGroups
from harness.errors import TableNotFoundError, UnsupportedError
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

BUILDERS = {"ICE": IcebergTable, "DEL": DeltaTable}
ROWS = 4242
COUNT, NONE = b"\xa4\x42", b"\x80\x00"
"""The number of rows as Thrift encodes it in a footer, and 0 in the same number of bytes."""


def of_footer(path: Path, old: bytes, new: bytes, *, first: int, last: int | None) -> None:
    """Replace bytes in a file's footer by bytes of the same length, from one occurrence to another."""
    data = path.read_bytes()
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    parts = data[start:].split(old)
    changed = range(len(parts) - 1)[first:last]
    assert len(new) == len(old)
    assert changed
    joints = [new if at in changed else old for at in range(len(parts) - 1)] + [b""]
    path.write_bytes(data[:start] + b"".join(part + joint for part, joint in zip(parts, joints, strict=True)))


def number(value: int) -> bytes:
    return struct.pack("<q", value)


@pytest.mark.parametrize("format", BUILDERS)
@pytest.mark.parametrize(
    ("old", "new", "places", "rule", "group"),
    [
        # Rows 0 to 4241 in groups of 1,000: 1,999 is the greatest of the second group, 4,000 the least of the last.
        pytest.param(number(1999), number(1998), (0, None), "511", "row group 1", id="greatest"),
        pytest.param(number(4000), number(4001), (0, None), "511", "row group 4", id="least"),
        pytest.param(number(1999), number(2500), (0, None), None, None, id="wide"),
        pytest.param(COUNT, NONE, (1, -1), "401", None, id="num-values"),
    ],
)
def test_false_statistics_of_a_footer(tmp_path, format, old, new, places, rule, group):
    table = BUILDERS[format].create(tmp_path / "t", {"id": "long"})
    size = ROWS if old == COUNT else 1000
    table.append(table.write_data([{"id": i} for i in range(ROWS)], row_group_size=size))
    (path,) = (tmp_path / "t").rglob("*.parquet")
    of_footer(path, old, new, first=places[0], last=places[1])
    report = harness.open_table(str(tmp_path / "t")).check(level="data")
    assert [each.rule.id for each in report.findings] == ([] if rule is None else [f"{format}-{rule}"])
    if group is not None:
        assert report.findings[0].breach.detail == group


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="DuckDB 1 does not tell where a page index is")
@pytest.mark.parametrize(
    ("type_", "old", "new", "field"),
    [
        pytest.param("long", number(7), number(6), "column_index/max_value", id="greatest"),
        pytest.param("long", number(4), number(5), "column_index/min_value", id="least"),
        pytest.param("long", number(7), number(8), None, id="wide"),
        pytest.param("string", b"x7", b"x6", "column_index/max_value", id="text"),
        pytest.param("double", struct.pack("<d", 7), struct.pack("<d", 6.5), "column_index/max_value", id="double"),
        pytest.param("decimal(9, 2)", b"\x00\x02\xbc", b"\x00\x02\xbb", "column_index/max_value", id="decimal"),
        pytest.param("date", b"\x07\x00\x00\x00", b"\x06\x00\x00\x00", "column_index/max_value", id="date"),
    ],
)
def test_false_statistics_of_pages(tmp_path, type_, old, new, field):
    """Rows 0 to 9 in row groups of 4 with one page each. The second row group has 4 to 7."""
    values = {"string": "x{}", "decimal(9, 2)": "{}.00"}.get(type_)
    table = IcebergTable.create(tmp_path / "t", {"v": type_})
    rows = [{"v": i if values is None else values.format(i)} for i in range(10)]
    table.append(table.write_data(rows, row_group_size=4, writer_options={"write_page_index": True}))
    (path,) = (tmp_path / "t").rglob("*.parquet")
    query = "SELECT column_index_offset, column_index_length FROM parquet_metadata($1) WHERE row_group_id = 1"
    ((start, length),) = duckdb.execute(query, [str(path)]).fetchall()
    data = path.read_bytes()
    index = data[start : start + length]
    assert old in index
    path.write_bytes(data[:start] + index.replace(old, new) + data[start + length :])
    report = harness.open_table(str(tmp_path / "t")).check(level="data")
    assert [each.breach.place.field for each in report.findings] == ([] if field is None else [field])


@pytest.mark.parametrize("rows", [[5], [3, 3, 2], [3, 1, 4], [1, 2, 3, 4], [2, 2, 3]], ids=str)
def test_the_row_group_of_a_position(rows):
    key = RowGroups(rows, {}, lambda path: None, lambda start, length: b"").key
    found = duckdb.sql(f'SELECT {key} FROM (SELECT range AS "_pos" FROM range({sum(rows)})) ORDER BY "_pos"').fetchall()
    assert [group for (group,) in found] == [group for group, size in enumerate(rows) for _ in range(size)]


@pytest.mark.parametrize(
    ("ids", "versions", "rules"),
    [
        pytest.param([0, 1], [1, 1], [], id="sound"),
        pytest.param([1, 1], [1, 1], ["DEL-508"], id="one-id-twice"),
        pytest.param([0, 1], [1, 2], ["DEL-508"], id="version-to-come"),
    ],
)
def test_stored_row_ids(tmp_path, ids, versions, rules):
    configuration = {"delta.enableRowTracking": "true"}
    table = DeltaTable.create(tmp_path / "t", {"x": "long"}, configuration=configuration)
    table.append(table.write_data([{"x": 7}, {"x": 8}], row_ids=ids, row_commit_versions=versions))
    report = harness.open_table(str(tmp_path / "t")).check(level="data")
    assert [each.rule.id for each in report.findings] == rules


@pytest.mark.slow
def test_the_values_of_many_columns(tmp_path):
    """DuckDB ends the process if the aggregates of a group, here 64 bytes per column, exceed 256 KiB."""
    columns = [f"c{i}" for i in range(4_500)]
    table = DeltaTable.create(tmp_path / "t", dict.fromkeys(columns, "string"))
    table.append(table.write_data([dict.fromkeys(columns, "x")]))
    report = harness.open_table(str(tmp_path / "t")).check(level="data", select=["DEL-502", "DEL-503"])
    assert (report.findings, report.unchecked, report.read["column"]) == ((), (), 4_500)


@pytest.mark.parametrize("format", BUILDERS)
def test_columns_of_several_queries(tmp_path, format, monkeypatch):
    """Four columns, each checked by a separate query, as in tables with more columns than one query aggregates."""
    monkeypatch.setattr(leaves, "MOST_COLUMNS", 1)
    array = "list" if format == "ICE" else "array"
    inner = f"struct<x: double, y: string, z: {array}<struct<u: long, v: long>>>"
    table = BUILDERS[format].create(tmp_path / "t", {"id": "long", "s": inner})
    rows = [{"id": i, "s": {"x": float("nan"), "y": f"y{i}", "z": [{"u": i, "v": None}]}} for i in range(3)]
    table.append(table.write_data(rows))
    report = harness.open_table(str(tmp_path / "t")).check(level="data")
    number = 5 if format == "ICE" else 4  # Iceberg counts the elements of lists, and Delta counts the lists
    assert (report.findings, report.unchecked, report.read["column"]) == ((), (), number)


NOTE = Severity.NOTE
SCENARIOS = find()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_has_the_findings_that_it_lists(scenario, tmp_path):
    location = str(build(scenario, tmp_path / "table").location)

    def opened():
        return harness.open_table(location, allow_version_guess=scenario.format == "iceberg")

    try:
        report = check(opened, location=location, level="data", all_snapshots=True)
    except (UnsupportedError, TableNotFoundError):
        found = ()  # nothing is checked, and the command says so
    else:
        found = tuple(sorted(report.counts))
    assert found == scenario.findings


WRITTEN = sorted(Path(__file__).parents[2].glob("fixtures/interop/*/*/table"))
"""Tables that Apache Iceberg and Delta Lake themselves wrote."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("place", WRITTEN, ids=lambda place: "/".join(place.parts[-3:-1]))
def test_tables_of_the_reference_implementations_have_no_findings(place):
    report = harness.open_table(str(place)).check(level="data", all_snapshots=True)
    assert [(each.rule.id, str(each.breach.place)) for each in report.findings if each.rule.severity is not NOTE] == []
    assert report.unchecked == ()


def test_every_rule_has_a_scenario():
    """Rules about orphans and pages have no scenario, but tests of their own."""
    found = {id_ for scenario in SCENARIOS for id_ in scenario.findings}
    known = {rule.id for rule in all_rules()}
    assert found <= known
    assert known - found <= {"DEL-408", "DEL-511", "ICE-408", "ICE-511"}
