"""The files, deletes, and conditions in the answers of a server: accepted and refused forms."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from harness.errors import CorruptDeleteError, EncryptedTableError, HarnessError, StorageError, UnsupportedError
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.metadata import parse_metadata_document
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.iceberg.server.protocol import PlanAnswer
from harness.metadata.iceberg.server.tasks import (
    FileTask,
    ServerPlan,
    TaskStatistics,
    file_document,
    parse_plan,
    task_statistics,
)
from harness.metadata.model import schema as dt

TYPES = ("long", "date", "string", "double", "decimal(9, 2)", "timestamp", "binary", "boolean")
SPECS = {
    0: [],
    1: [(2, "day"), (1, "bucket[16]")],
    2: [(3, "identity"), (5, "identity")],
    3: [(1, "zorder"), (2, "void")],
    4: [(4, "identity")],
}


def metadata_of(version: int = 3) -> TableMetadata:
    fields = [
        {"id": id_, "name": f"c{id_}", "type": type_, "required": False} for id_, type_ in enumerate(TYPES, start=1)
    ]
    specs = [
        {
            "spec-id": spec_id,
            "fields": [
                {"name": f"p{place}", "source-id": source, "transform": transform, "field-id": 1000 + place}
                for place, (source, transform) in enumerate(parts)
            ],
        }
        for spec_id, parts in SPECS.items()
    ]
    document = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://bucket/t",
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 8,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": specs,
        "last-partition-id": 1001,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "next-row-id": 0,
    }
    return parse_metadata_document(document, file="v1.metadata.json")


METADATA = metadata_of()
SCHEMA = METADATA.current_schema
FIELDS = SCHEMA.fields


def data(path: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "content": "data",
        "file-path": path,
        "file-format": "parquet",
        "spec-id": 0,
        "partition": [],
        "file-size-in-bytes": 100,
        "record-count": 10,
    } | more


def delete(path: str = "d", content: str = "position-deletes", **more: Any) -> dict[str, Any]:
    return data(path, content=content, **more)


def vector(path: str = "v", offset: int = 4, target: str | None = "a", **more: Any) -> dict[str, Any]:
    place = {"content-offset": offset, "content-size-in-bytes": 40, "referenced-data-file": target}
    return delete(path, **{"file-format": "puffin"}, **place, **more)


def task(file: dict[str, Any], *references: Any, **more: Any) -> dict[str, Any]:
    return {"data-file": file, "delete-file-references": list(references)} | more


def page(*tasks: Any, deletes: Sequence[Any] = ()) -> dict[str, Any]:
    return {"file-scan-tasks": list(tasks), "delete-files": list(deletes)}


def parse(*pages: dict[str, Any], metadata: TableMetadata = METADATA) -> ServerPlan:
    answer = PlanAnswer(plan_id=None, pages=pages)
    return parse_plan(answer, metadata, metadata.current_schema, catalog="prod", table="prod.db.t")


def test_a_task_with_everything() -> None:
    file = data(
        "s3://bucket/t/a.parquet",
        **{
            "file-format": "PARQUET",
            "spec-id": 1,
            "partition": ["2024-01-01", 3],
            "split-offsets": [4, 1000],
            "sort-order-id": 2,
            "first-row-id": 7,
            "data-sequence-number": 5,
            "value-counts": {"keys": [1], "values": [10]},
            "later-addition": {"x": 1},
        },
    )
    residual = {"type": "is-null", "term": "c1"}
    plan = parse(page(task(file, 0, **{"residual-filter": residual}), deletes=[delete()]) | {"plan-tasks": []})
    expected = DataFile(
        content=Content.DATA,
        path="s3://bucket/t/a.parquet",
        format="parquet",
        spec_id=1,
        partition={1000: 19723, 1001: 3},
        record_count=10,
        size=100,
        split_offsets=(4, 1000),
        sort_order_id=2,
        first_row_id=7,
    )
    statistics = {"value-counts": {"keys": [1], "values": [10]}}
    assert plan.tasks == (
        FileTask(file=expected, deletes=(0,), residual=residual, statistics=statistics, sequence_number=5),
    )


def test_deletes() -> None:
    equality = delete("e", "EQUALITY_DELETES", **{"equality-ids": [1, 2]})
    plan = parse(page(task(data(), 2, 0, 2, 1), deletes=[delete(), equality, vector()]))
    positions, by_value, bitmap = plan.deletes
    assert positions.content is Content.POSITION_DELETES
    assert (by_value.content, by_value.equality_ids) == (Content.EQUALITY_DELETES, (1, 2))
    assert (bitmap.content_offset, bitmap.content_size, bitmap.referenced_data_file) == (4, 40, "a")
    assert plan.tasks[0].deletes == (2, 0, 1)


def test_references_are_those_of_the_same_answer() -> None:
    first = page(task(data("a"), 1), task(data("b")), deletes=[delete("x"), delete("y")])
    second = page(task(data("c"), 1, 0), deletes=[delete("y"), delete("z")])
    plan = parse(first, second)
    assert [file.path for file in plan.deletes] == ["x", "y", "z"]
    assert [(each.file.path, each.deletes) for each in plan.tasks] == [("a", (1,)), ("b", ()), ("c", (2, 1))]


def test_vectors_in_one_file_are_several_deletes() -> None:
    deletes = [vector(offset=4, target="a"), vector(offset=44, target="b")]
    plan = parse(page(task(data("a"), 0), task(data("b"), 1), deletes=deletes))
    assert [file.content_offset for file in plan.deletes] == [4, 44]
    assert [each.deletes for each in plan.tasks] == [(0,), (1,)]


def test_a_file_may_occur_twice() -> None:
    plan = parse(*[page(task(data("a"), 0), deletes=[vector()])] * 2)
    assert [each.deletes for each in plan.tasks] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("spec_id", "partition", "expected"),
    [
        pytest.param(0, [], {}, id="unpartitioned"),
        pytest.param(0, None, {}, id="unpartitioned, left out"),
        pytest.param(1, ["1970-01-02", None], {1000: 1, 1001: None}, id="null"),
        pytest.param(1, [1, 2], {1000: 1, 1001: 2}, id="day as a number"),
        pytest.param(1, {"1000": "1970-01-02"}, {1000: 1, 1001: None}, id="object of Java 1.10"),
        pytest.param(2, ["x", "1.50"], {1000: "x", 1001: dt.from_unscaled(150, 2)}, id="identity"),
        pytest.param(3, ["new", 5], {1000: "new", 1001: None}, id="unknown transform, and void"),
        pytest.param(4, [1], {1000: 1.0}, id="whole number for a double"),
    ],
)
def test_partitions(spec_id: int, partition: Any, expected: dict[int, Any]) -> None:
    plan = parse(page(task(data(**{"spec-id": spec_id, "partition": partition}))))
    assert repr(plan.tasks[0].file.partition) == repr(expected)


def test_equal_partitions_are_shared_and_different_zeros_are_not() -> None:
    files = [data(str(place), **{"spec-id": 4, "partition": [x]}) for place, x in enumerate((0.0, -0.0, 0.0))]
    partitions = [each.file.partition for each in parse(page(*map(task, files))).tasks]
    assert repr(partitions) == "[{1000: 0.0}, {1000: -0.0}, {1000: 0.0}]"
    assert partitions[0] is partitions[2]


MISSING = object()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"file-path": MISSING}, "got None, expected the path", id="no path"),
        pytest.param({"file-path": ""}, "got '', expected the path", id="empty path"),
        pytest.param({"file-path": 5}, "got 5, expected the path", id="path"),
        pytest.param({"file-path": "d/\ud800"}, "expected the path", id="path with half of a character"),
        pytest.param({"content": "position-deletes"}, "got content 'position-deletes', expected data", id="content"),
        pytest.param({"content": 0}, "got content 0, expected data", id="number of the content"),
        pytest.param({"spec-id": MISSING}, "no partition spec None", id="no spec"),
        pytest.param({"spec-id": 9}, "no partition spec 9, only", id="unknown spec"),
        pytest.param({"spec-id": False}, "no partition spec False", id="bool for a spec"),
        pytest.param({"spec-id": 0.0}, "no partition spec 0.0", id="float for a spec"),
        pytest.param({"spec-id": []}, "no partition spec", id="list for a spec"),
        pytest.param({"partition": [1]}, "expected a list of 0 values", id="too many values"),
        pytest.param({"partition": "x"}, "expected a list of 0 values", id="text for a partition"),
        pytest.param({"spec-id": 1, "partition": ["1970-01-01"]}, "expected a list of 2 values", id="too few values"),
        pytest.param({"spec-id": 1, "partition": MISSING}, "expected a list of 2 values", id="no partition"),
        pytest.param({"spec-id": 1, "partition": ["x", 1]}, "partition field 'p0', expected a date", id="wrong type"),
        pytest.param({"spec-id": 1, "partition": [0, True]}, "partition field 'p1', expected", id="bool for a number"),
        pytest.param({"spec-id": 1, "partition": {"1002": 1}}, "has no field '1002'", id="unknown partition field"),
        pytest.param({"record-count": 2**63}, "expected an integer from 0", id="huge count"),
        pytest.param({"record-count": True}, "got True, expected an integer", id="bool for a count"),
        pytest.param({"record-count": "10"}, "got '10', expected an integer", id="text for a count"),
        pytest.param({"file-size-in-bytes": -1}, "got -1, expected an integer", id="negative size"),
        pytest.param({"first-row-id": -1}, "got -1, expected an integer", id="negative row id"),
        pytest.param({"data-sequence-number": 1.5}, "got 1.5, expected an integer", id="sequence number"),
        pytest.param({"sort-order-id": "0"}, "got '0', expected an integer", id="sort order"),
        pytest.param({"split-offsets": [4, None]}, "expected a list of integers", id="split offsets"),
    ],
)
def test_refused_data_files(change: dict[str, Any], problem: str) -> None:
    file = {key: value for key, value in (data() | change).items() if value is not MISSING}
    # A file before the refused file must not affect the result, although 0, 0.0, and false are equal keys in Python.
    with pytest.raises(StorageError, match=problem) as caught:
        parse(page(task(data()), task(data(**{"spec-id": 1, "partition": [0, 1]})), task(file)))
    assert (caught.value.cause, caught.value.table) == ("CatalogAnswer", "prod.db.t")
    assert "Catalog prod returned an invalid plan" in caught.value.message


def test_a_negative_record_count_is_unknown() -> None:
    # iceberg 2.21. Servers send the count of the manifest.
    plan = parse(page(task(data(**{"record-count": -1}))))
    assert [each.file.record_count for each in plan.tasks] == [None]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"content": "data"}, "got content 'data', expected position-deletes or", id="data"),
        pytest.param({"content": None}, "got content None", id="no content"),
        pytest.param({"content": "equality-deletes"}, "no equality ids", id="no keys"),
        pytest.param({"content": "equality-deletes", "equality-ids": []}, "no equality ids", id="empty keys"),
        pytest.param({"content": "equality-deletes", "equality-ids": [True]}, "list of integers", id="bool for a key"),
        pytest.param({"content-offset": 4}, "offset 4 and size None, expected both", id="offset without size"),
        pytest.param({"content-size-in-bytes": 4}, "offset None and size 4", id="size without offset"),
        pytest.param({"file-format": "puffin"}, "offset None and size None", id="vector without a place"),
        pytest.param(
            {"file-format": "puffin", "content-offset": 4, "content-size-in-bytes": 0}, "size 0", id="empty vector"
        ),
        pytest.param({"content-offset": -4, "content-size-in-bytes": 4}, "got -4", id="negative offset"),
        pytest.param({"referenced-data-file": 5}, "got 5, expected the path", id="target"),
        pytest.param({"referenced-data-file": "\ud800"}, "expected the path", id="target with half of a character"),
    ],
)
def test_refused_delete_files(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(StorageError, match=problem) as caught:
        parse(page(deletes=[delete(**change)]))
    assert (caught.value.cause, caught.value.file) == ("CatalogAnswer", "d")


@pytest.mark.parametrize(
    ("references", "problem"),
    [
        pytest.param([1], "got the index 1, but the answer has 1 delete files", id="out of range"),
        pytest.param([-1], "got the index -1", id="negative"),
        pytest.param([False], "got the index False", id="bool"),
        pytest.param(["0"], "got the index '0'", id="text"),
        pytest.param([2**70], "got the index 11805916", id="huge"),
        pytest.param({"0": 0}, "expected a list", id="object"),
        pytest.param({}, "expected a list", id="empty object"),
        pytest.param(0, "expected a list", id="number"),
    ],
)
def test_refused_references(references: Any, problem: str) -> None:
    # The first answer has a delete with this index, but a reference only counts the deletes of its own answer.
    first = page(deletes=[delete("x"), delete("y")])
    second = page({"data-file": data(), "delete-file-references": references}, deletes=[delete("x")])
    with pytest.raises(StorageError, match=problem) as caught:
        parse(first, second)
    assert (caught.value.cause, caught.value.field) == ("CatalogAnswer", "delete-file-references")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"file-scan-tasks": {}}, id="tasks"),
        pytest.param({"file-scan-tasks": [None]}, id="task"),
        pytest.param({"file-scan-tasks": [{}]}, id="no file"),
        pytest.param({"file-scan-tasks": [{"data-file": []}]}, id="file"),
        pytest.param({"delete-files": "x"}, id="deletes"),
        pytest.param({"delete-files": [5]}, id="delete"),
    ],
)
def test_refused_answers(wrong: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match=r"expected a(n object| list)") as caught:
        parse(wrong)
    assert caught.value.cause == "CatalogAnswer"


@pytest.mark.parametrize("empty", [{}, {"file-scan-tasks": None, "delete-files": None}, page()])
def test_answers_without_tasks(empty: dict[str, Any]) -> None:
    assert parse(empty) == ServerPlan(tasks=(), deletes=())


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


STRANGE = [None, True, -1, 2**70, 1.5, "", "\x00", [], [[]], {}, {"keys": [{}]}, nested(10_000)]
FILES = [data(), data(**{"spec-id": 3, "partition": [1, 2]}), delete(), vector()]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: f"{value!r:.10}" if value is not STRANGE[-1] else "deep")
@pytest.mark.parametrize("file", FILES, ids=["data", "partitioned", "deletes", "vector"])
def test_strange_values_are_read_or_refused(file: dict[str, Any], value: Any) -> None:
    keys = {*file, "key-metadata", "equality-ids", "split-offsets", "first-row-id", "sort-order-id", "lower-bounds"}
    for key in sorted(keys):
        changed = {**file, key: value}
        answer = page(task(changed)) if file["content"] == "data" else page(task(data(), 0), deletes=[changed])
        with contextlib.suppress(HarnessError):
            task_statistics(parse(answer).tasks[0], FIELDS)


@pytest.mark.parametrize(
    ("pages", "error", "cause", "problem"),
    [
        pytest.param(
            [page(task(data("a"), 0), task(data("b"), 0), deletes=[vector(target="a")])],
            CorruptDeleteError,
            "CorruptDeletionVector",
            "gives b the deletion vector of a, at offset 4",
            id="the vector of another file",
        ),
        pytest.param(
            [page(task(data("a"), 0), task(data("b"), 0), deletes=[vector(target=None)])],
            CorruptDeleteError,
            "CorruptDeletionVector",
            "gives b the deletion vector of a, at offset 4",
            id="one vector for two files",
        ),
        pytest.param(
            [page(task(data("a"), 0), deletes=[vector()]), page(task(data("b"), 0), deletes=[vector()])],
            CorruptDeleteError,
            "CorruptDeletionVector",
            "gives b the deletion vector of a, at offset 4",
            id="one vector in two answers",
        ),
        pytest.param(
            [page(task(data("a"), 0, 1), deletes=[vector(), vector(offset=44)])],
            CorruptDeleteError,
            "MultipleDVs",
            "two deletion vectors for a, in v at 4 and in v at 44",
            id="two vectors",
        ),
        pytest.param(
            [page(task(data("a"), 0), deletes=[vector()]), page(task(data("a"), 0), deletes=[vector(offset=44)])],
            CorruptDeleteError,
            "MultipleDVs",
            "two deletion vectors for a",
            id="two vectors in two answers",
        ),
        pytest.param(
            [page(deletes=[delete()]), page(deletes=[delete(**{"record-count": 11})])],
            StorageError,
            "CatalogAnswer",
            "the same delete file in two ways",
            id="contradicting answers",
        ),
        pytest.param(
            [page(task(data(**{"key-metadata": "00AA"})))], EncryptedTableError, "EncryptedTable", "encrypted", id="key"
        ),
        pytest.param(
            [page(deletes=[delete(**{"key-metadata": "00AA"})])],
            EncryptedTableError,
            "EncryptedTable",
            "encrypted",
            id="key of a delete",
        ),
        *(
            pytest.param(
                [page(task(data(**{"file-format": format_})))],
                UnsupportedError,
                "UnsupportedFormat",
                "is not supported for data",
                id=f"format {format_}",
            )
            for format_ in ("lance", "puffin", "", None, 5)
        ),
        pytest.param(
            [page(deletes=[vector(content="equality-deletes") | {"equality-ids": [1]}])],
            UnsupportedError,
            "UnsupportedFormat",
            "is not supported for equality deletes",
            id="vector of keys",
        ),
    ],
)
def test_refused_plans(pages: list[dict[str, Any]], error: type[HarnessError], cause: str, problem: str) -> None:
    with pytest.raises(error, match=problem) as caught:
        parse(*pages)
    assert (caught.value.cause, caught.value.table) == (cause, "prod.db.t")


@pytest.mark.parametrize(("version", "file"), [(1, delete()), (2, vector())])
def test_deletes_of_a_later_format_version_are_refused(version: int, file: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match=f"format version {version}, which has no such deletes"):
        parse(page(deletes=[file]), metadata=metadata_of(version))


# The lower bounds of the file in the JSON form of their types, and the same bounds encoded as in manifests
# (little-endian, but decimals are big-endian). 150 is 0x96, which needs two bytes because of its sign bit.
LOWER = {1: -1, 2: "1970-01-02", 3: "ab", 4: 1.5, 5: "1.50", 6: "1970-01-01T00:00:00.000001", 7: "00FF", 8: False}
ENCODED = {
    1: "FFFFFFFFFFFFFFFF",
    2: "01000000",
    3: "6162",
    4: "000000000000F83F",
    5: "0096",
    6: "0100000000000000",
    7: "00FF",
    8: "00",
}
DECODED = {1: -1, 2: 1, 3: "ab", 4: 1.5, 5: dt.from_unscaled(150, 2), 6: 1, 7: b"\x00\xff", 8: False}


def map_of(values: dict[int, Any]) -> dict[str, Any]:
    return {"keys": list(values), "values": list(values.values())}


def task_with(**statistics: Any) -> FileTask:
    return parse(page(task(data(**{key.replace("_", "-"): value for key, value in statistics.items()})))).tasks[0]


@pytest.mark.parametrize("bounds", [LOWER, ENCODED], ids=["specification", "Java"])
def test_statistics(bounds: dict[int, Any]) -> None:
    read = task_with(
        value_counts=map_of({1: 10, 99: 5}),
        null_value_counts=map_of({3: 0}),
        nan_value_counts=map_of({4: 2}),
        lower_bounds=map_of(bounds),
        upper_bounds=map_of({1: bounds[1], 99: 7}),
    )
    assert task_statistics(read, FIELDS) == TaskStatistics(
        value_counts={1: 10},
        null_value_counts={3: 0},
        nan_value_counts={4: 2},
        lower_bounds=DECODED,
        upper_bounds={1: -1},
    )


@pytest.mark.parametrize(
    ("id_", "bound", "expected"),
    [
        pytest.param(3, "6162", "ab", id="digits of a text"),
        pytest.param(3, "ab", "ab", id="lower case"),
        pytest.param(3, "DE", "DE", id="digits of no text"),
        pytest.param(3, "", "", id="empty text"),
        pytest.param(3, "0102", "0102", id="digits of control characters"),
        pytest.param(4, "NaN", None, id="NaN is no bound"),
        pytest.param(1, None, None, id="null"),
        pytest.param(1, "0500", None, id="digits of another length"),
    ],
)
def test_bounds_of_one_column(id_: int, bound: Any, expected: Any) -> None:
    statistics = task_statistics(task_with(lower_bounds=map_of({id_: bound})), FIELDS)
    assert statistics.lower_bounds.get(id_) == expected


@pytest.mark.parametrize(
    ("key", "document", "problem"),
    [
        pytest.param("value_counts", [], "lists of keys and values", id="list"),
        pytest.param("value_counts", {"keys": [1]}, "lists of keys and values", id="no values"),
        pytest.param("value_counts", {"keys": [1], "values": []}, "lists of keys and values", id="lengths"),
        pytest.param("value_counts", {"keys": ["1"], "values": [1]}, "expected field ids", id="text for an id"),
        pytest.param("value_counts", {"keys": [[]], "values": [1]}, "expected field ids", id="list for an id"),
        pytest.param("null_value_counts", map_of({1: -1}), "expected a count", id="negative"),
        pytest.param("nan_value_counts", map_of({1: True}), "expected a count", id="bool"),
        pytest.param("lower_bounds", map_of({1: "x"}), "64-bit integer", id="text for a number"),
        pytest.param("upper_bounds", map_of({1: 1, 2: "1970-13-01"}), "a date", id="no date"),
    ],
)
def test_refused_statistics(key: str, document: Any, problem: str) -> None:
    with pytest.raises(StorageError, match=problem) as caught:
        task_statistics(task_with(**{key: document}), FIELDS)
    assert (caught.value.cause, caught.value.file) == ("CatalogAnswer", "a")


FILE = DataFile(
    content=Content.DATA,
    path="s3://bucket/t/a.parquet",
    format="parquet",
    spec_id=1,
    partition={1000: 1, 1001: None},
    record_count=10,
    size=100,
    value_counts={1: 10, 3: 10},
    null_value_counts={3: 2},
    lower_bounds={id_: bytes.fromhex(digits) for id_, digits in ENCODED.items()},
    upper_bounds={1: b"\x05" + b"\x00" * 7, 4: b"\x00\x00\xc0\x7f", 99: b"\x00"},
    split_offsets=(4,),
    first_row_id=0,
)


def test_a_file_is_written_as_the_specification_says() -> None:
    assert file_document(FILE, METADATA, [SCHEMA], statistics=True) == {
        "content": "data",
        "file-path": "s3://bucket/t/a.parquet",
        "file-format": "parquet",
        "spec-id": 1,
        "partition": ["1970-01-02", None],
        "file-size-in-bytes": 100,
        "record-count": 10,
        "split-offsets": [4],
        "first-row-id": 0,
        "value-counts": {"keys": [1, 3], "values": [10, 10]},
        "null-value-counts": {"keys": [3], "values": [2]},
        "lower-bounds": map_of(LOWER),
        "upper-bounds": {"keys": [1], "values": [5]},
    }


def test_statistics_of_some_fields_are_written() -> None:
    written = file_document(FILE, METADATA, [SCHEMA], statistics=[3])
    assert written["value-counts"] == {"keys": [3], "values": [10]}
    assert written["lower-bounds"] == {"keys": [3], "values": ["ab"]}
    assert "upper-bounds" not in written
    assert file_document(FILE, METADATA, [SCHEMA]).keys().isdisjoint({"value-counts", "lower-bounds"})


@pytest.mark.parametrize("document", [delete(), delete("e", "equality-deletes", **{"equality-ids": [1]}), vector()])
def test_written_deletes_are_read(document: dict[str, Any]) -> None:
    file = parse(page(deletes=[document])).deletes[0]
    assert file_document(file, METADATA, [SCHEMA], statistics=True) == document
