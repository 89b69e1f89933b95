"""Tables with paths that lead out of the table, for each kind of path in metadata, and each engine."""

import shutil
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leaving_tables import KINDS, iceberg

import harness
from harness.errors import HarnessWarning, OutsideTableError
from harness.metadata.plan.lifetimes import ChangeRange
from harness.snapshot import PlannedRows
from harness.storage.gate import Outside
from harness.suite.oracle_engine import read_with_oracle
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

ATTACKS = {
    "absolute": "{root}/t-evil/{name}",
    "climbing": "{root}/t/data/../../t-evil/{name}",
    "another store": "memory://evil/{name}",
    "another host": "file://evil/t-evil/{name}",
}
RELATIVE = {
    "climbing": "../t-evil/{name}",
    "climbing, encoded": "data/%2e%2e/.%2E/t-evil/{name}",
    "climbing with a slash encoded": "..%2ft-evil/{name}",
}


def delta(root: Path, kind: str, leave: Callable[[Path], str]) -> str:
    """Return a Delta table, as `iceberg` does for Iceberg."""
    table = DeltaTable.create(root / "t", {"id": "long"})
    data = table.write_data([{"id": 2}] if kind != "deletion vector" else [{"id": 1}, {"id": 2}])
    if kind == "data":
        data.add["path"] = leave(data.file)
    table.append(data)
    if kind == "deletion vector":
        table.delete(data, [0], storage="p")
        (vector,) = (root / "t").glob("*.bin")
        table.edit_commit(table.version, lambda actions: _leave_vector(actions, leave, vector))
    return str(root / "t")


def _leave_vector(actions: list[dict[str, Any]], leave: Callable[[Path], str], vector: Path) -> None:
    (add,) = (action["add"] for action in actions if "add" in action)
    add["deletionVector"]["pathOrInlineDv"] = leave(vector)


@pytest.fixture
def leaving(tmp_path: Path) -> Callable[[str], Callable[[Path], str]]:
    """A function that returns a function that moves a file to a directory next to the table, and returns its path in a
    form.
    """
    (tmp_path / "t-evil").mkdir()

    def move_to_form(form: str) -> Callable[[Path], str]:
        def leave(file: Path) -> str:
            shutil.move(file, tmp_path / "t-evil" / file.name)
            return form.format(root=tmp_path, name=file.name)

        return leave

    return move_to_form


def linked(tmp_path: Path) -> Callable[[Path], str]:
    """A function that moves a file to a directory next to the table, and leaves a link in its place."""

    def leave(file: Path) -> str:
        (tmp_path / "t-evil").mkdir()
        target = shutil.move(file, tmp_path / "t-evil" / file.name)
        file.symlink_to(target)
        return str(file)

    return leave


def by_harness(location: str, **options: Any) -> list[int]:
    return harness.open_table(location, **options).snapshot().to_arrow()["id"].to_pylist()


def by_oracle(location: str, **options: Any) -> list[int]:
    if "outside" in options:
        options["outside"] = Outside(options["outside"])
    ids: list[int] = read_with_oracle(location, **{"outside": Outside.WARN, **options})["id"].to_pylist()
    return ids


def by_lifetimes(location: str, **options: Any) -> list[int]:
    """Return the rows that are visible at the end of the whole history."""
    source: Any = harness.open_table(location, **options)._source
    columns = ("id", "_removed_commit", "_deleted_by")
    rows = PlannedRows(source.lifetimes(ChangeRange(None, None, True, None), columns, None)).to_arrow().to_pylist()
    return [row["id"] for row in rows if row["_removed_commit"] is None and row["_deleted_by"] is None]


READERS = pytest.mark.parametrize("read", [by_harness, by_oracle])


