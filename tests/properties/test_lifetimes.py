"""The rows that a plan of lifetimes, and a trace, show at each commit of a range are the rows of the table then.

Hypothesis draws the history of a table and a range of its commits. A model in plain Python has the rows of each commit,
in the columns of the end of the range. A filter, in these columns, keeps the rows that it keeps of each commit.
"""

from collections import Counter

import pyarrow as pa
import pytest
from drawn.agreement import address_of, build_table
from drawn.change_reads import difference
from drawn.models.model import HeldRows, arrow_rows
from drawn.predicates import holds, sql
from drawn.profiles import property_settings
from drawn.strategies import changing_histories, histories, predicates, ranges
from drawn.strategies.changes import DrawnRange
from drawn.strategies.delta_maintenance import MAINTENANCE
from hypothesis import given
from hypothesis import strategies as st
from turns import Turns

from harness.diff.canonical import canonical_rows
from harness.metadata.model.schema import LIFETIMES
from harness.metadata.plan.lifetimes import BEFORE, ChangeRange, deleting_commit
from harness.snapshot import PlannedRows
from harness.suite.scenarios.model import Selector
from harness.table import open_table
from harness.trace.model import ENDINGS

# A drawn history may drop all columns that an old file contains.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

TABLES = {"iceberg-1": 3, "iceberg-2": 6, "iceberg-3": 6, "delta": 7}
"""The number of tables of each kind that plain pytest draws."""
ADDED, REMOVED, DELETED_BY = list(LIFETIMES)[:3]


def tables(kind):
    if kind == "delta":
        return histories(kind, min_size=3, max_size=9, more=MAINTENANCE, deleting=True)
    return changing_histories(kind)


@st.composite
def delta_ranges(draw, model):
    """Draw a range of versions whose files exist. None if there is no version with a readable one before it."""
    end = draw(st.sampled_from([Selector(), *model.points()[::-1]]))
    readable = []
    for commit in reversed(model.commits(end)):
        if model.vacuumed & {*commit.before.files, *commit.after.files} or commit.name - 1 < model.first:
            break
        readable.insert(0, commit)
    if not readable:
        return None
    chosen = tuple(readable[draw(st.integers(0, len(readable) - 1)) :])
    ways = [(chosen[0].name, True), (chosen[0].name - 1, False)]
    if chosen[0].name - 1 == model.first:
        ways.append((None, True))
    first, is_inclusive = draw(st.sampled_from(ways))
    return DrawnRange(first=first, is_inclusive=is_inclusive, end=end, commits=chosen)


def states_of(span, model):
    """Return the ids of the commits of a range and the rows before the range and after each commit."""
    if not span.commits:
        return [], []
    ids, states = [commit.name for commit in span.commits], [commit.after for commit in span.commits]
    states.insert(0, span.commits[0].before)
    if model.format == "delta" and span.first is None and model.first == 0:
        return [0, *ids], [HeldRows({}, frozenset()), *states]
    return ids, states


def visible_rows(rows: pa.Table, number: int) -> pa.Table:
    """Return the rows that are visible after the commit with a number, without the columns of lifetimes."""
    values = zip(*(rows.column(name).to_pylist() for name in (ADDED, REMOVED, DELETED_BY)), strict=True)
    is_visible = [
        added <= number
        and (removed is None or number < removed)
        and (delete is None or number < deleting_commit(delete))
        for added, removed, delete in values
    ]
    return rows.filter(pa.array(is_visible, pa.bool_())).drop_columns([ADDED, REMOVED, DELETED_BY])


def traced_rows(trace, number):
    """Return the values of the rows of a trace that are visible after the commit with a number."""
    last_events = [[event for event in row.events if event.commit <= number][-1:] for row in trace.rows]
    return Counter(
        row.versions[event.version].match
        for row, events in zip(trace.rows, last_events, strict=True)
        for event in events
        if event.kind not in ENDINGS
    )


@pytest.mark.smoke
@pytest.mark.parametrize("kind", TABLES)
def test_lifetimes_show_the_rows_of_each_commit(kind, spark, record_property):
    turns, counts = Turns(), Counter()

    @property_settings(TABLES[kind], fresh=16)
    @given(tables(kind), st.data())
    def show(table, data):
        model = table.model
        with build_table(table) as history:
            for number in turns:
                span = data.draw((delta_ranges if kind == "delta" else ranges)(model))
                if span is None:
                    return
                where = data.draw(st.one_of(st.none(), predicates(model.columns_at(span.end))))
                counts.update(["ranges", *span.features(model), *(["filter"] if where is not None else [])])
                check(history, model, span, where, ("duckdb", "spark")[: 1 if number else None])
                check_trace(history, model, span, data.draw(st.booleans()))

    def check(history, model, span, where, engines):
        columns = model.columns_at(span.end)
        names = [f.name for f in columns]

        def matches(row):
            return where is None or holds(where, {f.name: row.get(f.id) for f in columns}) is True

        source = open_table(address_of(history))._source
        first = history.commits[span.first] if isinstance(span.first, str) else span.first
        request = ChangeRange(first, history.resolve(span.end).moment, span.is_inclusive, None)
        condition = None if where is None else sql(where)
        plan = source.lifetimes(request, (*names, ADDED, REMOVED, DELETED_BY), condition)
        ids, states = states_of(span, model)
        assert [commit.id for commit in plan.lifetimes.commits] == [
            history.commits[id_] if isinstance(id_, str) else id_ for id_ in ids
        ]
        for engine in engines:
            counts[f"read on {engine}"] += 1
            rows = PlannedRows(plan).to_arrow(engine=engine)
            for commit, state in enumerate(states, BEFORE):
                expected = arrow_rows(columns, filter(matches, state.rows(columns)))
                got = visible_rows(rows, commit)
                assert (got.schema.names, got.schema.types) == (expected.schema.names, expected.schema.types)
                problem = difference(*(Counter(canonical_rows(each, names)) for each in (expected, got)))
                assert problem is None, f"{engine}, {span}, where {condition}, after commit {commit}: {problem}"

    def check_trace(history, model, span, is_keyed):
        columns = model.columns_at(span.end)
        names = [f.name for f in columns]
        if not names or not span.commits:
            return
        ids, states = states_of(span, model)
        first = history.commits[ids[0]] if isinstance(ids[0], str) else ids[0]
        trace = open_table(address_of(history)).trace(
            "1 = 1", from_=first, to=history.resolve(span.end).moment, keys=names[:1] if is_keyed else None
        )
        counts["traces"] += 1
        assert trace.gaps == ()
        for commit, state in enumerate(states, BEFORE):
            expected = Counter(canonical_rows(arrow_rows(columns, state.rows(columns)), names))
            problem = difference(expected, traced_rows(trace, commit))
            assert problem is None, f"trace, {span}, after commit {commit}: {problem}"
        for row in trace.rows:
            assert row.is_visible == (row.events[-1].kind not in ENDINGS)
            assert [event.commit for event in row.events] == sorted(event.commit for event in row.events)

    try:
        show()
    finally:
        record_property("read", f"lifetimes of {kind}: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
