"""The DuckDB instance that all internal reads share: the effects that one read can have on another."""

from pathlib import Path

import duckdb
import pytest
from footer_edits import chunk, edit

import harness
from harness.engines import footers
from harness.engines.duckdb import instance
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import cursor
from harness.errors import CorruptFileError, EngineError
from harness.metadata.files.parquet_footer import CheckedFooter
from harness.writing.delta.builder import DeltaTable

SETTINGS = "current_setting('TimeZone'), current_setting('threads'), current_setting('preserve_insertion_order')"


@pytest.fixture
def location(tmp_path: Path) -> str:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": i} for i in range(5)]))
    return str(table.directory)


def ids(location: str) -> list[int]:
    return sorted(row[0] for row in harness.sql("SELECT id FROM t", {"t": location}).fetchall())


def settings() -> object:
    return cursor(lossless=False).execute(f"SELECT {SETTINGS}").fetchone()


@pytest.mark.parametrize(
    "statement",
    ["SET threads = 1", "SET TimeZone = 'Asia/Tokyo'", "SET GLOBAL preserve_insertion_order = true", "RESET threads"],
)
def test_a_relation_that_was_handed_out_cannot_change_the_settings_of_others(location: str, statement: str) -> None:
    before = settings()
    for relation in (
        harness.sql("SELECT id FROM t", {"t": location}),
        harness.open_table(location).snapshot().to_duckdb(),
    ):
        with pytest.raises(duckdb.Error, match="configuration"):
            relation.query("v", statement)
    assert settings() == before


ENDED = "FATAL Error: Failed: database has been invalidated because of a previous fatal error."


def read_all(location: str) -> list[int]:
    return sorted(harness.open_table(location).snapshot().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("lossless", [False, True])
def test_an_abandoned_instance_is_replaced(location: str, lossless: bool, monkeypatch) -> None:
    before = cursor(lossless=lossless)
    before.execute("CREATE TABLE of_the_old_instance (a INT)")
    given_up = [True]
    monkeypatch.setattr(instance, "ends_instance", lambda error: given_up.pop() if given_up else False)
    after = cursor(lossless=lossless)
    assert not given_up
    with pytest.raises(duckdb.CatalogException):
        after.execute("FROM of_the_old_instance")
    assert before.execute("SELECT count(*) FROM of_the_old_instance").fetchall() == [(0,)]
    assert read_all(location) == ids(location) == [0, 1, 2, 3, 4]


def test_a_read_ended_by_another_read_advises_to_open_the_table_again(location: str) -> None:
    plan = harness.open_table(location).snapshot().plan()
    error = engine_error(duckdb.FatalException(f"{ENDED} Original error: metadata is corrupt"), plan)
    assert isinstance(error, EngineError)
    assert "open the table again" in str(error)


def test_a_read_that_ends_its_instance_names_the_file(location: str) -> None:
    plan = harness.open_table(location).snapshot().plan()
    file = Path(plan.files["physical"][0].as_py())
    file.write_bytes(b"PAR1" + b"\0" * 40 + file.read_bytes()[44:])
    error = engine_error(duckdb.InternalException("INTERNAL Error: x Stack Trace: y"), plan)
    assert isinstance(error, CorruptFileError)
    assert file.name in str(error)
    assert "Trace" not in str(error)


needs_2_0_0 = pytest.mark.skipif(duckdb.__version__ != "2.0.0", reason="the version that a negative size ends")


@pytest.fixture
def poison(tmp_path: Path, monkeypatch) -> str:
    """Return a table that ends the instance and passes all checks before."""
    table = DeltaTable.create(tmp_path / "poison", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    edit(next((tmp_path / "poison").glob("*.parquet")), {chunk(0, 0, 7): -1})
    monkeypatch.setattr(
        footers, "parse_footer", lambda end, size, tail: CheckedFooter(tail.schema, tail.rows, frozenset(), {})
    )
    return str(tmp_path / "poison")


@needs_2_0_0
def test_one_table_does_not_end_reads_of_another(location: str, poison: str) -> None:
    held = harness.open_table(location).snapshot().to_duckdb()
    bad = harness.open_table(poison).snapshot()
    for read in (bad.to_arrow, lambda: list(bad.to_batches())):
        with pytest.raises(CorruptFileError, match="makes DuckDB abandon its instance") as caught:
            read()
        assert "poison" in str(caught.value.file)
        assert read_all(location) == ids(location) == [0, 1, 2, 3, 4]
    assert held.fetchall()  # of the instance for relations, which is still running
    with pytest.raises(duckdb.Error):
        bad.to_duckdb().fetchall()
    with pytest.raises(duckdb.Error, match="invalidated"):
        held.filter("id > 0").fetchall()
    assert ids(location) == [0, 1, 2, 3, 4]
    with harness.connect({"p": poison, "t": location}) as connection:
        with pytest.raises(CorruptFileError, match="makes DuckDB abandon its instance"):
            connection.execute("SELECT id FROM p").fetchall()
        with pytest.raises(EngineError, match="open a new one"):
            connection.execute("SELECT id FROM t").fetchall()