def warned(read: Callable[..., list[int]], location: str) -> tuple[list[int], list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", HarnessWarning)
        rows = read(location)
    return rows, [str(warning.message) for warning in found]


def outside_warning(tmp_path: Path) -> str:
    remedy = "if this is intended, add these directories to allowed_roots"
    return f"Table {tmp_path}/t: Files outside of the table are read, in {tmp_path}/t-evil; {remedy}"


PLACES = [*((iceberg, kind) for kind in KINDS), *((delta, kind) for kind in ("data", "deletion vector"))]


@pytest.mark.parametrize(
    ("build", "kind", "read"),
    [
        *((*place, read) for place in PLACES for read in (by_harness, by_oracle)),
        # an earlier snapshot needs a moved manifest at its old place
        *((*place, by_lifetimes) for place in PLACES if place[1] != "manifest"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_absolute_path_elsewhere(tmp_path: Path, leaving: Any, build: Any, kind: str, read: Any) -> None:
    location = build(
        tmp_path, kind, leaving(ATTACKS["absolute"] if build is iceberg else "file://{root}/t-evil/{name}")
    )
    assert warned(read, location) == ([2], [outside_warning(tmp_path)])
    with pytest.raises(OutsideTableError, match="outside='refuse' is set") as caught:
        read(location, outside="refuse")
    assert f"{tmp_path}/t-evil/" in str(caught.value)
    assert caught.value.table == location
    assert read(location, allowed_roots=[str(tmp_path / "t-evil")], outside="refuse") == [2]


@READERS
@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "absolute"])
@pytest.mark.parametrize("kind", KINDS)
def test_iceberg_paths_that_are_always_refused(tmp_path: Path, leaving: Any, kind: str, attack: str, read: Any) -> None:
    location = iceberg(tmp_path, kind, leaving(ATTACKS[attack]))
    with pytest.raises(OutsideTableError, match=r"'\.\.'" if attack == "climbing" else "another store"):
        read(location)


@READERS
@pytest.mark.parametrize("form", [*RELATIVE.values(), "memory://evil/{name}"])
def test_delta_paths_that_are_always_refused(tmp_path: Path, leaving: Any, form: str, read: Any) -> None:
    location = delta(tmp_path, "data", leaving(form))
    with pytest.raises(OutsideTableError, match=r"'\.\.'|another store"):
        read(location)


@READERS
@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_leads_out(tmp_path: Path, kind: str, read: Any) -> None:
    location = iceberg(tmp_path, kind, linked(tmp_path))
    assert warned(read, location) == ([2], [outside_warning(tmp_path)])
    with pytest.raises(OutsideTableError, match="outside='refuse' is set"):
        read(location, outside="refuse")


@READERS
def test_a_directory_that_leads_out(tmp_path: Path, read: Any) -> None:
    location = iceberg(tmp_path, "data", str)
    shutil.move(tmp_path / "t" / "data", tmp_path / "t-evil")
    (tmp_path / "t" / "data").symlink_to(tmp_path / "t-evil")
    rows, sentences = warned(read, location)
    assert (rows, len(sentences)) == ([2], 1)
    with pytest.raises(OutsideTableError):
        read(location, outside="refuse")


@READERS
@pytest.mark.parametrize("build", [iceberg, delta])
def test_a_table_that_is_opened_through_a_link(tmp_path: Path, build: Any, read: Any) -> None:
    build(tmp_path, "data", str if build is iceberg else (lambda file: file.name))
    (tmp_path / "link").symlink_to("t")
    assert read(str(tmp_path / "link"), outside="refuse") == [2]


def test_the_recorded_location_adds_no_root(tmp_path: Path, leaving: Any) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 2}])
    data.data_file["file_path"] = leaving(ATTACKS["absolute"])(data.file)
    table.append(data)
    table.edit_metadata(lambda document: document.update(location=str(tmp_path)))
    with pytest.raises(OutsideTableError):
        by_harness(str(tmp_path / "t"), outside="refuse")


