"""`prune="partition"` skips files by their partition values alone, in both formats."""

from __future__ import annotations

import harness
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

ROWS = ([{"id": 1, "region": "eu"}], [{"id": 2, "region": "eu"}], [{"id": 3, "region": "us"}])


def skipped(location, where: str) -> dict[str, list[int]]:
    """The numbers of files skipped by partition and by statistics, by value of `prune`."""
    found = {}
    for prune in ("off", "partition", "files"):
        reasons = [
            s.reason for s in harness.open_table(str(location), prune=prune).snapshot().plan(where=where).skipped
        ]
        found[prune] = [reasons.count("partition"), reasons.count("statistics")]
    return found


def test_files_are_skipped_by_partition_alone(tmp_path):
    ice = IcebergTable.create(
        tmp_path / "ice", {"id": "long", "region": "string"}, partition_spec=[("region", "identity")]
    )
    delta = DeltaTable.create(tmp_path / "delta", {"id": "long", "region": "string"}, partition_columns=["region"])
    for rows in ROWS:
        ice.append(*ice.write_partitioned(rows))
        delta.append(*delta.write_partitioned(rows))
    # Of three files, the filter on the partition leaves out the one of `us`, the bounds of id one of the two others.
    for location in (ice.location, delta.directory):
        assert skipped(location, "region = 'eu' AND id = 1") == {"off": [0, 0], "partition": [1, 0], "files": [1, 1]}
