"""The versions that a change data feed covers (delta C1, C2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from harness.errors import InvalidTableError, RequestError, SnapshotNotFoundError
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.log_files import LogListing
from harness.metadata.delta.segment import show_ranges
from harness.metadata.model.times import show_ms, timestamp_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A range of versions or times, both ends inclusive; the start must be given, one way.

    from_timestamp: the first commit at or after it. to_timestamp: the last commit at or before it.
    to_version, to_timestamp: neither: the latest version. Beyond the latest: the latest.
    allow_out_of_range: a start after the latest version, or an end before the first, makes an empty range.
    """

    from_version: int | None = None
    to_version: int | None = None
    from_timestamp: int | str | datetime | None = None
    to_timestamp: int | str | datetime | None = None
    allow_out_of_range: bool = False


def resolve_range(request: ChangeRequest, history: CommitHistory) -> range:
    """The versions that are asked for; their commits are all there. Empty: no version lies in the range.

    Raises:
        RequestError: no start, two starts or two ends, a negative version, a start after its end, or after the latest
            version.
        SnapshotNotFoundError: a time before the log's first commit, or at versions that were cleaned up.
        InvalidTableError: the log lacks commits of the range.
    """
    _check_selectors(request)
    listing = history.listing
    start, end = _start(request, history), _end(request, history)
    if start > listing.latest or end < 0:
        if request.allow_out_of_range:
            return range(0)
        if start > listing.latest:
            raise _refused(f"the range starts after the latest version, {listing.latest}", listing)
    if start > end:
        if request.from_timestamp is not None and request.to_timestamp is not None:
            return range(0)  # both times lie between two neighbouring commits
        raise _refused(f"the range starts at version {start}, after its end at version {end}", listing)
    versions = range(start, end + 1)
    missing = [version for version in versions if version not in listing.commits]
    if missing:  # checkpoints and compactions cannot stand in for a commit (delta C3)
        shown = show_ranges(tuple(range(version, version + 1) for version in missing))
        message = f"Cannot read changes of versions {start} to {end}: the log lacks the commits of {shown}"
        raise InvalidTableError(message, cause="LogGap", table=listing.root, rule="delta C2")
    return versions


def _check_selectors(request: ChangeRequest) -> None:
    for side, version, time in (
        ("from", request.from_version, request.from_timestamp),
        ("to", request.to_version, request.to_timestamp),
    ):
        if version is not None and time is not None:
            raise RequestError(
                f"Cannot read changes: {side}_version and {side}_timestamp exclude each other; give one of them",
                cause="ExclusiveSelectors",
                rule="delta C1",
                options=(f"{side}_version", f"{side}_timestamp"),
            )
        if version is not None and version < 0:
            message = f"Cannot read changes: {side}_version is {version}, expected 0 or more"
            raise RequestError(message, cause="ChangeFeedError", rule="delta C2")
    if request.from_version is None and request.from_timestamp is None:
        raise RequestError(
            "Cannot read changes without a start: give from_version or from_timestamp",
            cause="ChangeFeedError",
            rule="delta C1",
            options=("from_version", "from_timestamp"),
        )
    if request.from_timestamp is not None and request.to_timestamp is not None:
        start, end = timestamp_ms(request.from_timestamp), timestamp_ms(request.to_timestamp)
        if start > end:
            message = f"Cannot read changes: the range starts at {show_ms(start)}, after its end at {show_ms(end)}"
            raise RequestError(message, cause="ChangeFeedError", rule="delta C2")


def _start(request: ChangeRequest, history: CommitHistory) -> int:
    if request.from_timestamp is None:
        assert request.from_version is not None
        return request.from_version
    time_ms = timestamp_ms(request.from_timestamp, rounding="up")
    try:
        version = history.version_at(time_ms, after_latest="clamp")
        return version if history.times_of([version])[version] == time_ms else version + 1
    except SnapshotNotFoundError:
        # Before the first commit of all the range starts there; an older log may have lost commits of the range.
        if 0 in history.listing.commits and time_ms <= history.times_of([0])[0]:
            return 0
        raise


def _end(request: ChangeRequest, history: CommitHistory) -> int:
    latest = history.listing.latest
    if request.to_timestamp is None:
        return latest if request.to_version is None else min(request.to_version, latest)
    try:
        return history.version_at(timestamp_ms(request.to_timestamp), after_latest="clamp")
    except SnapshotNotFoundError:
        if request.allow_out_of_range and 0 in history.listing.commits:
            return -1
        raise


def _refused(reason: str, listing: LogListing) -> RequestError:
    return RequestError(f"Cannot read changes: {reason}", cause="ChangeFeedError", table=listing.root, rule="delta C2")
