"""The rows of `from`, plus the inserted rows, minus the deleted rows, are the rows of `to`.

Hypothesis draws the history of a table, a range of its commits, and reads of the changes in the range. A model in plain
Python computes the changes from the rows before and after each commit. The rows of both ends are in the columns of
`to`.
"""

from collections import Counter

import pytest
from drawn.agreement import build_table
from drawn.change_reads import DrawnChanges
from drawn.profiles import property_settings
from drawn.strategies import change_reads, changing_histories, ranges
from hypothesis import given
from hypothesis import strategies as st

# A drawn history may drop all columns that an old file contains.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

TABLES = {"iceberg-1": 6, "iceberg-2": 14, "iceberg-3": 14, "delta": 11}
"""The number of tables of each kind that plain pytest draws."""
SPARK_TABLES = {"iceberg-2": 2, "iceberg-3": 2, "delta": 1}
"""The number of tables of each kind that plain pytest draws for Spark, which is slow."""


@pytest.mark.parametrize("kind", TABLES)
def test_changes_lead_from_one_end_to_the_other(kind, record_property):
    lead(kind, "duckdb", TABLES[kind], record_property)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", SPARK_TABLES)
def test_changes_on_spark(kind, spark, record_property):
    lead(kind, "spark", SPARK_TABLES[kind], record_property)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", TABLES)
def test_changes_by_the_oracle(kind, record_property):
    lead(kind, "oracle", TABLES[kind], record_property)


def lead(kind, engine, number, record_property):
    """Draw tables, and compare an engine's changes in a range of each table with the model."""
    counts = Counter()

    @property_settings(number, fresh=21)
    @given(changing_histories(kind), st.data())
    def check(table, data):
        counts["tables"] += 1
        span = data.draw(ranges(table.model))
        if span is None:
            return
        counts.update(["ranges", *span.features(table.model)])
        with build_table(table) as history:
            for _ in range(1 if engine == "spark" else 2):
                read = data.draw(change_reads(table.model, span.end))
                counts["reads"] += 1
                DrawnChanges(history, table, span, read).check(engine)

    try:
        check()
    finally:
        others = ("tables", "ranges", "reads")
        features = "".join(f", {name}: {counts[name]}" for name in sorted(counts) if name not in others)
        text = f"{counts['tables']} tables, changes of {counts['ranges']} ranges in {counts['reads']} reads by {engine}"
        record_property("read", f"{kind}: {text}{features}")


FLOORS = {
    "iceberg": {
        "changed columns": 0.03,
        "compaction": 0.005,
        "copy-on-write": 0.005,
        "equality deletes": 0.1,
        "position deletes": 0.1,
        "removed deletes": 0.01,
        "vectors": 0.1,
    },
    "delta": {"change files": 0.1, "changed columns": 0.005, "compaction": 0.02, "copy-on-write": 0.02, "vectors": 0.2},
}
"""The minimum share of the drawn ranges that have a feature."""


@pytest.mark.parametrize("format_", FLOORS)
def test_enough_drawn_ranges_have_every_feature(format_):
    """The test above would pass with ranges without deletes, but would show little."""
    counts = Counter()

    for kind in TABLES:
        if not kind.startswith(format_):
            continue

        @property_settings(80, fresh=4)
        @given(changing_histories(kind), st.data())
        def count(table, data):
            span = data.draw(ranges(table.model))
            if span is not None:
                counts.update(["ranges", *span.features(table.model)])

        count()

    assert [name for name, part in FLOORS[format_].items() if counts[name] < part * counts["ranges"]] == []
