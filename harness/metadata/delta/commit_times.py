"""The latest version at a point in time (delta L33 to L37).

A commit's time is the modification time of its file, unless the table has in-commit timestamps. Then it is the
timestamp stored in the commit. `commitInfo.timestamp` is never used. Copying a table changes modification times and
therefore the result of time travel (delta L36). Only in-commit timestamps survive a copy.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from harness.errors import InvalidTableError, SnapshotNotFoundError, UnsupportedError
from harness.metadata.delta.log_files import LogListing
from harness.metadata.delta.segment import readable_ranges, show_ranges
from harness.metadata.model.times import show_ms
from harness.storage.records import dataclass

ENABLED = "delta.enableInCommitTimestamps"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
RETENTION = "delta.deletedFileRetentionDuration"

_WEEK_MS = 7 * 24 * 3_600_000
_UNIT_US = {
    "week": _WEEK_MS * 1000,
    "day": 24 * 3_600_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_TERM = rf"\s*([+-]?[0-9]{{1,18}})\s+({'|'.join(_UNIT_US)})s?\b"
_INTERVAL = re.compile(rf"\s*(?:interval\b)?(?:{_TERM})+\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InCommitTimestamps:
    """The part of a table's history that has in-commit timestamps.

    Attributes:
        version: The first version with an in-commit timestamp.
        time_ms: The timestamp of that version. None: all commits have one.
    """

    version: int = 0
    time_ms: int | None = None


def in_commit_timestamps(configuration: Mapping[str, str], *, table: str | None = None) -> InCommitTimestamps | None:
    """Return the in-commit timestamps that a table's latest configuration enables, or None if they are disabled.

    Raises:
        InvalidTableError: A property has an invalid value, or only one of the two enablement properties is set.

    Spec: Delta, "In-Commit Timestamps" (rule delta L35).
    """
    enabled = configuration.get(ENABLED, "false")
    if enabled.lower() not in ("true", "false"):
        raise _property_error(ENABLED, enabled, "true or false", table, rule="delta R12")
    if enabled.lower() == "false":
        return None
    version = _whole_number(configuration, ENABLEMENT_VERSION, table)
    time_ms = _whole_number(configuration, ENABLEMENT_TIMESTAMP, table)
    if version is None and time_ms is None:
        return InCommitTimestamps()
    if version is None or time_ms is None:
        both = (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
        present, missing = both if time_ms is None else reversed(both)
        message = f"Invalid table properties: {present} is set but {missing} is not; set both or neither"
        raise InvalidTableError(message, table=table, field=missing, rule="delta L35")
    return InCommitTimestamps(version, time_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHistory:
    """The times of the versions that can still be read from a log.

    Attributes:
        listing: The log.
        in_commit: The part of the history with in-commit timestamps. None: there is none.
        read_in_commit_timestamp: Reads the timestamp in the commit of a version. It returns None if the commitInfo has
            no timestamp or is not the commit's first action. It is only called for versions that must have a timestamp
            according to `in_commit`, and as rarely as a binary search allows.
    """

    listing: LogListing
    in_commit: InCommitTimestamps | None
    read_in_commit_timestamp: Callable[[int], int | None]

    def times_of(self, versions: Collection[int]) -> dict[int, int]:
        """Return the times of readable versions that still have a commit file, in milliseconds since 1970-01-01 UTC.

        Raises:
            InvalidTableError, UnsupportedError: As for `version_at`.
        """
        older, recent = self._readable_versions()
        with_timestamps = set(recent)
        times = {} if with_timestamps.issuperset(versions) else _increasing_file_times(self.listing, older)
        return {v: self._in_commit_time(v) if v in with_timestamps else times[v] for v in versions}

    def version_at(self, time_ms: int, *, after_latest: Literal["error", "clamp"] = "error") -> int:
        """Return the latest version that was committed at or before a point in time.

        Args:
            time_ms: Milliseconds since 1970-01-01 UTC.
            after_latest: `clamp` returns the latest version for a time after the latest commit; `error` raises (delta
                L34).

        Raises:
            SnapshotNotFoundError: The time is before the first readable version, after the latest, or at versions that
                were cleaned up. The message names the readable versions.
            InvalidTableError: A commit lacks its in-commit timestamp, or the timestamps that the search read are out of
                order.
            UnsupportedError: The storage does not provide modification times.
        """
        older, recent = self._readable_versions()
        if self.in_commit is not None and (self.in_commit.time_ms is None or time_ms >= self.in_commit.time_ms):
            return self._latest_at(time_ms, recent, self._increasing_times(), after_latest)
        times = _increasing_file_times(self.listing, older)
        if self.in_commit is None:
            return self._latest_at(time_ms, older, times.__getitem__, after_latest)
        if not older:  # this raises an error that names the oldest version
            return self._search(time_ms, recent, self._increasing_times(), end=self.listing.latest + 1)
        return self._search(time_ms, older, times.__getitem__, end=self.in_commit.version)

    def _readable_versions(self) -> tuple[list[int], list[int]]:
        """Return the readable versions without in-commit timestamps, and those with them; both ascending."""
        versions = [v for part in readable_ranges(self.listing) for v in part if v in self.listing.commits]
        if self.in_commit is None:
            return versions, []
        if self.in_commit.version > self.listing.latest:
            message = (
                f"Invalid table property: got version {self.in_commit.version}, "
                f"but the latest version is {self.listing.latest}"
            )
            raise InvalidTableError(message, table=self.listing.root, field=ENABLEMENT_VERSION, rule="delta L35")
        split = bisect.bisect_left(versions, self.in_commit.version)
        return versions[:split], versions[split:]

    def _latest_at(
        self,
        time_ms: int,
        versions: Sequence[int],
        time_of: Callable[[int], int],
        after_latest: Literal["error", "clamp"],
    ) -> int:
        latest = self.listing.latest
        if versions and versions[-1] == latest and time_ms > time_of(latest):
            if after_latest == "clamp":
                return latest
            raise self._out_of_range(
                time_ms, f"the latest version, {latest}, was committed at {show_ms(time_of(latest))}"
            )
        return self._search(time_ms, versions, time_of, end=latest + 1)

    def _search(self, time_ms: int, versions: Sequence[int], time_of: Callable[[int], int], *, end: int) -> int:
        """Return the last of `versions` that was committed at or before `time_ms`.

        `end` is the first version after the range of versions to which `versions` belong.
        """
        index = bisect.bisect_right(versions, time_ms, key=time_of) - 1
        if index < 0:
            if not versions:
                raise self._out_of_range(time_ms, "the log has no commits from that time any more")
            oldest = versions[0]
            raise self._out_of_range(
                time_ms, f"the oldest readable version, {oldest}, was committed at {show_ms(time_of(oldest))}"
            )
        version = versions[index]
        following = versions[index + 1] if index + 1 < len(versions) else end
        if following > version + 1 and time_of(version) < time_ms:
            missing_versions = show_ranges((range(version + 1, following),))
            raise self._out_of_range(
                time_ms, f"it may belong to versions that are no longer in the log ({missing_versions})"
            )
        return version

    def _increasing_times(self) -> Callable[[int], int]:
        """Return a function that reads each in-commit timestamp once, and checks that they increase."""
        times: dict[int, int] = {}

        def time_of(version: int) -> int:
            if version not in times:
                time_ms = self._in_commit_time(version)
                for other in times.items():
                    (before, before_ms), (after, after_ms) = sorted((other, (version, time_ms)))
                    if before_ms >= after_ms:
                        raise InvalidTableError(
                            "Cannot determine the version at a time: in-commit timestamps must increase, but "
                            f"version {before} has {show_ms(before_ms)} and version {after} has {show_ms(after_ms)}; "
                            "read by version",
                            cause="LogCorrupt",
                            table=self.listing.root,
                            file=self.listing.commits[after].path,
                            rule="delta L35",
                        )
                times[version] = time_ms
            return times[version]

        return time_of

    def _in_commit_time(self, version: int) -> int:
        time_ms = self.read_in_commit_timestamp(version)
        if time_ms is None:
            raise InvalidTableError(
                f"Cannot determine the time of version {version}: the first action of its commit is not a commitInfo "
                "with an inCommitTimestamp",
                cause="LogCorrupt",
                table=self.listing.root,
                snapshot=version,
                file=self.listing.commits[version].path,
                rule="delta L35",
            )
        return time_ms

    def _out_of_range(self, time_ms: int, reason: str) -> SnapshotNotFoundError:
        message = f"Cannot find a version at {show_ms(time_ms)}: {reason}"
        return SnapshotNotFoundError(message, cause="TimestampOutOfRange", table=self.listing.root, rule="delta L34")


def check_retention(
    version: int, time_ms: int, listing: LogListing, configuration: Mapping[str, str], *, now_ms: int
) -> None:
    """Refuse an old version whose deleted files may be gone.

    A version is refused if it is older than the table's retention duration, unless it is the latest version.

    Args:
        version: The version.
        time_ms: The time of its commit, in milliseconds since 1970-01-01 UTC.
        listing: The log.
        configuration: The table properties of the latest version.
        now_ms: The current time, in milliseconds since 1970-01-01 UTC.

    Raises:
        SnapshotNotFoundError: The version is too old (rule delta L37).
        InvalidTableError: The retention property is not an interval of fixed length.
    """
    if version != listing.latest and time_ms < now_ms - retention_ms(configuration, table=listing.root):
        message = (
            f"Cannot read version {version} of {show_ms(time_ms)}: it is older than "
            f"{RETENTION} ({configuration.get(RETENTION, 'interval 1 week')}), so its files may have been deleted; "
            "leave enforce_retention out to read it anyway"
        )
        raise SnapshotNotFoundError(
            message, cause="BeyondRetention", table=listing.root, rule="delta L37", options=("enforce_retention",)
        )


def retention_ms(configuration: Mapping[str, str], *, table: str | None = None) -> int:
    """Return how long a table keeps deleted files, in milliseconds. The default is one week.

    Raises:
        InvalidTableError: The retention property is not an interval of fixed length.
    """
    text = configuration.get(RETENTION)
    if text is None:
        return _WEEK_MS
    if _INTERVAL.fullmatch(text) is None:
        raise _property_error(RETENTION, text, "an interval such as 'interval 7 days'", table, rule="delta L37")
    terms = re.findall(_TERM, text, re.IGNORECASE)
    return int(sum(int(number) * _UNIT_US[unit.lower()] for number, unit in terms)) // 1000


def _increasing_file_times(listing: LogListing, versions: Sequence[int]) -> dict[int, int]:
    """Return modification times, raised where necessary so that they increase by at least a millisecond per version.

    Spec: rule delta L33.
    """
    times: dict[int, int] = {}
    least = 0
    for version in versions:
        file = listing.commits[version]
        if file.modified_ms is None:
            message = "Cannot read at a time: the storage provides no modification times of commits; give a version"
            raise UnsupportedError(message, table=listing.root, file=file.path, rule="delta L33")
        times[version] = max(least, file.modified_ms) if times else file.modified_ms
        least = times[version] + 1
    return times


def _whole_number(configuration: Mapping[str, str], key: str, table: str | None) -> int | None:
    text = configuration.get(key)
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,19}", text) is None:
        raise _property_error(key, text, "a whole number", table, rule="delta L35")
    return int(text)


def _property_error(key: str, value: str, expected: str, table: str | None, *, rule: str) -> InvalidTableError:
    message = f"Invalid table property: got {value!r}, expected {expected}"
    return InvalidTableError(message, table=table, field=key, rule=rule)
