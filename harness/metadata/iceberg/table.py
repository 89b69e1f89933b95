"""An opened Iceberg table: from its location to the current metadata file (iceberg 1.1 to 1.14).

A table in a file system has no catalog that records the current metadata file. Two sources are certain: a path to the
metadata file itself, and files named `v<N>.metadata.json` with a version hint. Files named `<n>-<id>.metadata.json` are
written by catalogs, and some may be left over from commits that failed. Such files are used only if the caller allows
the guess.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.errors import (
    AmbiguousTableError,
    CorruptFileError,
    HarnessError,
    MissingFileError,
    TableNotFoundError,
    UnsupportedError,
)
from harness.metadata.files.documents import HEAD, check_document, file_kind
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.columns.stored import ManifestCache
from harness.metadata.iceberg.manifests import ManifestFile
from harness.metadata.iceberg.metadata import decompress, default_prefixes, parse_metadata
from harness.metadata.iceberg.model import BlobMetadata, IcebergSnapshot, PartitionField, SortField, TableMetadata
from harness.metadata.iceberg.scan import plan_scan
from harness.metadata.iceberg.time_travel import IcebergSelection, select
from harness.metadata.model.schema import SNAPSHOT_CHANGES, Schema, describe_field
from harness.metadata.model.times import When
from harness.metadata.plan.lifetimes import ChangeMode, ChangeRange
from harness.metadata.plan.read_options import ReadOptions
from harness.metadata.planned_scan import PlannedScan, Planner
from harness.storage.limits import contained
from harness.storage.paths import PathMap, PhysicalPath, RecordedPath, both_paths, is_local, join, redact
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion, Storage
from harness.storage.threads import phase, read_ahead

if TYPE_CHECKING:
    from harness.metadata.iceberg.server.protocol import PlanServer

HINT = "version-hint.text"
METADATA_DIRECTORY = "metadata"
_SHOWN = 5
# File names mark compression in several ways; the first bytes decide how a file is compressed (iceberg 1.7).
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".gzip.metadata.json", ".zstd.metadata.json")
_SUFFIX = r"(?:\.(?:gz|gzip|zst|zstd))?\.metadata\.json(?:\.(?:gz|gzip|zst|zstd))?"
_ANY = re.compile(rf"(?P<stem>.+?){_SUFFIX}")
_VERSIONED = re.compile(rf"v(?P<number>[0-9]+){_SUFFIX}")
_NUMBERED = re.compile(rf"v?(?P<number>[0-9]+)-.+?{_SUFFIX}")
# A commit to a file-system table writes a file with this name and then renames it; a crash can leave the file behind.
_TEMPORARY = re.compile(rf"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_SUFFIX}", re.IGNORECASE)


_MetadataFile: TypeAlias = tuple[PhysicalPath, tuple[str, ...]]
"""The path of a metadata file, and warnings from the search."""


def _find_metadata_file(location: PhysicalPath, storage: Storage, allow_version_guess: bool) -> _MetadataFile:
    if storage.exists(location):
        _refuse_other_file(location, storage)
        return location, ()
    # A table's directory may itself be called `metadata`, so look inside it first.
    for directory in (join(location, METADATA_DIRECTORY), PhysicalPath(location.rstrip("/") or "/")):
        choice = _in_directory(directory, storage, allow_version_guess)
        if choice is not None:
            return choice
    reason = (
        f"neither it nor its '{METADATA_DIRECTORY}' directory holds a metadata file"
        if storage.is_directory(location)
        else "it does not exist"
    )
    raise TableNotFoundError(
        f"Cannot find an Iceberg table: {reason}; check the path", cause="MetadataNotFound", rule="iceberg 1.1"
    )


def _refuse_other_file(location: PhysicalPath, storage: Storage) -> None:
    """Raise TableNotFoundError for a file that is not a metadata file.

    A file with the name of a metadata file passes, because it may be a damaged one.
    """
    name = location.rstrip("/").rpartition("/")[2]
    if _ANY.fullmatch(name):
        return
    kind = file_kind(storage.read(location, length=HEAD), name)
    if kind in ("a JSON file", "a gzip file", "a zstandard file") and _is_metadata(location, storage):
        return
    advice = f"give the directory of a table, or a metadata file of an Iceberg table (*{_SUFFIXES[0]})"
    root, log, _ = location.rpartition("/_delta_log/")
    if log:
        kind, advice = "a file of a Delta table's log", f"give the table's directory, {root}"
    raise TableNotFoundError(
        f"Cannot find a table: {name} is {kind}; {advice}", cause="MetadataNotFound", rule="iceberg 1.1"
    )


def _read_metadata(path: PhysicalPath, storage: Storage) -> TableMetadata:
    with contained(file=path):
        return parse_metadata(storage.read(path), file=path, limits=storage.limits)


def _is_metadata(file: PhysicalPath, storage: Storage) -> bool:
    try:
        with contained(file=file):
            plain = decompress(storage.read(file), file=file, limits=storage.limits)
            check_document(plain, file=file, limits=storage.limits)
            document = json.loads(plain)
    except (ValueError, CorruptFileError, UnsupportedError):
        return False
    return isinstance(document, dict) and "format-version" in document


def _in_directory(directory: PhysicalPath, storage: Storage, allow_version_guess: bool) -> _MetadataFile | None:
    """Return the current metadata file in `directory`, or None if the directory holds no metadata files."""
    hint = join(directory, HINT)
    if storage.has_file(hint):
        text = storage.read(hint).decode("utf-8-sig", errors="replace").strip()
        if text:
            return _by_hint(directory, text, storage)
    names = [name for name in storage.names(directory) if _ANY.fullmatch(name)]
    return _by_names(directory, names, storage, allow_version_guess) if names else None


def _by_hint(directory: PhysicalPath, text: str, storage: Storage) -> _MetadataFile:
    """Return the file that the version hint names, or a later version, as the hint may be old (iceberg 1.3, 1.6)."""
    number = re.fullmatch(r"v?([0-9]{1,18})", text)
    version = int(number[1]) if number else None
    path = None if version is None else _version_path(directory, version, storage)
    if path is None or version is None:
        # Look for a file whose name is the text of the hint, with or without an extension.
        names = (text,) if _ANY.fullmatch(text) else tuple(text + suffix for suffix in _SUFFIXES)
        inside = [] if "/" in text or "\\" in text else [join(directory, name) for name in names]
        stem_path = next(filter(storage.has_file, inside), None)
        if stem_path is None:
            raise TableNotFoundError(
                f"Cannot find the metadata file of the version hint {text[:80]!r}: no such file exists. "
                "Open the metadata file by its path",
                cause="MetadataNotFound",
                file=join(directory, HINT),
                rule="iceberg 1.3" if number else "iceberg 1.6",
            )
        return stem_path, ()
    hinted = version
    while (later := _version_path(directory, version + 1, storage)) is not None:
        path, version = later, version + 1
    if version == hinted:
        return path, ()
    return path, (f"The version hint is {hinted}, but the newest version is {version} [iceberg 1.3]",)


def _version_path(directory: PhysicalPath, version: int, storage: Storage) -> PhysicalPath | None:
    candidates = (join(directory, f"v{version}{suffix}") for suffix in _SUFFIXES)
    return next((path for path in candidates if storage.has_file(path)), None)


def _by_names(
    directory: PhysicalPath, names: Sequence[str], storage: Storage, allow_version_guess: bool
) -> _MetadataFile:
    """Return the current metadata file according to the file names (iceberg 1.4, 1.5).

    Raises AmbiguousTableError if the names do not decide.
    """
    lasting = [name for name in names if not _TEMPORARY.fullmatch(name)]
    versioned = [name for name in lasting if _VERSIONED.fullmatch(name)]
    numbered = [name for name in lasting if _NUMBERED.fullmatch(name)]
    if versioned and len(versioned) == len(lasting):
        return join(directory, _highest(versioned, _VERSIONED)[0]), ()
    if not numbered or len(numbered) < len(lasting):
        name_list = _name_list(sorted(lasting or names, reverse=True))
        raise _ambiguous(
            directory, f"there is no version hint, and the file names do not decide ({name_list})", "iceberg 1.4"
        )
    candidates = _highest(numbered, _NUMBERED)
    if not allow_version_guess:
        raise AmbiguousTableError(
            "Cannot determine the current metadata file: there is no version hint, and "
            f"'{_name_list(candidates)}' only has the highest number. Open the metadata "
            "file by its path, or pass allow_version_guess=True",
            cause="AmbiguousMetadata",
            file=directory,
            rule="iceberg 1.5",
            options=("allow_version_guess",),
        )
    name = candidates[0] if len(candidates) == 1 else _newest_by_time(directory, candidates, storage)
    return join(directory, name), (f"Guessed that {name} is the current metadata file [iceberg 1.5]",)


def _highest(names: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    """Return all names with the highest number. Several names may share it.

    Numbers are compared as integers (v10 is after v9).
    """
    by_number: dict[int, list[str]] = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match is not None:
            by_number.setdefault(int(match["number"]), []).append(name)
    return sorted(by_number[max(by_number)], key=lambda name: (len(name), name))


def _newest_by_time(directory: PhysicalPath, names: Sequence[str], storage: Storage) -> str:
    """Return the newest of several files with one number (iceberg 1.5).

    Raises AmbiguousTableError if several files are newest, or another file lists it as its predecessor.
    """
    loaded = {name: _read_metadata(join(directory, name), storage) for name in names}
    times = {name: metadata.last_updated_ms for name, metadata in loaded.items()}
    undated = next((name for name, time in times.items() if time is None), None)
    if undated is not None:
        message = "Cannot determine the current metadata file: one of several has no 'last-updated-ms'"
        file = loaded[undated].file
        raise CorruptFileError(message, cause="AmbiguousMetadata", file=file, rule="iceberg 1.5")
    latest = max(time for time in times.values() if time is not None)
    newest = [name for name, time in times.items() if time == latest]
    past = {entry.file.rsplit("/", 1)[-1] for metadata in loaded.values() for entry in metadata.metadata_log}
    if len(newest) > 1 or newest[0] in past:
        raise _ambiguous(directory, f"several files have the highest number ({_name_list(names)})", "iceberg 1.5")
    return newest[0]


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _ambiguous(directory: PhysicalPath, reason: str, rule: str) -> AmbiguousTableError:
    message = f"Cannot determine the current metadata file: {reason}. Open the metadata file by its path"
    return AmbiguousTableError(message, cause="AmbiguousMetadata", file=directory, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """One version of a table's metadata, with access to the metadata files that it lists.

    Attributes:
        location: The location that the user passed.
        metadata_path: Physical path of the metadata file.
        metadata: The content of that file.
        storage: The storage that reads the table's files.
        options: The user's options, with the table's own move added to the path map.
        warnings: One sentence for each oddity that is harmless to a reader.
        server: The server that plans reads of the table, for which no metadata file is read. None: harness plans them
            from the metadata files.
        format: `iceberg`.
    """

    location: PhysicalPath = field(repr=False)
    metadata_path: PhysicalPath = field(repr=False)
    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False)
    options: ReadOptions = field(repr=False)
    warnings: tuple[str, ...] = ()
    server: PlanServer | None = field(default=None, repr=False, compare=False)
    format: Literal["iceberg"] = field(default="iceberg", init=False)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schemas[self.metadata.current_schema_id]

    @property
    def current(self) -> IcebergSnapshot | None:
        """The current snapshot, or None if the table has none."""
        return self.metadata.current_snapshot

    def select(self, at: When) -> IcebergSelection:
        """Return the snapshot at a moment, and its schema (iceberg 1.32 to 1.37).

        Raises:
            HarnessError: As `harness.metadata.iceberg.time_travel.select`.
        """
        try:
            return select(self.metadata, at)
        except HarnessError as error:
            raise error.within(table=self.location) from error.__cause__

    def newest(self) -> int | None:
        """Read the metadata that is current now, and return the id of its current snapshot, or None if it has none.

        Raises the errors of `load` or `load_from_server`.
        """
        options = ReadOptions(allow_version_guess=True)
        if self.server is None:
            newest = load(self.location, self.storage, options).current
        else:
            newest = load_from_server(self.location, self.server, self.storage, options).current
        return None if newest is None else newest.id

    def plan(
        self, selection: IcebergSelection, columns: tuple[str, ...] | None, where: str | Filter | None
    ) -> PlannedScan:
        """Plan a read, see `harness.metadata.iceberg.scan.plan_scan` and `…server.planning.plan_on_server`."""
        if self.server is not None:
            from harness.metadata.iceberg.server.planning import plan_on_server  # most tables have no server

            return plan_on_server(self, self.server, selection, columns=columns, where=where)
        return plan_scan(self, selection, columns=columns, where=where)

    def changes(self, request: ChangeRange, columns: tuple[str, ...] | None, where: str | Filter | None) -> PlannedScan:
        """Plan a read of the changes in a range of snapshots, see `harness.metadata.iceberg.changes.plan_range`."""
        if self.server is not None and request.mode is ChangeMode.APPENDS:
            from harness.metadata.iceberg.server.appends import plan_appends  # most tables have no server

            return plan_appends(self, self.server, request, columns=columns, where=where)
        self.need_metadata_files("read changes other than mode='appends'")
        from harness.metadata.iceberg.changes import plan_range  # other reads do not need it

        return plan_range(self, request, columns=columns, where=where)

    def changes_schema(self, request: ChangeRange) -> Schema:
        """Return the columns of a read of changes. Raises the errors of `select`."""
        schema = self.select(request.to).schema
        return replace(schema, fields=(*schema.fields, *SNAPSHOT_CHANGES.values()))

    def lifetimes(
        self, request: ChangeRange, columns: tuple[str, ...] | None, where: str | Filter | None
    ) -> PlannedScan:
        """Plan a read of each row once, with its lifetime in a range. The mode of the request must be None."""
        return self.changes(request, columns, where)

    def lifetimes_planner(self, request: ChangeRange) -> Planner:
        """Return a function that plans reads as `lifetimes`, and reads the metadata of the range once."""
        self.need_metadata_files("follow rows")
        from harness.metadata.iceberg.changes import range_planner

        return range_planner(self, request).plan

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the table's snapshots in the order of the metadata, as plain values."""
        return [
            _values(snapshot, "id", "parent_id", "sequence_number", "timestamp_ms", "operation", "schema_id")
            | _values(snapshot, "first_row_id", "added_rows", "manifest_list")
            | {"summary": dict(snapshot.summary)}
            for snapshot in self.metadata.snapshots.values()
        ]

    def refs(self) -> dict[str, dict[str, Any]]:
        """Return branches and tags by name, as plain values."""
        return {
            name: {"snapshot_id": ref.snapshot_id, "type": ref.type.value}
            | _values(ref, "min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
            for name, ref in self.metadata.refs.items()
        }

    def partitioning(self) -> list[str]:
        """Return the partition fields of new files as text, for example `region` and `month(ordered_at)`."""
        columns, spec = self.schema.by_id(), self.metadata.specs.get(self.metadata.default_spec_id)
        sources = [(f, [columns.get(i) for i in f.source_ids]) for f in (spec.fields if spec else ())]
        return [
            f.name
            if None in columns_of_field or str(f.transform) == "identity"
            else f"{f.transform}({', '.join('.'.join(each[0]) for each in columns_of_field if each)})"
            for f, columns_of_field in sources
        ]

    def recorded(self) -> dict[str, int]:
        """Return the totals that the writer recorded in the current snapshot's summary."""
        summary = {} if self.current is None else self.current.summary
        keys = {"files": "data-files", "bytes": "files-size", "rows before deletes": "records"}
        totals = {name: summary.get(f"total-{key}", "") for name, key in keys.items()}
        return {name: int(text) for name, text in totals.items() if re.fullmatch("[0-9]{1,19}", text)}

    def describe(self) -> dict[str, Any]:
        """Return the metadata as plain values, for `harness info`."""
        metadata = self.metadata
        return {
            "format": self.format,
            "format_version": metadata.format_version,
            "uuid": metadata.uuid,
            "location": redact(metadata.location),
            "metadata_file": redact(self.metadata_path),
            **_values(metadata, "last_updated_ms", "last_sequence_number", "next_row_id"),
            **_values(metadata, "current_snapshot_id", "current_schema_id"),
            "schemas": [
                {"id": schema.id, "fields": [describe_field(f) for f in schema.fields]}
                for schema in metadata.schemas.values()
            ],
            "default_spec_id": metadata.default_spec_id,
            "partition_specs": [
                {
                    "id": spec.id,
                    "fields": [{"id": f.field_id, "name": f.name} | _transform_values(f) for f in spec.fields],
                }
                for spec in metadata.specs.values()
            ],
            "default_sort_order_id": metadata.default_sort_order_id,
            "sort_orders": [
                {"id": order.id, "fields": [_sort_key(f) for f in order.fields]}
                for order in metadata.sort_orders.values()
            ],
            "snapshots": self.snapshots(),
            "refs": self.refs(),
            "snapshot_log": [_values(entry, "timestamp_ms", "snapshot_id") for entry in metadata.snapshot_log],
            "metadata_log": [_values(entry, "timestamp_ms", "file") for entry in metadata.metadata_log],
            "statistics": [
                _values(file, "snapshot_id", "path", "size", "footer_size") | {"blobs": [_blob(b) for b in file.blobs]}
                for file in metadata.statistics
            ],
            "partition_statistics": [_values(s, "snapshot_id", "path", "size") for s in metadata.partition_statistics],
            "properties": dict(metadata.properties),
            "warnings": list(self.warnings),
        }

    @property
    def path_map(self) -> PathMap:
        """The map from recorded to physical paths: the caller's prefixes, then the prefixes of the table's own move."""
        return self.options.path_map

    @property
    def manifest_cache(self) -> ManifestCache | None:
        """The cache of manifests from earlier reads, or None if nothing may be cached."""
        cache = self.options.cache
        if cache is None:
            return None

        @functools.cache
        def version(recorded: RecordedPath) -> tuple[str, FileVersion | None]:
            physical = self.path_map.physical(recorded)
            self.storage.check(physical, recorded)
            return physical, cache.version(self.storage, physical)

        return ManifestCache(cache, version)

    @contextmanager
    def reading_manifests(
        self, manifests: Sequence[ManifestFile], *, unless: Callable[[ManifestFile], bool] = lambda _: False
    ) -> Iterator[Callable[[ManifestFile], bytes]]:
        """Yield a function that returns the bytes of manifests. It must be called in the order of `manifests`.

        In an object store, manifests are read ahead.

        Args:
            manifests: The manifests.
            unless: Returns True for manifests that will not be requested, so that they are not read ahead.
        """
        waits = any(not is_local(self.path_map.physical(manifest.path)) for manifest in manifests[:1])
        uncached = [manifest for manifest in manifests if not unless(manifest)] if waits else ()
        number = len(uncached if waits else manifests)
        with phase("reading manifests", number, "manifests") as advance, read_ahead(self._manifest, uncached) as read:

            def counted(manifest: ManifestFile) -> bytes:
                data = read(manifest)
                advance(1)
                return data

            yield counted

    def _manifest(self, manifest: ManifestFile) -> bytes:
        return self.read(manifest.path, "manifest")

    def need_metadata_files(self, action: str) -> None:
        """Raise UnsupportedError if only the metadata files allow an action, and a server plans the reads.

        Args:
            action: What cannot be done, for the message.
        """
        if self.server is not None:
            message = (
                f"Cannot {action}: the server of catalog {self.server.transport.catalog} plans the reads of this "
                "table, and this needs its metadata files. Open the table with planning='client'"
            )
            raise UnsupportedError(message, cause="ServerPlanning", table=self.location, options=("planning",))

    def read(self, recorded: RecordedPath, what: str) -> bytes:
        """Return the bytes of one of the table's metadata files.

        The length of a manifest is not checked, because the manifest list may record a wrong one (iceberg 2.3).

        Args:
            recorded: The recorded path.
            what: The kind of the file, for messages.

        Raises:
            MissingFileError: The file does not exist. The error names the recorded and the physical path (iceberg
                1.12).
            OutsideTableError: The file may not be read.
            UnsupportedError: A server plans the reads of the table.
            StorageError: The storage fails.
        """
        self.need_metadata_files(f"read a {what}")
        physical = self.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        try:
            return self.storage.read(physical)
        except MissingFileError as error:
            error.message = f"Cannot read {what}: {error.message}"
            error.file = both_paths(recorded, physical)
            error.cause = "MissingFile"
            raise


def load(location: PhysicalPath, storage: Storage, options: ReadOptions) -> IcebergTable:
    """Open the table at a location, at its current metadata.

    Args:
        location: A metadata file, a table's directory, or its `metadata` directory.
        storage: The storage to read from. The table's storage may also read the directory of the metadata file.
        options: The user's options, see `harness.table.open_table`. The prefixes of its path map take precedence over
            those from the table's own move (iceberg 1.12).

    Raises:
        TableNotFoundError: There is no table metadata.
        AmbiguousTableError: There is metadata, but the current file is uncertain.
        HarnessError: As `parse_metadata` raises.
    """
    try:
        path, warnings = _find_metadata_file(location, storage, options.allow_version_guess)
        storage = storage.including_table(location, path)
        metadata = _read_metadata(path, storage)
    except HarnessError as error:
        error.within(table=location)
        raise
    user_prefixes = options.path_map.prefixes
    path_map = PathMap(user_prefixes + default_prefixes(metadata, storage), explicit_count=len(user_prefixes))
    return IcebergTable(
        location=location,
        metadata_path=path,
        metadata=metadata,
        storage=storage,
        options=replace(options, path_map=path_map),
        warnings=warnings + metadata.warnings,
    )


def load_from_server(
    location: PhysicalPath, server: PlanServer, storage: Storage, options: ReadOptions
) -> IcebergTable:
    """Open a table whose catalog sends its metadata and plans its reads. No metadata file is read.

    Args:
        location: The metadata file or the directory of the table, as the catalog names it.
        server: The server of the catalog.
        storage: The storage of the table. The table's storage may also read the directory of the metadata file.
        options: The user's options. The table counts as not moved, except by the prefixes of the path map.

    Raises:
        HarnessError: The server does not answer, or as `parse_metadata` raises.
    """
    try:
        with contained(file=location):
            metadata = parse_metadata(server.metadata(), file=location, limits=storage.limits)
        if _ANY.fullmatch(location.rpartition("/")[2]):
            storage = storage.including_table(location, location)
    except HarnessError as error:
        error.within(table=location)
        raise
    path_map = replace(options.path_map, explicit_count=len(options.path_map.prefixes))
    return IcebergTable(
        location=location,
        metadata_path=location,
        metadata=metadata,
        storage=storage,
        options=replace(options, path_map=path_map),
        warnings=metadata.warnings,
        server=server,
    )


def _values(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _transform_values(part: PartitionField | SortField) -> dict[str, Any]:
    return {"source_ids": list(part.source_ids), "transform": str(part.transform)}


def _sort_key(key: SortField) -> dict[str, Any]:
    return _transform_values(key) | {"direction": key.direction.value, "null_order": key.null_order.value}


def _blob(blob: BlobMetadata) -> dict[str, Any]:
    values = _values(blob, "type", "snapshot_id", "sequence_number")
    return values | {"fields": list(blob.fields), "properties": dict(blob.properties)}
