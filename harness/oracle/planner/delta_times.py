"""When the versions of a Delta table were committed (delta L33 to L36)."""

from __future__ import annotations

import itertools

from harness.errors import InvalidTableError, SnapshotNotFoundError, UnsupportedError
from harness.oracle.planner.delta_log import Log, State
from harness.oracle.planner.delta_schema import is_catalog_managed, is_true
from harness.storage.stores import Storage


def version_at(timestamp_ms: int, log: Log, latest: State, storage: Storage) -> int:
    """The last version that was there at a time, inclusive.

    Raises:
        SnapshotNotFoundError: the time is before the first version left, or after the last commit (delta L34), or of
            versions that are gone.
        InvalidTableError: a commit lacks its in-commit timestamp, or they do not increase (delta L35).
    """
    first_in_commit, since_ms = _enablement(latest)
    versions = log.readable()
    if first_in_commit is None and is_catalog_managed(latest):
        message = "The times of files mean nothing where a catalog publishes them"
        raise InvalidTableError(message, cause="NoInCommitTimestamps", rule="frontier F4.7")
    if first_in_commit is None:
        times = _modified(log, versions)
    elif since_ms is None or timestamp_ms >= since_ms:
        times = {v: _in_commit(log, v, storage) for v in versions if v >= first_in_commit}
        if any(later <= earlier for earlier, later in itertools.pairwise(times.values())):
            message = "In-commit timestamps do not increase with the version"
            raise InvalidTableError(message, cause="LogCorrupt", rule="delta L35")
    else:
        times = _modified(log, [v for v in versions if v < first_in_commit])
    past = [version for version, time in times.items() if time <= timestamp_ms]
    if not past or (times.get(log.latest) or timestamp_ms) < timestamp_ms:
        message = f"There is no version at {timestamp_ms}"
        raise SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
    version = max(past)
    goes_on = version in (log.latest, (first_in_commit or 0) - 1) or version + 1 in times
    if not goes_on and times[version] < timestamp_ms:
        message = f"At {timestamp_ms} the table may have been at versions that are gone"
        raise SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
    return version


def _enablement(latest: State) -> tuple[int | None, int | None]:
    """The first version with in-commit timestamps, None without such, and since when; None: always (delta L35)."""
    if not is_true(latest, "delta.enableInCommitTimestamps"):
        return None, None
    configuration = (latest.metadata or {}).get("configuration") or {}
    version, time = (configuration.get(f"delta.inCommitTimestampEnablement{name}") for name in ("Version", "Timestamp"))
    if version is None and time is None:
        return 0, None
    if version is None or time is None or not (version.isdecimal() and time.isdecimal()):
        message = f"In-commit timestamps are enabled at version {version!r} and time {time!r}"
        raise InvalidTableError(message, cause="InvalidProperty", rule="delta L35")
    return int(version), int(time)


def _modified(log: Log, versions: list[int]) -> dict[int, int]:
    """Modification times, made to increase (delta L33)."""
    times: dict[int, int] = {}
    last: int | None = None
    for version in versions:
        time = log.commits[version].modified_ms
        if time is None:
            raise UnsupportedError("The storage gives no modification times", rule="delta L33")
        last = time if last is None or time > last else last + 1
        times[version] = last
    return times


def _in_commit(log: Log, version: int, storage: Storage) -> int:
    actions = log.actions(version, storage)
    name, body = actions[0] if actions else ("", {})
    time = body.get("inCommitTimestamp") if name == "commitInfo" else None
    if type(time) is not int:
        message = f"Version {version} has no inCommitTimestamp in a first commitInfo"
        path = log.path(log.commits[version].name)
        raise InvalidTableError(message, cause="LogCorrupt", file=path, rule="delta L35")
    return time
