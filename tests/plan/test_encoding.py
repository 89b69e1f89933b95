"""Plans as bytes: decoded plans are equal, and bytes that are not a plan are refused."""

import json
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness import ScanPlan
from harness.errors import HarnessError, OutsideTableError, RequestError, UnsupportedError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

WHERE = "p = 'a' AND id > 1"


def iceberg(directory: Path) -> str:
    """Three files in two partitions, with deletes of every kind. With p = 'a', only id 4 remains."""
    columns = {"id": "long", "p": "string", "n": "decimal(38, 10)"}
    t = IcebergTable.create(directory, columns, partition_spec=[("p", "identity")], format_version=3)
    one, two = (t.write_data([{"id": i, "p": "a", "n": i} for i in ids]) for ids in ([1, 2], [3, 4]))
    t.append(one, two, t.write_data([{"id": 9, "p": "b"}]))
    t.commit(add=[*t.write_deletion_vectors({one: [1]})])
    t.commit(add=[t.write_equality_deletes(["id", "p"], [{"id": 3, "p": "a"}], partition={"p": "a"})])
    return str(directory)


def positions(directory: Path) -> str:
    """Position delete files: one for two data files, and one for a single data file. Only id 4 remains of p = 'a'."""
    t = IcebergTable.create(directory, {"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    one, two = (t.write_data([{"id": i, "p": "a"} for i in ids]) for ids in ([1, 2], [3, 4]))
    t.append(one, two, t.write_data([{"id": 9, "p": "b"}]))
    t.append(t.write_position_deletes([(one, 0), (two, 0)]), t.write_position_deletes([(one, 1)]))
    return str(directory)


def delta(directory: Path) -> str:
    """Two files, one of them with a vector. Only id 4 remains of p = 'a'."""
    t = DeltaTable.create(directory, {"id": "long", "p": "string"}, partition_columns=["p"])
    file = t.write_data([{"id": i, "p": "a"} for i in range(1, 5)])
    t.append(file, t.write_data([{"id": 9, "p": "b"}]))
    t.delete(file, [1, 2])
    return str(directory)


MADE = [iceberg, positions, delta]


def planned(location: str) -> ScanPlan:
    return harness.open_table(location).snapshot().plan(where=WHERE)


@pytest.mark.parametrize("make", MADE)
def test_a_decoded_plan_is_equal_and_has_the_same_rows(make: Callable[[Path], str], tmp_path: Path) -> None:
    location = make(tmp_path / "t")
    plan = planned(location)
    assert plan == planned(location)
    assert plan != harness.open_table(location).snapshot().plan(where="p = 'a'")
    for back in (ScanPlan.from_ipc(plan.to_ipc()), pickle.loads(pickle.dumps(plan))):
        assert back == plan
        assert back.to_dict() == plan.to_dict()
        assert harness.open_plan(back).to_arrow(engine="oracle")["id"].to_pylist() == [4]
        assert harness.open_plan(back).to_arrow()["id"].to_pylist() == [4]


READER = """
import sys, harness
for name in sys.argv[1:]:
    plan = harness.ScanPlan.from_ipc(open(name, "rb").read())
    print(harness.open_plan(plan).to_arrow()["id"].to_pylist())
"""


def test_another_process_reads_the_rows(tmp_path: Path) -> None:
    for make in MADE:
        (tmp_path / make.__name__).write_bytes(planned(make(tmp_path / f"{make.__name__}_table")).to_ipc())
    command = [sys.executable, "-c", READER, *(make.__name__ for make in MADE)]
    ran = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    assert ran.stdout.decode().split("\n") == ["[4]", "[4]", "[4]", ""]


def test_changes_are_decoded(tmp_path: Path) -> None:
    t = DeltaTable.create(tmp_path / "t", {"id": "long"}, configuration={"delta.enableChangeDataFeed": "true"})
    file = t.write_data([{"id": i} for i in range(4)])
    t.append(file)
    t.delete(file, [1])
    t.delete(file, [1, 2])
    plan = harness.open_table(tmp_path / "t").changes(2).plan
    back = ScanPlan.from_ipc(plan.to_ipc())
    assert back == plan
    rows = harness.open_plan(back).to_arrow().to_pylist()
    assert sorted((row["id"], row["_change_type"], row["_commit_version"]) for row in rows) == [
        (1, "delete", 2),
        (2, "delete", 3),
    ]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> ScanPlan:
    return planned(iceberg(tmp_path_factory.mktemp("encoding") / "t"))


def edited(data: bytes, edit: Callable[[dict[str, Any]], object] = id, deep: bytes = b"", **tables: Any) -> bytes:
    """The bytes of an edited plan, with the right checksum.

    deep: replaces the text "deep". tables: edits of `files`, `vectors`, and `skipped`.
    """
    reader = pa.BufferReader(data)
    header = pa.ipc.open_stream(reader).read_all()
    document = json.loads(header.schema.metadata[b"document"])
    edit(document)
    found = {name: pa.ipc.open_stream(reader).read_all() for name in ("files", "vectors", "skipped")}
    rest = b"".join(stream(tables.get(name, lambda table: table)(table)) for name, table in found.items())
    text = json.dumps(document).encode().replace(b'"deep"', deep)
    crc = f"{zlib.crc32(rest, zlib.crc32(text)):08x}".encode()
    metadata = {**header.schema.metadata, b"document": text, b"crc32": crc}
    return stream(pa.schema([], metadata=metadata).empty_table()) + rest


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def set_to(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """An edit of a table that sets all values of a column."""

    def edit(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        return table.set_column(index, field, pa.array([value] * table.num_rows, field.type))

    return edit


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of a document that sets the value at a path of keys."""

    def edit(document: Any) -> None:
        *above, last = path.split("/")
        for key in above:
            document = document[int(key) if isinstance(document, list) else key]
        document[last] = value

    return edit


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "text": lambda data: b"this is no plan",
    "a pickle": lambda data: pickle.dumps({"table": "t"}),
    "another Arrow stream": lambda data: stream(pa.table({"id": [1]})),
    "half of it": lambda data: data[: len(data) // 2],
    "without its last stream": lambda data: data[:-200],
    "a byte less": lambda data: data[:-1],
    "a byte more": lambda data: data + b"\0",
    "a bit of a path": lambda data: data.replace(b"parquet", b"parqueu", 1),
    "without columns": lambda data: edited(data, files=lambda table: table.drop_columns(["physical"])),
    "a null path": lambda data: edited(data, files=set_to("path", None)),
    "a partition that is not there": lambda data: edited(data, files=set_to("partition", 99)),
    "a negative partition": lambda data: edited(data, files=set_to("partition", -1)),
    "a delete set that is not there": lambda data: edited(data, files=set_to("delete_set", 7)),
    "positions that are not there": lambda data: edited(data, files=set_to("positions", 7)),
    "a vector of no format": lambda data: edited(data, vectors=set_to("format", "roaring")),
    "a stored vector without a place": lambda data: edited(data, vectors=set_to("offset", None)),
    "a skipped file without a decision": lambda data: edited(data, skipped=set_to("decision", 0)),
    "no member": lambda data: edited(data, lambda document: document.pop("schema")),
    "another member": lambda data: edited(data, put("load_positions", "os.system")),
    "another class": lambda data: edited(data, put("rules/is", "PathMap")),
    "a class of another module": lambda data: edited(data, put("schema/is", "Path")),
    "another type": lambda data: edited(data, put("table", 5)),
    "a Boolean for a number": lambda data: edited(data, put("enough", True)),
    "no text of a number": lambda data: edited(data, put("partitions/0/values", {"map": [[1000, {"decimal": "x"}]]})),
    "deep": lambda data: edited(data, put("partitions/0/values", "deep"), b"[" * 5_000 + b"]" * 5_000),
    "an equality delete that is not there": lambda data: edited(data, put("delete_sets", [[], [3]])),
    "an index beyond a long": lambda data: edited(data, put("delete_sets", [[10**30]])),
    "rules of Delta": lambda data: edited(
        data, put("rules", {"is": "DeltaRules", "lookup": "delta id", "materialized": {"map": []}})
    ),
    "an Iceberg file without a sequence number": lambda data: edited(data, files=set_to("sequence_number", None)),
    "a filter that reads another table": lambda data: edited(data, put("filter/sql", "id IN (SELECT 1)")),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_invalid_plans_are_refused(damage: Callable[[bytes], bytes], example: ScanPlan) -> None:
    data = example.to_ipc()
    assert ScanPlan.from_ipc(edited(data)) == example
    with pytest.raises(RequestError):
        ScanPlan.from_ipc(damage(data))


def test_truncated_and_changed_bytes_are_refused(example: ScanPlan) -> None:
    data = example.to_ipc()
    for place in range(0, len(data), 97):
        flipped = data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        for damaged in (data[:place], flipped):
            try:
                back = ScanPlan.from_ipc(damaged)
            except HarnessError:
                continue
            assert back == example, place  # an unused byte, for example padding


def test_a_later_version_is_named(example: ScanPlan) -> None:
    data = example.to_ipc().replace(b"harness.scan_plan", b"harness.scan_plan", 1)
    reader = pa.BufferReader(data)
    metadata = pa.ipc.open_stream(reader).read_all().schema.metadata
    later = stream(pa.schema([], metadata={**metadata, b"harness.scan_plan": b"2"}).empty_table())
    with pytest.raises(UnsupportedError, match="version b'2', expected 1"):
        ScanPlan.from_ipc(later + data[reader.tell() :])


def test_paths_of_a_decoded_plan_are_checked_against_the_roots(example: ScanPlan, tmp_path: Path) -> None:
    other = tmp_path / "secret.parquet"
    other.write_bytes(b"")
    data = edited(example.to_ipc(), files=set_to("physical", str(other)))
    plan = ScanPlan.from_ipc(data)
    with pytest.raises(OutsideTableError):
        harness.open_plan(plan)
    with pytest.raises(OutsideTableError):
        harness.open_plan(ScanPlan.from_ipc(example.to_ipc()), location=tmp_path)
