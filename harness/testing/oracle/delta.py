"""Plans a read of a Delta table, at a version or time (delta L33 to L36), as its catalog answers (frontier F4)."""

from __future__ import annotations

import io
import itertools
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness import errors
from harness.testing.oracle.bitmaps import delta_bitmap, delta_vector
from harness.testing.oracle.delta_log import Log, ReplayedState, canonical, invalid, list_log, load, table_root
from harness.testing.oracle.delta_schema import Columns, columns_of, is_catalog_managed, is_true, partition_value
from harness.testing.oracle.paths import Entry, Files, PathMap, join
from harness.testing.oracle.scan import DataFile, Request, Scan, asked
from harness.testing.oracle.types import METADATA, UNKNOWN, Field, StructType

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _positions(add: Mapping[str, Any], physical: str, root: str, paths: PathMap, files: Files) -> set[int]:
    """The deleted positions of a data file that has a vector (delta D9, D15)."""
    vector = add["deletionVector"]
    try:
        positions = _decoded(vector, root, paths, files)
        if len(positions) != vector["cardinality"]:
            raise _broken(f"{len(positions)} positions, declared are {vector['cardinality']}", "delta D9")
        if positions:
            count = _record_count(add)
            rows = _rows(physical, files) if count is None else count
            if max(positions) >= rows:
                raise _broken(f"position {max(positions)} of {rows} rows", "delta D9")
    except errors.HarnessError as error:
        raise error.within(file=add["path"]) from error.__cause__
    return positions


def _decoded(vector: Mapping[str, Any], root: str, paths: PathMap, files: Files) -> set[int]:
    size, text = vector["sizeInBytes"], vector["pathOrInlineDv"]
    try:
        if vector["storageType"] == "i":
            if not text and not size:  # Delta on Spark spells a vector of no rows so
                return set()
            data = _z85(text)
            if not 0 <= len(data) - size < 4:
                raise _broken(f"{len(data)} bytes inline, declared are {size}", "delta D4")
            return delta_bitmap(data[:size])
        data, offset = files.read(paths.physical(_vector_path(vector, root))), vector.get("offset") or 1  # delta D6
        if data[:1] != b"\x01":
            raise _broken("its file has another format version than 1", "delta D5")
        frame = data[offset : offset + size + 8]
        if len(frame) != size + 8 or size < 0:
            raise _broken(f"{len(frame)} bytes at its offset, expected {size + 8}", "delta D14")
        return delta_vector(frame)
    except ValueError as error:
        raise _broken(str(error), "delta D8") from error


