"""Under its filter, a slice returns the rows of its source, on drawn histories and filters."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from drawn.agreement import address_of, build_table
from drawn.predicates import sql
from drawn.profiles import property_settings
from drawn.strategies import histories, predicates
from hypothesis import assume, given
from hypothesis import strategies as st
from test_metamorphic import assert_same

from harness import MissingFileError, RequestError, UnsupportedError, open_table
from harness.engines.duckdb.instance import connect
from harness.slices.anonymising.pseudonyms import Pseudonyms
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.model import Selector

pytestmark = [
    pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning"),
    pytest.mark.filterwarnings("ignore:Slice :harness.errors.HarnessWarning"),
]

KINDS = ("iceberg-1", "iceberg-2", "iceberg-3", "delta")
HISTORIES = st.sampled_from(KINDS).flatmap(lambda kind: histories(kind, max_size=5))


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)])
@property_settings(3)
@given(HISTORIES, st.data())
def test_a_slice_returns_the_rows_of_its_source(engine, drawn, data) -> None:
    where = data.draw(st.one_of(st.none(), predicates(drawn.model.columns).map(sql)), "where")
    last = data.draw(st.integers(1, 3), "last")
    with build_table(drawn) as history, tempfile.TemporaryDirectory(prefix="harness-slice-") as place:
        source, directory = open_table(address_of(history)), Path(place) / "slice"
        try:
            pulled = source.pull(directory, where=where, last=last)
        except RequestError:
            assume(last == 1)  # an older snapshot lacks the column
            raise
        except MissingFileError:
            assume(not _has_vacuumed(drawn.model, last))
            raise
        slice_ = open_table(directory)
        for point in pulled.snapshots:
            at = None if point == pulled.snapshots[-1] else point
            expected = source.snapshot(at).to_arrow(where=where)
            try:
                assert_same(expected, slice_.snapshot(at).to_arrow(where=where, engine=engine))
            except UnsupportedError:
                assume(engine == "duckdb")  # Spark refuses the filter, because its meaning may differ there
                raise
            chosen = {"version" if drawn.format == "delta" else "snapshot_id": point} if at is not None else {}
            assert_same(expected, read_with_oracle(str(directory), where=where, **chosen))


def _has_vacuumed(model, last: int) -> bool:
    """Return whether files of one of the last versions were deleted."""
    versions = range(max(model.first, model.version - last + 1), model.version + 1)
    return any(Selector("version", version) not in model.points() for version in versions)


@property_settings(2)
@given(HISTORIES, st.data())
def test_an_exact_slice_has_no_other_rows(drawn, data) -> None:
    """Without a filter, an exact slice returns the rows that the source returns under the filter."""
    where = data.draw(predicates(drawn.model.columns).map(sql), "where")
    with build_table(drawn) as history, tempfile.TemporaryDirectory(prefix="harness-slice-") as place:
        directory = Path(place) / "slice"
        try:
            open_table(address_of(history)).pull(directory, where=where, exact=True)
        except UnsupportedError as error:
            assume("only Parquet is written" not in error.message)
            raise
        expected = open_table(address_of(history)).snapshot().to_arrow(where=where)
        assert_same(expected, open_table(directory).snapshot().to_arrow())
        assert_same(expected, read_with_oracle(str(directory)))


@property_settings(2)
@given(HISTORIES, st.data())
def test_an_anonymised_slice_replaces_the_values_of_each_row(drawn, data) -> None:
    """Each row equals the source's row with its values replaced, also if partitions and bounds skip files."""
    with build_table(drawn) as history, tempfile.TemporaryDirectory(prefix="harness-slice-") as place:
        directory = Path(place) / "slice"
        try:
            open_table(address_of(history)).pull(directory, anonymise="key")
        except (RequestError, UnsupportedError) as error:
            assume(not any(reason in error.message for reason in ("anonymise", "only Parquet", "needs it")))
            raise
        source = open_table(address_of(history)).snapshot().to_arrow()
        mask = Pseudonyms("key")
        expected = pa.Table.from_arrays([mask.column(column) for column in source.columns], schema=source.schema)
        slice_ = open_table(directory).snapshot()
        assert_same(expected, slice_.to_arrow())
        assert_same(expected, read_with_oracle(str(directory)))
        where = sql(data.draw(predicates(drawn.model.columns), "where"))
        found = slice_.to_arrow(where=where)
        with connect() as connection:
            connection.register("expected", expected)
            assert_same(pa.table(connection.sql(f"FROM expected WHERE {where}")).cast(found.schema), found)


@property_settings(1)
@given(HISTORIES, st.data())
def test_a_sample_with_fewer_columns(drawn, data) -> None:
    """The slice has the requested number of rows, or all rows if the source has fewer, in the requested columns."""
    names = [f.name for f in drawn.model.columns]
    columns = data.draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True), "columns")
    size = data.draw(st.integers(1, 4), "rows")
    with build_table(drawn) as history, tempfile.TemporaryDirectory(prefix="harness-slice-") as place:
        directory = Path(place) / "slice"
        source = open_table(address_of(history))
        try:
            source.pull(directory, columns=columns, sample_rows=size)
        except (RequestError, UnsupportedError) as error:
            assume(
                not ("needs it" in error.message or "partitioned" in error.message or "only Parquet" in error.message)
            )
            raise
        slice_ = open_table(directory).snapshot()
        assert set(slice_.schema.names()) == set(columns or names)
        whole, got = source.snapshot().to_arrow(columns=slice_.schema.names()), slice_.to_arrow()
        assert got.num_rows == min(size, whole.num_rows)
        with connect() as connection:
            connection.register("whole", whole)
            connection.register("got", got)
            assert connection.execute("FROM got EXCEPT ALL FROM whole").fetchall() == []
