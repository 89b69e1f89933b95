"""Drawn tables of every kind, with deletes of every kind, give the same rows on DuckDB and on Spark.

Hypothesis draws a history, which a builder makes a table of, and a model in plain Python works out what it must show.
Then it draws reads in the shapes that users ask for: columns and filters, `count(*)`, aggregates, an order with a
limit, parameters, the table joined with itself at another moment. The model is asked first, and each engine must give
its rows, types and names. The first read of a table runs on both engines, the others on DuckDB. With a fresh seed there
is one more read, and plain ones run also on the oracle, a second planner and reader that shares nothing with either.

A failure is shrunk to the smallest history and read that show it. `--harness-repro DIR` leaves both there.
"""

import pytest
from drawn.account import GROUPS, HIDING, REFUSED, TABLES, Account
from drawn.agreement import assert_agrees, made
from drawn.profiles import QUICK, chosen, property_settings
from drawn.reads import Read
from drawn.strategies import histories, reads
from hypothesis import given
from hypothesis import strategies as st

# A drawn history may drop every column that an old file has.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

KINDS = {"iceberg-1": 20, "iceberg-2": 25, "iceberg-3": 25, "delta": 30}
"""Tables in the quick profile; with a fresh seed there are twenty times as many. Iceberg 1 is upgraded to delete."""
FLOORS = {HIDING: 0.9, "position deletes": 0.1, "vectors": 0.3, "equality deletes": 0.1, GROUPS: 0.2}
"""Parts of the tables that are held at least; some are drawn more seldom in one run than in another."""
MOST_REFUSED = 0.02
"""Of the reads on Spark, which may refuse what has no meaning there that is certain to be the same."""


@pytest.fixture(scope="module")
def account():
    return Account()


@pytest.mark.smoke
@pytest.mark.parametrize(("kind", "tables"), KINDS.items(), ids=KINDS)
def test_both_engines_and_the_model_agree(kind, tables, spark, account, repro) -> None:
    is_quick = chosen() == QUICK

    @property_settings(tables, fresh=20)
    @given(histories(kind, max_size=7, deleting=True), st.data())
    def agree(drawn, data) -> None:
        shapes = [data.draw(reads(drawn.model), "read") for _ in range(2 if is_quick else 3)]
        with made(drawn) as history:
            for number, shape in enumerate(shapes):
                oracle = ["oracle"] * (isinstance(shape, Read) and not is_quick)
                for engine in ("duckdb", *oracle, *["spark"] * (number == 0)):
                    with account.read(kind, shape, engine):
                        assert_agrees(history, drawn, shape, engine)
        account.add_table(kind, drawn, shapes[0])

    with repro():
        agree()


@pytest.mark.smoke
def test_what_was_drawn_is_worth_it(account, request) -> None:
    """Few deletes, or many refusals, would let the tests above pass with nothing said."""
    if set(account.counts) != set(KINDS):
        pytest.skip("the tests above drew no tables of some kinds")
    request.node.user_properties.append(("account", account.to_json()))  # `record_property` warns beside --junitxml
    low = {name: account.share(name) for name, floor in FLOORS.items() if account.share(name) < floor}
    assert low == {}
    assert account.share(REFUSED, of="spark: reads") <= MOST_REFUSED, account.shown()
    assert account.total(TABLES) >= sum(KINDS.values())
