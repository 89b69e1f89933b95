"""Plans a read of an Iceberg table, from its current metadata file and moved paths on (iceberg 1.1 to 1.14)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from harness.errors import AmbiguousTableError, InvalidTableError, TableNotFoundError, UnknownColumnError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.file_schema import MappedName, NameMapping
from harness.metadata.model.schema import METADATA, Field, StructType, UnknownType
from harness.metadata.plan.scan_plan import FILES, Counts, EqualityDelete, PositionDelete, ScanPlan
from harness.storage.paths import PathMap, is_local, join, local_path
from harness.storage.stores import Storage
from harness.testing.oracle.planner.documents import ReadRequest, needed, optional, parse_json
from harness.testing.oracle.planner.iceberg_deletes import (
    Applying,
    Positions,
    applying,
    check_data,
    check_deletes,
    key_columns,
)
from harness.testing.oracle.planner.iceberg_manifests import (
    DATA,
    Files,
    LiveFile,
    NumberedTuples,
    live_files,
    partition_fields,
)
from harness.testing.oracle.planner.iceberg_metadata import MetadataValues, read_metadata, read_with, select

_SUFFIX = r"(?:\.(?:gz|gzip|zst|zstd))?\.metadata\.json(?:\.(?:gz|gzip|zst|zstd))?"
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".gzip.metadata.json", ".zstd.metadata.json")
_LEFT_OVER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _SUFFIX, re.IGNORECASE)


def _current_metadata(location: str, storage: Storage) -> str:
    """The current metadata file: `location` itself, or by a version hint or version numbers (iceberg 1.4, 1.5)."""
    if storage.exists(location):
        return location
    for directory in (join(location, "metadata"), location.rstrip("/") or "/"):
        if storage.has_file(join(directory, "version-hint.text")):
            hint = storage.read(join(directory, "version-hint.text")).decode("utf-8-sig", "replace").strip()
            if hint:
                return _hinted(directory, hint, storage)
        names = [name for name in storage.names(directory) if re.fullmatch(f".+?{_SUFFIX}", name)]
        if names:
            names = [name for name in names if not _LEFT_OVER.fullmatch(name)]
            numbers = [(re.fullmatch(rf"v([0-9]+){_SUFFIX}", name), name) for name in names]
            if not names or any(match is None for match, _ in numbers):
                message = "Cannot tell the current metadata file: there is no version hint; name the file itself"
                raise AmbiguousTableError(message, cause="AmbiguousMetadata", file=directory, rule="iceberg 1.5")
            ordered = sorted((-int(match[1]), len(name), name) for match, name in numbers if match is not None)
            return join(directory, ordered[0][2])
    raise TableNotFoundError("There is no table metadata", cause="MetadataNotFound", table=location)


def path_map(metadata: MetadataValues, storage: Storage, prefixes: Mapping[str, str]) -> PathMap:
    """Maps recorded to physical paths: the caller's prefixes, then the table's own move (iceberg 1.12).

    The table was not moved if its metadata file was opened where metadata is recorded to be. It was moved as a whole
    if the directory opened ends like the recorded one does below the table's location. A metadata directory elsewhere
    counts as moved if its manifest list came along.
    """
    location = local_path(metadata.location).rstrip("/")
    opened = _directory(os.path.abspath(local_path(metadata.file)) if is_local(metadata.file) else metadata.file)
    current = metadata.current
    lists: Sequence[str] = (
        () if current is None else [current.manifest_list] if current.manifest_list else current.manifests
    )
    recorded = [_directory(path) for path in lists[:1]]
    if "write.metadata.path" in metadata.properties:
        recorded.append(local_path(metadata.properties["write.metadata.path"]).rstrip("/"))
    recorded.append(f"{location}/metadata")
    found = list(prefixes.items())
    if not location or opened in recorded:
        return PathMap(tuple(found))
    below = [directory[len(location) :] for directory in recorded if directory.startswith(location + "/")]
    if lists and not (recorded[0].startswith(location + "/") and opened.endswith(below[0])):
        name = lists[0].rsplit("/", 1)[-1]
        if storage.has_file(join(opened, name)):
            found.append((recorded[0], opened))
    root = next((opened[: -len(end)] for end in below if opened.endswith(end)), None)
    return PathMap((*found, *([] if root is None else [(location, root or "/")])))


def _directory(path: str) -> str:
    plain = local_path(path)
    return plain.rpartition("/")[0] if "/" in plain else "."


def _hinted(directory: str, hint: str, storage: Storage) -> str:
    """The file of the hinted version or of a later one; or the file that the hint names (iceberg 1.3, 1.6)."""
    number = re.fullmatch(r"v?([0-9]{1,18})", hint)
    found = None if number is None else _version(directory, int(number[1]), storage)
    if number is None or found is None:
        stems = [hint, *(hint + suffix for suffix in _SUFFIXES)] if not {"/", "\\"} & set(hint) else []
        named = [join(directory, stem) for stem in stems if re.fullmatch(f".+?{_SUFFIX}", stem)]
        for path in named:
            if storage.has_file(path):
                return path
        raise TableNotFoundError(f"There is no metadata of the version hint {hint!r:.80}", cause="MetadataNotFound")
    version = int(number[1])
    while (later := _version(directory, version + 1, storage)) is not None:
        found, version = later, version + 1
    return found


def _version(directory: str, version: int, storage: Storage) -> str | None:
    paths = [join(directory, f"v{version}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in paths if storage.has_file(path)), None)


def plan_iceberg(request: ReadRequest, storage: Storage) -> ScanPlan:
    """The plan of a read, with all live data files in it. Raises as `plan_unpruned`."""
    path = _current_metadata(request.location, storage)
    storage = storage.around(request.location, path)
    metadata = read_metadata(storage.read(path), file=path)
    snapshot, schema = select(
        metadata, snapshot_id=request.snapshot_id, timestamp_ms=request.timestamp_ms, ref=request.ref
    )
    metadata = read_with(metadata, schema)
    columns = schema.fields if request.columns is None else bind_columns(request.columns, schema)
    condition = None if request.where is None else parse_filter(request.where, schema)
    if METADATA["_row_commit_version"] in (*columns, *(condition.columns if condition is not None else ())):
        raise UnknownColumnError("Only Delta tables have _row_commit_version", field="_row_commit_version")
    if condition is not None:
        condition = replace(condition, columns=tuple(_typed(f, metadata) for f in condition.columns))
    files = Files(storage, path_map(metadata, storage, request.path_map))
    live = () if snapshot is None else live_files(metadata, snapshot, files)
    deletes = tuple(file for file in live if file.content != DATA)
    check_deletes(deletes, metadata)
    check_data(live)
    targets = [(file, applying(file, deletes)) for file in live if file.content == DATA]
    partitions = NumberedTuples(metadata)
    hitting = list({id(d): d for _, deletes in targets for d in deletes.equality}.values())
    place = {id(delete): number for number, delete in enumerate(hitting)}
    scopes = [tuple(sorted(place[id(d)] for d in deletes.equality)) for _, deletes in targets]
    distinct = list(dict.fromkeys(scopes))
    equality_deletes = tuple(_equality_delete(delete, metadata, partitions) for delete in hitting)
    return ScanPlan(
        table=request.location,
        format="iceberg",
        snapshot=None if snapshot is None else snapshot.id,
        schema=schema,
        columns=tuple(_typed(f, metadata) for f in columns),
        filter=condition,
        files=_files(targets, [distinct.index(scope) for scope in scopes], partitions),
        partitions=tuple(partitions.tuples),
        equality_deletes=equality_deletes,
        delete_sets=tuple(distinct),
        position_deletes=_position_deletes(targets),
        load_positions=Positions(targets, files, request.location).load,
        name_mapping=_name_mapping(metadata),
        skipped=(),
        counts=Counts(files=len(targets)),
        storage=storage,
    )


def _equality_delete(delete: LiveFile, metadata: MetadataValues, partitions: NumberedTuples) -> EqualityDelete:
    keys, paths = key_columns(delete, metadata)
    return EqualityDelete(
        path=delete.path,
        physical=delete.physical,
        format=delete.format,
        keys=keys,
        key_paths=paths,
        sequence_number=delete.sequence_number,
        partition=None if delete.spec.is_unpartitioned else partitions.number(delete.spec, delete.partition),
        record_count=delete.record_count,
    )


def _files(targets: Sequence[tuple[LiveFile, Applying]], scopes: Sequence[int], partitions: NumberedTuples) -> pa.Table:
    rows = [
        {
            "path": file.path,
            "physical": file.physical,
            "format": file.format,
            "record_count": file.record_count,
            "size": file.size,
            "spec_id": file.spec.id,
            "partition": partitions.number(file.spec, file.partition),
            "sequence_number": file.sequence_number,
            "first_row_id": file.first_row_id,
            "delete_set": scope,
            "has_positions": deletes.vector is not None or bool(deletes.positions or deletes.foreign),
        }
        for (file, deletes), scope in zip(targets, scopes, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=FILES)


def _position_deletes(targets: Sequence[tuple[LiveFile, Applying]]) -> tuple[PositionDelete, ...]:
    hit: dict[int, tuple[LiveFile, list[int]]] = {}
    for ordinal, (_, deletes) in enumerate(targets):
        for source in (deletes.vector,) if deletes.vector is not None else deletes.positions:
            hit.setdefault(id(source), (source, []))[1].append(ordinal)
    return tuple(
        PositionDelete(
            kind="deletion vector" if source.format == "puffin" else "position delete file",
            path=source.path,
            offset=source.offset,
            length=source.length,
            record_count=source.record_count,
            files=tuple(ordinals),
        )
        for source, ordinals in hit.values()
    )


def _typed(column: Field, metadata: MetadataValues) -> Field:
    """`_partition` gets the struct that this table gives it (iceberg 5.17)."""
    if column.id != METADATA["_partition"].id:
        return column
    fields = partition_fields(metadata)
    return replace(column, type=StructType(fields) if fields else UnknownType())


def _name_mapping(metadata: MetadataValues) -> NameMapping | None:
    """The property's mapping (iceberg 5.7)."""
    text = metadata.properties.get("schema.name-mapping.default")
    if text is None:
        return None
    value = parse_json(text, file=metadata.file)
    if not isinstance(value, list):
        raise InvalidTableError("The name mapping is no list", file=metadata.file, rule="iceberg 5.7")
    return NameMapping(_mapped(value, metadata.file, set()))


def _mapped(level: list[object], file: str, ids: set[int]) -> tuple[MappedName, ...]:
    entries, seen = [], set[str]()
    for item in level:
        entry = needed({"entry": item}, "entry", dict, file=file)
        names = optional(entry, "names", list, file=file) or []
        field_id = optional(entry, "field-id", int, file=file)
        if seen & set(names) or len(set(names)) < len(names) or field_id in ids:
            raise InvalidTableError(f"The name mapping repeats {names} or {field_id}", file=file, rule="iceberg 5.7")
        seen |= set(names)
        ids |= set() if field_id is None else {field_id}
        fields = _mapped(optional(entry, "fields", list, file=file) or [], file, ids)
        entries.append(MappedName(names=tuple(names), field_id=field_id, fields=fields))
    return tuple(entries)
