"""A reader against itself: a right one agrees, and each fault shows where it must; expectations by hand."""

from __future__ import annotations

import json

import pytest

import harness
from harness.cli import main
from harness.differ.result import BatchOutcome
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def table(tmp_path):
    """Ids 1 to 4, whose texts are a, b, null and d; ids of one file, and a list that no filter compares."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    t.append(t.write_data([{"id": i, "s": s} for i, s in ((1, "a"), (2, "b"), (3, None), (4, "d"))]))
    return str(t.store.directory)


def different(batch):
    return {entry.name: entry.message for entry in batch.entries if entry.outcome is not BatchOutcome.EQUAL}


def test_harness_agrees_with_itself(table):
    found = harness.against_itself(harness.open_table(table).snapshot())
    names = [entry.name for entry in found.entries]
    assert different(found) == {}
    # The texts a, b, d: the least, the middle and the greatest; each filter gives parts, a count and another column.
    assert [name for name in names if name.endswith("or not, or null") and name.startswith("s")] == [
        f"s {condition}, or not, or null"
        for condition in ("IS NULL", "= 'a'", "= 'b'", "= 'd'", "< 'b'", "<> 'b'", "IN ('a', 'd')")
    ]
    assert names[:5] == ["count(*)", "all rows again", "columns in reverse", "column id alone", "column s alone"]
    assert len(names) == 5 + 2 * 7 * 3


def test_filters_leave_out_dates_that_python_lacks(tmp_path):
    """Days 4,000,000 and -4,000,000 lie in the years 12921 and -8982."""
    t = IcebergTable.create(tmp_path / "t", {"d": "date"})
    t.append(t.write_data([{"d": day} for day in (4_000_000, -4_000_000, 0)]))
    found = harness.against_itself(harness.open_table(str(t.store.directory)).snapshot())
    assert different(found) == {}
    assert "d = DATE '1970-01-01', or not, or null" in [entry.name for entry in found.entries]


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
)  # fmt: skip
def test_a_fault_of_a_reader_shows(table, reader, wrong):
    found = different(harness.against_itself(harness.open_table(table).snapshot(), f"naive_readers:{reader}"))
    assert {name: found.get(name) for name in wrong} == wrong
    assert bool(found) == bool(wrong)
    if reader in ("SkipsTooMuch", "NullIsNoMatch"):
        assert not any(name.startswith(("column", "count(*)", "all")) for name in found)


def test_the_command_says_what_disagrees(table, capsys):
    assert main(["diff", table, "--against-itself", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "against itself, 47 checks of 4 rows" in document["title"]


@pytest.mark.parametrize(
    "words",
    [
        *(["--keys", "id"], ["--engines", "duckdb,spark"], ["--where", "id = 1"], ["{table}"], ["--group-by", "s"]),
        *(["--schema-only"], ["--sample-keys", "2"], ["--exclude", "s"], ["--trim"], ["--strict", "types"]),
    ],
)
def test_other_ways_of_comparing_do_not_go_with_it(table, capsys, words):
    assert main(["diff", table, *(word.format(table=table) for word in words), "--against-itself"]) == 2
    assert "takes one table and one engine" in capsys.readouterr().err
