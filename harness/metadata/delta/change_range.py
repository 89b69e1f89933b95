"""The range of versions that a change data feed covers (delta C1, C2)."""

from __future__ import annotations

from harness.errors import InvalidTableError, RequestError, SnapshotNotFoundError
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.log_files import LogListing
from harness.metadata.delta.segment import show_ranges
from harness.metadata.model.times import ParsedMoment, When, parse_moment, show_ms, timestamp_ms
from harness.metadata.plan.lifetimes import ChangeRange


def resolve_range(request: ChangeRange, history: CommitHistory, *, allow_out_of_range: bool = False) -> range:
    """Return the requested versions, each with a commit. An empty range stops after the version of its schema.

    A time at which the range begins selects the first commit at or after it, or after it if the range excludes `from_`.
    A time at which the range ends selects the last commit at or before it.

    Args:
        request: The range.
        history: The times of the table's commits.
        allow_out_of_range: True if a range that begins after the latest version, or ends before the first version, is
            empty. Otherwise it is an error.

    Raises:
        RequestError: The request has no start, a negative version, or a start after its end or after the latest
            version.
        SnapshotNotFoundError: A time is before the log's first commit, or at versions that were cleaned up.
        InvalidTableError: The log lacks commits of the range.
    """
    bounds = _parse_bound("from_", request.from_), _parse_bound("to", request.to)
    if bounds[0] is None:
        raise RequestError(
            "Cannot read changes without from_: give a version or a time",
            cause="ChangeFeedError",
            rule="delta C1",
            options=("from_",),
        )
    are_times = all(bound is not None and bound[0] == "timestamp" for bound in bounds)
    if are_times:
        _check_order(*(timestamp_ms(bound[1]) for bound in bounds if bound is not None))
    listing = history.listing
    start = _first_version(bounds[0], history, is_inclusive=request.from_inclusive)
    end = _last_version(bounds[1], history, allow_out_of_range=allow_out_of_range)
    is_after_latest = start > listing.latest and not _excludes(request, start - 1, listing.latest)
    if is_after_latest or end < 0:
        if allow_out_of_range:
            return range(listing.latest + 1, listing.latest + 1)
        if is_after_latest:
            raise _range_error(f"the range starts after the latest version, {listing.latest}", listing)
    if start > end:
        # Both times are between two consecutive commits, or the range begins after its own end.
        if are_times or _excludes(request, start - 1, end):
            return range(end + 1, end + 1)
        raise _range_error(f"the range starts at version {start}, after its end at version {end}", listing)
    versions = range(start, end + 1)
    missing = [version for version in versions if version not in listing.commits]
    if missing:  # checkpoints and compactions cannot replace a commit here (delta C3)
        ranges = show_ranges(tuple(range(version, version + 1) for version in missing))
        message = f"Cannot read changes of versions {start} to {end}: the log lacks the commits of {ranges}"
        raise InvalidTableError(message, cause="LogGap", table=listing.root, rule="delta C2")
    return versions


def _excludes(request: ChangeRange, version: int, other: int) -> bool:
    """Return whether the range excludes the version at which it begins, and that version is `other`."""
    return not request.from_inclusive and version == other


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


def _first_version(start: ParsedMoment, history: CommitHistory, *, is_inclusive: bool) -> int:
    if start[0] == "snapshot":
        return int(start[1]) + (not is_inclusive)  # type: ignore[arg-type]  # an id is a number
    time_ms = timestamp_ms(start[1], rounding="up" if is_inclusive else "down")
    try:
        version = history.version_at(time_ms, after_latest="clamp")
        return version if is_inclusive and history.times_of([version])[version] == time_ms else version + 1
    except SnapshotNotFoundError:
        # A time before commit 0 starts the range there. If commit 0 is gone, commits of the range may be lost.
        if 0 in history.listing.commits and time_ms <= history.times_of([0])[0]:
            return 0
        raise


def _last_version(end: ParsedMoment | None, history: CommitHistory, *, allow_out_of_range: bool) -> int:
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
                if allow_out_of_range and 0 in history.listing.commits:
                    return -1
                raise


def _range_error(reason: str, listing: LogListing) -> RequestError:
    return RequestError(f"Cannot read changes: {reason}", cause="ChangeFeedError", table=listing.root, rule="delta C2")
