"""Rules about statistics files of an Iceberg table: Puffin files and partition statistics (iceberg 1.29)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import duckdb

from harness.check.iceberg import CheckedIceberg, SnapshotFiles
from harness.check.rules import Breach, Place, Reads, Severity, decoding_breach, rule
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.errors import HarnessError, MissingFileError
from harness.metadata.deletes.puffin import open_puffin
from harness.metadata.iceberg.manifests import Content
from harness.metadata.iceberg.model import PartitionStatisticsFile, StatisticsFile
from harness.storage.paths import PhysicalPath


def _files(table: CheckedIceberg) -> Iterator[tuple[StatisticsFile | PartitionStatisticsFile, Place]]:
    metadata = table.metadata
    files: tuple[StatisticsFile | PartitionStatisticsFile, ...] = metadata.statistics + metadata.partition_statistics
    for file in files:
        key = "statistics" if isinstance(file, StatisticsFile) else "partition-statistics"
        yield file, Place(file=metadata.file, field=f"/{key}", entry=file.path)


@rule("ICE-113", Severity.NOTE, Reads.TABLE, "iceberg 1.29")
def owners(table: CheckedIceberg) -> Iterator[Breach]:
    """Statistics files belong to existing snapshots.

    Hurts: Optimizers, which do not find the statistics.
    Mends: metadata file: statistics, partition-statistics
    """
    for file, place in _files(table):
        if file.snapshot_id not in table.metadata.snapshots:
            yield Breach(place, str(file.snapshot_id), "no such snapshot")


@rule("ICE-119", Severity.WARNING, Reads.TABLE, "iceberg 1.29")
def contents(table: CheckedIceberg) -> Iterator[Breach]:
    """A statistics file exists and has the recorded size, footer, and blobs.

    Hurts: Optimizers: they fail, or use statistics of other columns or of another time.
    Mends: metadata file: statistics, partition-statistics; or compute the statistics again
    """
    for file, place in _files(table):
        if file.snapshot_id not in table.metadata.snapshots:
            continue  # ICE-113 reports this; statistics go with their expired snapshot
        try:
            physical = table.physical(file.path)
            size = table.storage.size(physical)
            footer = _footer(table, file, physical) if isinstance(file, StatisticsFile) else ()
        except HarnessError as error:
            yield decoding_breach(place, error)
            continue
        if file.size is not None and file.size != size:
            yield Breach(place, f"{file.size:,} bytes", f"{size:,} bytes")
        for recorded, actual in footer:
            yield Breach(place, recorded, actual)


def _footer(table: CheckedIceberg, file: StatisticsFile, physical: PhysicalPath) -> list[tuple[str, str]]:
    """Return the recorded values about a Puffin file that differ from the file's, as pairs.

    Raises the same errors as `open_puffin`.
    """
    size, payload = open_puffin(table.storage, physical, file=file.path).footer()
    faults = []
    if file.footer_size not in (None, size):
        faults.append((f"a footer of {file.footer_size:,} bytes", f"{size:,} bytes"))
    if payload is None:
        return faults
    try:
        blobs = json.loads(payload)["blobs"]
        stored = Counter((b["type"], tuple(b["fields"]), b["snapshot-id"], b["sequence-number"]) for b in blobs)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return [*faults, ("a Puffin footer", "its payload is not a list of blobs")]
    recorded = Counter((b.type, b.fields, b.snapshot_id, b.sequence_number) for b in file.blobs)
    for kind, fields, snapshot, number in recorded - stored:
        faults.append((f"{kind} of fields {list(fields)}, snapshot {snapshot}, number {number}", "no such blob"))
    return faults


@rule("ICE-224", Severity.WARNING, Reads.SNAPSHOT, "iceberg 1.29")
def partitions(files: SnapshotFiles) -> Iterator[Breach]:
    """Partition statistics match the partitions, files, and rows of their snapshot, and no number is negative.

    Hurts: Optimizers and people, who rely on the numbers.
    Mends: metadata file: partition-statistics; or compute the statistics again, from no older ones
    """
    table = files.table
    for file in table.metadata.partition_statistics:
        if file.snapshot_id != files.snapshot.id or not file.path.endswith(".parquet"):
            continue  # of another snapshot, or in a format that is rarely used
        place = Place(file=table.metadata.file, field="/partition-statistics", entry=file.path)
        data = [entry.file for entry in files.live if entry.file.content is Content.DATA]
        parts = {(f.spec_id, tuple(sorted(f.partition.items()))) for f in data}
        values = {tuple(pair for pair in part if pair[1] is not None) for _, part in parts}
        names = ("data_file_count", "data_record_count")
        text = ", ".join(f"sum({name})::BIGINT, min({name})" for name in names)
        try:
            access = DuckDBFiles(cursor(), table.storage)
            listed = access.listed([table.physical(file.path)])
            query = f"SELECT count(*) FILTER (data_file_count <> 0), {text} FROM read_parquet({listed})"
            (row,) = access.connection.execute(query).fetchall()
        except MissingFileError:
            continue  # ICE-119
        except HarnessError as error:
            yield decoding_breach(place, error)
            continue
        except duckdb.Error as error:
            yield Breach(place, "statistics per partition", str(error).partition("\n")[0])
            continue
        if row[0] not in (len(parts), len(values)):
            yield Breach(place, f"{row[0]:,} partitions", f"the snapshot has {len(parts):,}")
        for name, total, least, number in zip(
            names, row[1::2], row[2::2], (len(data), sum(f.record_count or 0 for f in data)), strict=True
        ):
            if (total or 0) != number:
                yield Breach(place, f"{name} {total}", f"the snapshot has {number:,}")
            if least is not None and least < 0:
                yield Breach(place, f"{name} {least}", "a number below 0")
