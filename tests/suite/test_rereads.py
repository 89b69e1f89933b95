"""Rereads: a correct reader agrees with itself, and a shape detects each fault.

Expected numbers were worked out by hand.
"""

import json
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pyarrow as pa
import pytest

import harness
from harness.cli import main
from harness.diff.result import BatchOutcome
from harness.errors import EngineError, HarnessError
from harness.slices.pulling import make_slice
from harness.suite.rereads import reads
from harness.suite.rereads.reads import Copies, ReadRequest
from harness.suite.rereads.shapes import reread
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.writing.iceberg.builder import IcebergTable

FIRST, SECOND = [(1, "a"), (2, "b"), (3, None), (4, "d")], [(5, "a"), (6, "b")]


def written(place, *files):
    t = IcebergTable.create(place / "t", {"id": "long", "s": "string"})
    for rows in files:
        t.append(t.write_data([{"id": i, "s": s} for i, s in rows]))
    return str(t.store.directory)


@pytest.fixture
def table(tmp_path):
    """Make a table of one file with the ids 1 to 4 and the texts a, b, null and d."""
    return written(tmp_path, FIRST)


@pytest.fixture
def two_files(tmp_path):
    """Make the same table with a second file that has the ids 5 and 6."""
    return written(tmp_path, FIRST, SECOND)


def different(batch):
    return {entry.name: entry.message for entry in batch.entries if entry.outcome is not BatchOutcome.EQUAL}


def test_harness_agrees_with_itself(table):
    found = reread(harness.open_table(table).snapshot())
    names = [entry.name for entry in found.entries]
    assert different(found) == {}
    # The texts a, b, d are the least, middle and greatest value. Each filter has three checks: parts, count, and
    # another column.
    assert [name for name in names if name.endswith("or not, or null") and name.startswith("s")] == [
        f"s {condition}, or not, or null"
        for condition in ("IS NULL", "= 'b'", "IN ('a', 'd')", "= 'a'", "= 'd'", "< 'b'", "<> 'b'")
    ]
    assert names[:5] == ["count(*)", "all rows again", "columns in reverse", "column id alone", "column s alone"]
    # Limits of 1, 2 and 5; two numbers of threads; batches; rows and count of three copies. There is no previous
    # snapshot.
    # Each of seven conditions on both columns has parts, a count and another column, and with values also parameters.
    # One condition for each column has a limit, a union and a read of the copy without statistics.
    assert len(names) == 5 + 3 + 2 + 1 + 3 * 2 + 2 * (7 * 3 + 6 + 3)
    assert "1 read declined (splits)" in found.title


def test_filters_leave_out_dates_that_python_lacks(tmp_path):
    """Days 4,000,000 and -4,000,000 are in the years 12921 and -8982."""
    t = IcebergTable.create(tmp_path / "t", {"d": "date"})
    t.append(t.write_data([{"d": day} for day in (4_000_000, -4_000_000, 0)]))
    found = reread(harness.open_table(str(t.store.directory)).snapshot())
    assert different(found) == {}
    assert "d = DATE '1970-01-01', or not, or null" in [entry.name for entry in found.entries]


CONTRADICTED = re.compile(r"(ICE|DEL)-5\d\d|ICE-2(03|06|07)|(ICE|DEL)-403|DEL-(109|205|207)")
"""Rules of `harness check` about values and rows. No reader agrees with itself if the metadata contradicts the rows."""


def reread_scenarios(names, engine="duckdb", step=1):
    """Return the numbers of tables that an engine reads and of checks, and the checks that are not equal."""
    tables = checks = 0
    wrong = {}
    scenarios = sorted({each.name: each for name in names for each in find(name)}.items())[::step]
    for name, scenario in scenarios:
        if any(map(CONTRADICTED.fullmatch, scenario.findings)):
            continue
        with TemporaryDirectory() as place:
            try:
                found = reread(harness.open_table(build(scenario, Path(place) / "t").address).snapshot(), engine)
            except HarnessError:
                continue
        tables, checks = tables + 1, checks + len(found.entries)
        if faults := different(found):
            wrong[name] = faults
    return tables, checks, wrong


FEW = ("iceberg/deletes/global-equality-delete", "iceberg/deletes/moved-table-v3", "delta/deletion-vectors/inline")


@pytest.mark.parametrize(("engine", "least"), [("duckdb", 80), ("oracle", 30)])
def test_an_engine_agrees_with_itself_on_tables_with_deletes(engine, least):
    tables, checks, wrong = reread_scenarios(FEW, engine)
    assert (tables, wrong) == (3, {})
    assert checks > least


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harness.HarnessWarning")
def test_duckdb_agrees_with_itself_on_every_tenth_scenario():
    tables, checks, wrong = reread_scenarios(["*"], step=10)
    assert wrong == {}
    assert tables > 25
    assert checks > 800


@pytest.mark.parametrize(("shape", "expected"), [("moved", (1, 2)), ("order", (1, 4)), ("statistics", (0, 2))])
def test_a_copy_is_made_as_it_is_called(two_files, shape, expected):
    """The metadata lists the newest file first, except in the reverse order.

    Bounds, if present, skip one of the two files.
    """
    snapshot = harness.open_table(two_files).snapshot()
    with Copies(snapshot) as copies:
        copy = copies.get(shape)
        assert copy.to_arrow().num_rows == 6
        skipped, first = len(copy.plan(where="id = 4").skipped), copy.plan().files["record_count"][0].as_py()
        assert (skipped, first) == expected
        place = Path(copy._source.location)
        links = {file.stat().st_nlink for file in place.rglob("data/*.parquet")}
        assert (links == {1}) == (shape == "moved")  # the copies after the first share its files
    assert not place.exists()


