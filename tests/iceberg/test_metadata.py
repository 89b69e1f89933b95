"""Iceberg table metadata files: how they are read, and which are refused."""

import copy
import gzip
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from harness.errors import CorruptFileError, HarnessError, InvalidTableError, IsAViewError
from harness.metadata.iceberg.metadata import parse_metadata
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.iceberg.types import parse_name_mapping

FILE = "v3.metadata.json"
SCHEMA_0 = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
SCHEMA_1 = {
    "type": "struct",
    "schema-id": 1,
    "fields": [*SCHEMA_0["fields"], {"id": 2, "name": "day", "required": False, "type": "date"}],  # type: ignore[misc]
}
V3: dict[str, Any] = {
    "format-version": 3,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/db/t",
    "last-sequence-number": 34,
    "last-updated-ms": 1602638573590,
    "last-column-id": 2,
    "current-schema-id": 1,
    "schemas": [SCHEMA_0, SCHEMA_1],
    "default-spec-id": 1,
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"name": "d", "transform": "day", "source-id": 2, "field-id": 1000}]},
    ],
    "last-partition-id": 1000,
    "default-sort-order-id": 3,
    "sort-orders": [
        {
            "order-id": 3,
            "fields": [{"transform": "identity", "source-id": 1, "direction": "DESC", "null-order": "nulls-last"}],
        },
    ],
    "properties": {"write.format.default": "parquet"},
    "current-snapshot-id": 3055729675574597004,
    "snapshots": [
        {
            "snapshot-id": 3051729675574597004,
            "timestamp-ms": 1515100955770,
            "sequence-number": 0,
            "manifest-list": "s3://bucket/db/t/metadata/1.avro",
            "summary": {"operation": "append", "added-records": 3, "flag": True, "nothing": None},
        },
        {
            "snapshot-id": 3055729675574597004,
            "parent-snapshot-id": 3051729675574597004,
            "timestamp-ms": 1555100955770,
            "sequence-number": 34,
            "manifest-list": "s3://bucket/db/t/metadata/2.avro",
            "manifests": ["s3://bucket/db/t/metadata/ignored.avro"],
            "summary": {"operation": "delete"},
            "schema-id": 1,
            "first-row-id": 100,
            "added-rows": 10,
            "key-id": "k1",
        },
    ],
    "refs": {
        "main": {"snapshot-id": 3055729675574597004, "type": "branch", "min-snapshots-to-keep": 2},
        "v1": {"snapshot-id": 3051729675574597004, "type": "TAG", "max-ref-age-ms": 10},
    },
    "snapshot-log": [{"snapshot-id": 3055729675574597004, "timestamp-ms": 1555100955770}],
    "metadata-log": [{"metadata-file": "s3://bucket/db/t/metadata/v2.metadata.json", "timestamp-ms": 1515100000000}],
    "statistics": [
        {
            "snapshot-id": 3055729675574597004,
            "statistics-path": "s3://bucket/db/t/metadata/s.puffin",
            "file-size-in-bytes": 413,
            "file-footer-size-in-bytes": 42,
            "blob-metadata": [
                {
                    "type": "apache-datasketches-theta-v1",
                    "snapshot-id": 3055729675574597004,
                    "sequence-number": 34,
                    "fields": [1],
                    "properties": {"ndv": 7},
                },
            ],
        },
    ],
    "partition-statistics": [
        {"snapshot-id": 3055729675574597004, "statistics-path": "s3://bucket/p.parquet", "file-size-in-bytes": 43},
    ],
    "next-row-id": 110,
    "encryption-keys": [
        {"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0", "encrypted-by-id": "kms", "properties": {"a": "b"}},
    ],
}
LOG = [{"metadata-file": "b", "timestamp-ms": 60001}, {"metadata-file": "a", "timestamp-ms": 0}]
V1: dict[str, Any] = {
    "format-version": 1,
    "location": "/warehouse/t",
    "last-updated-ms": 1602638573874,
    "last-column-id": 1,
    "schema": {"type": "struct", "fields": SCHEMA_0["fields"]},
    "partition-spec": [{"name": "id", "transform": "identity", "source-id": 1, "field-id": 1001}],
    "properties": {},
}


