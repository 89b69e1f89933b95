"""A store that fails at its n-th call, for every n of a read: correct rows, or a harness error that names the failure.

The file system serves a local directory as a remote one, counts its calls, and fails at one of them. The kinds of
failure alternate with the number of the call, and two tests start with different kinds, because testing all kinds at
all calls would take minutes.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pytest

import harness
from harness.diff import opening
from harness.errors import HarnessError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@dataclass
class Store:
    """Settings of the file system. `at` is the number of the call that fails, or 0 for none."""

    at: int = 0
    failure: Any = None
    calls: int = 0
    cut: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)


STORE = Store()


class FailingFileSystem(fsspec.AbstractFileSystem):
    """The local disk under `failing://`."""

    protocol = "failing"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("failing://").strip("/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._count_request(path)
        status = os.stat(name)
        size = status.st_size // 2 if name in STORE.cut else status.st_size
        return {"name": name, "type": "directory" if os.path.isdir(name) else "file", "size": size, "mtime": 1.0}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        name = self._count_request(path)
        return [
            {"name": entry.path, "type": "directory" if entry.is_dir() else "file", "size": entry.stat().st_size}
            for entry in os.scandir(name)
        ]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        name = self._count_request(path)
        data = Path(name).read_bytes()
        data = data[: len(data) // 2] if name in STORE.cut else data
        return data[start or 0 : end]

    def _count_request(self, path: str) -> str:
        name = self._strip_protocol(path)
        STORE.calls += 1
        if STORE.calls == STORE.at:
            STORE.failure(name)
        if name in STORE.gone:
            raise FileNotFoundError(name)
        return name


class ClientError(Exception):
    """An error like in object store clients, which have their own error classes."""


def fails(error: Exception) -> Callable[[str], None]:
    def fail(_: str) -> None:
        raise error

    return fail


FAILURES = {
    "connection": fails(ConnectionResetError("reset by peer")),
    "permission": fails(PermissionError("denied")),
    "disk": fails(OSError(5, "Input/output error")),
    "time": fails(TimeoutError("timed out")),
    "client": fails(ClientError("SlowDown: https://host/key?signature=secret")),
    "value": fails(ValueError("a client's own fault")),
    "memory": fails(MemoryError()),
    "gone": lambda name: STORE.gone.add(name),  # noqa: PLW0108 (each run has a new set)
    "cut": lambda name: STORE.cut.add(name),  # noqa: PLW0108
}


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
    yield
    STORE.__init__()


def iceberg(folder: Path, format: str = "parquet") -> tuple[Any, str]:
    table = IcebergTable.create(folder / "i", {"id": "long", "region": "string"})
    first = table.write_data([{"id": i, "region": "ab"[i % 2]} for i in range(6)], format=format)
    table.append(first)
    table.append(table.write_position_deletes([(first, 0)], format=format))
    table.append(table.write_equality_deletes(["id"], [{"id": 2}], format=format))
    return table, f"failing://{folder}/i"


def delta(folder: Path) -> tuple[Any, str]:
    table = DeltaTable.create(folder / "d", {"id": "long", "region": "string"})
    first = table.write_data([{"id": i, "region": "ab"[i % 2]} for i in range(6)])
    table.append(first)
    table.checkpoint()
    table.delete(first, [0])
    table.delete(first, [0, 2], storage="i")
    return table, f"failing://{folder}/d"


ROWS = [1, 3, 4, 5]


def read(location: str) -> list[int]:
    return sorted(harness.open_table(location).snapshot().to_arrow().column("id").to_pylist())


# the commits are read, with progress
@pytest.mark.filterwarnings("ignore:.*Cannot use .*checkpoint:harness.HarnessWarning")
@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_failure_at_any_call_is_an_error_of_harness(tmp_path: Path, make: Any, shift: int) -> None:
    _, location = make(tmp_path)
    assert read(location) == ROWS
    leaks, calls, failed = [], STORE.calls, 0
    for at in range(1, calls + 1):
        name, failure = list(FAILURES.items())[(at + shift) % len(FAILURES)]
        STORE.__init__(at, failure)
        try:
            assert read(location) == ROWS, f"{name} at call {at}: other rows"
        except HarnessError as error:
            failed += 1
            leaks += ["a secret"] if "secret" in str(error) else []
        except Exception as error:
            leaks.append(f"{name} at call {at}: {type(error).__name__}: {error}"[:200])
    assert not leaks, "\n".join(leaks)
    assert failed > calls // 2  # otherwise the store's failures would not reach harness


@pytest.mark.parametrize("format", ["orc", "avro"])
def test_a_failure_at_some_calls_of_sparks_driver(tmp_path: Path, format: str, spark: Any) -> None:
    # Executors read the files themselves. The driver contacts the store before that.
    _, location = iceberg(tmp_path, format)
    harness.open_table(location).snapshot().to_spark(spark)
    leaks, calls, failed = [], STORE.calls, 0
    for at in range(1, calls + 1, 3):
        name, failure = list(FAILURES.items())[at % len(FAILURES)]
        STORE.__init__(at, failure)
        try:
            harness.open_table(location).snapshot().to_spark(spark)
        except HarnessError:
            failed += 1
        except Exception as error:
            leaks.append(f"{name} at call {at}: {type(error).__name__}: {error}"[:200])
    assert not leaks, "\n".join(leaks)
    assert failed > calls // 6


def vacuumed(snapshot: harness.Snapshot) -> None:
    for file in snapshot.plan().files.column("physical").to_pylist():
        Path(file).unlink()


@pytest.mark.parametrize("make", [iceberg, delta])
def test_the_error_about_a_file_removed_after_planning_says_that_the_table_changed(tmp_path: Path, make: Any) -> None:
    table, location = make(tmp_path)
    location = location.removeprefix("failing://")
    snapshot = harness.open_table(location).snapshot()
    relation = snapshot.to_duckdb()
    table.append(table.write_data([{"id": 9, "region": "a"}]))
    newest = harness.open_table(location).snapshot().id
    vacuumed(snapshot)
    with pytest.raises(harness.MissingFileError, match="table has changed") as caught:
        snapshot.to_arrow()
    assert f"{snapshot.id} was read, the newest is {newest}" in caught.value.message
    with pytest.raises(duckdb.Error):  # errors while rows are fetched are DuckDB's own, see docs/reference/errors.md
        relation.fetchall()


def test_a_file_removed_after_planning_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, location = delta(tmp_path)
    snapshot = harness.open_table(location.removeprefix("failing://")).snapshot()
    lower = opening.lower

    def lowered(*arguments: Any) -> Any:
        query = lower(*arguments)
        vacuumed(snapshot)
        return query

    monkeypatch.setattr(opening, "lower", lowered)
    error = harness.compare(snapshot, snapshot).left.error
    assert isinstance(error, harness.MissingFileError)
    assert (error.snapshot, error.table) == (snapshot.id, snapshot._source.location)
