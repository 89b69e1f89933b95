"""The scan of an Iceberg table: its current metadata file, moved paths, and the deletes of each data file.

Spec: Iceberg, "File System Tables", "Scan Planning", "Delete Formats" (iceberg 1.1 to 1.14, 4.1 to 4.28, 5.7, 5.17).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness import errors
from harness.suite.oracle.bitmaps import puffin_vector
from harness.suite.oracle.documents import mapping, optional_value, parse_json, required_value
from harness.suite.oracle.files import position_deletes
from harness.suite.oracle.iceberg_manifests import DATA, EQUALITY_DELETES, LiveFile, live_files, partition_key
from harness.suite.oracle.iceberg_metadata import (
    ListedSnapshot,
    MetadataValues,
    partition_fields,
    read_metadata,
    select_snapshot,
)
from harness.suite.oracle.paths import Files, PathPrefixes, directory_of, is_local, join, local_path
from harness.suite.oracle.scan import DataFile, EqualityDelete, Filter, Request, Scan, resolve_columns
from harness.suite.oracle.types import METADATA, UNKNOWN, Field, FloatType, MappedName, Schema, StructType, children

_SUFFIX = r"(?:\.(?:gz|gzip|zst|zstd))?\.metadata\.json(?:\.(?:gz|gzip|zst|zstd))?"
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".gzip.metadata.json", ".zstd.metadata.json")
_LEFT_OVER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _SUFFIX, re.IGNORECASE)


def _current_metadata_file(location: str, files: Files) -> str:
    """Return the current metadata file.

    It is `location` itself if that is a file, otherwise the version hint or the version numbers decide (iceberg 1.4,
    1.5).
    """
    if not files.is_directory(location) and files.has_file(location):
        return location
    for directory in (join(location, "metadata"), location.rstrip("/") or "/"):
        if files.has_file(join(directory, "version-hint.text")):
            hint = files.read(join(directory, "version-hint.text")).decode("utf-8-sig", "replace").strip()
            if hint:
                return _hinted_file(directory, hint, files)
        names = [e.name for e in files.entries(directory) if re.fullmatch(f".+?{_SUFFIX}", e.name)]
        if names:
            names = [name for name in names if not _LEFT_OVER.fullmatch(name)]
            numbers = [(re.fullmatch(rf"v([0-9]+){_SUFFIX}", name), name) for name in names]
            if not names or any(match is None for match, _ in numbers):
                message = (
                    "Cannot determine the current metadata file without a version hint; open the metadata file itself"
                )
                raise errors.AmbiguousTableError(message, cause="AmbiguousMetadata", file=directory, rule="iceberg 1.5")
            ordered = sorted((-int(match[1]), len(name), name) for match, name in numbers if match is not None)
            return join(directory, ordered[0][2])
    raise errors.TableNotFoundError("There is no table metadata", cause="MetadataNotFound", table=location)


def path_map(metadata: MetadataValues, files: Files, prefixes: Mapping[str, str]) -> PathPrefixes:
    """Return the map from recorded to physical paths: the caller's prefixes, then the table's own move (iceberg 1.12).

    A table is in place if the opened metadata file is in a recorded directory. The whole table has moved if the opened
    directory ends like the recorded one. A metadata directory elsewhere has moved if it also contains the manifest
    list.
    """
    location = local_path(metadata.location).rstrip("/")
    opened = directory_of(os.path.abspath(local_path(metadata.file)) if is_local(metadata.file) else metadata.file)
    current = metadata.current
    lists: Sequence[str] = (
        () if current is None else [current.manifest_list] if current.manifest_list else current.manifests
    )
    recorded = [directory_of(path) for path in lists[:1]]
    if "write.metadata.path" in metadata.properties:
        recorded.append(local_path(metadata.properties["write.metadata.path"]).rstrip("/"))
    recorded.append(f"{location}/metadata")
    mappings = list(prefixes.items())
    if not location or opened in recorded:
        return PathPrefixes(tuple(mappings), files)
    below = [directory[len(location) :] for directory in recorded if directory.startswith(location + "/")]
    if lists and not (recorded[0].startswith(location + "/") and opened.endswith(below[0])):
        name = lists[0].rsplit("/", 1)[-1]
        if files.has_file(join(opened, name)):
            mappings.append((recorded[0], opened))
    root = next((opened[: -len(end)] for end in below if opened.endswith(end)), None)
    return PathPrefixes((*mappings, *([] if root is None else [(location, root or "/")])), files)


def _hinted_file(directory: str, hint: str, files: Files) -> str:
    """Return the file of the hinted version or of a later one, or the file that the hint names (iceberg 1.3, 1.6)."""
    number = re.fullmatch(r"v?([0-9]{1,18})", hint)
    file = None if number is None else _version_file(directory, int(number[1]), files)
    if number is None or file is None:
        stems = [hint, *(hint + suffix for suffix in _SUFFIXES)] if not {"/", "\\"} & set(hint) else []
        paths = [join(directory, stem) for stem in stems if re.fullmatch(f".+?{_SUFFIX}", stem)]
        for path in paths:
            if files.has_file(path):
                return path
        raise errors.TableNotFoundError(
            f"There is no metadata file for the version hint {hint!r:.80}", cause="MetadataNotFound"
        )
    version = int(number[1])
    while (later := _version_file(directory, version + 1, files)) is not None:
        file, version = later, version + 1
    return file


def _version_file(directory: str, version: int, files: Files) -> str | None:
    paths = [join(directory, f"v{version}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in paths if files.has_file(path)), None)


def _check_files(live: Sequence[LiveFile], metadata: MetadataValues) -> None:
    """Check each manifest entry by itself (iceberg 2.13, 4.16, 4.17, 4.21, 4.23)."""
    manifests: dict[str, str] = {}
    vectors: set[str | None] = set()
    for file in live:
        broken = partial(errors.CorruptDeleteError, file=file.path)
        if file.content == DATA:
            if file.path in manifests:
                message = f"A data file is live twice, in {manifests[file.path]} and {file.manifest}"
                raise errors.InvalidTableError(message, cause="DuplicateDataFile", file=file.path, rule="iceberg 2.13")
            manifests[file.path] = file.manifest
        elif metadata.version < 2:
            raise errors.InvalidTableError("A v1 table has deletes", cause="UnexpectedDeletes", rule="iceberg 4.16")
        elif file.content == EQUALITY_DELETES and not file.equality_ids:
            raise broken("An equality delete file has no equality ids", cause="CorruptManifest", rule="iceberg 4.23")
        elif file.format == "puffin":
            if None in (file.referenced, file.offset, file.length) or metadata.version < 3:
                message = "The entry of a deletion vector is incomplete, or the format version is below 3"
                raise broken(message, cause="CorruptDeletionVector", rule="iceberg 4.17")
            if file.referenced in vectors:
                message = f"Data file {file.referenced} has two deletion vectors"
                raise broken(message, cause="MultipleDVs", rule="iceberg 4.21")
            vectors.add(file.referenced)


def _equality_delete(delete: LiveFile, metadata: MetadataValues) -> EqualityDelete:
    """Return an equality delete file with its keys in ascending order of field ids.

    Each key is a column that is reduced to the key, with the field ids on the path to the key. The newest schema with
    the column applies, even if the column was dropped or renamed later (iceberg 4.23, 4.28).
    """
    schemas = [(schema, f) for schema in metadata.schemas.values() for f in schema.fields]
    keys: list[tuple[Field, tuple[int, ...]]] = []
    for key in sorted(set(delete.equality_ids)):
        matches = ((schema, trail) for schema, f in schemas for trail in _trails(f) if trail[-1].id == key)
        schema, trail = next(matches, (None, ()))
        unknown = partial(errors.InvalidTableError, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")
        if schema is None:
            raise unknown(f"Cannot apply an equality delete: no schema has field id {key}")
        *parents, column = trail
        if children(column.type) or not all(isinstance(parent.type, StructType) for parent in parents):
            raise unknown(f"Cannot apply an equality delete: field {key} is not a single value of a row")
        if isinstance(column.type, FloatType):
            message = f"Cannot apply an equality delete by {column.name!r} of type {column.type}"
            raise errors.UnsupportedError(message, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")
        is_current = schema is metadata.current_schema
        column = column if is_current else replace(column, required=False)
        for parent in reversed(parents):
            column = replace(parent, type=StructType((column,)), required=parent.required and is_current)
        keys.append((column, tuple(f.id for f in trail)))
    return EqualityDelete(delete, tuple(column for column, _ in keys), tuple(path for _, path in keys))


def _trails(field: Field) -> Iterator[tuple[Field, ...]]:
    """Yield a field and each field below it, each with its ancestors."""
    yield (field,)
    for child in children(field.type):
        yield from ((field, *trail) for trail in _trails(child))


@dataclass(frozen=True)
class _ApplicableDeletes:
    """The deletes that apply to a data file. A deletion vector replaces all position delete files (iceberg 4.5).

    Attributes:
        inapplicable: Position delete files of other partitions, which must not name the data file (iceberg 4.4).
    """

    vector: LiveFile | None
    positions: tuple[LiveFile, ...]
    inapplicable: tuple[LiveFile, ...]
    equality: tuple[LiveFile, ...]


def _applicable_deletes(data: LiveFile, deletes: Sequence[LiveFile]) -> _ApplicableDeletes:
    """Select the deletes of a snapshot that apply to a data file (iceberg 4.3, 4.4)."""
    equality = tuple(
        d
        for d in deletes
        if d.content == EQUALITY_DELETES
        and data.sequence_number < d.sequence_number
        and (d.spec.is_unpartitioned or partition_key(d) == partition_key(data))  # iceberg 4.6
    )
    for vector in (d for d in deletes if d.format == "puffin" and d.referenced == data.path):
        if vector.sequence_number < data.sequence_number or partition_key(vector) != partition_key(data):
            raise _mismatch(vector, data, "iceberg 4.3")
        return _ApplicableDeletes(vector, (), (), equality)
    positions: list[LiveFile] = []
    inapplicable: list[LiveFile] = []
    for delete in deletes:
        if delete.content == EQUALITY_DELETES or delete.format == "puffin":
            continue
        if delete.sequence_number < data.sequence_number or delete.referenced not in (None, data.path):
            continue
        if partition_key(delete) == partition_key(data):
            positions.append(delete)
        elif delete.referenced is not None:
            raise _mismatch(delete, data, "iceberg 4.4")
        else:
            inapplicable.append(delete)
    return _ApplicableDeletes(None, tuple(positions), tuple(inapplicable), equality)


def _mismatch(delete: LiveFile, data: LiveFile, rule: str) -> errors.CorruptDeleteError:
    descriptions = [
        f"spec {f.spec.id}, partition {dict(f.partition)}, sequence number {f.sequence_number}" for f in (delete, data)
    ]
    message = f"A delete with {descriptions[0]} names data file {data.path} with {descriptions[1]}"
    return errors.CorruptDeleteError(message, cause="DeletePartitionMismatch", file=delete.path, rule=rule)


@dataclass
class _PositionReader:
    """A reader of deleted positions. `read` has the rows of the position delete files that were read so far."""

    targets: Sequence[tuple[LiveFile, _ApplicableDeletes]]
    paths: PathPrefixes
    read: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def deleted_positions(self, data: LiveFile, deletes: _ApplicableDeletes) -> set[int]:
        """Return the deleted positions of a data file."""
        if deletes.vector is not None:
            return _vector_positions(deletes.vector, data, self.paths)
        for delete in deletes.inapplicable:
            if any(path == data.path for path, _ in self._rows(delete)):
                raise _mismatch(delete, data, "iceberg 4.4")
        rows = [row for delete in deletes.positions for row in self._rows(delete)]
        return {position for path, position in rows if path == data.path}

    def _rows(self, delete: LiveFile) -> list[tuple[str, int]]:
        if delete.path not in self.read:
            rows = position_deletes(delete, self.paths.files)
            # A delete file for one data file must not name another one that it would apply to (iceberg 4.4).
            others = set() if delete.referenced is None else {path for path, _ in rows} - {delete.referenced}
            for data, deletes in self.targets:
                if data.path in others and deletes.vector is None and delete.sequence_number >= data.sequence_number:
                    raise _mismatch(delete, data, "iceberg 4.4")
            self.read[delete.path] = rows
        return self.read[delete.path]


def _vector_positions(vector: LiveFile, data: LiveFile, paths: PathPrefixes) -> set[int]:
    """Return the positions of a deletion vector (iceberg 4.17 to 4.20)."""
    length, offset, puffin = vector.length or 0, vector.offset or 0, paths.read(vector.path)
    if puffin[:4] != b"PFA1" or puffin[-4:] != b"PFA1":
        message = "Cannot read deletion vector: its file is not a Puffin file"
        raise errors.CorruptFileError(message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.22")
    blob = puffin[offset : offset + length]
    try:
        if len(blob) != length:
            raise ValueError(f"{len(blob)} of {length} bytes")
        positions = puffin_vector(blob)
        if len(positions) != vector.record_count:
            raise ValueError(f"{len(positions)} positions, its entry has {vector.record_count}")
        if positions and data.record_count is not None and max(positions) >= data.record_count:
            raise ValueError(f"position {max(positions)} of {data.record_count} rows")
    except ValueError as error:
        message = f"Cannot read deletion vector: {error}"
        raise errors.CorruptDeleteError(
            message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.18"
        ) from error
    return positions


@dataclass(frozen=True)
class IcebergRead:
    """A table at the requested snapshot, whose metadata has the schema of the read as the current one.

    Attributes:
        snapshot: The requested snapshot. None if the table has no rows.
    """

    request: Request
    files: Files
    metadata: MetadataValues
    snapshot: ListedSnapshot | None
    paths: PathPrefixes
    name_mapping: tuple[MappedName, ...] | None

    def columns(self, schema: Schema) -> tuple[tuple[Field, ...], Filter | None, set[str]]:
        """Return the columns of the request, see `resolve_columns`."""
        return resolve_columns(self.request, schema, self._with_table_type)

    def data_files(self, live: Sequence[LiveFile]) -> tuple[DataFile, ...]:
        """Return the data files among the live files of a snapshot, each with the deletes that apply to it."""
        _check_files(live, self.metadata)
        deletes = [file for file in live if file.content != DATA]
        targets = [(file, _applicable_deletes(file, deletes)) for file in live if file.content == DATA]
        hitting = {id(delete): delete for _, matches in targets for delete in matches.equality}
        keys = {key: _equality_delete(delete, self.metadata) for key, delete in hitting.items()}
        positions = _PositionReader(targets, self.paths)
        return tuple(
            replace(
                file,
                equality=tuple(keys[id(delete)] for delete in matches.equality),
                positions=partial(positions.deleted_positions, file, matches),
            )
            for file, matches in targets
        )

    def scan(self, columns: tuple[Field, ...], condition: Filter | None, data: tuple[DataFile, ...]) -> Scan:
        """Return the scan of data files."""
        return Scan(
            table=self.request.location,
            format="iceberg",
            snapshot=None if self.snapshot is None else self.snapshot.id,
            columns=columns,
            filter=condition,
            data=data,
            files=self.files,
            name_mapping=self.name_mapping,
        )

    def _with_table_type(self, column: Field) -> Field:
        """Return a metadata column with its type in this table, which only `_partition` depends on (iceberg 5.17)."""
        if column.id != METADATA["_partition"].id:
            return column
        fields = partition_fields(self.metadata)
        return replace(column, type=StructType(fields) if fields else UNKNOWN)


def open_iceberg(request: Request, files: Files) -> IcebergRead:
    """Return the table at the requested snapshot."""
    path = _current_metadata_file(request.location, files)
    try:
        metadata = read_metadata(files.read(path), file=path)
        snapshot, metadata = select_snapshot(metadata, request)
        name_mapping = _name_mapping(metadata)
    except errors.HarnessError as error:
        raise error.within(file=path) from error.__cause__
    return IcebergRead(request, files, metadata, snapshot, path_map(metadata, files, request.path_map), name_mapping)


def scan_iceberg(request: Request, files: Files) -> Scan:
    """Return the scan of a read, with all live data files."""
    table = open_iceberg(request, files)
    columns, condition, used = table.columns(table.metadata.current_schema)
    if "_row_commit_version" in used:
        raise errors.UnknownColumnError("Only Delta tables have _row_commit_version", field="_row_commit_version")
    live = () if table.snapshot is None else live_files(table.metadata, table.snapshot, table.paths)
    return table.scan(columns, condition, table.data_files(live))


def _name_mapping(metadata: MetadataValues) -> tuple[MappedName, ...] | None:
    """Return the name mapping of the table property (iceberg 5.7)."""
    text = metadata.properties.get("schema.name-mapping.default")
    return None if text is None else _mapped_names(required_value({"it": parse_json(text)}, "it", list), set())


def _mapped_names(level: list[object], ids: set[int]) -> tuple[MappedName, ...]:
    entries, all_names = [], set[str]()
    for entry in map(mapping, level):
        names, field_id = optional_value(entry, "names", list) or [], optional_value(entry, "field-id", int)
        if all_names & set(names) or len(set(names)) < len(names) or field_id in ids:
            raise errors.InvalidTableError(f"The name mapping repeats {names} or {field_id}", rule="iceberg 5.7")
        all_names |= set(names)
        ids |= set() if field_id is None else {field_id}
        fields = _mapped_names(optional_value(entry, "fields", list) or [], ids)
        entries.append(MappedName(names=tuple(names), field_id=field_id, fields=fields))
    return tuple(entries)
