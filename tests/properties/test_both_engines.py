"""Every engine reads the rows that a table holds.

Hypothesis draws the history of a table, and reads of the table in the shapes that users write: columns and filters,
`count(*)`, aggregates, an order with a limit, parameters, and the table joined with itself at another time. A model in
plain Python computes the rows of each read from the history. The oracle is a second planner and reader that shares no
code with the engines. `turns.py` chooses the engines of each read, because Spark and the oracle are slow.

Hypothesis reduces a failure to the smallest history and read that show it. `--harness-repro DIR` writes both to DIR.
"""

from collections import Counter
from itertools import pairwise

import pytest
from drawn.agreement import DrawnRead, build_table
from drawn.profiles import property_settings
from drawn.strategies import histories, reads
from hypothesis import given
from hypothesis import strategies as st
from turns import Turns, features

# A drawn history may drop all columns that an old file contains.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

ENGINES = ("duckdb", "spark", "oracle")
TABLES = {"iceberg-1": 12, "iceberg-2": 18, "iceberg-3": 18, "delta": 20}
"""The number of tables of each kind that plain pytest draws. An Iceberg 1 table is upgraded before rows are deleted."""


def tables(kind):
    return histories(kind, max_size=7, deleting=True)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", TABLES)
def test_every_engine_reads_what_the_model_holds(kind, spark, repro):
    turns = Turns()

    @property_settings(TABLES[kind], fresh=30)
    @given(tables(kind), st.data())
    def agree(table, data):
        with build_table(table) as history:
            for number in turns:
                read = DrawnRead(history, table, data.draw(reads(table.model)))
                expected = read.by_model()
                rows = turns.rows(read, ENGINES, number)
                for engine in rows:
                    read.assert_same(**{"model": expected, engine: rows[engine]})
                for first, second in pairwise(rows):
                    read.assert_same(**{first: rows[first], second: rows[second]})

    with repro():
        agree()
    assert turns.refused_by_spark <= turns.most_refused


FLOORS = {
    "deletes hide rows": 0.9,
    "position deletes": 0.1,
    "vectors": 0.3,
    "equality deletes": 0.1,
    "several row groups in a file": 0.2,
}
"""The minimum share of the drawn tables that have a feature."""


def test_enough_drawn_tables_have_deletes():
    """The test above would pass with tables without deletes, but would show little."""
    counts = Counter()

    for kind, number in TABLES.items():

        @property_settings(number)
        @given(tables(kind), st.data())
        def count(table, data):
            counts.update(["tables", *features(table, data.draw(reads(table.model)))])

        count()

    assert counts["tables"] >= sum(TABLES.values())
    assert [name for name, part in FLOORS.items() if counts[name] < part * counts["tables"]] == []