def test_a_copy_with_other_deletes_is_refused(two_files, monkeypatch):
    """A copy is compared with the plan of the table. Here it is a copy of another table."""
    snapshot = harness.open_table(two_files).snapshot()
    older = harness.open_table(two_files).snapshot(snapshot._source.snapshots()[0]["id"])
    monkeypatch.setattr(reads, "make_slice", lambda _, place, request: make_slice(older, place, request))
    found = reread(snapshot, shapes=["moved"])
    assert [(entry.outcome, entry.name) for entry in found.entries] == [(BatchOutcome.FAILED, "moved")]
    assert "has other files or deletes than the table" in found.entries[0].message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "wrong"),
    [
        ("Right", {}),
        ("CountsAll", {"count(*) where id = 1": "counted 4, read 1 row"}),
        ("SkipsTooMuch", {"id = 4, or not, or null": "1 row only on the left"}),
        ("NullIsNoMatch", {"s < 'b', or not, or null": "1 row only on the right"}),
        ("ForgetsFilter", {"s where id = 1": "3 rows only on the right"}),
    ],
)
def test_a_fault_of_a_reader_shows(table, reader, wrong):
    found = different(reread(harness.open_table(table).snapshot(), f"naive_readers:{reader}"))
    assert {name: found.get(name) for name in wrong} == wrong
    assert bool(found) == bool(wrong)
    if reader in ("SkipsTooMuch", "NullIsNoMatch"):
        assert not any(name.startswith(("column", "count(*)", "all")) for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "shape", "wrong"),
    [
        ("Planned", None, None),
        ("LimitsWithoutFilter", "limit", "limit 1 where id = 4"),
        ("LimitsTooLate", "limit", "limit 3"),
        ("OneFilter", "twice", "id = 4, and not, by one query"),
        ("loses_by_threads", "threads", "by 4 threads"),
        ("loses_by_batches", "batches", "by batches of 1 row"),
        ("loses_by_splits", "splits", "by splits of 100 bytes"),
        ("RemembersPlaces", "moved", "all rows, moved"),
        ("ReadsOneFile", "order", "all rows, order"),
        ("NeedsBounds", "statistics", "id = 4, statistics"),
    ],
)
def test_a_fault_shows_by_its_shape(two_files, reader, shape, wrong):
    snapshot = harness.open_table(two_files).snapshot()
    found = reread(snapshot, f"naive_readers:{reader}", shapes=shape and [shape])
    assert (wrong in different(found)) if wrong else (different(found) == {})


@pytest.mark.slow
def test_a_difference_comes_with_both_queries_and_the_command(two_files):
    snapshot = harness.open_table(two_files).snapshot()
    found = reread(snapshot, "naive_readers:OneFilter", shapes=["twice"])
    (entry,) = [each for each in found.entries if each.name == "s = 'b', and not, by one query"]
    assert [*entry.commands] == [
        "both reads:",
        "  SELECT * FROM t WHERE \"s\" = 'b'",
        "  SELECT * FROM t WHERE NOT (\"s\" = 'b')",
        "s = 'b', and not, by one query:",
        "  SELECT * FROM t WHERE \"s\" = 'b' UNION ALL SELECT * FROM t WHERE NOT (\"s\" = 'b')",
        "again:",
        f"  harness scenarios reread {two_files} --engine naive_readers:OneFilter --shapes twice",
    ]
    assert entry.report.startswith("both reads:\n")
    assert "  -  4   'd'" in entry.report


def test_the_command_reports_disagreeing_reads(table, capsys):
    """Both columns have seven counts for conditions, in addition to the count of all rows.

    A copy has rows and a count.
    """
    assert main(["scenarios", "reread", table, "--shapes", "counts,moved", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "against itself, 17 checks of 4 rows" in document["title"]
    assert {tuple(entry["asked"]) for entry in document["entries"]} == {()}
    assert main(["scenarios", "reread", table, "--shapes", "mooved"]) == 2
    assert "Unknown shape 'mooved': the shapes are counts, again" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_of_a_difference_shows_it_again(two_files, capsys):
    command = ["scenarios", "reread", two_files, "--engine", "naive_readers:ReadsOneFile", "--shapes", "order"]
    assert main(command) == 1
    text = capsys.readouterr().out
    assert "all rows, order" in text
    again = shlex.split(text.split("again:\n")[1].splitlines()[0])[1:]
    assert again == command
    assert main([*again, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["counts"]["different"] == 2  # the rows, and their number


def test_a_column_that_comes_twice_is_an_error_of_the_reader(tmp_path):
    def read(plan, options):
        return pa.table([[1], [2]], names=["a.b", "a.b"])

    engine = SimpleNamespace(name="twice", options=frozenset, read=read, to_arrow=read, count=len, version=str)
    built = build(find("delta/log/bare-removals")[0], tmp_path)
    with pytest.raises(EngineError, match=r"twice returns column a\.b twice"):
        reads.SnapshotReads(harness.open_table(built.address).snapshot(), engine).rows(ReadRequest())