def edited(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy of the document with some keys (underscores for dashes) replaced, or removed if the value is `...`."""
    result = copy.deepcopy(document)
    for key, value in changes.items():
        if value is ...:
            result.pop(key.replace("_", "-"), None)
        else:
            result[key.replace("_", "-")] = value
    return result


def parsed(document: dict[str, Any]) -> TableMetadata:
    return parse_metadata(json.dumps(document).encode(), file=FILE)


def test_key_material_is_not_shown() -> None:
    assert "c2VjcmV0" not in repr(parsed(V3))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(json.dumps(V1).encode()[:-5], id="cut short"),
        pytest.param(gzip.compress(json.dumps(V1).encode())[:-9], id="gzip cut short"),
        pytest.param(pa.compress(json.dumps(V1).encode(), "zstd", asbytes=True)[:-9], id="zstd cut short"),
        pytest.param(b"\x1f\x8bxxxxxxxxxxxxxxx", id="gzip damaged"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"),
        pytest.param(b'{"format-version": NaN}', id="not a JSON number"),
        pytest.param(b"[" * 100000, id="nested too deeply"),
    ],
)
def test_damaged_file_is_corrupt_1_7(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        parse_metadata(data, file=FILE)
    assert (caught.value.cause, caught.value.file) == ("CorruptMetadata", FILE)


@pytest.mark.parametrize(
    ("more", "description"),
    [
        ({"current-version-id": 1}, "its SQL in spark is select 1 from a.b; its SQL in trino is SELECT 1"),
        ({"current-version-id": 2}, "its SQL in spark is select 2"),
        ({}, "its SQL in spark is select 2"),
        ({"versions": [{"version-id": 1, "representations": "none"}]}, "it has no SQL"),
        ({"versions": "none"}, "it has no SQL"),
    ],
)
def test_view_is_refused_with_its_sql_1_9(more: dict[str, Any], description: str) -> None:
    texts = {1: {"trino": "SELECT 1", "spark": "select 1\n  from a.b"}, 2: {"spark": "select 2"}}
    view = {
        "format-version": 1,
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "location": "s3://bucket/db/v",
        "versions": [
            {"version-id": i, "representations": [{"type": "sql", "sql": sql, "dialect": d} for d, sql in of.items()]}
            for i, of in texts.items()
        ],
        **more,
    }
    with pytest.raises(IsAViewError) as caught:
        parsed(view)
    assert str(caught.value) == (
        f"Cannot open table: it is a view. Query the tables that it reads instead; {description} "
        "[IsAView; file v3.metadata.json, rule iceberg 1.9]"
    )


def broken(change: Callable[[dict[str, Any]], object], document: dict[str, Any] = V3) -> dict[str, Any]:
    result = copy.deepcopy(document)
    change(result)
    return result


@pytest.mark.parametrize(
    ("document", "cause", "field", "rule"),
    [
        pytest.param(edited(V3, format_version="3"), None, "/format-version", "1.15", id="version text"),
        pytest.param(edited(V3, format_version=2.0), None, "/format-version", "1.15", id="version float"),
        pytest.param(edited(V3, location=...), None, "/location", "1.17", id="no location"),
        pytest.param(edited(V3, schemas=..., schema=SCHEMA_0), "MissingSchema", "/schemas", "1.17", id="v3 schema"),
        pytest.param(edited(V3, partition_specs=None), "MissingSpec", "/partition-specs", "1.17", id="no specs"),
        (edited(V3, current_schema_id=...), "MissingSchema", "/current-schema-id", "1.17"),
        (edited(V3, current_schema_id=9), "MissingSchema", "/current-schema-id", "1.17"),
        (edited(V1, schemas=[SCHEMA_0]), "MissingSchema", "/current-schema-id", "1.18"),
        pytest.param(edited(V1, schema=...), "MissingSchema", "/schemas", "1.18", id="v1 no schema"),
        pytest.param(edited(V1, partition_spec=...), "MissingSpec", "/partition-specs", "1.17", id="v1 no spec"),
        (edited(V3, schemas=[SCHEMA_0, SCHEMA_1, {**SCHEMA_1, "schema-id": 0}]), None, "/schemas", "1.17"),
        (edited(V3, current_snapshot_id=5), "MissingSnapshot", "/current-snapshot-id", "1.24"),
        pytest.param(
            broken(lambda d: d["refs"]["main"].update({"snapshot-id": 3051729675574597004})),
            "MissingSnapshot",
            "/refs",
            "1.25",
            id="main is elsewhere",
        ),
        (edited(V3, current_snapshot_id=-1), "MissingSnapshot", "/refs", "1.25"),
        (broken(lambda d: d["refs"]["v1"].update({"type": "bookmark"})), None, "/refs/v1/type", "1.25"),
        (broken(lambda d: d["snapshots"][0].pop("timestamp-ms")), None, "/snapshots/0/timestamp-ms", "1.26"),
        pytest.param(
            broken(lambda d: d["snapshots"][0].update({"timestamp-ms": 1.5e12})),
            None,
            "/snapshots/0/timestamp-ms",
            "1.26",
            id="float time",
        ),
        (broken(lambda d: d["snapshots"].append(d["snapshots"][0])), None, "/snapshots/2/snapshot-id", "1.26"),
        (edited(V3, snapshot_log=[{"timestamp-ms": 1}]), None, "/snapshot-log/0/snapshot-id", "1.33"),
        pytest.param(edited(V3, snapshots={}), None, "/snapshots", "1.26", id="snapshots object"),
        pytest.param(
            edited(V1, partition_spec=[*V1["partition-spec"], {"name": "x", "transform": "void", "source-id": 1}]),
            None,
            "/partition-spec",
            "1.19",
            id="some fields with ids",
        ),
        (edited(V1, partition_spec=V1["partition-spec"] * 2), None, "/partition-spec", "1.19"),
        (edited(V1, partition_spec=[{"name": "x", "transform": "void"}]), None, "/partition-spec/0/source-id", "1.19"),
    ],
)
def test_broken_metadata_is_refused(document: dict[str, Any], cause: str | None, field: str, rule: str) -> None:
    with pytest.raises(InvalidTableError) as caught:
        parsed(document)
    assert (caught.value.cause, caught.value.field) == (cause or "InvalidTable", field)
    assert (caught.value.rule, caught.value.file) == (f"iceberg {rule}", FILE)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"last_column_id": ..., "next_row_id": None, "table_uuid": ...},
            "Metadata of format version 3 lacks last-column-id, table-uuid, next-row-id [iceberg 1.17]",
        ),
        ({"default_spec_id": 7}, "The default partition spec 7 is not among the table's specs [iceberg 1.17]"),
        ({"default_sort_order_id": 7}, "The default sort order 7 is not among the table's orders [iceberg 1.17]"),
        ({"current_schema_id": 0}, "Partition field 'd' of the default spec reads a dropped column [iceberg 1.21]"),
        ({"metadata_log": LOG}, "The metadata log is more than a minute out of order [iceberg 1.8]"),
        ({"metadata_log": [{"metadata-file": "b"}]}, "Ignored /metadata-log/0: Missing required field 'timestamp-ms'"),
        ({"statistics": [{"snapshot-id": 1}]}, "Ignored /statistics/0: Missing required field 'statistics-path'"),
        ({"partition_statistics": {}}, "Ignored /partition-statistics: Invalid value: got {}, expected a list"),
    ],
)
def test_problems_in_unused_parts_are_warnings(changes: dict[str, Any], warning: str) -> None:
    assert parsed(edited(V3, **changes)).warnings == (warning,)


def test_any_value_of_the_wrong_type_gives_metadata_or_a_harness_error() -> None:
    """No value of the document, at any depth, may be used without a check."""

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        return [found for key in keys for found in [(*path, key), *places(value[key], (*path, key))]]

    outcomes = []
    for path in places(V3):
        for replacement in (None, 1.5, "x", [], {}):
            document = copy.deepcopy(V3)
            target: Any = document
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = replacement
            try:
                outcomes.append(type(parsed(document)))
            except HarnessError as error:
                outcomes.append(type(error))
    assert set(outcomes) == {TableMetadata, InvalidTableError}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ([{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}], "'a' occurs twice"),
        pytest.param([{"field-id": 1, "names": ["a", "a"]}], "'a' occurs twice", id="names of one entry"),
        pytest.param([{"names": ["a"]}, {"field-id": 2, "names": ["a"]}], "'a' occurs twice", id="hidden and mapped"),
        pytest.param(
            [{"field-id": 1, "names": ["a"]}, {"names": ["b"], "fields": [{"field-id": 1, "names": ["c"]}]}],
            "field id 1 occurs twice",
            id="ids",
        ),
        pytest.param({"field-id": 1}, "expected a list", id="object"),
        pytest.param([{"field-id": "1", "names": ["a"]}], "expected a 32-bit integer", id="id text"),
        pytest.param([{"field-id": 1, "names": "a"}], "expected a list of strings", id="names text"),
    ],
)
def test_name_mapping_refuses_what_is_ambiguous_5_7(mapping: Any, message: str) -> None:
    with pytest.raises(InvalidTableError, match=message):
        parse_name_mapping(json.dumps(mapping))
