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

import harness
from harness.engines.shared.duckdb_instance import connect, cursor
from harness.writing.delta.builder import DeltaTable

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
