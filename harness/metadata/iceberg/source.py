"""The source of a scan: a version of a table's metadata, the snapshot asked for, and the places of its files."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import (
    EncryptedTableError,
    InvalidTableError,
    MissingFileError,
    RequestError,
    SnapshotNotFoundError,
    distrusted,
    warn,
)
from harness.metadata.iceberg.columns.raw import KeptManifests
from harness.metadata.iceberg.manifests import ManifestFile
from harness.metadata.iceberg.model import LogEntry, RefType, Snapshot, TableMetadata
from harness.metadata.model.arrow_values import array_of, scalar_of
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import show_ms
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.decoded import Key
from harness.storage.gate import is_name
from harness.storage.paths import PathMap, absolute, is_local, join, local_path, shown, slashed
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion, Storage
from harness.storage.threads import phase, read_ahead

MOST_BYTES = 256 << 10
"""Manifests of stores up to this length are kept as they are: a request takes longer than decoding them."""
_BYTES = pa.schema([pa.field("manifest", pa.binary(), nullable=False)])

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of RFC 9562 that was drawn, and not made of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """A version of a table's metadata, with the places of its files and the way to read them."""

    location: str
    metadata: TableMetadata
    storage: Storage
    options: ReadOptions

    @property
    def path_map(self) -> PathMap:
        """The map from recorded paths to physical ones: the caller's, then that of the table's own move."""
        return self.options.path_map

    def kept_manifests(self, manifests: Iterable[ManifestFile]) -> KeptManifests | None:
        """The cache of these manifests from earlier reads; None: nothing may be kept."""
        cache = self.options.cache
        if cache is None:
            return None
        listed = {manifest.path: manifest for manifest in manifests}

        @functools.cache
        def version(recorded: str) -> tuple[str, FileVersion | None]:
            physical = self.path_map.physical(recorded)
            self.storage.check(physical, recorded)
            known = None if cache.folder is None or is_local(physical) else self._listed_version(listed.get(recorded))
            return physical, known or cache.version(self.storage, physical)

        return KeptManifests(cache, version)

    def _listed_version(self, manifest: ManifestFile | None) -> FileVersion | None:
        """The version of a manifest in a store without asking it; None: no UUID in its name makes it unique."""
        uuid = self.metadata.uuid
        if manifest is None or not manifest.length or manifest.added_snapshot_id is None or uuid is None:
            return None
        if _RANDOM.search(manifest.path.rpartition("/")[2].lower()) is None:
            return None
        return FileVersion(manifest.length, f"listed;table={uuid};snapshot={manifest.added_snapshot_id}")

    @contextmanager
    def reading(
        self, manifests: Sequence[ManifestFile], *, unless: Callable[[ManifestFile], bool] = lambda _: False
    ) -> Iterator[Callable[[ManifestFile], bytes]]:
        """A function that gives the bytes of manifests, to be asked in their order; a store's are read ahead.

        unless: true of manifests whose content is known, so that they are not read.
        """
        waits = any(not is_local(self.path_map.physical(manifest.path)) for manifest in manifests[:1])
        wanted = [manifest for manifest in manifests if not unless(manifest)] if waits else ()
        number = len(wanted if waits else manifests)
        with phase("reading manifests", number, "manifests") as advance, read_ahead(self._manifest, wanted) as read:

            def counted(manifest: ManifestFile) -> bytes:
                data = read(manifest)
                advance(1)
                return data

            yield counted

    def _manifest(self, manifest: ManifestFile) -> bytes:
        cache, physical = self.options.cache, self.path_map.physical(manifest.path)
        version = self._listed_version(manifest)
        if cache is None or cache.folder is None or version is None or is_local(physical):
            return self.read(manifest.path, "manifest", size=manifest.length)
        self.storage.check(physical, manifest.path)
        key = Key("manifest bytes", physical, version.size, version.token)
        known = cache.columns(key, _BYTES) if version.size <= MOST_BYTES else None
        if known is not None and known.num_rows:
            return bytes(known.column(0)[0].as_py())
        data = self.read(manifest.path, "manifest", size=manifest.length)
        if len(data) == version.size <= MOST_BYTES:
            cache.put(key, pa.table([array_of([data], pa.binary())], schema=_BYTES))
        return data

    def read(self, recorded: str, what: str, *, size: int | None = None) -> bytes:
        """The bytes of a metadata file of the table, by its recorded path.

        size: bytes that the file has, as recorded; fewer are an error.

        Raises:
            MissingFileError: it is not where the path map says; names both paths (iceberg 1.12).
            OutsideTableError, StorageError: it may not be read, or its storage fails.
        """
        physical = self.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        try:
            return self.storage.read_whole(physical, size)
        except MissingFileError as error:
            error.message = f"Cannot read {what}: {error.message}"
            error.file = recorded if recorded == physical else f"{recorded} ({physical})"
            error.cause = "MissingFile"
            raise


