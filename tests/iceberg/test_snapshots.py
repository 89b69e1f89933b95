from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from harness.errors import RequestError, SnapshotNotFoundError
from harness.metadata.iceberg.metadata import parse_metadata_document
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.iceberg.time_travel import select
from harness.metadata.model.times import timestamp_ms

T0 = 1_700_000_000_000
IN_SCHEMA = {0: "a", 1: "b", 2: "c"}


def table(**changes: Any) -> TableMetadata:
    """Schemas 0, 1, and 2 with the columns a, b, and c; 2 is current and newer than every snapshot.

    The history of main is 10, 20, 30; 40 is on the branch `dev`, 50 is staged, and the log still has the expired
    snapshot 5.
    """
    document = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "/t",
        "last-sequence-number": 5,
        "last-updated-ms": T0,
        "last-column-id": 3,
        "current-schema-id": 2,
        "schemas": [
            {"schema-id": id_, "fields": [{"id": id_ + 1, "name": name, "required": False, "type": "int"}]}
            for id_, name in IN_SCHEMA.items()
        ],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [],
        "default-sort-order-id": 0,
        "current-snapshot-id": 30,
        "snapshots": [
            snapshot(10, 1000, **{"schema-id": 0}),
            snapshot(20, 2000),
            snapshot(30, 3000, **{"schema-id": 1}),
            snapshot(40, 2500, **{"schema-id": 1}),
            snapshot(50, 3500, **{"schema-id": 1}),
        ],
        "refs": {
            "main": {"snapshot-id": 30, "type": "branch"},
            "dev": {"snapshot-id": 40, "type": "BRANCH"},
            "v1": {"snapshot-id": 10, "type": "tag"},
            "lost": {"snapshot-id": 99, "type": "tag"},
        },
        "snapshot-log": [log(0, 5), log(1000, 10), log(2000, 20), log(3000, 30)],
    }
    return parse_metadata_document(document | changes, file="v1.metadata.json")


def snapshot(id_: int, after_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "snapshot-id": id_,
        "timestamp-ms": T0 + after_ms,
        "sequence-number": id_,
        "manifest-list": f"/t/metadata/{id_}.avro",
        "summary": {"operation": "append"},
        **more,
    }


def log(after_ms: int, id_: int) -> dict[str, int]:
    return {"timestamp-ms": T0 + after_ms, "snapshot-id": id_}


@pytest.mark.parametrize(
    ("metadata", "at", "message"),
    [
        pytest.param(
            table(),
            f"timestamp={T0 - 1}",
            "Cannot find a snapshot at 2023-11-14T22:13:19.999Z: the oldest available time is 2023-11-14T22:13:20.000Z "
            "[NoSnapshotAtTime; file v1.metadata.json, rule iceberg 1.33]",
            id="before the log",
        ),
        pytest.param(
            table(**{"snapshot-log": None}),
            f"timestamp={T0}",
            "Cannot find a snapshot at 2023-11-14T22:13:20.000Z: its snapshot log is empty "
            "[NoSnapshotAtTime; file v1.metadata.json, rule iceberg 1.33]",
            id="no log",
        ),
        pytest.param(
            table(),
            f"timestamp={T0 + 500}",
            "Cannot read at 2023-11-14T22:13:20.500Z: snapshot 5 of that time has expired; the oldest available "
            "time is 2023-11-14T22:13:21.000Z [MissingSnapshot; snapshot 5, file v1.metadata.json, "
            "rule iceberg 1.33]",
            id="expired",
        ),
        pytest.param(
            table(snapshots=[snapshot(30, 3000), snapshot(3055729675574597004, 1)]),
            3055729675574597040,
            "Cannot find snapshot 3055729675574597040: did you mean 3055729675574597004 [MissingSnapshot; "
            "snapshot 3055729675574597040, file v1.metadata.json, rule iceberg 1.32]",
            id="near id",
        ),
        pytest.param(
            table(snapshots=[snapshot(30, 3000), snapshot(31, 1)]),
            7,
            "Cannot find snapshot 7: the newest are 30 (2023-11-14T22:13:23.000Z), 31 (2023-11-14T22:13:20.001Z) "
            "[MissingSnapshot; snapshot 7, file v1.metadata.json, rule iceberg 1.32]",
            id="unknown id",
        ),
        pytest.param(
            table(),
            "Main",
            "Cannot find branch or tag 'Main': the table has main "
            "[MissingSnapshot; file v1.metadata.json, rule iceberg 1.37]",
            id="1.37 letter case of a ref",
        ),
    ],
)
def test_a_missing_selection_lists_the_available_ones(metadata: TableMetadata, at: Any, message: str) -> None:
    with pytest.raises(SnapshotNotFoundError) as caught:
        select(metadata, at)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-5, -5),
        ("1700000000000", T0),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13", T0 - 20_000),
        ("2023-11-14 22:13:20", T0),
        (" 2023-11-14 22:13:20.5 ", T0 + 500),
        ("2023-11-14 22:13:20.0009999", T0),
        ("2023-11-14 22:13:20 UTC", T0),
        ("2023-11-14T23:13:20+01:00", T0),
        ("2023-11-14T23:13:20+0100", T0),
        ("2023-11-14 14:13:20-08", T0),
        ("1969-12-31T23:59:59.9999", -1),
        (datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC), T0),
        (datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1))), T0),
    ],
    ids=str,
)
def test_timestamp_ms_reads_times_as_utc_rounded_down(value: Any, expected: int) -> None:
    assert timestamp_ms(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "2023",
        "20231114",
        "2023-02-30",
        "2023-11-14T25:00",
        "2023-11-14T22:13:20 Europe/Paris",
        True,
        1.5,
    ],
    ids=str,
)
def test_timestamp_ms_refuses_other_texts(value: Any) -> None:
    with pytest.raises(RequestError, match=r"^Invalid timestamp: got "):
        timestamp_ms(value)
