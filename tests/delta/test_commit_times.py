from collections.abc import Mapping

import pytest

from harness.errors import InvalidTableError, SnapshotNotFoundError, UnsupportedError
from harness.metadata.delta.commit_times import CommitHistory, InCommitTimestamps, in_commit_timestamps
from harness.metadata.delta.log_files import LogListing, listing_from_entries
from harness.metadata.delta.segment import readable_ranges
from harness.metadata.model.times import show_ms
from harness.storage.stores import Entry

GONE = "it may belong to versions that are no longer in the log ({})"
TOGETHER = (
    "Invalid table properties: delta.inCommitTimestampEnablement{} is set but delta.inCommitTimestampEnablement{} is "
    "not; set both or neither"
)


def log(times: Mapping[int, int | None], *, classic: tuple[int, ...] = ()) -> LogListing:
    """Return a log of commits with these modification times, and of checkpoints."""
    commits = (Entry(f"{version:020d}.json", 7, time) for version, time in times.items())
    return listing_from_entries(
        "/t", [*commits, *(Entry(f"{version:020d}.checkpoint.parquet", 7, 0) for version in classic)]
    )


def unread(version: int) -> int | None:
    raise AssertionError(f"commit {version} was read")


def by_file_times(listing: LogListing) -> CommitHistory:
    return CommitHistory(listing=listing, in_commit=None, read_in_commit_timestamp=unread)


def pairs(history: CommitHistory) -> list[tuple[int, int]]:
    versions = [version for part in readable_ranges(history.listing) for version in part]
    return list(history.times_of([v for v in versions if v in history.listing.commits]).items())


@pytest.mark.parametrize(
    ("listing", "timestamp_ms", "reason"),
    [
        (log({0: 10, 1: 20}), 9, "the oldest readable version, 0, was committed at 1970-01-01T00:00:00.010Z"),
        (
            log({3: 5, 4: 10, 5: 20}, classic=(4,)),
            7,
            "the oldest readable version, 4, was committed at 1970-01-01T00:00:00.010Z",
        ),
        (log({0: 10, 1: 20}), 21, "the latest version, 1, was committed at 1970-01-01T00:00:00.020Z"),
        (log({0: 30, 1: 20}), 32, "the latest version, 1, was committed at 1970-01-01T00:00:00.031Z"),
        (log({0: 10, 5: 50}, classic=(5,)), 11, GONE.format("1 to 4")),
        (log({0: 10, 1: 20}, classic=(3,)), 25, GONE.format("2 to 3")),
        pytest.param(log({}, classic=(3,)), 25, "the log has no commits from that time any more", id="no commits"),
    ],
)
def test_times_out_of_range(listing: LogListing, timestamp_ms: int, reason: str) -> None:
    with pytest.raises(SnapshotNotFoundError) as raised:
        by_file_times(listing).version_at(timestamp_ms)
    message = (
        f"Cannot find a version at {show_ms(timestamp_ms)}: {reason} [TimestampOutOfRange; table /t, rule delta L34]"
    )
    assert str(raised.value) == message


def test_storage_without_times() -> None:
    with pytest.raises(UnsupportedError) as raised:
        by_file_times(log({0: 10, 1: None})).version_at(10)
    assert str(raised.value) == (
        "Cannot read at a time: the storage provides no modification times of commits; give a version "
        f"[Unsupported; table /t, file /t/_delta_log/{1:020d}.json, rule delta L33]"
    )


# The files were copied at 9000 in the wrong order. In-commit timestamps exist since version 3.
COPIED = log({0: 9003, 1: 9002, 2: 9001, 3: 9000, 4: 9000, 5: 9000})
IN_COMMIT = {3: 1000, 4: 1100, 5: 1200}


def with_in_commit(
    listing: LogListing, in_commit: InCommitTimestamps, times: Mapping[int, int | None]
) -> CommitHistory:
    return CommitHistory(listing=listing, in_commit=in_commit, read_in_commit_timestamp=times.__getitem__)


@pytest.mark.parametrize(
    ("listing", "timestamp_ms", "reason"),
    [
        (
            log({4: 1, 5: 1}, classic=(4,)),
            999,
            "the oldest readable version, 4, was committed at 1970-01-01T00:00:01.100Z",
        ),
        (
            log({4: 1, 5: 1}, classic=(4,)),
            1050,
            "the oldest readable version, 4, was committed at 1970-01-01T00:00:01.100Z",
        ),
        (log({0: 1, 3: 1, 4: 1, 5: 1}, classic=(3,)), 999, GONE.format("1 to 2")),
    ],
)
def test_times_out_of_range_with_in_commit_timestamps(listing: LogListing, timestamp_ms: int, reason: str) -> None:
    with pytest.raises(SnapshotNotFoundError) as raised:
        with_in_commit(listing, InCommitTimestamps(3, 1000), IN_COMMIT).version_at(timestamp_ms)
    assert raised.value.message == f"Cannot find a version at {show_ms(timestamp_ms)}: {reason}"


@pytest.mark.parametrize(
    ("times", "timestamp_ms"), [((1000, 3000, 2000), 2000), ((1000, 2000, 2000), 2000), ((3000, 2000, 1000), 1000)]
)
def test_in_commit_timestamps_that_do_not_increase(times: tuple[int, ...], timestamp_ms: int) -> None:
    """A binary search in such timestamps could return any version."""
    history = with_in_commit(log({0: 9, 1: 9, 2: 9}), InCommitTimestamps(), dict(enumerate(times)))
    with pytest.raises(InvalidTableError, match=r"in-commit timestamps must increase, but version \d has") as raised:
        history.version_at(timestamp_ms)
    assert raised.value.rule == "delta L35"
    assert [time_ms for _, time_ms in pairs(history)] == list(times)


def test_enablement_after_the_latest_version() -> None:
    with pytest.raises(InvalidTableError, match="Invalid table property: got version 6, but the latest version is 5"):
        with_in_commit(COPIED, InCommitTimestamps(6, 1000), IN_COMMIT).version_at(1000)


def properties(enabled: str | None, version: str | None = None, timestamp: str | None = None) -> dict[str, str]:
    values = {
        "delta.enableInCommitTimestamps": enabled,
        "delta.inCommitTimestampEnablementVersion": version,
        "delta.inCommitTimestampEnablementTimestamp": timestamp,
    }
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        pytest.param(properties("yes"), "Invalid table property: got 'yes', expected true or false", id="no boolean"),
        (properties("true", "x", "1"), "Invalid table property: got 'x', expected a whole number"),
        (properties("true", "3", "-1"), "Invalid table property: got '-1', expected a whole number"),
        (properties("true", version="3"), TOGETHER.format("Version", "Timestamp")),
        (properties("true", timestamp="3"), TOGETHER.format("Timestamp", "Version")),
    ],
)
def test_invalid_configurations(configuration: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidTableError) as raised:
        in_commit_timestamps(configuration)
    assert raised.value.message == message