# The snapshot to read, and its schema (iceberg 1.24, 1.25, 1.31 to 1.37).
#
# Time travel asks the snapshot log, the history of `main`. The snapshots' own times include other branches.


MAIN = "main"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class IcebergSelection:
    """A snapshot, None for a table without any (no rows), and the schema that its rows are shown in."""

    snapshot: Snapshot | None
    schema: Schema


def select(
    metadata: TableMetadata, *, snapshot_id: int | None = None, timestamp_ms: int | None = None, ref: str | None = None
) -> IcebergSelection:
    """The selected snapshot with the schema that belongs to the way of selecting it (iceberg 1.35).

    No selector: the current snapshot under the current schema. A branch, `main` too: its head under the current schema.
    A snapshot id, time or tag: that snapshot under its own schema.

    Args:
        snapshot_id: any snapshot in the metadata, staged ones too.
        timestamp_ms: what `main` was at that time, inclusive; milliseconds since 1970-01-01 UTC.
        ref: name of a branch or tag, case-sensitive.

    Raises:
        RequestError: more than one selector (iceberg 1.32).
        SnapshotNotFoundError: nothing has that id or name, or nothing was there at that time; says what there is.
        InvalidTableError: the table lost the snapshot of a ref, or the schema of a snapshot.
        EncryptedTableError: the snapshot is encrypted (iceberg 1.31).
    """
    selectors = {"snapshot_id": snapshot_id, "timestamp": timestamp_ms, "ref": ref}
    given = [name for name, value in selectors.items() if value is not None]
    if len(given) > 1:
        message = f"Cannot select a snapshot by {' and '.join(given)} at once: give one of them"
        raise RequestError(message, cause="ExclusiveSelectors", rule="iceberg 1.32", options=given)
    if snapshot_id is not None:
        snapshot = _by_id(metadata, snapshot_id)
        selection = IcebergSelection(snapshot, _schema_of(metadata, snapshot))
    elif timestamp_ms is not None:
        snapshot = _at(metadata, timestamp_ms)
        selection = IcebergSelection(snapshot, _schema_of(metadata, snapshot))
    elif ref is not None:
        selection = _by_ref(metadata, ref)
    else:
        selection = IcebergSelection(metadata.current_snapshot, metadata.current_schema)
    chosen = selection.snapshot
    if chosen is not None and (chosen.key_id is not None or metadata.encryption_keys):
        raise EncryptedTableError(
            f"Cannot read snapshot {chosen.id}: encrypted table not supported, harness holds no keys",
            snapshot=chosen.id,
            file=metadata.file,
            rule="iceberg 1.31",
        )
    return selection