def test_a_change_file_elsewhere(tmp_path: Path, leaving: Any) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"}, configuration={"delta.enableChangeDataFeed": "true"})
    data = table.write_data([{"id": 2}])
    change = table.write_changes([{"id": 2}], "insert")
    change.add["path"] = leaving("../t-evil/{name}")(change.file)
    table.commit(add=[data], cdc=[change])
    with pytest.raises(OutsideTableError, match=r"'\.\.'"):
        harness.open_table(str(tmp_path / "t")).changes(1)


@pytest.mark.parametrize(
    "form", ["../../../t-evil/{name}", "%2e%2e/../../t-evil/{name}", "file://{root}/t-evil/{name}"]
)
@READERS
def test_a_sidecar_elsewhere(tmp_path: Path, leaving: Any, form: str, read: Any) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"}, features=["v2Checkpoint"])
    table.append(table.write_data([{"id": 2}]))
    written = table.checkpoint("v2-json", sidecars=1)
    table.expire_log(table.version)
    (sidecar,), (top,) = written.sidecars, set(written.files) - set(written.sidecars)
    recorded = leaving(form)(sidecar)
    top.write_text(top.read_text().replace(f'"{sidecar.name}"', f'"{recorded}"'))
    with pytest.raises(OutsideTableError, match=f"file .*{sidecar.name}"):
        read(str(tmp_path / "t"), outside="refuse")
    if form.startswith("file:"):
        with pytest.warns(HarnessWarning, match="t-evil"):
            assert read(str(tmp_path / "t")) == [2]


def test_a_read_warns_of_its_own_files_only(tmp_path: Path, leaving: Any) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    data.add["path"] = leaving("file://{root}/t-evil/{name}")(data.file)
    table.append(data)
    table.overwrite(table.write_data([{"id": 2}]))
    opened = harness.open_table(str(tmp_path / "t"))
    for _ in range(2):
        with pytest.warns(HarnessWarning, match="t-evil"):
            plan = opened.snapshot(1).plan()
        assert plan.warnings == (outside_warning(tmp_path).partition(": ")[2],)
        assert opened.snapshot().to_arrow().to_pylist() == [{"id": 2}]


@pytest.mark.parametrize("build", [iceberg, delta])
def test_a_local_table_opens_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Any) -> None:
    location = build(tmp_path, "deletion vector", lambda file: str(file) if build is iceberg else file.as_uri())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert by_harness(location) == by_oracle(location) == [2]
    table = harness.open_table(location)
    assert harness.sql("SELECT id FROM t", {"t": table}).fetchall() == [(2,)]
    assert harness.compare(table, table, engines=("duckdb", "oracle")).equal


def by_spark(location: str, **options: Any) -> list[int]:
    return harness.open_table(location, **options).snapshot().to_arrow(engine="spark")["id"].to_pylist()


@pytest.mark.parametrize("kind", ["data", "avro", "equality deletes"])
@pytest.mark.parametrize("leave", ["absolute", "another store", "link"])
def test_spark_reads_within_the_roots(tmp_path: Path, leaving: Any, leave: str, kind: str, spark: Any) -> None:
    if leave == "link":
        (tmp_path / "t-evil").rmdir()
    location = iceberg(tmp_path, kind, linked(tmp_path) if leave == "link" else leaving(ATTACKS[leave]))
    with pytest.raises(OutsideTableError):
        by_spark(location, outside="refuse")
    if leave != "another store":
        assert warned(by_spark, location) == ([2], [outside_warning(tmp_path)])


def test_a_local_table_opens_no_socket_but_to_this_machine_on_spark(tmp_path, monkeypatch, spark):
    """Only sockets of Python are checked, because the sockets of the JVM are not visible here."""
    location = iceberg(tmp_path, "equality deletes", str)
    connect, hosts = socket.socket.connect, list[str]()

    def connecting(self: socket.socket, address: Any) -> None:
        hosts.append(address[0] if isinstance(address, tuple) else "local")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connecting)
    assert by_spark(location) == [2]
    assert set(hosts) <= {"127.0.0.1", "::1", "localhost", "local"}
