"""The range of versions of a read of changes (delta C1, C2), and the schemas in force in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from harness.errors import InvalidTableError, RequestError, SnapshotNotFoundError
from harness.metadata.delta.actions import Metadata, Protocol
from harness.metadata.delta.commit_times import CommitHistory
from harness.metadata.delta.log_files import LogListing
from harness.metadata.delta.protocol import check_protocol
from harness.metadata.delta.segment import readable_ranges, show_ranges
from harness.metadata.delta.types import DeltaSchema, table_schema
from harness.metadata.model.times import ParsedMoment, When, parse_moment, show_ms, timestamp_ms
from harness.metadata.plan.lifetimes import ChangeRange
from harness.storage.records import dataclass


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
    return _with_commits(range(start, end + 1), listing)


def _with_commits(versions: range, listing: LogListing) -> range:
    """Return versions after checking that the log has their commits.

    Checkpoints and compactions cannot replace a commit here (delta C3).
    """
    missing = [version for version in versions if version not in listing.commits]
    if missing:
        ranges = show_ranges(tuple(range(version, version + 1) for version in missing))
        message = (
            f"Cannot read changes of versions {versions[0]} to {versions[-1]}: the log lacks the commits of {ranges}"
        )
        raise InvalidTableError(message, cause="LogGap", table=listing.root, rule="delta C2")
    return versions


def resolve_lifetimes(request: ChangeRange, history: CommitHistory, *, latest: int) -> tuple[int, range]:
    """Return the version before a range, -1 if there is none, and the versions in the range.

    A range without a beginning starts after the oldest version that can be read and whose following commits are all
    there, or with version 0 if its commit is there. Other ranges are resolved as in `resolve_range`.

    Args:
        request: The requested range.
        history: The times of the commits.
        latest: The version at which a range without an end ends.

    Raises:
        HarnessError: As for `resolve_range`. Or the log no longer has the version before the range.
    """
    listing = history.listing
    request = replace(request, to=latest if request.to is None else request.to)
    if request.from_ is None:
        end = _last_version(_parse_bound("to", request.to), history, allow_out_of_range=False)
        versions = _with_commits(range(_oldest_base(listing, end) + 1, end + 1), listing)
    else:
        versions = resolve_range(request, history)
    base = versions.start - 1
    readable = readable_ranges(listing)
    if base >= 0 and not any(base in part for part in readable):
        message = (
            f"Cannot read the rows before version {base + 1}: the log holds {show_ranges(readable) or 'no version'}; "
            "begin the range after one of these versions"
        )
        raise SnapshotNotFoundError(message, cause="VersionNotFound", table=listing.root, rule="delta L32")
    return base, versions


def _oldest_base(listing: LogListing, end: int) -> int:
    """Return the oldest readable version whose following commits up to `end` are all there, or -1 for version 0."""
    first = end + 1
    while first - 1 in listing.commits:
        first -= 1
    if first == 0:
        return -1
    part = next((part for part in readable_ranges(listing) if end in part), range(end, end + 1))
    return max(part.start, first - 1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSchema:
    """The protocol, the metadata, and the schema that are in force from a version on."""

    version: int
    protocol: Protocol
    metadata: Metadata
    columns: DeltaSchema


SchemaChange: TypeAlias = tuple[int, Protocol | None, Metadata | None]
"""A version with its protocol and metadata actions; None for an action that its commit lacks."""


def version_schemas(changes: Iterable[SchemaChange], *, table: str) -> Iterator[VersionSchema]:
    """Yield the schema that is in force from each version on that has a protocol or metadata action.

    Args:
        changes: The versions, ascending. The first one has both actions.
        table: The location of the table, for messages.

    Raises:
        UnsupportedError: A version has a protocol or a type that harness does not support.
        InvalidTableError: A version has an invalid protocol or schema.
    """
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for version, new_protocol, new_metadata in changes:
        if new_protocol is None and new_metadata is None:
            continue
        protocol, metadata = new_protocol or protocol, new_metadata or metadata
        assert protocol is not None
        assert metadata is not None
        check_protocol(protocol, metadata, table=table)
        columns = table_schema(protocol, metadata)
        yield VersionSchema(version=version, protocol=protocol, metadata=metadata, columns=columns)