def _by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    snapshot = metadata.snapshots.get(snapshot_id)
    if snapshot is None:
        known = [str(known_id) for known_id in metadata.snapshots]
        near = difflib.get_close_matches(str(snapshot_id), known, n=_SHOWN, cutoff=0.8)
        newest = sorted(metadata.snapshots.values(), key=lambda s: (s.timestamp_ms, s.sequence_number), reverse=True)
        hint = "the table has no snapshot"
        if near or newest:
            latest = ", ".join(f"{s.id} ({show_ms(s.timestamp_ms)})" for s in newest[:_SHOWN])
            hint = f"did you mean {', '.join(near)}" if near else f"the newest are {latest}"
        raise _not_found(metadata, f"Cannot find snapshot {snapshot_id}: {hint}", snapshot_id, rule="iceberg 1.32")
    return snapshot


def _at(metadata: TableMetadata, time_ms: int) -> Snapshot:
    entry = _last_entry(metadata.snapshot_log, time_ms)
    if entry is None:
        oldest = min((e.timestamp_ms for e in metadata.snapshot_log), default=None)
        hint = "its snapshot log is empty" if oldest is None else f"the oldest available time is {show_ms(oldest)}"
        message = f"Cannot find a snapshot at {show_ms(time_ms)}: {hint}"
        raise _not_found(metadata, message, None, cause="NoSnapshotAtTime", rule="iceberg 1.33")
    snapshot = metadata.snapshots.get(entry.snapshot_id)
    if snapshot is None:
        kept = (e.timestamp_ms for e in metadata.snapshot_log if e.snapshot_id in metadata.snapshots)
        oldest = min(kept, default=None)
        hint = "" if oldest is None else f"; the oldest available time is {show_ms(oldest)}"
        message = f"Cannot read at {show_ms(time_ms)}: snapshot {entry.snapshot_id} of that time has expired{hint}"
        raise _not_found(metadata, message, entry.snapshot_id, rule="iceberg 1.33")
    return snapshot


def _last_entry(log: Iterable[LogEntry], time_ms: int) -> LogEntry | None:
    """The entry with the latest time up to `time_ms`, whatever the order; the last of equal ones (iceberg 1.34)."""
    best: LogEntry | None = None
    for entry in log:
        if entry.timestamp_ms <= time_ms and (best is None or entry.timestamp_ms >= best.timestamp_ms):
            best = entry
    return best


def _by_ref(metadata: TableMetadata, name: str) -> IcebergSelection:
    ref = metadata.refs.get(name)
    if ref is None:
        if name == MAIN:
            return IcebergSelection(None, metadata.current_schema)
        near = difflib.get_close_matches(name, metadata.refs, n=_SHOWN) or sorted(metadata.refs)[:_SHOWN]
        hint = f"the table has {', '.join(near) or 'none'}"
        raise _not_found(metadata, f"Cannot find branch or tag '{name}': {hint}", None, rule="iceberg 1.37")
    snapshot = metadata.snapshots.get(ref.snapshot_id)
    if snapshot is None:
        raise InvalidTableError(
            f"Cannot read {ref.type.value} '{name}': its snapshot {ref.snapshot_id} is not in the table",
            cause="MissingSnapshot",
            snapshot=ref.snapshot_id,
            file=metadata.file,
            rule="iceberg 1.25",
        )
    is_branch = ref.type is RefType.BRANCH
    return IcebergSelection(snapshot, metadata.current_schema if is_branch else _schema_of(metadata, snapshot))


