"""Every engine reads what a table holds.

Hypothesis draws the history of a table, and reads of the table in the shapes that users ask for: columns and filters,
`count(*)`, aggregates, an order with a limit, parameters, the table joined with itself at another moment. A model in
plain Python computes the rows of each read from the history. The oracle is a second planner and reader that shares
nothing with the engines. `turns.py` chooses the engines of each read, because Spark and the oracle are slow.

Hypothesis reduces a failure to the smallest history and read that show it. `--harness-repro DIR` leaves both in DIR.
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

# A drawn history may drop every column that an old file has.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

ENGINES = ("duckdb", "spark", "oracle")
TABLES = {"iceberg-1": 20, "iceberg-2": 25, "iceberg-3": 25, "delta": 30}
"""Tables of each kind that plain pytest draws. A table of Iceberg 1 is upgraded before rows are deleted from it."""


def tables(kind):
    return histories(kind, max_size=7, deleting=True)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", TABLES)
def test_every_engine_reads_what_the_model_holds(kind, spark, repro):
    turns = Turns()

    @property_settings(TABLES[kind], fresh=20)
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
"""The least part of the drawn tables that has a feature."""


def test_enough_drawn_tables_have_deletes():
    """A table without deletes would pass the test above and show little."""
    counts = Counter()

    for kind, number in TABLES.items():

        @property_settings(number)
        @given(tables(kind), st.data())
        def count(table, data):
            counts.update(["tables", *features(table, data.draw(reads(table.model)))])

        count()

    assert counts["tables"] >= sum(TABLES.values())
    assert [name for name, part in FLOORS.items() if counts[name] < part * counts["tables"]] == []
