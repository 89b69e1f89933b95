"""Plans from the cache are those of the table as it is now, whatever became of the cache or the table."""

import os
from pathlib import Path

import fastavro
import pytest

import harness
from harness.errors import RequestError
from harness.metadata.iceberg.columns import entries
from harness.metadata.iceberg.columns import raw as manifests
from harness.storage import decoded, stores
from harness.storage.decoded import DECODED
from harness.storage.stores import Storage
from harness.testing.writing.iceberg.builder import IcebergTable

FILTERS = [None, "id = 17", "region = 'eu'", "id > 8 AND region = 'us'", "id IS NULL"]


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    """Three manifests of four files each. Every version counts as settled, every manifest as worth keeping."""
    monkeypatch.setattr(stores, "_SETTLED_NS", 0)
    monkeypatch.setattr(manifests, "_FEW", 0)
    monkeypatch.setattr(entries, "worth_it", lambda batch: frozenset(b.number for b in batch))
    DECODED.clear()
    made = IcebergTable.create(
        tmp_path / "t", {"id": "long", "region": "string"}, partition_spec=[("region", "identity")]
    )
    for start in (0, 4, 8):
        made.append(*(write(made, i) for i in range(start, start + 4)))
    return tmp_path / "t"


def write(made: IcebergTable, i: int) -> object:
    region = "us" if i % 3 == 0 else "eu"
    rows = [{"id": 2 * i, "region": region}, {"id": 2 * i + 1, "region": region}]
    return made.write_data(rows, partition={"region": region})


def plans(table: Path, cache: str) -> list[object]:
    opened = harness.open_table(str(table), cache_dir=cache)
    found = []
    for where in FILTERS:
        plan = opened.snapshot().plan(where=where)
        found.append((plan.files.to_pylist(), plan.skipped.to_pylist(), [p.named() for p in plan.partitions]))
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


def test_the_second_process_reads_no_manifest_and_plans_the_same(table, tmp_path, monkeypatch):
    expected = plans(table, "")
    DECODED.clear()
    directory = str(tmp_path / "cache")
    assert plans(table, directory) == expected
    DECODED.clear()  # as another process has it
    read = manifests_read(monkeypatch)
    assert (plans(table, directory), read) == (expected, [])


def test_bounds_of_another_column_are_added(table, tmp_path, monkeypatch):
    directory = str(tmp_path / "cache")
    harness.open_table(str(table), cache_dir=directory).snapshot().plan()
    DECODED.clear()
    read = manifests_read(monkeypatch)
    for expected in (3, 3):
        plan = harness.open_table(str(table), cache_dir=directory).snapshot().plan(where="id = 17")
        assert (plan.files.num_rows, len(plan.skipped), len(read)) == (1, 11, expected)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_damaged_entry_is_read_again_and_replaced(table, tmp_path, damage):
    expected = plans(table, str(tmp_path / "cache"))
    entries = sorted((tmp_path / "cache" / "harness-1").iterdir())
    sound = [path.read_bytes() for path in entries]
    for number, path in enumerate(entries):
        data = sound[number]
        match damage:
            case "flip":
                middle = len(data) // 2
                path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
            case "cut":
                path.write_bytes(data[:-1])
            case "empty":
                path.write_bytes(b"")
            case "other":
                path.write_bytes(sound[number - 1])
    DECODED.clear()
    assert plans(table, str(tmp_path / "cache")) == expected
    DECODED.clear()
    assert plans(table, str(tmp_path / "cache")) == expected
    assert sorted(path.read_bytes() for path in entries) == sorted(sound)


def uncompressed(manifest: Path) -> None:
    """Writes it anew, so that texts in it can be replaced."""
    with manifest.open("rb") as stream:
        reader = fastavro.reader(stream)
        records = list(reader)
        metadata = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    with manifest.open("wb") as stream:
        fastavro.writer(stream, reader.writer_schema, records, codec="null", metadata=metadata)


def test_a_manifest_that_was_replaced_in_place_is_read_again(table, tmp_path):
    directory = str(tmp_path / "cache")
    first, *_ = (path for path in sorted((table / "metadata").glob("*.avro")) if not path.name.startswith("snap-"))
    uncompressed(first)
    before = plans(table, directory)
    status, content = first.stat(), first.read_bytes()
    # As long as it was and with the same time, so that only what a file system sets by itself tells.
    first.write_bytes(content.replace(b".parquet", b".PARQUET"))
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (first.stat().st_size, first.read_bytes() != content) == (len(content), True)
    after = plans(table, directory)
    assert after != before
    DECODED.clear()
    assert after == plans(table, "")


def test_a_file_that_changed_just_now_is_not_remembered(table, tmp_path, monkeypatch):
    monkeypatch.undo()
    plans(table, str(tmp_path / "cache"))
    assert list((tmp_path / "cache" / "harness-1").iterdir()) == []


def test_a_table_of_a_strangers_has_no_cache(table, tmp_path, monkeypatch):
    monkeypatch.setenv(decoded.DIRECTORY, str(tmp_path / "cache"))
    harness.open_table(str(table), untrusted=True).snapshot().plan()
    assert (DECODED.size, (tmp_path / "cache").exists()) == (0, False)
    with pytest.raises(RequestError, match="Cannot keep a cache of an untrusted table"):
        harness.open_table(str(table), untrusted=True, cache_dir=str(tmp_path))


def test_the_environment_says_where_and_how_much(table, tmp_path, monkeypatch):
    monkeypatch.setenv(decoded.DIRECTORY, str(tmp_path / "cache"))
    plans(table, None)
    assert list((tmp_path / "cache" / "harness-1").iterdir()) != []
    monkeypatch.setenv(decoded.BYTES, "much")
    with pytest.raises(RequestError, match="expected a whole number of bytes"):
        harness.open_table(str(table))
