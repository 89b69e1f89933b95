"""The latest version at a time (delta L33 to L37).

A commit's time is its file's modification time, unless the table keeps in-commit timestamps: then it is what the
commit itself says. `commitInfo.timestamp` is never used. Copying a table changes modification times, and with them
what time travel finds (delta L36); only in-commit timestamps survive it.
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
    """Since when the commits of a table carry their own timestamps.

    version: the first commit that does. time_ms: its timestamp; None: all commits have one.
    """

    version: int = 0
    time_ms: int | None = None


def in_commit_timestamps(configuration: Mapping[str, str], *, table: str | None = None) -> InCommitTimestamps | None:
    """The in-commit timestamps that a table's latest configuration enables; None if it does not (delta L35).

    Raises InvalidTableError: a property has no legal value, or one of the two enablement properties is missing.
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
        message = f"Invalid table properties: {present} is set and {missing} is not; they come together"
        raise InvalidTableError(message, table=table, field=missing, rule="delta L35")
    return InCommitTimestamps(version, time_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHistory:
    """The times of the versions that a log can still give.

    listing: the log.
    in_commit: since when commits carry their own timestamps; None if they do not.
    read_in_commit_timestamp: the timestamp in the commit of a version, None if its commitInfo has none or is not the
        commit's first action. Called only where `in_commit` says that there is one, and as seldom as a search can.
    """

    listing: LogListing
    in_commit: InCommitTimestamps | None
    read_in_commit_timestamp: Callable[[int], int | None]

    def times_of(self, versions: Collection[int]) -> dict[int, int]:
        """The times of readable versions that still have a commit file, in milliseconds. Raises as `version_at`."""
        older, recent = self._readable_versions()
        known = set(recent)
        times = {} if known.issuperset(versions) else _increasing_file_times(self.listing, older)
        return {v: self._in_commit_time(v) if v in known else times[v] for v in versions}

    def version_at(self, time_ms: int, *, after_latest: Literal["error", "clamp"] = "error") -> int:
        """The latest version that was there at a time, in milliseconds since 1970-01-01 UTC, inclusive.

        after_latest: `clamp` takes a time after the latest commit for the latest version (delta L34).

        Raises:
            SnapshotNotFoundError: the time is before the first readable version, after the latest, or at versions that
                were cleaned up; says what there is.
            InvalidTableError: a commit lacks its in-commit timestamp, or those that were looked at do not increase.
            UnsupportedError: the storage gives no modification times.
        """
        older, recent = self._readable_versions()
        if self.in_commit is not None and (self.in_commit.time_ms is None or time_ms >= self.in_commit.time_ms):
            return self._latest_at(time_ms, recent, self._increasing_times(), after_latest)
        times = _increasing_file_times(self.listing, older)
        if self.in_commit is None:
            return self._latest_at(time_ms, older, times.__getitem__, after_latest)
        if not older:  # fails, too, and can say how far back the log goes
            return self._search(time_ms, recent, self._increasing_times(), end=self.listing.latest + 1)
        return self._search(time_ms, older, times.__getitem__, end=self.in_commit.version)

    def _readable_versions(self) -> tuple[list[int], list[int]]:
        """The readable versions before in-commit timestamps, and those with them; both ascending."""
        versions = [v for part in readable_ranges(self.listing) for v in part if v in self.listing.commits]
        if self.in_commit is None:
            return versions, []
        if self.in_commit.version > self.listing.latest:
            message = (
                f"Invalid table property: got version {self.in_commit.version}, the latest is {self.listing.latest}"
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
            raise self._out_of_range(time_ms, f"the latest version, {latest}, is of {show_ms(time_of(latest))}")
        return self._search(time_ms, versions, time_of, end=latest + 1)

    def _search(self, time_ms: int, versions: Sequence[int], time_of: Callable[[int], int], *, end: int) -> int:
        """The last of `versions` up to `time_ms`; the version after the last of them would be `end`."""
        index = bisect.bisect_right(versions, time_ms, key=time_of) - 1
        if index < 0:
            if not versions:
                raise self._out_of_range(time_ms, "no commit of that time is left")
            oldest = versions[0]
            raise self._out_of_range(time_ms, f"the oldest version left, {oldest}, is of {show_ms(time_of(oldest))}")
        version = versions[index]
        following = versions[index + 1] if index + 1 < len(versions) else end
        if following > version + 1 and time_of(version) < time_ms:
            gone = show_ranges((range(version + 1, following),))
            raise self._out_of_range(time_ms, f"it may be of versions that are no longer in the log ({gone})")
        return version

    def _increasing_times(self) -> Callable[[int], int]:
        """The in-commit timestamps of versions, each read once, as far as they increase: a search needs that."""
        times: dict[int, int] = {}

        def time_of(version: int) -> int:
            if version not in times:
                time_ms = self._in_commit_time(version)
                for other in times.items():
                    (before, before_ms), (after, after_ms) = sorted((other, (version, time_ms)))
                    if before_ms >= after_ms:
                        raise InvalidTableError(
                            "Cannot tell which version was there at a time: in-commit timestamps must increase, but "
                            f"version {before} is of {show_ms(before_ms)} and version {after} of {show_ms(after_ms)}; "
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
                f"Cannot tell the time of version {version}: its commit has no inCommitTimestamp in a first commitInfo",
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
    """Refuses a version that is not the latest and older than the table keeps deleted files (delta L37).

    time_ms: of its commit, milliseconds since 1970-01-01 UTC, as now_ms. configuration: of the latest version.

    Raises:
        SnapshotNotFoundError: the version is too old.
        InvalidTableError: the retention is no interval of fixed length.
    """
    if version != listing.latest and time_ms < now_ms - retention_ms(configuration, table=listing.root):
        message = (
            f"Cannot read version {version} of {show_ms(time_ms)}: it is older than "
            f"{RETENTION} ({configuration.get(RETENTION, 'interval 1 week')}), so its files may have been deleted; "
            "to read it all the same, leave enforce_retention out"
        )
        raise SnapshotNotFoundError(
            message, cause="BeyondRetention", table=listing.root, rule="delta L37", options=("enforce_retention",)
        )


def retention_ms(configuration: Mapping[str, str], *, table: str | None = None) -> int:
    """The time for which a table keeps deleted files, in milliseconds: a week by default. Raises InvalidTableError."""
    text = configuration.get(RETENTION)
    if text is None:
        return _WEEK_MS
    if _INTERVAL.fullmatch(text) is None:
        raise _property_error(RETENTION, text, "an interval such as 'interval 7 days'", table, rule="delta L37")
    terms = re.findall(_TERM, text, re.IGNORECASE)
    return int(sum(int(number) * _UNIT_US[unit.lower()] for number, unit in terms)) // 1000


def _increasing_file_times(listing: LogListing, versions: Sequence[int]) -> dict[int, int]:
    """Modification times, made to increase with the version by a millisecond where they do not (delta L33)."""
    times: dict[int, int] = {}
    least = 0
    for version in versions:
        file = listing.commits[version]
        if file.modified_ms is None:
            message = "Cannot read at a time: the storage gives no modification times of commits; give a version"
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
