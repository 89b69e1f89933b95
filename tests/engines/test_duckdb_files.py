"""DuckDB opens remote files by position, each through the storage of its own table, and cannot open any other file."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

import harness
from harness.engines.column_values import conform
from harness.engines.duckdb import instance
from harness.engines.duckdb.instance import DuckDBFiles, connect, cursor
from harness.engines.duckdb.store_files import PlannedFile, store_files_of
from harness.storage.paths import PhysicalPath
from harness.storage.renewal import ExpiringOptions, Renewal
from harness.storage.stores import FileStatus, Storage
from harness.writing.delta.builder import DeltaTable

ROWS = 100_000


class OwnHandle:
    """A handle that releases the interpreter lock at each call, and only serves the thread that opened it."""

    def __init__(self, opened: Any) -> None:
        self._opened, self._thread = opened, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        assert threading.get_ident() == self._thread, "a handle is shared by threads"
        time.sleep(0)
        return getattr(self._opened, name)

    def __enter__(self) -> OwnHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


class Switching(LocalFileSystem):
    """The local disk with such handles."""

    protocol = "switching"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("switching://")))

    def open(self, *args: Any, **options: Any) -> OwnHandle:
        return OwnHandle(super().open(*args, **options))


class Vault(fsspec.AbstractFileSystem):
    """A store in which each key gives access to other files under the same paths. It supports one thread at a time."""

    protocol = "vault"
    cachable = False
    kept: ClassVar[dict[str, fsspec.AbstractFileSystem]] = {}
    cut = 0

    def __init__(self, key: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.key, self._busy = key, threading.Lock()

    def _inner(self, path: str) -> tuple[LocalFileSystem, str]:
        return LocalFileSystem(), f"{self.kept[self.key]}/{self._strip_protocol(path).lstrip('/')}"

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        files, name = self._inner(path)
        return files.ls(name, detail=detail)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        files, name = self._inner(path)
        return files.info(name)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        assert self._busy.acquire(blocking=False), "two threads at once"
        try:
            time.sleep(0)
            files, name = self._inner(path)
            return bytes(files.cat_file(name, start=start, end=None if end is None else end - self.cut))
        finally:
            self._busy.release()

    def _open(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("DuckDB has the file system of the user")


@pytest.fixture(autouse=True)
def file_systems() -> Iterator[None]:
    for kind in (Switching, Vault):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)
    yield
    Vault.kept, Vault.cut = {}, 0


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/kept", recursive=True)


def many_pages(folder: Path, step: int = 1) -> Path:
    """Return a Delta table with one file of many row groups and uncompressed pages, which threads share."""
    table = DeltaTable.create(folder, {"a": "long", "b": "long"})
    table.append(table.write_data([{"a": 0, "b": 0}]))
    (file,) = folder.glob("*.parquet")
    values = pa.table({"a": np.arange(ROWS) * step, "b": np.arange(ROWS) * 3})
    pq.write_table(values, file, compression="none", use_dictionary=False, row_group_size=5_000)
    (commit,) = folder.glob("_delta_log/*1.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    (add,) = (action["add"] for action in actions if "add" in action)
    del add["stats"]
    add["size"] = file.stat().st_size
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return folder


def sums(location: str, connection: duckdb.DuckDBPyConnection | None = None, **options: Any) -> tuple[int, ...]:
    table = harness.open_table(location, **options)
    query = "SELECT count(*), sum(a)::BIGINT, sum(b)::BIGINT FROM t"
    return harness.sql(query, {"t": table}, connection=connection).fetchall()[0]


def expected(step: int = 1) -> tuple[int, ...]:
    total = ROWS * (ROWS - 1) // 2
    return ROWS, total * step, total * 3


def threaded() -> duckdb.DuckDBPyConnection:
    connection = connect()
    connection.execute("SET threads = 4")
    return connection


def test_no_handle_is_shared_by_threads(tmp_path: Path) -> None:
    path = many_pages(tmp_path / "t")
    for _ in range(3):
        assert sums(f"switching://{path}", threaded()) == expected()


def test_a_store_for_one_thread_is_read_by_one_thread_at_a_time(tmp_path: Path) -> None:
    Vault.kept = {"k": str(tmp_path)}
    many_pages(tmp_path / "t")
    for _ in range(3):
        assert sums("vault://t", threaded(), storage_options={"key": "k"}) == expected()


def test_each_thread_reads_on_from_where_it_sought(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)))
    file = PlannedFile(str(path), Storage(), FileStatus(200, None))
    file.seek(10)
    other = threading.Thread(target=file.seek, args=[100])
    other.start()
    other.join()
    assert file.tell() == 10
    assert file.read(5) == bytes(range(10, 15))
    assert file.read(5) == bytes(range(15, 20))


@pytest.mark.parametrize("cut", [1, -1], ids=["fewer", "more"])
def test_a_store_that_returns_the_wrong_number_of_bytes_fails(tmp_path: Path, cut: int) -> None:
    Vault.kept = {"k": str(tmp_path)}
    many_pages(tmp_path / "t")
    table = harness.open_table("vault://t", storage_options={"key": "k"}).snapshot()
    table.plan()
    Vault.cut = cut
    with pytest.raises(harness.HarnessError, match=r"its storage returned \d+ bytes instead of"):
        table.to_arrow()


def two_vaults(folder: Path) -> None:
    Vault.kept = {key: str(folder / key) for key in ("one", "two")}
    many_pages(folder / "one" / "t")
    many_pages(folder / "two" / "t", step=2)


def test_each_table_is_read_with_its_own_credentials(tmp_path: Path) -> None:
    two_vaults(tmp_path)
    connection = connect()
    for key in ("one", "two"):
        table = harness.open_table("vault://t", storage_options={"key": key})
        table.snapshot().to_duckdb(connection, name=key)
    query = "SELECT count(*), sum(a)::BIGINT, sum(b)::BIGINT FROM"
    assert connection.sql(f"{query} one").fetchall()[0] == expected()
    assert connection.sql(f"{query} two").fetchall()[0] == expected(step=2)
    both = connection.sql("SELECT count(*), max(two.a) FROM one JOIN two USING (b)").fetchall()[0]
    assert both == (ROWS, (ROWS - 1) * 2)


def test_later_sql_cannot_use_the_credentials(tmp_path: Path) -> None:
    two_vaults(tmp_path)
    connection = connect()
    assert sums("vault://t", connection, storage_options={"key": "one"}) == expected()
    (file,) = (tmp_path / "one" / "t").glob("*.parquet")
    (tmp_path / "one" / "secret.parquet").write_bytes(file.read_bytes())
    prefix = store_files_of(connection).protocol
    for path in (
        f"vault://t/{file.name}",
        f"{prefix}://0/vault://secret.parquet",
        f"{prefix}://1/vault://t/{file.name}",
    ):
        with pytest.raises(duckdb.Error):
            connection.sql(f"SELECT * FROM read_parquet('{path}')").fetchall()
    planned = f"{prefix}://0/vault://t/{file.name}"
    assert connection.sql(f"SELECT count(*) FROM read_parquet('{planned}')").fetchall()[0] == (ROWS,)
    with pytest.raises(duckdb.Error, match="only harness may use it"):
        connection.sql("SELECT 1 AS a").write_csv(planned)


@pytest.mark.parametrize("scheme", ["memory", "switching"])
def test_a_file_that_is_replaced_in_place_is_noticed(tmp_path: Path, memory: Any, scheme: str) -> None:
    path = many_pages(tmp_path / "t")
    (file,) = path.glob("*.parquet")
    os.utime(file, (1_000_000, 1_000_000))  # so old that DuckDB caches the file
    memory.put(str(path), "/kept/t", recursive=True)
    connection = connect()
    connection.execute("SET enable_object_cache = true")
    location = "memory://kept/t" if scheme == "memory" else f"switching://{path}"
    harness.open_table(location).snapshot().to_duckdb(connection, name="v")
    query = f"SELECT sum(a)::BIGINT, (SELECT count(*) FROM v WHERE a >= {ROWS}) FROM v"  # its bounds may be cached, too
    assert [connection.sql(query).fetchall() for _ in range(2)] == [[(expected()[1], 0)]] * 2
    (replaced,) = many_pages(tmp_path / "u", step=2).glob("*.parquet")
    assert replaced.stat().st_size == file.stat().st_size
    for now in (2_000_000, 3_000_000):
        file.write_bytes(replaced.read_bytes())
        os.utime(file, (now, now))
        memory.pipe_file(f"/kept/t/{file.name}", replaced.read_bytes())
        assert connection.sql(query).fetchall() == [(expected(step=2)[1], ROWS // 2)]
        pq.write_table(pq.read_table(replaced), replaced, compression="zstd")  # a different size


@pytest.mark.filterwarnings("ignore:Recorded row counts")
def test_a_local_file_that_is_replaced_within_a_tick_of_the_clock_is_noticed(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (file,) = (tmp_path / "t").glob("*.parquet")
    schema, sizes = pq.read_schema(file), set()
    for value, count in ((1, 5), (2, 7), (3, 6)):
        pq.write_table(pa.table({"id": pa.array([value] * count, pa.int64())}, schema=schema), file)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        sizes.add(file.stat().st_size)
        snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
        assert snapshot.to_arrow().column("id").to_pylist() == [value] * count
        assert snapshot.to_duckdb().fetchall() == [(value,)] * count
    assert len(sizes) == 1


@pytest.mark.parametrize(("damaged", "words"), [(slice(4, 400), "damaged"), (slice(-12, -4), "footer")])
def test_messages_show_the_physical_path(memory: Any, tmp_path: Path, damaged: slice, words: str) -> None:
    path = many_pages(tmp_path / "t")
    (file,) = path.glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[damaged] = b"\xff" * len(content[damaged])
    file.write_bytes(content)
    memory.put(str(path), "/kept/t", recursive=True)
    with pytest.raises(harness.CorruptFileError, match=words) as caught:
        harness.open_table("memory://kept/t").snapshot().to_arrow()
    assert "harness-" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "At:" not in str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        "{}\n\nAt:\n  /x.py(8): open\n",
        'Traceback (most recent call last):\n  File "/x.py", line 17, in <module>\n{}',
        "Traceback (most recent call last):\n\n    yield\n    ~~^^\n\nIt: secret\n\n{}\n\nLINE 1: SELECT\n  ^^",
    ],
    ids=["1.5", "3.11", "3.13"],
)
def test_only_the_marked_part_of_a_python_failure_is_shown(form: str) -> None:
    @instance.mark_errors
    def fails() -> None:
        raise harness.StorageError("fails") from ValueError("secret")

    with pytest.raises(OSError, match="fails") as caught:
        fails()
    assert caught.value.__suppress_context__
    assert instance.error_text(duckdb.Error(form.format(f"OSError: {caught.value}"))) == "StorageError: fails [Storage]"


def test_messages_have_no_names_of_planned_files() -> None:
    name = f"harness-{'a' * 32}://12/s3://b/a.parquet"
    assert instance.error_text(duckdb.Error(f"IO Error: of\n{name}")) == "IO Error: of s3://b/a.parquet"


def test_release_revokes_files_that_no_other_connection_has(tmp_path):
    locations = [f"switching://{many_pages(tmp_path / name)}" for name in "ab"]
    first, second = (connection := connect()), connection.cursor()
    assert sums(locations[0], first) == sums(locations[1], first) == sums(locations[0], second) == expected()
    files = store_files_of(first)
    assert len(files._files) == 2
    harness.detach(first)
    (left,) = files._files
    assert str(tmp_path / "a") in left
    assert sums(locations[0], second) == sums(locations[1], first) == expected()
    harness.detach(first)
    harness.detach(second)
    assert not files._files


def test_release_keeps_the_files_of_named_views(tmp_path):
    connection = connect()
    table = harness.open_table(f"switching://{many_pages(tmp_path / 'a [1]')}")
    table.snapshot().to_duckdb(connection, name="named")
    harness.detach(connection)
    assert connection.execute("SELECT count(*) FROM named").fetchall() == [(ROWS,)]


def many_files(at: Path, count: int) -> list[Path]:
    """Return files with one row each and a column `id` from 0.

    The directory's name is a pattern that matches others.
    """
    folder = at / "it's [a]*"
    folder.mkdir(parents=True)
    paths = [folder / f"{i}.parquet" for i in range(count)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table({"id": [i]}), path)
    return paths


def test_a_long_list_of_files_is_a_variable_on_an_internal_connection(tmp_path: Path) -> None:
    paths = [str(path) for path in many_files(tmp_path, 150)]
    query = "SELECT count(*), sum(id)::BIGINT FROM read_parquet({})".format
    for own, is_text in [(cursor(), False), (duckdb.connect(), True)]:
        files = DuckDBFiles(own, Storage())
        listed, few = files.listed(paths), files.listed(paths[:20])
        assert (paths[0].replace("'", "''").replace("[a]*", "[[]a][*]") in listed) is is_text
        assert few.startswith("['")
        assert files.listed(paths) == listed != files.listed(paths[1:])  # equal lists give equal texts
        assert own.sql(query(listed)).fetchall() == [(150, 149 * 75)]
        assert own.sql(query(files.listed(paths[1:]))).fetchall() == [(149, 149 * 75)]
        assert own.sql(query(few)).fetchall() == [(20, 190)]


TEXT_MAP, LARGE_MAP = pa.map_(pa.string(), pa.int32()), pa.map_(pa.large_string(), pa.int32())


@pytest.mark.parametrize(
    ("stored", "requested_type", "wrap"),
    [
        (TEXT_MAP, LARGE_MAP, lambda pairs: pairs),
        (pa.list_(TEXT_MAP), pa.list_(LARGE_MAP), lambda pairs: [pairs]),
        (pa.struct({"m": TEXT_MAP}), pa.struct({"m": LARGE_MAP}), lambda pairs: {"m": pairs}),
    ],
    ids=["map", "list", "struct"],
)
def test_filtered_maps_get_other_keys(stored, requested_type, wrap):
    rows = [wrap([("a", 1)]), wrap([("b", 2), ("c", 3)]), wrap([])]
    table = pa.table({"c": pa.array(rows, stored)}).filter(pa.array([False, True, True]))
    found = conform(table, pa.schema({"c": requested_type}))
    assert found.column("c").to_pylist() == rows[1:]
    large = table.set_column(0, "c", found.column("c"))
    assert harness.compare(table, large, direct_rows=0).equal


def test_reads_that_begin_with_the_same_options_renew_their_own(tmp_path, monkeypatch):
    """The first storage might not be able to renew the options of the second, because its plan has ended."""
    (tmp_path / "f").write_bytes(b"0123")
    path, now, renewed = PhysicalPath(f"switching://{tmp_path}/f"), [0], list[str]()
    monkeypatch.setattr("time.time_ns", lambda: now[0])

    def storage(name: str) -> Storage:
        def ask() -> ExpiringOptions:
            renewed.append(name)
            return {}, None

        return Storage(renewal=Renewal({}, 1000, ask))

    connection = connect()
    files = store_files_of(connection)
    names = [files.admit(path, each, connection) for each in (storage("first"), storage("second"))]
    now[0] = 1_000_000_000
    files.open(names[1])
    assert renewed == ["second"]