def _schema_of(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    """The schema that was current at the snapshot's commit; the table's where none is recorded (iceberg 1.35)."""
    if snapshot.schema_id is None:
        return metadata.current_schema
    schema = metadata.schemas.get(snapshot.schema_id)
    if schema is None:
        known = ", ".join(map(str, metadata.schemas))
        raise InvalidTableError(
            f"Cannot read snapshot {snapshot.id}: its schema {snapshot.schema_id} is not in the table, only {known}",
            cause="MissingSchema",
            snapshot=snapshot.id,
            file=metadata.file,
            rule="iceberg 1.35",
        )
    return schema


def _not_found(
    metadata: TableMetadata, message: str, snapshot_id: int | None, rule: str, *, cause: str = "MissingSnapshot"
) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(message, cause=cause, snapshot=snapshot_id, file=metadata.file, rule=rule)


# The places of a copied table's files: path prefixes from the metadata file's own move (iceberg 1.11 to 1.13).
#
# The metadata file of a copied table is where the caller opened it, and its recorded place follows from the metadata:
# the difference is the move. Cutting paths at `/data/` or `/metadata/` would break tables with directories so named.

METADATA_PATH_PROPERTY = "write.metadata.path"


def default_prefixes(metadata: TableMetadata, storage: Storage) -> tuple[tuple[str, str], ...]:
    """(recorded prefix, physical prefix) pairs for the table that `metadata` was read from; none if it was not moved.

    The recorded metadata directory is one of: that of the current manifest list, the property `write.metadata.path`,
    `metadata` in the table's location. If one of them is the directory opened, nothing was moved. Otherwise, if the
    directory opened ends like one of them ends below the location, the location is what comes before that end. A
    metadata directory outside the location, or opened under another name, counts as moved only if the current manifest
    list lies in the directory opened: so a lone copy of a metadata file still reads the table where it was.
    """
    # Absolute, so that a path such as `v1.metadata.json` has a directory.
    file = metadata.file
    opened = slashed(os.path.dirname(os.path.abspath(local_path(file)))) if is_local(file) else _directory(file)
    location = slashed(local_path(metadata.location)).rstrip("/")
    snapshot = metadata.current_snapshot
    listed = () if snapshot is None else (snapshot.manifest_list, *(snapshot.manifests or ()))
    manifest_list = next((path for path in listed if path), None)
    candidates = [
        None if manifest_list is None else _directory(manifest_list),
        metadata.properties.get(METADATA_PATH_PROPERTY),
        join(location, "metadata"),
    ]
    recorded = [slashed(local_path(candidate)).rstrip("/") for candidate in candidates if candidate is not None]
    if not location or opened in recorded:
        return ()
    beside: tuple[tuple[str, str], ...] = ()
    if manifest_list is not None:
        listed_in, name = _directory(manifest_list), slashed(manifest_list).rsplit("/", 1)[-1]
        inside = listed_in == location or listed_in.startswith(location + "/")
        if (not inside or not _shares_end(opened, listed_in, location)) and storage.has_file(join(opened, name)):
            beside = ((listed_in, opened),)
    for directory in recorded:
        if _shares_end(opened, directory, location):
            root = opened[: len(opened) - len(directory[len(location) :])]
            return (*beside, (location, root or "/"))
    return beside


def _shares_end(opened: str, recorded: str, location: str) -> bool:
    """True if `opened` ends with the part of `recorded` below `location`, at a path-component boundary."""
    return recorded.startswith(location + "/") and opened.endswith(recorded[len(location) :])


def _directory(path: str) -> str:
    plain = slashed(local_path(path))
    return plain.rsplit("/", 1)[0] if "/" in plain else "."


def physical_paths(path_map: PathMap, recorded: pa.ChunkedArray) -> pa.ChunkedArray:
    """`PathMap.physical` of many paths at once."""
    plain = pc.or_(pc.starts_with(recorded, "/"), pc.match_substring_regex(recorded, _URI))
    plain = pc.and_not(plain, pc.match_substring_regex(recorded, "^[fF][iI][lL][eE]:"))
    if pc.all(plain).as_py() is False or any(not new.rstrip("/") for _, new in path_map.prefixes):
        return pa.chunked_array([array_of([path_map.physical(p) for p in recorded.to_pylist()], pa.string())])
    found, open_ = recorded, None
    for old, new in path_map.prefixes:
        prefix = local_path(old).rstrip("/")
        if not prefix or not is_name(prefix):  # no recorded path begins with what is not UTF-8
            continue
        hit = pc.or_(pc.equal(recorded, scalar_of(prefix, pa.string())), pc.starts_with(recorded, prefix + "/"))
        hit = hit if open_ is None else pc.and_(hit, open_)
        open_ = pc.invert(hit) if open_ is None else pc.and_not(open_, hit)
        if pc.any(hit).as_py():
            head = absolute(new.rstrip("/"), path_map.base)
            rest = pc.utf8_slice_codeunits(recorded, len(prefix))
            moved = pc.binary_join_element_wise(scalar_of(head, pa.string()), rest, scalar_of("", pa.string()))
            found = pc.if_else(hit, moved, found)
    return found


@dataclass(frozen=True, slots=True)
class Spellings:
    """Paths in deletes that are not the text of a data file's path, and so name none (iceberg 1.14).

    Some writers give a data file `/wh/t/f` in the manifest, and `hdfs://host:port/wh/t/f` in the delete. The caller
    says that both are one file with a `path_map` that leads both to one place; nothing else joins them.

    location: the table's, as its metadata says. table: as the caller says, for messages.
    untrusted: whether a doubt is an error.
    """

    path_map: PathMap
    location: str
    table: str
    untrusted: bool

    def joined(self, path: str, live: Container[str]) -> str | None:
        """The only live data file that the caller's path map equates with `path`, which is no live data file."""
        physical = self.path_map.physical(path) if self.path_map.said else path
        if not any(_is_below(path, old) for old, _ in self.path_map.prefixes[: self.path_map.said]):
            return None
        heads = [(old.rstrip("/"), new.rstrip("/")) for old, new in self.path_map.prefixes]
        others = {physical, *(old + physical[len(new) :] for old, new in heads if _is_below(physical, new))}
        found = [other for other in others if other in live and self.path_map.physical(other) == physical]
        return found[0] if len(found) == 1 else None

    def alike(self, paths: Iterable[str], authorities: Iterable[str]) -> dict[str, str]:
        """The paths of deletes, by a name of a data file that differs from them by scheme or authority alone.

        authorities: of the data files.
        """
        known = tuple(authorities)
        found: dict[str, str] = {}
        for path in paths:
            authority = authority_of(path)
            found |= {other + path[len(authority) :]: path for other in known if other != authority}
        return found

    def tell(self, delete: str, path: str, data: str) -> None:
        """Warns of a delete file that hits no data file, but for the scheme or authority of a path in it.

        Raises InvalidTableError: the table is untrusted.
        """
        below = self.location.rstrip("/")[len(authority_of(self.location)) :]
        folder, target = authority_of(path) + below, authority_of(data) + below
        if not below or not path.startswith(folder + "/") or not data.startswith(target + "/"):
            folder, target = _directory(path), _directory(data)
        sentence = (
            f"Position delete file {delete} deletes no row: it names {path}, and the data file is {data}, another path "
            f"by its scheme or authority (iceberg 1.14). If both are one file, say path_map={{{folder!r}: "
            f"{self.path_map.physical(target)!r}}}"
        )
        if self.untrusted:
            raise distrusted(sentence, self.table)
        warn(f"Table {shown(self.table)}: {sentence}")


def authority_of(path: str) -> str:
    """The scheme and authority that a path begins with; empty: it has none."""
    match = _AUTHORITY.match(path)
    return "" if match is None else match[0]


def authorities(paths: pa.ChunkedArray) -> frozenset[str]:
    """The schemes and authorities of many paths, which mostly have one."""
    if not len(paths):
        return frozenset()
    first = authority_of(paths[0].as_py())
    if pc.all(pc.starts_with(paths, first + "/")).as_py():
        return frozenset([first])
    return frozenset(map(authority_of, paths.to_pylist()))


def _is_below(path: str, prefix: str) -> bool:
    plain = prefix.rstrip("/")
    return bool(plain) and path.startswith(plain + "/")


_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_URI = "^[A-Za-z][A-Za-z0-9+.-]*://"
