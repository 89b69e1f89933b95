"""The one DuckDB instance that harness's own reads share: what a reader can and cannot do to another."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edits import chunk, edit

import harness
from harness.engines import footers
from harness.engines.duckdb import instance
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import connect, cursor
from harness.engines.registry import Batches
from harness.errors import CorruptFileError, EngineError, HarnessError
from harness.testing.writing.delta.builder import DeltaTable

SETTINGS = "current_setting('TimeZone'), current_setting('threads'), current_setting('preserve_insertion_order')"


@pytest.fixture
def location(tmp_path: Path) -> str:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": i} for i in range(5)]))
    return str(table.directory)


def ids(location: str) -> list[int]:
    return sorted(row[0] for row in harness.sql("SELECT id FROM t", t=location).fetchall())


def settings() -> object:
    return cursor(lossless=False).execute(f"SELECT {SETTINGS}").fetchone()


@pytest.mark.parametrize(
    "statement",
    ["SET threads = 1", "SET TimeZone = 'Asia/Tokyo'", "SET GLOBAL preserve_insertion_order = true", "RESET threads"],
)
def test_a_relation_that_was_handed_out_cannot_change_the_settings_of_others(location: str, statement: str) -> None:
    before = settings()
    for relation in (harness.sql("SELECT id FROM t", t=location), harness.open_table(location).snapshot().to_duckdb()):
        with pytest.raises(duckdb.Error, match="configuration"):
            relation.query("v", statement)
    assert settings() == before


def test_a_cursor_has_views_and_tables_of_its_own(location: str) -> None:
    first, second = cursor(), cursor()
    first.execute("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    first.register("rows", pa.table({"a": [1]}))
    for name in ("mine", "rows"):
        with pytest.raises(duckdb.CatalogException):
            second.execute(f"SELECT * FROM {name}")
    assert ids(location) == [0, 1, 2, 3, 4]


def test_two_queries_may_call_different_tables_alike(tmp_path: Path, location: str) -> None:
    other = DeltaTable.create(tmp_path / "other", {"id": "long"})
    other.append(other.write_data([{"id": 9}]))
    left, right = (harness.sql("SELECT id FROM t", t=place) for place in (location, str(other.directory)))
    assert (len(left.fetchall()), right.fetchall()) == (5, [(9,)])


def test_an_instance_of_ones_own_can_be_changed(location: str) -> None:
    own = connect()
    own.execute("SET threads = 1")
    assert harness.sql("SELECT count(*) FROM t", connection=own, t=location).fetchall() == [(5,)]


def test_many_threads_read_at_once(location: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: ids(location), range(32))) == [[0, 1, 2, 3, 4]] * 32


def test_a_file_that_was_replaced_in_place_is_noticed(tmp_path: Path) -> None:
    """Same path, size and time: nothing of the first read may serve the second."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": i} for i in range(1000)], compression="none")
    table.append(data)
    before, total = data.file.stat(), "SELECT sum(id)::BIGINT FROM t"
    assert harness.sql(total, t=str(table.directory)).fetchall() == [(499500,)]
    stored = pq.read_table(data.file)
    names = {name: stored.column(name) for name in stored.column_names}
    changed = pa.table({**names, "id": pa.array(range(1, 1001), pa.int64())}, schema=stored.schema)
    pq.write_table(changed, data.file, compression="none")
    os.utime(data.file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert harness.sql(total, t=str(table.directory)).fetchall() == [(500500,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_reads_with_an_instance_of_its_own(location: str) -> None:
    script = f"""
import os, harness
read = lambda: harness.sql("SELECT sum(id)::BIGINT FROM t", t={location!r}).fetchall()
assert read() == [(10,)]
child = os.fork()
if child == 0:
    os._exit(0 if read() == [(10,)] else 1)
_, status = os.waitpid(child, 0)
assert status == 0 and read() == [(10,)]
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    ran = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


ENDED = "FATAL Error: Failed: database has been invalidated because of a previous fatal error."


def read_all(location: str) -> list[int]:
    return sorted(harness.open_table(location).snapshot().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("lossless", [False, True])
def test_an_instance_that_was_given_up_is_replaced(location: str, lossless: bool, monkeypatch) -> None:
    before = cursor(lossless=lossless)
    before.execute("CREATE TABLE of_the_old_instance (a INT)")
    alive = [False]
    monkeypatch.setattr(instance, "_is_alive", lambda made: alive.pop() if alive else True)
    after = cursor(lossless=lossless)
    assert not alive
    with pytest.raises(duckdb.CatalogException):
        after.execute("FROM of_the_old_instance")
    assert before.execute("SELECT count(*) FROM of_the_old_instance").fetchall() == [(0,)]
    assert read_all(location) == ids(location) == [0, 1, 2, 3, 4]


def test_a_sign_of_life(monkeypatch) -> None:
    assert instance._is_alive(cursor())

    class Ended:
        def execute(self, text: str) -> None:
            raise duckdb.FatalException(ENDED)

    assert not instance._is_alive(Ended())  # type: ignore[arg-type]


def test_a_read_that_another_ended_says_to_open_again(location: str) -> None:
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
    """A table that ends the instance, and is not noticed before."""
    table = DeltaTable.create(tmp_path / "poison", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    edit(next((tmp_path / "poison").glob("*.parquet")), {chunk(0, 0, 7): -1})
    monkeypatch.setattr(footers, "_check_counts", lambda *parts: None)
    return str(tmp_path / "poison")


def opened_again(stream: Batches) -> object:
    try:
        return sum(batch.num_rows for batch in stream)
    except EngineError as error:
        return "open the table again" if "open the table again" in str(error) else str(error)


@needs_2_0_0
def test_one_table_ends_no_other(location: str, poison: str) -> None:
    held = harness.open_table(location).snapshot().to_duckdb()
    stream = harness.open_table(location).snapshot().to_batches(batch_rows=1)
    bad = harness.open_table(poison).snapshot()
    for read in (bad.to_arrow, lambda: list(bad.to_batches())):
        with pytest.raises(CorruptFileError, match="ends its instance") as caught:
            read()
        assert "poison" in str(caught.value.file)
        assert read_all(location) == ids(location) == [0, 1, 2, 3, 4]
    assert opened_again(stream) in (5, "open the table again")  # its rows may have been there already
    assert held.fetchall()  # of the instance of relations, which nobody ended yet
    with pytest.raises(duckdb.Error):
        bad.to_duckdb().fetchall()
    with pytest.raises(duckdb.Error, match="invalidated"):
        held.filter("id > 0").fetchall()
    assert ids(location) == [0, 1, 2, 3, 4]
    with harness.connect({"p": poison, "t": location}) as connection:
        with pytest.raises(CorruptFileError, match="ends its instance"):
            connection.execute("SELECT id FROM p").fetchall()
        with pytest.raises(EngineError, match="open a new one"):
            connection.execute("SELECT id FROM t").fetchall()


@needs_2_0_0
def test_threads_that_read_beside_it(location: str, poison: str) -> None:
    def read(number: int) -> object:
        try:
            return read_all(poison if number % 4 == 0 else location)
        except HarnessError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, range(40)))
    for number, got in enumerate(found):
        if number % 4 == 0:
            assert isinstance(got, CorruptFileError)
        elif got != [0, 1, 2, 3, 4]:
            assert isinstance(got, EngineError), got
            assert "poison" in str(got)
    assert read_all(location) == [0, 1, 2, 3, 4]
