import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from checkpoint_rows import add, table

import harness
from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.log_files import list_log
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.segment import choose_segment
from harness.storage.paths import PathMap
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
V2_PROTOCOL = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
}
METADATA = {"metaData": {"id": "i", "schemaString": "{}", "partitionColumns": [], "configuration": {}}}


def remove(path, **fields):
    return {"remove": {"path": path, **fields}}


class Log:
    """A log below `root` that tests write by hand."""

    def __init__(self, root: Path):
        self.root = root
        self.directory = root / "_delta_log"
        self.directory.mkdir(parents=True, exist_ok=True)

    def commit(self, version, *actions):
        text = "\n".join(json.dumps(action) for action in actions)
        (self.directory / f"{version:020d}.json").write_text(text + "\n")

    def commits(self, *commits):
        for version, actions in enumerate(commits):
            self.commit(version, *actions)
        return self

    def checkpoint(self, version, *actions, part=""):
        path = self.directory / f"{version:020d}.checkpoint{part}.parquet"
        pq.write_table(table(actions), path)
        return path

    def checksum(self, version, text):
        (self.directory / f"{version:020d}.crc").write_text(text)

    def state(self, path_map=None):
        storage = Storage()
        locator = Locator(TableRoot.at(str(self.root)), path_map or PathMap())
        return load_state(choose_segment(list_log(storage, str(self.root)), None), storage, locator, statistics="any")

    def live(self, path_map=None):
        files = self.state(path_map).files
        return dict(zip(files.column("key").to_pylist(), files.column("dv_path_or_inline").to_pylist(), strict=True))


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "a table")


START = (PROTOCOL, METADATA)


@pytest.mark.parametrize(
    ("actions", "missing"), [((METADATA,), "no protocol action"), ((PROTOCOL,), "no metaData action")]
)
def test_log_without_protocol_or_metadata_is_refused(log, actions, missing):
    log.commits(actions)
    with pytest.raises(InvalidTableError, match=missing):
        log.state()


def test_negative_size_is_refused(log):
    log.commits([*START, add("a", size=-1)])
    with pytest.raises(InvalidTableError, match="negative size for a: -1 bytes"):
        log.state()


def test_path_map_makes_recorded_and_moved_paths_one_file(log):
    log.commits([*START, add("s3://old/t/a"), add("b")], [remove("a"), remove("s3://old/t/b"), add("s3://old/t/c")])
    assert log.live(path_map=PathMap((("s3://old/t", str(log.root)),))) == {f"{log.root}/c": None}


def test_partitioned_table_needs_partition_values(log):
    partitioned = {"metaData": {**METADATA["metaData"], "partitionColumns": ["p"]}}
    log.commits([PROTOCOL, partitioned])
    log.checkpoint(0, PROTOCOL, partitioned, add("a", partitionValues={}), {"add": {"path": "b", "size": 1}})
    with pytest.raises(InvalidTableError, match="no partition values for b"):
        log.state()


def test_unpartitioned_table_needs_no_partition_values(log):
    log.commits(START)
    log.checkpoint(0, *START, {"add": {"path": "b", "size": 1}})
    assert log.state().files.column("partition_values").to_pylist() == [[]]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_malformed_checksum_is_a_warning(log, text):
    log.commits([*START, add("a")])
    log.checksum(0, text)
    assert log.state().warnings == ("The checksum file 00000000000000000000.crc is malformed and was not used",)


def in_parts(log, protocol):
    """A log with version 1 as commits and as a checkpoint in two parts with other files, and with version 2."""
    log.commits([protocol, METADATA, add("a")], [add("b")], [add("c")])
    log.checkpoint(1, protocol, METADATA, add("p"), part=f".{1:010d}.{2:010d}")
    log.checkpoint(1, add("q"), part=f".{2:010d}.{2:010d}")


def test_a_checkpoint_in_parts_is_refused_if_nothing_else_has_the_version(log):
    in_parts(log, V2_PROTOCOL)
    (log.directory / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptFileError, match="in parts: the table has the feature v2Checkpoint") as caught:
        log.state()
    assert caught.value.rule == "delta L13"
    assert caught.value.file.endswith(f"{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet")


def test_many_actions_are_reconciled_in_pieces(log, monkeypatch):
    monkeypatch.setattr("harness.metadata.delta.replay.ACTIONS_AT_ONCE", 3)
    names = [f"f{i}" for i in range(10)]
    log.commits([*START, *map(add, names)], [*map(remove, names[:7])], [*map(add, names[5:7])])
    assert sorted(log.live()) == names[5:]


def test_adding_one_commit_equals_a_full_replay(tmp_path):
    """The log has adds, removes, and a checkpoint in between.

    `is_next_commit` finds the versions that need only one more commit.
    """
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    files = [table.write_data([{"id": number}]) for number in range(6)]
    table.append(files[0], files[1])
    table.remove(files[0])
    table.append(files[2])
    table.checkpoint()
    table.append(files[3])
    table.remove(files[1])
    opened = harness.open_table(str(tmp_path / "t"))._source
    followed = []
    for version in range(1, opened.log.latest + 1):
        before, after = (opened.select(number).snapshot for number in (version - 1, version))
        if opened.is_next_commit(version):
            followed.append(version)
            found, wanted = opened.next_snapshot(before).state, after.state
            live = [sorted(state.files.column("path").to_pylist()) for state in (found, wanted)]
            assert live[0] == live[1]
            assert (found.version, found.protocol, found.metadata) == (version, wanted.protocol, wanted.metadata)
    assert followed == [1, 2, 4, 5]


def test_a_check_of_all_versions_reads_each_commit_a_few_times(tmp_path, monkeypatch):
    """Replaying the log separately for each of 40 versions would read commits 800 times."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in range(40):
        table.append(table.write_data([{"id": number}]))
    read, reads = Storage.read, []

    def counted(self, path, **options):
        reads.append(path)
        return read(self, path, **options)

    monkeypatch.setattr(Storage, "read", counted)
    report = harness.open_table(str(tmp_path / "t")).check(level="metadata", all_snapshots=True)
    assert (report.findings, report.read["snapshot"]) == ((), 41)
    assert sum("_delta_log" in path for path in reads) < 4 * 41
