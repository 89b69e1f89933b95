"""Tables with four commits of changes, and the rows that each read of changes returns, worked out by hand.

The first commit inserts (1, 10) and (2, 20), the second inserts (3, 30), the third deletes id 1, and the fourth updates
id 2 from 20 to 21. The columns are `id` and `n`.
"""

from pathlib import Path

from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import FIRST_SNAPSHOT_ID, IcebergTable

S1, S2, S3, S4 = range(FIRST_SNAPSHOT_ID, FIRST_SNAPSHOT_ID + 4)
"""The snapshots of the Iceberg tables. The versions of the Delta table are 1 to 4."""

Row = tuple[int, int, str, int, int]

INSERTS_1: list[Row] = [(1, 10, "insert", 0, S1), (2, 20, "insert", 0, S1)]
CHANGELOG: list[Row] = [
    (1, 10, "delete", 1, S3),
    (2, 20, "delete", 2, S4),
    (2, 21, "insert", 2, S4),
    (3, 30, "insert", 0, S2),
]
"""The changelog after the first snapshot: id, n, the type, the ordinal, and the snapshot."""
UPDATES: list[Row] = [
    (1, 10, "delete", 1, S3),
    (2, 20, "update_preimage", 2, S4),
    (2, 21, "update_postimage", 2, S4),
    (3, 30, "insert", 0, S2),
]
"""The same range with updates paired by `id`."""
NET: list[Row] = [(2, 21, "insert", 3, S4), (3, 30, "insert", 1, S2)]
"""The net changes of all four commits."""
FEED = [
    (1, 10, "insert", 1),
    (1, 10, "delete", 3),
    (2, 20, "insert", 1),
    (2, 20, "update_preimage", 4),
    (2, 21, "update_postimage", 4),
    (3, 30, "insert", 2),
]
"""The feed of the Delta table from version 1: id, n, the type, and the version."""


def iceberg(place: Path, version: int = 2) -> IcebergTable:
    """Write an Iceberg table. In version 2, a delete file hides id 1; in version 3, a vector. Keys hide id 2.

    The snapshot `S1` has the tag `first`. The column `id` is an identifier field.
    """
    table = IcebergTable.create(place, {"id": "long not null", "n": "long"}, format_version=version)
    table.edit_metadata(lambda metadata: metadata["schemas"][0].update({"identifier-field-ids": [1]}))
    file = table.write_data([{"id": 1, "n": 10}, {"id": 2, "n": 20}])
    table.append(file)
    table.create_tag("first")
    table.append(table.write_data([{"id": 3, "n": 30}]))
    hidden = table.write_position_deletes([(file, 0)]) if version < 3 else table.write_deletion_vectors({file: [0]})[0]
    table.commit(add=[hidden])
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 2}]), table.write_data([{"id": 2, "n": 21}])])
    return table


def delta(place: Path) -> DeltaTable:
    """Write a Delta table with a change data feed. A change file records the update."""
    feed = {"delta.enableChangeDataFeed": "true"}
    table = DeltaTable.create(place, {"id": "long", "n": "long"}, configuration=feed)
    file = table.write_data([{"id": 1, "n": 10}, {"id": 2, "n": 20}])
    table.append(file)
    table.append(table.write_data([{"id": 3, "n": 30}]))
    table.delete(file, [0])
    changes = table.write_changes([{"id": 2, "n": 20}, {"id": 2, "n": 21}], ["update_preimage", "update_postimage"])
    table.commit(add=[table.write_data([{"id": 2, "n": 21}])], remove=[table.live_files[0]], cdc=[changes])
    return table