def _rows(physical: str, files: Files) -> int:
    """The rows of a file whose statistics do not say how many (delta D15)."""
    try:
        return int(pq.read_metadata(io.BytesIO(files.read(physical))).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise errors.CorruptFileError(f"Cannot read a Parquet footer: {error}") from error


def _vector_path(vector: Mapping[str, Any], root: str) -> str:
    """The file that holds a vector that is not inline (delta D1 to D4)."""
    text = vector["pathOrInlineDv"]
    match vector["storageType"]:
        case "u" if len(text) >= 20:
            name = f"deletion_vector_{uuid.UUID(bytes=_z85(text[-20:]))}.bin"
            return join(root, text[:-20], name) if text[:-20] else join(root, name)
        case "p" if text.startswith("/") or ":" in text.split("/", 1)[0]:
            return canonical(text, root)
        case other:
            raise _broken(f"storage type {other!r}, path {text!r}", "delta D1")


def _z85(text: str) -> bytes:
    """Bytes of a Z85 text, five characters for four bytes: https://rfc.zeromq.org/spec/32."""
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise _broken("its text is no Z85", "delta D4")
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        if number >> 32:
            raise _broken("its text is no Z85", "delta D4")
        data += number.to_bytes(4, "big")
    return data


def _broken(reason: str, rule: str) -> errors.CorruptDeleteError:
    return errors.CorruptDeleteError(f"Cannot read deletion vector: {reason}", cause="DeletionVectorError", rule=rule)


def _version_at(timestamp_ms: int, log: Log, latest: ReplayedState, files: Files) -> int:
    """The last version that was there at a time, inclusive (delta L34, L35)."""
    first_in_commit, since_ms = _enablement(latest)
    versions = log.readable()
    if first_in_commit is None and is_catalog_managed(latest):
        message = "The times of files mean nothing where a catalog publishes them"
        raise errors.InvalidTableError(message, cause="NoInCommitTimestamps", rule="frontier F4.7")
    if first_in_commit is None:
        times = _modified(log, versions)
    elif since_ms is None or timestamp_ms >= since_ms:
        times = {}
        for v in (v for v in versions if v >= first_in_commit):
            name, body = next(iter(log.actions(v, files)), ("", {}))
            time = body.get("inCommitTimestamp") if name == "commitInfo" else None
            if type(time) is not int:
                reason = f"version {v} has no inCommitTimestamp in a first commitInfo"
                raise invalid(reason, log.path(log.commits[v].name), "delta L35")
            times[v] = time
        if any(later <= earlier for earlier, later in itertools.pairwise(times.values())):
            raise invalid("in-commit timestamps do not increase with the version", None, "delta L35")
    else:
        times = _modified(log, [v for v in versions if v < first_in_commit])
    past = [version for version, time in times.items() if time <= timestamp_ms]
    if not past or (times.get(log.latest) or timestamp_ms) < timestamp_ms:
        message = f"There is no version at {timestamp_ms}"
        raise errors.SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
    version = max(past)
    goes_on = version in (log.latest, (first_in_commit or 0) - 1) or version + 1 in times
    if not goes_on and times[version] < timestamp_ms:
        message = f"At {timestamp_ms} the table may have been at versions that are gone"
        raise errors.SnapshotNotFoundError(message, cause="TimestampOutOfRange", rule="delta L34")
    return version


def _enablement(latest: ReplayedState) -> tuple[int | None, int | None]:
    """The first version with in-commit timestamps, None without such, and since when; None: always (delta L35)."""
    if not is_true(latest, "delta.enableInCommitTimestamps"):
        return None, None
    version, time = (
        latest.configuration.get(f"delta.inCommitTimestampEnablement{name}") for name in ("Version", "Timestamp")
    )
    if version is None and time is None:
        return 0, None
    if version is None or time is None or not (version.isdecimal() and time.isdecimal()):
        message = f"In-commit timestamps are enabled at version {version!r} and time {time!r}"
        raise errors.InvalidTableError(message, cause="InvalidProperty", rule="delta L35")
    return int(version), int(time)


def _modified(log: Log, versions: list[int]) -> dict[int, int]:
    """Modification times, made to increase (delta L33)."""
    times: dict[int, int] = {}
    last: int | None = None
    for version in versions:
        time = log.commits[version].modified_ms
        if time is None:
            raise errors.UnsupportedError("The storage gives no modification times", rule="delta L33")
        last = time if last is None or time > last else last + 1
        times[version] = last
    return times


_STAGED = "_staged_commits"


def _known(log: Log, request: Request, files: Files) -> Log:
    """The log as far as it is known which of its commits are of the table."""
    if request.max_version is None:
        readable = log.readable()
        if not request.published_only or not readable:
            return log
        last = readable[-1]
        return _until(log, last + 1 if last + 1 in log.commits else last)
    commits, held = dict(log.commits), dict(log.held)
    staged = {entry.name: entry for entry in files.entries(join(log.root, "_delta_log", _STAGED))}
    for version, said in request.ratified:
        if isinstance(said, bytes):
            held[version] = said
            commits[version] = Entry(f"{version:020}.json", len(said), None)
        elif said in staged:
            commits[version] = replace(staged[said], name=f"{_STAGED}/{said}")
        elif version not in commits:
            message = f"The ratified commit of version {version} is not there"
            file = log.path(f"{_STAGED}/{said}")
            raise errors.MissingFileError(message, cause="StagedCommitMissing", file=file, rule="frontier F4.4")
    return _until(replace(log, commits=dict(sorted(commits.items())), held=held), request.max_version)


def _until(log: Log, version: int) -> Log:
    return replace(
        log,
        commits={v: entry for v, entry in log.commits.items() if v <= version},
        checkpoints=tuple(each for each in log.checkpoints if each[0] <= version),
        latest=version,
    )


_ROW_TRACKING = {
    "_row_id": ("baseRowId", "delta.rowTracking.materializedRowIdColumnName"),
    "_row_commit_version": ("defaultRowCommitVersion", "delta.rowTracking.materializedRowCommitVersionColumnName"),
}


def scan_delta(request: Request, files: Files) -> Scan:
    """The scan of a read, with all live data files in it."""
    root = table_root(request.location)
    state = _state(request, list_log(root, files), files)
    columns = columns_of(state, request.location)

    wanted, condition, used = asked(request, columns.schema, lambda field: _typed(field, columns))
    _check_metadata_columns(used, state)
    paths = PathMap(tuple(request.path_map.items()))
    materialized = {name: state.configuration.get(key) for name, (_, key) in _ROW_TRACKING.items() if name in used}
    return Scan(
        table=request.location,
        format="delta",
        snapshot=state.version,
        columns=wanted,
        filter=condition,
        data=tuple(
            _data_file(add, paths.physical(path), root, columns, paths, files) for (path, _), add in state.adds.items()
        ),
        files=files,
        lookup=columns.lookup,
        materialized={name: column for name, column in materialized.items() if column is not None},  # delta W2, W3
    )


def _data_file(
    add: Mapping[str, Any], physical: str, root: str, columns: Columns, paths: PathMap, files: Files
) -> DataFile:
    if not files.opens(physical):
        raise errors.UnsupportedError("Cannot open files of this scheme", file=physical, rule="delta L41")
    partition = _partition(add, columns)
    has_vector = add.get("deletionVector") is not None
    return DataFile(
        path=add["path"],
        physical=physical,
        format="parquet",
        record_count=_record_count(add),
        spec_id=0,
        partition=partition,
        constants=partition,
        sequence_number=None,
        first_row_id=add.get("baseRowId"),
        commit_version=add.get("defaultRowCommitVersion"),
        positions=partial(_positions, add, physical, root, paths, files) if has_vector else None,
    )


def _partition(add: Mapping[str, Any], columns: Columns) -> dict[int, Any]:
    """The log's partition values, by physical name, else by a name that differs in case (delta V1 to V8)."""
    recorded = add["partitionValues"]
    any_case = {key.lower(): text for key, text in recorded.items()}
    values = {}
    for f in columns.partition_columns:
        name = f.physical_name or f.name
        text = recorded[name] if name in recorded else any_case.get(name.lower())
        values[f.id] = partition_value(text, f.type, column=f.name)
    return values


def _state(request: Request, log: Log, files: Files) -> ReplayedState:
    """The version asked for (delta L32 to L36). The latest must be readable in any case."""
    if request.ref is not None:
        raise errors.RequestError("Cannot select by ref: Delta tables have no branches and tags")
    selectors = [s for s in (request.snapshot_id, request.version, request.timestamp_ms) if s is not None]
    if len(selectors) > 1:
        raise errors.RequestError("Cannot select by several of version, snapshot_id and timestamp_ms")
    published, log = log, _known(log, request, files)
    latest = load(log, None, files)
    columns_of(latest, request.location)
    if request.published_only and not is_catalog_managed(latest):
        log = published
        latest = load(log, None, files)
    managed = is_catalog_managed(latest)
    if managed and request.max_version is None and not request.published_only:
        message = "A catalog manages the table, and was not asked"
        raise errors.UnsupportedError(message, cause="CatalogManaged", rule="frontier F4.3")
    if not managed and request.max_version is not None:
        message = "There is a catalog's answer, and no catalog manages the table"
        raise errors.RequestError(message, cause="CatalogAnswer", rule="frontier F4.5")
    version = request.version if request.snapshot_id is None else request.snapshot_id
    if request.timestamp_ms is not None:
        version = _version_at(request.timestamp_ms, log, latest, files)
    return latest if version is None else load(log, version, files)


def _record_count(add: Mapping[str, Any]) -> int | None:
    """Physical rows, as the statistics say if they can be read (delta R10)."""
    try:
        stats = json.loads(add.get("stats") or "{}")
    except (ValueError, RecursionError):
        stats = {}
    parsed = add.get("stats_parsed") or {}
    count = (stats if isinstance(stats, dict) else {}).get("numRecords", parsed.get("numRecords"))
    return count if type(count) is int and count >= 0 else None


def _check_metadata_columns(used: set[str], state: ReplayedState) -> None:
    """delta W1, W4."""
    if "_last_updated_sequence_number" in used:
        raise errors.UnknownColumnError("Delta tables have no sequence numbers", field="_last_updated_sequence_number")
    for name in sorted(used & _ROW_TRACKING.keys()):
        if not is_true(state, "delta.enableRowTracking"):
            message = f"Cannot read {name}: row tracking is not enabled"
            raise errors.RequestError(message, cause="RowTrackingDisabled", field=name, rule="delta W4")
        if any(add.get(_ROW_TRACKING[name][0]) is None for add in state.adds.values()):
            raise invalid(f"a file has no {_ROW_TRACKING[name][0]}, which {name} needs", None, "delta W4")


def _typed(column: Field, columns: Columns) -> Field:
    """`_partition` gets the struct that this table gives it."""
    if column.id != METADATA["_partition"].id:
        return column
    parts = tuple(replace(f, physical_name=None) for f in columns.partition_columns)
    return replace(column, type=StructType(parts) if parts else UNKNOWN)
