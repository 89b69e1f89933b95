"""Plans from cached metadata describe the current table."""

import os
from pathlib import Path

import fastavro
import fsspec
import pytest

import harness
from harness.metadata.iceberg.columns import entries
from harness.metadata.iceberg.columns import stored as manifests
from harness.storage.decoded import DECODED
from harness.storage.stores import Storage
from harness.writing.iceberg.builder import IcebergTable

FILTERS = [None, "id = 17", "region = 'eu'", "id > 8 AND region = 'us'", "id IS NULL"]


@pytest.fixture
def table(tmp_path, monkeypatch, clock_ahead) -> Path:
    """Three manifests with four files each. Every version counts as settled, and every manifest is cached."""
    monkeypatch.setattr(manifests, "MIN_CACHED_ENTRIES", 0)
    monkeypatch.setattr(entries, "manifests_for_lockstep", lambda batch: frozenset(b.number for b in batch))
    DECODED.clear()
    made = IcebergTable.create(
        tmp_path / "t", {"id": "long", "region": "string"}, partition_spec=[("region", "identity")]
    )
    for start in (0, 4, 8):
        made.append(*(write(made, i) for i in range(start, start + 4)))
    return tmp_path / "t"


def write(table: IcebergTable, i: int) -> object:
    region = "us" if i % 3 == 0 else "eu"
    rows = [{"id": 2 * i, "region": region}, {"id": 2 * i + 1, "region": region}]
    return table.write_data(rows, partition={"region": region})


def plans(table: Path) -> list[object]:
    opened = harness.open_table(str(table))
    found = []
    for where in FILTERS:
        plan = opened.snapshot().plan(where=where)
        found.append((plan.files.to_pylist(), plan.skipped.to_pylist(), [p.by_name() for p in plan.partitions]))
    return found


def manifests_read(monkeypatch) -> list[str]:
    read: list[str] = []
    real = Storage.read

    def counted(self, path, **options):
        if path.endswith("avro") and "snap-" not in path:
            read.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(Storage, "read", counted)
    return read


def test_a_table_that_is_opened_again_reads_no_manifest_and_plans_the_same(table, monkeypatch):
    expected = plans(table)
    read = manifests_read(monkeypatch)
    assert (plans(table), read) == (expected, [])


def test_bounds_of_another_column_are_added(table, monkeypatch):
    harness.open_table(str(table)).snapshot().plan()
    read = manifests_read(monkeypatch)
    for expected in (3, 3):
        plan = harness.open_table(str(table)).snapshot().plan(where="id = 17")
        assert (plan.files.num_rows, len(plan.skipped), len(read)) == (1, 11, expected)


def test_manifests_in_a_store_are_held_by_the_opened_table_alone(table, monkeypatch):
    """Asking a store whether they changed would cost as much as reading them."""
    fsspec.filesystem("memory").put(str(table), "/t", recursive=True)
    read = manifests_read(monkeypatch)
    for expected in (3, 6):
        opened = harness.open_table("memory://t", path_map={str(table): "memory://t"})
        found = [opened.snapshot().plan(where="id = 17").files.num_rows for _ in range(2)]
        assert (found, len(read)) == ([1, 1], expected)


def uncompressed(manifest: Path) -> None:
    """Write a manifest without compression, so that texts in it can be replaced."""
    with manifest.open("rb") as stream:
        reader = fastavro.reader(stream)
        records = list(reader)
        metadata = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    with manifest.open("wb") as stream:
        fastavro.writer(stream, reader.writer_schema, records, codec="null", metadata=metadata)


def test_a_manifest_that_was_replaced_in_place_is_read_again(table):
    first, *_ = (path for path in sorted((table / "metadata").glob("*.avro")) if not path.name.startswith("snap-"))
    uncompressed(first)
    before = plans(table)
    status, content = first.stat(), first.read_bytes()
    # The length and the time stay the same, so only attributes set by the file system show the change.
    first.write_bytes(content.replace(b".parquet", b".PARQUET"))
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (first.stat().st_size, first.read_bytes() != content) == (len(content), True)
    after = plans(table)
    assert after != before
    DECODED.clear()
    assert after == plans(table)


def test_a_file_that_changed_just_now_is_not_remembered(table, monkeypatch):
    monkeypatch.undo()
    plans(table)
    assert DECODED.size == 0


def test_an_untrusted_table_is_not_remembered(table):
    harness.open_table(str(table), untrusted=True).snapshot().plan()
    assert DECODED.size == 0
