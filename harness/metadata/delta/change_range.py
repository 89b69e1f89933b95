"""The range of versions that a change data feed covers (delta C1, C2)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import InvalidTableError, RequestError, SnapshotNotFoundError
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.log_files import LogListing
from harness.metadata.delta.segment import show_ranges
from harness.metadata.model.times import ParsedMoment, When, parse_moment, show_ms, timestamp_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A requested range of versions, both ends inclusive.

    Attributes:
        start: The first version, or a time, which selects the first commit at or after it.
        end: The last version, or a time, which selects the last commit at or before it. None, or a version after the
            latest, selects the latest version.
        allow_out_of_range: True if a start after the latest version, or an end before the first, gives an empty range
            instead of an error.
    """

    start: When
    end: When = None
    allow_out_of_range: bool = False


def resolve_range(request: ChangeRequest, history: CommitHistory) -> range:
    """Return the requested versions, each with a commit. The range is empty if no version is in it.

    Raises:
        RequestError: The request has no start, a negative version, or a start after its end or after the latest
            version.
        SnapshotNotFoundError: A time is before the log's first commit, or at versions that were cleaned up.
        InvalidTableError: The log lacks commits of the range.
    """
    bounds = _parse_bound("start", request.start), _parse_bound("end", request.end)
    if bounds[0] is None:
        raise RequestError(
            "Cannot read changes without a start: give a version or a time",
            cause="ChangeFeedError",
            rule="delta C1",
            options=("start",),
        )
    are_times = all(bound is not None and bound[0] == "timestamp" for bound in bounds)
    if are_times:
        _check_order(*(timestamp_ms(bound[1]) for bound in bounds if bound is not None))
    listing = history.listing
    start, end = _first_version(bounds[0], history), _last_version(bounds[1], history, request)
    if start > listing.latest or end < 0:
        if request.allow_out_of_range:
            return range(0)
        if start > listing.latest:
            raise _range_error(f"the range starts after the latest version, {listing.latest}", listing)
    if start > end:
        if are_times:
            return range(0)  # both times are between 2 consecutive commits
        raise _range_error(f"the range starts at version {start}, after its end at version {end}", listing)
    versions = range(start, end + 1)
    missing = [version for version in versions if version not in listing.commits]
    if missing:  # checkpoints and compactions cannot replace a commit here (delta C3)
        ranges = show_ranges(tuple(range(version, version + 1) for version in missing))
        message = f"Cannot read changes of versions {start} to {end}: the log lacks the commits of {ranges}"
        raise InvalidTableError(message, cause="LogGap", table=listing.root, rule="delta C2")
    return versions


def _parse_bound(name: str, at: When) -> ParsedMoment | None:
    moment = parse_moment(at, name)
    match moment:
        case ("snapshot", int(version)) if version < 0:
            message = f"Cannot read changes: {name} is {version}, expected 0 or more"
            raise RequestError(message, cause="ChangeFeedError", rule="delta C2")
        case ("ref", ref):
            raise RequestError(
                f"Cannot read changes: {name} is {ref!r}, and Delta tables have no branches or tags; "
                "give a version or a time",
                options=(name,),
            )
        case _:
            return moment


def _check_order(start: int, end: int) -> None:
    if start > end:
        message = f"Cannot read changes: the range starts at {show_ms(start)}, after its end at {show_ms(end)}"
        raise RequestError(message, cause="ChangeFeedError", rule="delta C2")


def _first_version(start: ParsedMoment, history: CommitHistory) -> int:
    if start[0] == "snapshot":
        return int(start[1])  # type: ignore[arg-type]  # an id is a number
    time_ms = timestamp_ms(start[1], rounding="up")
    try:
        version = history.version_at(time_ms, after_latest="clamp")
        return version if history.times_of([version])[version] == time_ms else version + 1
    except SnapshotNotFoundError:
        # A time before commit 0 starts the range there. If commit 0 is gone, commits of the range may be lost.
        if 0 in history.listing.commits and time_ms <= history.times_of([0])[0]:
            return 0
        raise


def _last_version(end: ParsedMoment | None, history: CommitHistory, request: ChangeRequest) -> int:
    latest = history.listing.latest
    match end:
        case None:
            return latest
        case ("snapshot", int(version)):
            return min(version, latest)
        case (_, time):
            try:
                return history.version_at(timestamp_ms(time), after_latest="clamp")
            except SnapshotNotFoundError:
                if request.allow_out_of_range and 0 in history.listing.commits:
                    return -1
                raise


def _range_error(reason: str, listing: LogListing) -> RequestError:
    return RequestError(f"Cannot read changes: {reason}", cause="ChangeFeedError", table=listing.root, rule="delta C2")
